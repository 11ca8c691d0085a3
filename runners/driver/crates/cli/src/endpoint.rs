//! The options that say where a server is and how a session with it begins; `run` and redis-benchmark share them.

use std::time::Duration;

use crate::option_values::Words;
use crate::uri::{self, Uri};
use network::target::{self, Address, Target};
use network::tls;
use text::checks::require;
use text::failure::Failure;
use text::secrets::HIDDEN;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub host: String,
    /// None when it was not given: the usual one of the protocol.
    pub port: Option<u16>,
    pub socket: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: u32,
    pub cluster: bool,
    pub tls: bool,
    pub tls_wanted: tls::Wanted,
    pub timeout: Duration,
}

impl Default for Endpoint {
    fn default() -> Self {
        Endpoint {
            host: "127.0.0.1".to_owned(),
            port: None,
            socket: None,
            user: None,
            password: None,
            database: 0,
            cluster: false,
            tls: false,
            tls_wanted: tls::Wanted::default(),
            timeout: Duration::from_secs(10),
        }
    }
}

impl Endpoint {
    /// Take `option`, with its value out of `words`; false when it is none of these.
    pub fn take(&mut self, option: &str, words: &mut impl Words) -> Result<bool, Failure> {
        match option {
            "-h" => self.host = words.text(option)?,
            "-p" => self.port = Some(words.value(option)?),
            "-s" => self.socket = Some(words.text(option)?),
            "-a" => self.password = Some(words.secret(option, |_| HIDDEN.to_owned())?),
            "--user" => self.user = Some(words.text(option)?),
            "-u" => self.take_uri(uri::parse(&words.secret(option, uri::without_login)?)?),
            "--dbnum" => self.database = words.value(option)?,
            "--cluster" => self.cluster = true,
            "--timeout" => self.timeout = words.seconds(option)?,
            _ => return self.take_tls(option, words),
        }
        Ok(true)
    }

    /// What a URI leaves out stays as it is.
    fn take_uri(&mut self, uri: Uri) {
        self.tls |= uri.tls;
        if let Some(login) = uri.login {
            self.user = login.user;
            self.password = Some(login.password);
        }
        if let Some(host) = uri.host {
            self.host = host;
        }
        self.port = uri.port.or(self.port);
        self.database = uri.database.unwrap_or(self.database);
    }

    fn take_tls(&mut self, option: &str, words: &mut impl Words) -> Result<bool, Failure> {
        let wanted = &mut self.tls_wanted;
        match option {
            "--tls" => self.tls = true,
            "--insecure" => wanted.insecure = true,
            "--sni" => wanted.sni = Some(words.text(option)?),
            "--cacert" => wanted.cacert = Some(words.text(option)?),
            "--cacertdir" => wanted.cacertdir = Some(words.text(option)?),
            "--cert" => wanted.cert = Some(words.text(option)?),
            "--key" => wanted.key = Some(words.text(option)?),
            "--tls-ciphers" => wanted.ciphers = Some(words.text(option)?),
            "--tls-ciphersuites" => wanted.ciphersuites = Some(words.text(option)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What no mouth accepts.
    pub fn check(&self) -> Result<(), Failure> {
        require(!self.timeout.is_zero(), "--timeout cannot be 0", "give seconds above 0")?;
        require(
            self.user.is_none() || self.password.is_some(),
            "--user is given without a password",
            "give -a, too",
        )
    }

    /// The command that logs in, if there is a password.
    pub fn login(&self) -> Option<Vec<String>> {
        self.password.as_ref().map(|password| target::auth(self.user.as_deref(), password))
    }

    /// The command that chooses the database; a cluster has only one.
    pub fn select(&self) -> Option<Vec<String>> {
        let chosen = self.database != 0 && !self.cluster;
        chosen.then(|| vec!["SELECT".to_owned(), self.database.to_string()])
    }

    /// The server, on `port` unless another was given, whose sessions begin with the commands of `greeting`.
    pub fn target(&self, port: u16, greeting: Vec<Vec<String>>) -> Result<Target, Failure> {
        let address = match &self.socket {
            Some(path) => Address::unix(path)?,
            None => Address::Tcp { host: self.host.clone(), port: self.port.unwrap_or(port) },
        };
        Ok(Target {
            address,
            tls: self.tls.then(|| self.tls_wanted.client()).transpose()?,
            greeting,
            timeout: self.timeout,
        })
    }
}
