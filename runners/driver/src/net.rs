//! Where the server is, and the blocking dialogue with it before and after the load.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::channel::{Channel, Tls};
use crate::failure::Failure;
use crate::proto::reply::Reply;
use crate::proto::skipper::Skipper;
use crate::proto::{Replies, Tally, resp};
use crate::sys;
use crate::tls;

/// The longest path that fits a unix socket address.
const SOCKET_PATH_BYTES: usize = 107;

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
    /// A blocking connection on which the greeting was answered.
    pub fn connect(&self) -> Result<Channel, Failure> {
        let socket = self.open().map_err(|error| self.unreachable(&error))?;
        let mut channel = match &self.tls {
            None => Channel::Plain(socket),
            Some(tls) => Channel::Tls(Box::new(self.shake_hands(tls, socket)?)),
        };
        for words in &self.greeting {
            self.greet(&mut channel, words)?;
        }
        Ok(channel)
    }

    fn shake_hands(&self, client: &tls::Client, socket: OwnedFd) -> Result<Tls, Failure> {
        let host = match &self.address {
            Address::Tcp { host, .. } => host,
            Address::Unix { .. } => "localhost",
        };
        Tls::connect(client.session(host)?, socket).map_err(|error| {
            Failure::run(
                format!("the TLS handshake with {} failed ({error})", self.address),
                "check that the server speaks TLS there, and --cacert, --cert and --key, or trust it with --insecure",
            )
        })
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let socket = match &self.address {
            Address::Tcp { host, port } => self.open_tcp(host, *port)?,
            Address::Unix { path } => self.open_unix(path)?,
        };
        sys::set_timeouts(socket.as_fd(), self.timeout)?;
        Ok(socket)
    }

    /// The first address of the host that takes the connection.
    fn open_tcp(&self, host: &str, port: u16) -> io::Result<OwnedFd> {
        let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in (host, port).to_socket_addrs()? {
            match self.open_tcp_at(&address) {
                Ok(stream) => return Ok(stream.into()),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn open_tcp_at(&self, address: &SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(address, self.timeout)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// The timeout is set first: a server that does not accept lets a connect to a unix socket wait for ever.
    fn open_unix(&self, path: &str) -> io::Result<OwnedFd> {
        let socket = sys::unix_socket()?;
        sys::set_timeouts(socket.as_fd(), self.timeout)?;
        sys::connect_unix(socket.as_fd(), path.as_bytes())?;
        Ok(socket)
    }

    fn unreachable(&self, error: &io::Error) -> Failure {
        let remedy = match error.raw_os_error() {
            Some(libc::EMFILE) => "raise `ulimit -n` above the number of clients",
            Some(libc::EADDRNOTAVAIL) => "wait for closed connections to be forgotten, or use a unix socket",
            _ => "start the server, or correct -h, -p or -s",
        };
        Failure::run(format!("cannot connect to {} ({error})", self.address), remedy)
    }

    fn greet(&self, channel: &mut Channel, words: &[String]) -> Result<(), Failure> {
        let answer = self.ask(channel, words)?;
        if !matches!(Reply::parse(&answer), Some(Reply::Error(_)) | None) {
            return Ok(());
        }
        let (asked, remedy) = match words[0].as_str() {
            "AUTH" => ("the login".to_owned(), "correct -a and --user"),
            _ => (words.join(" "), "leave it out, or log in with -a, or use a server that knows it"),
        };
        Err(Failure::run(format!("the server refused {asked}: {}", preview(&answer)), remedy))
    }

    /// Connect, ask, and hang up: the reply to `words`.
    pub fn query<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Reply, Failure> {
        let answer = self.ask(&mut self.connect()?, words)?;
        Reply::parse(&answer).ok_or_else(|| {
            Failure::run(format!("no whole reply: {}", preview(&answer)), "look at the server")
        })
    }

    /// The number of keys that the server holds in database 0.
    pub fn count_keys(&self) -> Result<u64, Failure> {
        let answer = self.ask(&mut self.connect()?, &["INFO", "keyspace"])?;
        match answer.starts_with(b"$") {
            true => Ok(resp::keys_in(&answer)),
            false => Err(Failure::run(
                format!("the server answered INFO keyspace with {}", preview(&answer)),
                "--prefill needs a server that reports db0:keys=N",
            )),
        }
    }

    /// Send one command and wait for its whole reply, as raw bytes.
    fn ask<W: AsRef<[u8]>>(&self, channel: &mut Channel, words: &[W]) -> Result<Vec<u8>, Failure> {
        let deadline = Instant::now() + self.timeout;
        let answer = tell(channel, &resp::command(words)).and_then(|()| hear(channel, deadline));
        answer.map_err(|error| {
            let asked = String::from_utf8_lossy(words[0].as_ref());
            let cause = match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    format!("no answer to {asked} within {:?}", self.timeout)
                }
                _ => format!("no answer to {asked} ({error})"),
            };
            Failure::run(cause, format!("check that {} speaks RESP", self.address))
        })
    }
}

/// Send all of `bytes` over a blocking channel.
pub fn tell(channel: &mut Channel, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() || channel.holds_back() {
        bytes = &bytes[channel.send(bytes)?..];
    }
    Ok(())
}

fn hear(channel: &mut Channel, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut skipper, mut tally) = (Skipper::any(), Tally::default());
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
