//! TLS by rustls with the ring provider: what the options of redis-benchmark mean, and which of them are unsupported.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

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
            .with_safe_default_protocol_versions()
            .map_err(|error| {
                Failure::usage(format!("no TLS version is left ({error})"), "name more cipher suites")
            })?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        let mut config = match (&self.cert, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                builder.with_client_auth_cert(certificates(cert)?, private_key(key)?).map_err(|error| {
                    Failure::usage(
                        format!("{cert} and {key} do not go together ({error})"),
                        "give a certificate and its key",
                    )
                })?
            }
            _ => return Err(Failure::usage("--cert and --key belong together", "give both or none")),
        };
        config.enable_sni = self.sni.is_some();
        Ok(Client { config: Arc::new(config), sni: self.sni.clone() })
    }

    fn provider(&self) -> Result<CryptoProvider, Failure> {
        let mut provider = ring::default_provider();
        let known = provider.cipher_suites.clone();
        let is_new = |suite: &rustls::SupportedCipherSuite| suite.tls13().is_some();
        let suites = |list: &Option<String>, new: bool, option: &str| {
            let all = known.iter().copied().filter(|suite| is_new(suite) == new);
            let named: Vec<_> = all.map(|suite| (openssl_name(suite.suite()), suite)).collect();
            match list {
                None => Ok(named.into_iter().map(|(_, suite)| suite).collect()),
                Some(list) => chosen(list, &named, option),
            }
        };
        provider.cipher_suites = suites(&self.ciphersuites, true, "--tls-ciphersuites")?;
        provider.cipher_suites.extend(suites(&self.ciphers, false, "--tls-ciphers")?);
        Ok(provider)
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
        let chain = match self.insecure {
            true => None,
            false => Some(self.chain_verifier(provider.clone())?),
        };
        Ok(Arc::new(ChainOnly { chain, provider }))
    }

    fn chain_verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.trusted()?);
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(|error| {
            Failure::usage(
                format!("there is no certificate to trust ({error})"),
                "give --cacert, --cacertdir or --insecure",
            )
        })
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

/// `ECDHE-RSA-AES128-GCM-SHA256` for what rustls calls `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`.
fn openssl_name(suite: rustls::CipherSuite) -> String {
    let name = format!("{suite:?}");
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name
            .replace("TLS_", "")
            .replace("WITH_", "")
            .replace("AES_", "AES")
            .replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
            .replace('_', "-"),
    }
}

type Named = (String, rustls::SupportedCipherSuite);

fn chosen(list: &str, known: &[Named], option: &str) -> Result<Vec<rustls::SupportedCipherSuite>, Failure> {
    let find = |name: &str| known.iter().find(|(known, _)| known == name).map(|(_, suite)| *suite);
    list.split(':')
        .map(|name| {
            find(name).ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
                Failure::usage(
                    format!("{option} cannot have '{name}'"),
                    format!("rustls knows {}", names.join(":")),
                )
            })
        })
        .collect()
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

/// Verifies the chain of certificates but not the host's name, as redis-benchmark does; nothing without a chain.
#[derive(Debug)]
struct ChainOnly {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ChainOnly {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }
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
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let verified = chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, self.algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ciphers_have_the_names_of_openssl() {
        let settings = Settings {
            ciphers: Some("ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384".into()),
            ciphersuites: Some("TLS_AES_256_GCM_SHA384".into()),
            ..Settings::default()
        };
        let suites = settings.provider().unwrap().cipher_suites;
        let names: Vec<String> = suites.iter().map(|suite| openssl_name(suite.suite())).collect();
        assert_eq!(
            names,
            ["TLS_AES_256_GCM_SHA384", "ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES256-GCM-SHA384"]
        );
        let old = Settings { ciphers: Some("AES128-SHA".into()), ..Settings::default() };
        let message = old.provider().unwrap_err().to_string();
        assert!(
            message.contains("cannot have 'AES128-SHA'") && message.contains("ECDHE-RSA-AES128-GCM-SHA256")
        );
    }
}
