//! Where the server is, how a session with it begins, and what its failures are called.

use std::net::ToSocketAddrs;
use std::time::Duration;
use std::{fmt, io};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::dialect::Dialect;
use crate::sources::Sources;
use crate::tls;
use text::checks::require;
use text::failure::Failure;
use text::secrets::HIDDEN;

/// The longest path that fits a unix socket address.
const SOCKET_PATH_BYTES: usize = 107;
/// Words of the errors with which servers refuse a connection, and the remedies.
const REFUSALS: [(&str, &str); 3] = [
    ("max number of clients reached", RAISE_CLIENTS),
    ("Too many open connections", RAISE_CLIENTS),
    (
        "running in protected mode",
        "start the server with --protected-mode no or a password, or connect from 127.0.0.1 alone",
    ),
];
const RAISE_CLIENTS: &str =
    "raise the server's limit of clients (maxclients; memcached: -c), or lower the number of clients";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp { host: String, port: u16 },
    Unix { path: String },
}

impl Address {
    /// The socket at `path`; a usage failure when the path is longer than a socket address holds.
    pub fn unix(path: &str) -> Result<Address, Failure> {
        match path.len() <= SOCKET_PATH_BYTES {
            true => Ok(Address::Unix { path: path.to_owned() }),
            false => Err(Failure::usage(
                "the path is too long for a socket",
                "give at most 107 bytes, or a relative path",
            )),
        }
    }
}

impl Address {
    /// `host:port`, or the path of a socket.
    pub fn host_and_port(&self) -> String {
        match self {
            Address::Tcp { host, port } => format!("{host}:{port}"),
            Address::Unix { path } => path.clone(),
        }
    }
}

impl Address {
    /// True, or a failure unless connections to it can be Multipath TCP on this machine.
    pub fn has_mptcp(&self) -> Result<bool, Failure> {
        require(
            matches!(self, Address::Tcp { .. }),
            "--mptcp is given for a unix socket",
            "leave it out, or give -h and -p",
        )?;
        match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
            Ok(_) => Ok(true),
            Err(error) => Err(Failure::machine(
                format!("this machine has no Multipath TCP ({error})"),
                "leave --mptcp out, or turn it on (sysctl net.mptcp.enabled=1)",
            )),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
            Address::Unix { path } => write!(f, "unix:{path}"),
        }
    }
}

/// A server, how a session with it begins, and the timeout of its answers.
#[derive(Debug, Clone)]
pub struct Target {
    pub address: Address,
    pub dialect: Dialect,
    pub tls: Option<tls::Client>,
    /// Commands that open a session, each answered before the next is sent: AUTH, SELECT, HELLO ...
    pub greeting: Vec<Vec<String>>,
    pub timeout: Duration,
    /// Where connections come from.
    pub sources: Sources,
    /// Whether connections ask for Multipath TCP; a server without it answers by plain TCP.
    pub mptcp: bool,
}

/// The command that logs in.
pub fn auth(user: Option<&str>, password: &str) -> Vec<String> {
    ["AUTH"].into_iter().chain(user).chain([password]).map(str::to_owned).collect()
}

impl Target {
    /// The name of the server's machine.
    pub fn host(&self) -> &str {
        match &self.address {
            Address::Tcp { host, .. } => host,
            Address::Unix { .. } => "localhost",
        }
    }

    pub fn peers(&self) -> io::Result<Vec<SockAddr>> {
        match &self.address {
            Address::Tcp { host, port } => {
                Ok((host.as_str(), *port).to_socket_addrs()?.map(SockAddr::from).collect())
            }
            Address::Unix { path } => Ok(vec![SockAddr::unix(path)?]),
        }
    }

    /// What to report when connecting ended with `error`.
    pub fn unreachable(&self, error: &io::Error) -> Failure {
        let cause = format!("cannot connect to {} ({error})", self.address);
        match error.raw_os_error() {
            Some(libc::EMFILE) => Failure::machine(cause, "raise `ulimit -n` above the number of clients"),
            Some(libc::EADDRNOTAVAIL) => Failure::machine(
                cause,
                if self.sources.is_chosen_by_kernel() {
                    "all local ports are taken: give more addresses (--source), wait for closed connections to be forgotten, or use a unix socket"
                } else {
                    "give addresses of this machine as --source, and more of them if all their ports are taken"
                },
            ),
            _ => Failure::run(cause, "start the server, or correct its address"),
        }
    }

    /// The failure of a TLS handshake that ended with `error`.
    pub fn handshake_failed(&self, error: &io::Error) -> Failure {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof) {
            // Before the handshake a server has no way to say why.
            let cause = format!(
                "the server dropped {} in the TLS handshake, as one that is full does ({error})",
                self.address
            );
            return Failure::run(cause, format!("{RAISE_CLIENTS}; if it has room, see its log"));
        }
        Failure::run(
            format!("the TLS handshake with {} failed ({error})", self.address),
            "check that the server speaks TLS there, and --cacert, --cert and --key, or trust it with --insecure",
        )
    }

    /// The failure of a greeting's command that was answered with the error `text`.
    pub fn refused(&self, words: &[String], text: &str) -> Failure {
        let text = without_login(words, text);
        let (command, remedy) = match words[0].as_str() {
            "AUTH" => ("the login".to_owned(), "correct -a and --user"),
            _ => (words.join(" "), "leave it out, or log in with -a, or use a server that knows it"),
        };
        let mark = self.dialect.error_mark();
        Failure::run(format!("the server refused {command}: {mark}{text}"), remedy_of(&text, remedy))
    }

    /// The failure of a command whose answer did not come because of `error`.
    pub fn unanswered<W: AsRef<[u8]>>(&self, words: &[W], error: &io::Error) -> Failure {
        let texts: Vec<_> =
            words.iter().map(|word| String::from_utf8_lossy(word.as_ref()).into_owned()).collect();
        let command = &texts[0];
        let cause = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("no answer to {command} within {:?}", self.timeout)
            }
            _ => format!("no answer to {command} ({})", without_login(&texts, &error.to_string())),
        };
        Failure::run(cause, format!("check that {} speaks {}", self.address, self.dialect.name()))
    }
}

/// The text of an error reply, with any user name and password of the login command `words` hidden.
fn without_login(words: &[String], text: &str) -> String {
    let secrets = words.iter().skip(1).filter(|word| words[0] == "AUTH" && !word.is_empty());
    secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN))
}

/// The remedy of the server error `text`: that of a refused connection, or `otherwise`.
pub fn remedy_of<'a>(text: &str, otherwise: &'a str) -> &'a str {
    let known = REFUSALS.iter().find(|(words, _)| text.contains(words));
    known.map_or(otherwise, |(_, remedy)| remedy)
}
