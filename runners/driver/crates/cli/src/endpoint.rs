//! The options that say where a server is and how a session with it begins; `run` and redis-benchmark share them.

use std::time::Duration;

use clap::Args;

use crate::arguments::cannot_be;
use crate::uri::{self, Uri};
use crate::values::seconds;
use network::sources::Sources;
use network::target::{self, Address, Target};
use network::tls;
use text::checks::require;
use text::failure::Failure;
use workload::protocol_name::ProtocolName;

const USUAL_HOST: &str = "127.0.0.1";
const USUAL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default, Args)]
pub struct Endpoint {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    pub access: Access,
}

/// Where a server is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Server")]
pub struct Place {
    /// host name or address (127.0.0.1)
    #[arg(short = 'h', value_name = "HOST")]
    host: Option<String>,
    /// port (6379; memcached 11211)
    #[arg(short = 'p', value_name = "PORT")]
    port: Option<u16>,
    /// path of a unix socket; replaces -h and -p
    #[arg(short = 's', value_name = "SOCKET")]
    socket: Option<String>,
    /// redis://user:password@host:port/db; rediss:// for TLS; other options take precedence
    #[arg(short = 'u', value_name = "URI", value_parser = uri::parse)]
    uri: Option<Uri>,
}

/// How a session begins, wherever the server is.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub struct Access {
    /// password
    #[arg(short = 'a', value_name = "PASSWORD")]
    password: Option<String>,
    /// user of the password
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// database (0)
    #[arg(long = "dbnum", value_name = "DB")]
    database: Option<u32>,
    /// spread the load over the masters of a cluster; keys need {tag}
    #[arg(long)]
    pub cluster: bool,
    /// give up when the server is silent for S seconds (10)
    #[arg(long, value_name = "S", value_parser = |text: &str| seconds("--timeout", text))]
    timeout: Option<Duration>,
    /// local addresses of the connections, in turn, as in 127.0.0.1-127.0.0.8: one has some 28000 ports
    #[arg(long = "source", value_name = "LIST", value_parser = Sources::parse)]
    sources: Option<Sources>,
    /// Multipath TCP; a server without it answers by plain TCP
    #[arg(long)]
    mptcp: bool,
    /// encrypt
    #[arg(long)]
    tls: bool,
    #[command(flatten)]
    pub tls_options: TlsOptions,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsOptions {
    /// server name to ask for
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// certificates to trust, instead of those of the system
    #[arg(long, value_name = "FILE")]
    cacert: Option<String>,
    /// a directory of them
    #[arg(long, value_name = "DIR")]
    cacertdir: Option<String>,
    /// trust any certificate
    #[arg(long)]
    insecure: bool,
    /// certificate to show, with its key
    #[arg(long, value_name = "FILE")]
    cert: Option<String>,
    /// key of the certificate
    #[arg(long, value_name = "FILE")]
    key: Option<String>,
    /// ciphers of TLS 1.2, separated by colons
    #[arg(long = "tls-ciphers", value_name = "LIST")]
    ciphers: Option<String>,
    /// ciphers of TLS 1.3, separated by colons
    #[arg(long = "tls-ciphersuites", value_name = "LIST")]
    ciphersuites: Option<String>,
    /// groups of the key exchange, the best first, separated by colons
    #[arg(long = "tls-groups", value_name = "LIST")]
    groups: Option<String>,
}

impl Place {
    /// `HOST:PORT`, a port, the path of a socket or a URI, given as `option`.
    pub fn parse(option: &str, text: &str) -> Result<Place, Failure> {
        if text.contains("://") {
            let uri = uri::parse_of(option, text)?;
            return Ok(Place { uri: Some(uri), ..Place::default() });
        }
        if text.contains('/') {
            return Ok(Place { socket: Some(text.to_owned()), ..Place::default() });
        }
        let wrong = || cannot_be(option, text, "give HOST:PORT, a port, the path of a socket or a URI");
        if let Ok(port) = text.parse() {
            return Ok(Place { port: Some(port), ..Place::default() });
        }
        let (host, port) = uri::host_and_port(text);
        let port = port.map(|port| port.parse().map_err(|_| wrong())).transpose()?;
        match host.is_empty() || host.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Err(wrong()),
            false => Ok(Place { host: Some(host.to_owned()), port, ..Place::default() }),
        }
    }
}

impl Endpoint {
    pub fn new(place: Place, access: Access) -> Endpoint {
        Endpoint { place, access }
    }

    /// Whether no option says where the server is.
    pub fn has_no_place(&self) -> bool {
        self.place == Place::default()
    }

    pub fn uses_tls(&self) -> bool {
        self.access.tls || self.place.uri.as_ref().is_some_and(|uri| uri.tls)
    }

    pub fn database(&self) -> u32 {
        self.access.database.or(self.place.uri.as_ref().and_then(|uri| uri.database)).unwrap_or(0)
    }

    fn uri_login(&self) -> Option<&uri::Login> {
        self.place.uri.as_ref()?.login.as_ref()
    }

