//! Certificates of two authorities, files with them, and what a client sees of a server that has read them.

use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use std::fs;
use std::time::SystemTime;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// An authority, and the certificates that it gives out.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
struct Pair {
    certificate: String,
    key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn issue(&self, mut params: CertificateParams, purpose: ExtendedKeyUsagePurpose) -> Pair {
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    fn server(&self) -> Pair {
        let params = CertificateParams::new(["node".to_owned()]).unwrap();
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn client(&self, user: &str) -> Pair {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Connects as kube-proxy with a certificate of this authority, and believes its servers only.
    pub(crate) async fn connect<S>(&self, stream: S) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let Pair { certificate, key } = self.client("system:kube-proxy");
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
        let name = ServerName::try_from("node").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await
    }
}

/// The files of a server.
pub(crate) struct Files {
    folder: TempDir,
}

impl Files {
    /// Files with a certificate of an authority that is the client CA too.
    pub(crate) fn new(authority: &Authority) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Self { folder };
        files.replace(authority);
        files
    }

    pub(crate) fn tls(&self) -> Tls {
        let path = |name| self.folder.path().join(name);
        Tls {
            certificate: path("server.crt"),
            key: path("server.key"),
            client_ca: path("ca.crt"),
            tokens: false,
        }
    }

    pub(crate) fn replace(&self, authority: &Authority) {
        let Pair { certificate, key } = authority.server();
        self.write("server.crt", &certificate);
        self.write("server.key", &key);
        self.write("ca.crt", &authority.0.pem());
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }
}

/// Whether a client of an authority and the server come to speak with each other.
async fn meets(acceptor: &Acceptor, authority: &Authority) -> bool {
    let (near, far) = duplex(1 << 16);
    let serve = async {
        let mut stream = acceptor.current().accept(far).await?;
        stream.write_all(b"!").await?;
        stream.flush().await
    };
    // A client's certificate is judged after the client has done its part: only a byte shows.
    let ask = async { authority.connect(near).await?.read_u8().await };
    let (served, asked) = tokio::join!(serve, ask);
    served.is_ok() && asked.is_ok()
}

#[tokio::test]
async fn replaced_files_are_used_for_the_next_connection() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = Files::new(&old);
    let mut acceptor = Acceptor::new(files.tls()).unwrap();
    assert!(!acceptor.renew(), "nothing has changed");
    assert!(meets(&acceptor, &old).await);
    files.replace(&new);
    assert!(acceptor.renew());
    assert!(meets(&acceptor, &new).await);
    assert!(!meets(&acceptor, &old).await);
    assert!(!acceptor.renew(), "they were read already");
}

#[tokio::test]
async fn a_new_client_ca_alone_counts_too() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = Files::new(&old);
    let mut acceptor = Acceptor::new(files.tls()).unwrap();
    files.write("ca.crt", &new.0.pem());
    assert!(acceptor.renew());
    assert!(!meets(&acceptor, &old).await, "its clients are strangers");
}

#[tokio::test]
async fn files_that_cannot_be_used_leave_the_old_ones_and_are_looked_at_again() {
    let (old, new) = (Authority::new(), Authority::new());
    let other = new.server();
    let half = &other.certificate[..other.certificate.len() / 2];
    for (name, text) in [
        ("server.crt", &*other.certificate),
        ("server.crt", half),
        ("server.crt", ""),
        ("server.key", &other.key),
        ("server.key", ""),
        ("ca.crt", ""),
        ("ca.crt", half),
    ] {
        let files = Files::new(&old);
        let mut acceptor = Acceptor::new(files.tls()).unwrap();
        files.write(name, text);
        assert!(!acceptor.renew(), "{name}: {text}");
        assert!(meets(&acceptor, &old).await, "{name}: {text}");
        files.replace(&new);
        assert!(acceptor.renew(), "{name}: {text}");
        assert!(meets(&acceptor, &new).await, "{name}: {text}");
    }
}

#[tokio::test]
async fn files_that_are_gone_for_a_moment_change_nothing() {
    let authority = Authority::new();
    let files = Files::new(&authority);
    let mut acceptor = Acceptor::new(files.tls()).unwrap();
    fs::remove_file(files.tls().key).unwrap();
    assert!(!acceptor.renew());
    assert!(meets(&acceptor, &authority).await);
}

// As after "too many open files": nothing has changed but that they can be read now.
#[tokio::test]
async fn files_that_could_not_be_used_are_read_again_though_they_look_the_same() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = Files::new(&old);
    let mut acceptor = Acceptor::new(files.tls()).unwrap();
    files.replace(&new);
    let key = fs::read_to_string(files.tls().key).unwrap();
    let write = |text: &str| {
        files.write("server.key", text);
        let file = fs::File::options().write(true).open(files.tls().key);
        file.unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    };
    write(&"x".repeat(key.len()));
    assert!(!acceptor.renew());
    write(&key);
    assert!(acceptor.renew());
    assert!(meets(&acceptor, &new).await);
}
