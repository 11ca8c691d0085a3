//! Where the server is, and the blocking dialogue with it before and after the load.

use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use socket2::{SockAddr, SockRef};

use crate::channel::Channel;
use crate::command_line::HIDDEN;
use crate::dial::Dial;
use crate::failure::Failure;
use crate::proto::reply::Reply;
use crate::proto::skipper::Skipper;
use crate::proto::{Expectation, Replies, Tally, resp};
use crate::sys;
use crate::tls;

/// The longest path that fits a unix socket address.
const SOCKET_PATH_BYTES: usize = 107;
/// What servers say that take no more connections: Redis and Valkey, memcached.
const FULL: [&str; 2] = ["max number of clients reached", "Too many open connections"];
/// A full queue of a unix socket is tried again this often.
const QUEUE_AGAIN: Duration = Duration::from_millis(1);

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
                "the path of -s is too long for a socket",
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

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
            Address::Unix { path } => write!(f, "unix:{path}"),
        }
    }
}

/// A server, how a session with it begins, and how long it may stay silent.
#[derive(Debug, Clone)]
pub struct Target {
    pub address: Address,
    pub tls: Option<tls::Client>,
    /// Commands that open a session, each answered before the next is sent: AUTH, SELECT, HELLO ...
    pub greeting: Vec<Vec<String>>,
    pub timeout: Duration,
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

    /// A blocking connection on which the greeting was answered.
    pub fn connect(&self) -> Result<Channel, Failure> {
        let (channel, _) = self.reach()?.0.into_channel();
        self.let_wait(&channel).map_err(|error| self.unreachable(&error))?;
        Ok(channel)
    }

    /// An open connection that never waits, and the address that took it: the first of the host that does.
    pub fn reach(&self) -> Result<(Dial, SockAddr), Failure> {
        let mut refused = self.unreachable(&io::ErrorKind::AddrNotAvailable.into());
        for peer in self.peers().map_err(|error| self.unreachable(&error))? {
            let mut dial = match Dial::begin(self, &peer) {
                Ok(dial) => dial,
                Err(failure) => {
                    refused = failure;
                    continue;
                }
            };
            match self.open(&mut dial) {
                Ok(()) => return Ok((dial, peer)),
                Err(failure) if dial.is_connected() => return Err(failure),
                Err(failure) => refused = failure,
            }
        }
        Err(refused)
    }

    fn peers(&self) -> io::Result<Vec<SockAddr>> {
        match &self.address {
            Address::Tcp { host, port } => {
                Ok((host.as_str(), *port).to_socket_addrs()?.map(SockAddr::from).collect())
            }
            Address::Unix { path } => Ok(vec![SockAddr::unix(path)?]),
        }
    }

