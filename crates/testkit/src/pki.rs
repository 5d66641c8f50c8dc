//! Certificates for a control plane of our own: one authority, everybody's identity from it.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A certificate authority whose files live in one folder.
pub(crate) struct Pki {
    folder: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// Where a certificate and its key are.
pub(crate) struct KeyFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pki {
    /// Makes the authority and the key that signs service account tokens.
    pub(crate) fn create(folder: &Path) -> Result<Pki> {
        let folder = folder.join("pki");
        fs::create_dir_all(&folder).context("create folder for certificates")?;
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "edgegrid-testkit");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let pki = Pki { folder, authority };
        fs::write(pki.ca(), pki.authority.pem())?;
        fs::write(pki.ca_key(), pki.authority.key().serialize_pem())?;
        let accounts = KeyPair::generate()?;
        fs::write(pki.service_account_key(), accounts.serialize_pem())?;
        fs::write(pki.service_account_public_key(), accounts.public_key_pem())?;
        Ok(pki)
    }

    /// Certificate of the authority.
    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// Key of the authority, for kube-controller-manager's signer.
    pub(crate) fn ca_key(&self) -> PathBuf {
        self.folder.join("ca.key")
    }

    /// Key that signs service account tokens.
    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.folder.join("service-accounts.key")
    }

    /// Key that verifies them.
    pub(crate) fn service_account_public_key(&self) -> PathBuf {
        self.folder.join("service-accounts.pub")
    }

    /// Certificate of a server reached under these addresses and names.
    pub(crate) fn server(&self, addresses: &[IpAddr], names: &[&str]) -> Result<KeyFiles> {
        let subjects: Vec<String> = addresses
            .iter()
            .map(ToString::to_string)
            .chain(names.iter().map(ToString::to_string))
            .collect();
        let mut params = CertificateParams::new(subjects)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue("server", &params)
    }

    /// Certificate by which Kubernetes knows `user`, a member of `group`.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<KeyFiles> {
        self.client_with(CertificateParams::default(), user, group)
    }

    /// The same, but it has expired.
    pub(crate) fn expired_client(&self, user: &str) -> Result<KeyFiles> {
        let mut params = CertificateParams::default();
        params.not_after = (SystemTime::now() - Duration::from_mins(1)).into();
        self.client_with(params, user, None)
    }

    fn client_with(
        &self,
        mut params: CertificateParams,
        user: &str,
        group: Option<&str>,
    ) -> Result<KeyFiles> {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        // A colon is common in Kubernetes' user names and awkward in file names.
        self.issue(&user.replace([':', '/'], "-"), &params)
    }

    fn issue(&self, name: &str, params: &CertificateParams) -> Result<KeyFiles> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.authority)?;
        let files = KeyFiles {
            certificate: self.folder.join(format!("{name}.crt")),
            key: self.folder.join(format!("{name}.key")),
        };
        fs::write(&files.certificate, certificate.pem())
            .and_then(|()| fs::write(&files.key, key.serialize_pem()))
            .with_context(|| format!("write certificate of {name}"))?;
        Ok(files)
    }
}
