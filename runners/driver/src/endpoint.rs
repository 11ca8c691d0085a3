//! The options that say where a server is and how a session with it begins; `run` and redis-benchmark share them.

use std::str::FromStr;
use std::time::Duration;

use crate::cli::{self, require};
use crate::command_line::HIDDEN;
use crate::failure::Failure;
use crate::net::{self, Address, Target};
use crate::tls;
use crate::uri;

/// The words of a command line that follow an option.
pub trait Words {
    /// Where the reader of a message finds more.
    const SEE: &'static str;

    /// The value of `option`, of which `publish` makes what may be published.
    fn secret(&mut self, option: &str, publish: fn(&str) -> String) -> Result<String, Failure>;

    /// The value of `option`.
    fn text(&mut self, option: &str) -> Result<String, Failure> {
        self.secret(option, str::to_owned)
    }

    fn value<T: FromStr>(&mut self, option: &str) -> Result<T, Failure> {
        let text = self.text(option)?;
        text.parse().map_err(|_| Failure::usage(format!("{option} cannot be '{text}'"), Self::SEE))
    }

    fn seconds(&mut self, option: &str) -> Result<Duration, Failure> {
        cli::duration(self.value(option)?, option)
    }
}

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
            "-u" => uri::read(&words.secret(option, uri::without_login)?, self)?,
            "--dbnum" => self.database = words.value(option)?,
            "--cluster" => self.cluster = true,
            "--timeout" => self.timeout = words.seconds(option)?,
            _ => return self.take_tls(option, words),
        }
        Ok(true)
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
        self.password.as_ref().map(|password| net::auth(self.user.as_deref(), password))
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