    /// Let the socket of `channel` wait, up to the timeout.
    fn let_wait(&self, channel: &Channel) -> io::Result<()> {
        let socket = channel.socket();
        let socket = SockRef::from(&socket);
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(self.timeout))?;
        socket.set_write_timeout(Some(self.timeout))
    }

    /// Wait until `dial` is open, as long as the timeout allows.
    fn open(&self, dial: &mut Dial) -> Result<(), Failure> {
        let deadline = Instant::now() + self.timeout;
        while !dial.is_open() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(dial.too_slow(self));
            }
            if dial.is_queueing() {
                std::thread::sleep(QUEUE_AGAIN.min(left));
            } else if !sys::await_ready(dial.socket(), dial.interest(), left)
                .map_err(|error| self.unreachable(&error))?
            {
                continue;
            }
            dial.go_on(self)?;
        }
        Ok(())
    }

    /// The failure of a connect that ended with `error`.
    pub fn unreachable(&self, error: &io::Error) -> Failure {
        let cause = format!("cannot connect to {} ({error})", self.address);
        match error.raw_os_error() {
            Some(libc::EMFILE) => Failure::machine(cause, "raise `ulimit -n` above the number of clients"),
            Some(libc::EADDRNOTAVAIL) => Failure::machine(
                cause,
                "all local ports are taken, so wait for closed connections to be forgotten, or use a unix socket",
            ),
            _ => Failure::run(cause, "start the server, or correct -h, -p or -s"),
        }
    }

    /// The failure of a TLS handshake that ended with `error`.
    pub fn handshake_failed(&self, error: &io::Error) -> Failure {
        Failure::run(
            format!("the TLS handshake with {} failed ({error})", self.address),
            "check that the server speaks TLS there, and --cacert, --cert and --key, or trust it with --insecure",
        )
    }

    /// The failure of a greeting's command that was answered with the error `text`.
    pub fn refused(&self, words: &[String], text: &str) -> Failure {
        // Servers that do not know a command repeat its words.
        let secrets = words.iter().skip(1).filter(|word| words[0] == "AUTH" && !word.is_empty());
        let text = secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN));
        let (asked, remedy) = match words[0].as_str() {
            "AUTH" => ("the login".to_owned(), "correct -a and --user"),
            _ => (words.join(" "), "leave it out, or log in with -a, or use a server that knows it"),
        };
        Failure::run(format!("the server refused {asked}: -{text}"), remedy_of(&text, remedy))
    }

    /// Connect, ask, and hang up: the reply to `words`.
    pub fn query<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Reply, Failure> {
        let answer = self.ask(&mut self.connect()?, words)?;
        Reply::parse(&answer).ok_or_else(|| {
            Failure::run(format!("no whole reply: {}", preview(&answer)), "look at the server")
        })
    }

    /// The number of keys that the server holds in `database`.
    pub fn count_keys(&self, database: u32) -> Result<u64, Failure> {
        let answer = self.ask(&mut self.connect()?, &["INFO", "keyspace"])?;
        match answer.starts_with(b"$") {
            true => Ok(resp::keys_in(&answer, database)),
            false => Err(Failure::run(
                format!("the server answered INFO keyspace with {}", preview(&answer)),
                "--prefill needs a server that reports keys as dbN:keys=M",
            )),
        }
    }

    /// Send one command and wait for its whole reply, as raw bytes.
    fn ask<W: AsRef<[u8]>>(&self, channel: &mut Channel, words: &[W]) -> Result<Vec<u8>, Failure> {
        let deadline = Instant::now() + self.timeout;
        tell(channel, &resp::command(words))
            .and_then(|()| hear(channel, deadline, Skipper::new(Expectation::to(words, 0))))
            .map_err(|error| self.unanswered(words, &error))
    }

    /// The failure of a command whose answer did not come because of `error`.
    pub fn unanswered<W: AsRef<[u8]>>(&self, words: &[W], error: &io::Error) -> Failure {
        let asked = String::from_utf8_lossy(words[0].as_ref());
        let cause = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("no answer to {asked} within {:?}", self.timeout)
            }
            _ => format!("no answer to {asked} ({error})"),
        };
        Failure::run(cause, format!("check that {} speaks RESP", self.address))
    }
}

/// The remedy of an error that a server told as `text`: `otherwise`, unless it has no room for another connection.
pub fn remedy_of<'a>(text: &str, otherwise: &'a str) -> &'a str {
    let is_full = FULL.iter().any(|full| text.contains(full));
    if is_full {
        "raise the server's limit of clients (maxclients; memcached: -c), or lower the number of clients"
    } else {
        otherwise
    }
}

/// Send all of `bytes` over a blocking channel.
pub fn tell(channel: &mut Channel, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() || channel.holds_back() {
        bytes = &bytes[channel.send(bytes)?..];
    }
    Ok(())
}

fn hear(channel: &mut Channel, deadline: Instant, mut skipper: Skipper) -> io::Result<Vec<u8>> {
    let mut tally = Tally::default();
    let (mut reply, mut chunk) = (Vec::new(), [0; 4096]);
    while tally.replies == 0 {
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let received = channel.recv(&mut chunk)?;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        reply.extend_from_slice(&chunk[..received]);
        skipper
            .skip(&chunk[..received], &mut tally)
            .map_err(|garbage| io::Error::new(io::ErrorKind::InvalidData, garbage.0))?;
    }
    Ok(reply)
}

/// The first bytes of a reply, for a message.
fn preview(reply: &[u8]) -> String {
    reply[..reply.len().min(80)].trim_ascii_end().escape_ascii().to_string()
}