    pub fn password(&self) -> Option<&str> {
        self.access.password.as_deref().or(self.uri_login().map(|login| login.password.as_str()))
    }

    fn user(&self) -> Option<&str> {
        self.access.user.as_deref().or(self.uri_login().and_then(|login| login.user.as_deref()))
    }

    fn timeout(&self) -> Duration {
        self.access.timeout.unwrap_or(USUAL_TIMEOUT)
    }

    /// Settings that no front end accepts.
    pub fn check(&self) -> Result<(), Failure> {
        require(!self.timeout().is_zero(), "--timeout cannot be 0", "give seconds above 0")?;
        require(
            self.user().is_none() || self.password().is_some(),
            "--user is given without a password",
            "give -a, too",
        )
    }

    /// The command that logs in, if there is a password.
    pub fn login(&self) -> Option<Vec<String>> {
        self.password().map(|password| target::auth(self.user(), password))
    }

    /// The command that chooses the database; a cluster has only one.
    pub fn select(&self) -> Option<Vec<String>> {
        let chosen = self.database() != 0 && !self.access.cluster;
        chosen.then(|| vec!["SELECT".to_owned(), self.database().to_string()])
    }

    /// A login of memcached's text protocol is a user and a password with a blank between them.
    fn check_login_of_memcached(&self) -> Result<(), Failure> {
        require(
            self.password().is_none() || self.user().is_some_and(|user| !user.is_empty()),
            "a password is given for memcached without a user",
            "give --user, too, as in the file of the server's -Y",
        )?;
        require(
            self.user().is_none_or(|user| !user.contains(' ')),
            "--user has a blank, with which memcached's logins end the name",
            "give a user without one",
        )
    }

    fn address(&self, usual_port: u16) -> Result<Address, Failure> {
        let place = &self.place;
        if let Some(path) = place.socket.as_ref().filter(|path| !path.is_empty()) {
            return Address::unix(path);
        }
        let uri = place.uri.as_ref();
        let host = place.host.as_ref().or(uri.and_then(|uri| uri.host.as_ref()));
        let port = place.port.or(uri.and_then(|uri| uri.port)).unwrap_or(usual_port);
        let host = host.map_or(USUAL_HOST, String::as_str);
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        Ok(Address::Tcp { host: inner.unwrap_or(host).to_owned(), port })
    }

    /// The server, which speaks `protocol` and is on its usual port unless another was given; sessions begin with the commands
    /// of `greeting`.
    pub fn target(&self, protocol: ProtocolName, greeting: Vec<Vec<String>>) -> Result<Target, Failure> {
        let address = self.address(protocol.port())?;
        if protocol == ProtocolName::Memcached {
            self.check_login_of_memcached()?;
        }
        Ok(Target {
            dialect: protocol.dialect(),
            mptcp: self.access.mptcp && address.has_mptcp()?,
            address,
            tls: self.uses_tls().then(|| self.access.tls_options.settings().client()).transpose()?,
            greeting,
            timeout: self.timeout(),
            sources: self.access.sources.as_ref().map(Sources::from_first).unwrap_or_default(),
        })
    }
}

impl TlsOptions {
    fn settings(&self) -> tls::Settings {
        let TlsOptions { sni, cacert, cacertdir, insecure, cert, key, ciphers, ciphersuites, groups } =
            self.clone();
        let version = None;
        tls::Settings { sni, cacert, cacertdir, insecure, cert, key, ciphers, ciphersuites, groups, version }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_by_its_form() {
        let address = |text: &str| {
            let place = Place::parse("--base", text).unwrap();
            Endpoint::new(place, Access::default()).address(6379).unwrap().to_string()
        };
        for (text, expected) in [
            ("7000", "tcp:127.0.0.1:7000"),
            ("example.org", "tcp:example.org:6379"),
            ("10.0.0.1:7000", "tcp:10.0.0.1:7000"),
            ("[::1]:7000", "tcp:::1:7000"),
            ("/tmp/redis.sock", "unix:/tmp/redis.sock"),
            ("redis://example.org:7001", "tcp:example.org:7001"),
        ] {
            assert_eq!(address(text), expected);
        }
    }

    #[test]
    fn a_host_may_have_brackets_and_a_socket_no_path() {
        let place = |host: &str, socket: &str| {
            let place = Place { host: Some(host.into()), socket: Some(socket.into()), ..Place::default() };
            Endpoint::new(place, Access::default()).address(6379).unwrap().to_string()
        };
        assert_eq!(place("[::1]", ""), "tcp:::1:6379");
        assert_eq!(place("::1", "/tmp/s"), "unix:/tmp/s");
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in ["", ":7000", "70000", "host:port", "::1"] {
            let message = Place::parse("--head", text).unwrap_err().to_string();
            assert!(message.starts_with("--head cannot be") && message.contains("HOST:PORT"), "{message}");
        }
        let message = Place::parse("--head", "redis://:secret@host:port").unwrap_err().to_string();
        assert!(message.contains("--head") && !message.contains("secret"), "{message}");
    }
}
