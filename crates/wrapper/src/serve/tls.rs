//! TLS for everything but loopback: own certificate, and client certificates of one CA.
//!
//! The files may be replaced while the wrapper runs. A set that cannot be used, half written or with a key
//! of another certificate, changes nothing: what was read before stays, and the files are looked at again.

use edgegrid_runtime::credentials::FileMarks;
use edgegrid_runtime::logging::chain;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig, crypto};

/// The files of a TLS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Own certificate and those above it, PEM.
    pub certificate: PathBuf,
    /// Key of the own certificate, PEM.
    pub key: PathBuf,
    /// CA that signs client certificates, PEM.
    pub client_ca: PathBuf,
    /// Whether a client may come without a certificate, to show a token.
    pub tokens: bool,
}

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or is no PEM.
    #[error("{file}")]
    File {
        /// Its name.
        file: String,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// Certificate and key do not go together, or are of no use.
    #[error("certificate and key")]
    Pair(#[from] rustls::Error),
    /// The client CA is of no use.
    #[error("client CA")]
    Authority(#[from] VerifierBuilderError),
}

/// Makes TLS connections by what the files said when they could last be used.
pub(crate) struct Acceptor {
    tls: Tls,
    current: TlsAcceptor,
    /// How the files looked that are in use, and those that could not be used.
    used: FileMarks,
    unusable: Option<FileMarks>,
}

impl Acceptor {
    /// Reads the files for the first time.
    pub(crate) fn new(tls: Tls) -> Result<Self, TlsError> {
        let files = [&tls.certificate, &tls.key, &tls.client_ca];
        let used = FileMarks::take(files.map(Clone::clone));
        Ok(Self {
            current: tls.read()?,
            tls,
            used,
            unusable: None,
        })
    }

    /// For connections that begin now.
    pub(crate) fn current(&self) -> TlsAcceptor {
        self.current.clone()
    }

    /// Reads the files again if they have changed; whether connections begin with other ones from now on.
    pub(crate) fn renew(&mut self) -> bool {
        let marks = self.used.now();
        if marks == self.used {
            self.unusable = None;
            return false;
        }
        match self.tls.read() {
            Ok(acceptor) => {
                tracing::info!("files for TLS changed on disk, using the new ones");
                self.current = acceptor;
                (self.used, self.unusable) = (marks, None);
                true
            }
            Err(error) => {
                // Said once for each state of the files: they may be in the middle of a change.
                if self.unusable.as_ref() != Some(&marks) {
                    tracing::warn!(error = %chain(&error), "cannot use the files for TLS, keeping those in use");
                    self.unusable = Some(marks);
                }
                false
            }
        }
    }
}

impl Tls {
    /// Reads the files.
    fn read(&self) -> Result<TlsAcceptor, TlsError> {
        let wrong = |file: &PathBuf| {
            let file = file.display().to_string();
            move |source| TlsError::File { file, source }
        };
        let certificates = |file: &PathBuf| {
            let all = CertificateDer::pem_file_iter(file).map_err(wrong(file))?;
            all.collect::<Result<Vec<_>, _>>().map_err(wrong(file))
        };
        let mut roots = RootCertStore::empty();
        for root in certificates(&self.client_ca)? {
            roots.add(root)?;
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = if self.tokens {
            verifier.allow_unauthenticated().build()?
        } else {
            verifier.build()?
        };
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(wrong(&self.key))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&self.certificate)?, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

#[cfg(test)]
pub(crate) mod tests;
