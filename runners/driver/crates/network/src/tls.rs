//! TLS by rustls with the ring provider: what the options of redis-benchmark mean, and which of them are unsupported.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

use crate::certificate::Certificate;
use crate::ciphers;
use text::failure::Failure;

/// The options of TLS; [`Settings::client`] reads the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    pub sni: Option<String>,
    pub cacert: Option<String>,
    pub cacertdir: Option<String>,
    pub insecure: bool,
    pub cert: Option<String>,
    pub key: Option<String>,
    /// Names as OpenSSL has them, for TLS 1.2 and for TLS 1.3.
    pub ciphers: Option<String>,
    pub ciphersuites: Option<String>,
    /// The groups of the key exchange by their names in OpenSSL, the best first.
    pub groups: Option<String>,
    /// The only version; none: both.
    pub version: Option<Version>,
}

/// The versions that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Tls12,
    Tls13,
}

impl Version {
    fn protocol(self) -> &'static SupportedProtocolVersion {
        match self {
            Version::Tls12 => &TLS12,
            Version::Tls13 => &TLS13,
        }
    }
}

/// How connections do the handshake.
#[derive(Debug, Clone)]
pub struct Client {
    pub config: Arc<ClientConfig>,
    /// The name to ask for instead of the host's.
    pub sni: Option<String>,
}

impl Client {
    /// A session with the server at `host`.
    pub fn session(&self, host: &str) -> Result<rustls::ClientConnection, Failure> {
        let name = self.sni.as_deref().unwrap_or(host);
        let bad = |cause: String| Failure::usage(cause, "give the name of the server with --sni");
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| bad(format!("'{name}' is not a name that TLS can ask for")))?;
        rustls::ClientConnection::new(self.config.clone(), name)
            .map_err(|error| bad(format!("TLS cannot begin ({error})")))
    }
}

impl Settings {
    pub fn client(&self) -> Result<Client, Failure> {
        let provider = Arc::new(self.provider()?);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&match self.version {
                Some(version) => vec![version.protocol()],
                None => rustls::DEFAULT_VERSIONS.to_vec(),
            })
            .map_err(|error| {
                Failure::usage(format!("no TLS version is left ({error})"), "name more cipher suites")
            })?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider.clone())?);
        let mut config = match (&self.cert, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let pair = pair(cert, key, &provider)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair)))
            }
            _ => return Err(Failure::usage("--cert and --key belong together", "give both or none")),
        };
        config.enable_sni = self.sni.is_some();
        Ok(Client { config: Arc::new(config), sni: self.sni.clone() })
    }

    fn provider(&self) -> Result<CryptoProvider, Failure> {
        let mut provider = ring::default_provider();
        let known = provider.cipher_suites.iter().copied();
        let (new, old): (Vec<_>, Vec<_>) =
            known.map(ciphers::named).partition(|(_, suite)| suite.tls13().is_some());
        let list = self.ciphers.as_deref().unwrap_or("ALL");
        provider.cipher_suites = match &self.ciphersuites {
            None => new.into_iter().map(|(_, suite)| suite).collect(),
            Some(names) => ciphers::by_names(names, &new)?,
        };
        provider.cipher_suites.extend(ciphers::by_list(list, &old)?);
        if let Some(names) = &self.groups {
            provider.kx_groups = ciphers::groups(names, &provider.kx_groups)?;
        }
        Ok(provider)
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
        let chain = match self.insecure {
            true => None,
            false => Some(Chain::new(self.trusted()?, provider.clone())?),
        };
        Ok(Arc::new(ChainOnly { chain, provider }))
    }

    fn trusted(&self) -> Result<Vec<CertificateDer<'static>>, Failure> {
        match (&self.cacert, &self.cacertdir) {
            (None, None) => Ok(rustls_native_certs::load_native_certs().certs),
            (file, directory) => {
                let mut trusted = file.as_deref().map(certificates).transpose()?.unwrap_or_default();
                for path in directory.as_deref().map(files).transpose()?.unwrap_or_default() {
                    // A directory may hold other things than certificates.
                    trusted.extend(certificates(&path).unwrap_or_default());
                }
                Ok(trusted)
            }
        }
    }
}

fn unreadable(path: &str, error: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("cannot read {path} ({error})"), "give a readable file in PEM form")
}

fn files(directory: &str) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(directory).map_err(|error| unreadable(directory, error))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths.filter(|path: &std::path::PathBuf| path.is_file()).map(|path| display(&path)).collect())
}

fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let pem = fs::read(path).map_err(|error| unreadable(path, error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| unreadable(path, error))?;
    match found.is_empty() {
        true => Err(unreadable(path, "it holds no certificate")),
        false => Ok(found),
    }
}

fn private_key(path: &str) -> Result<PrivateKeyDer<'static>, Failure> {
    let pem = fs::read(path).map_err(|error| unreadable(path, error))?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| unreadable(path, error))
}

/// The certificates in the file `cert` with the key in the file `key`. rustls' own check refuses version 1.
fn pair(cert: &str, key: &str, provider: &CryptoProvider) -> Result<CertifiedKey, Failure> {
    let apart = |error: &dyn std::fmt::Display| {
        let cause = format!("{cert} and {key} do not go together ({error})");
        Failure::usage(cause, "give a certificate and its key")
    };
    let chain = certificates(cert)?;
    let private = provider.key_provider.load_private_key(private_key(key)?).map_err(|error| apart(&error))?;
    let in_file =
        Certificate::parse(&chain[0]).map(|certificate| certificate.subject_public_key_info.to_vec());
    match private.public_key().is_none_or(|public| in_file.as_deref() == Some(&*public)) {
        true => Ok(CertifiedKey::new(chain, private)),
        false => Err(apart(&"the keys differ")),
    }
}

/// Certificates to trust, and rustls' verifier of what they vouch for.
#[derive(Debug)]
struct Chain {
    verifier: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Chain {
    fn new(trusted: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Result<Chain, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = builder.build().map_err(|error| {
            Failure::usage(
                format!("there is no certificate to trust ({error})"),
                "give --cacert, --cacertdir or --insecure",
            )
        })?;
        Ok(Chain { verifier, trusted })
    }
}

/// Verifies the chain of certificates but not the host's name, as redis-benchmark does; nothing without a chain.
#[derive(Debug)]
struct ChainOnly {
    chain: Option<Chain>,
    provider: Arc<CryptoProvider>,
}

impl ChainOnly {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }
}

fn parsed<'a>(cert: &'a CertificateDer<'_>) -> Result<Certificate<'a>, Error> {
    Certificate::parse(cert).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
}

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(Chain { verifier, trusted }) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified =
            verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            Err(_) if parsed(end_entity)?.is_trusted_by_openssl(trusted, now, self.algorithms()) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let of_scheme = self.algorithms().mapping.iter().filter(|(scheme, _)| *scheme == dss.scheme);
        let fitting = of_scheme.flat_map(|(_, algorithms)| algorithms.iter().copied());
        match parsed(cert)?.key.has_signed(message, dss.signature(), fitting) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(parsed(cert)?.subject_public_key_info);
        verify_tls13_signature_with_raw_key(message, &key, dss, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}
