//! Where the server is, and the blocking dialogue with it before and after the load.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::proto::skipper::Skipper;
use crate::proto::{Replies, Tally, resp};
use crate::sys;

/// The longest path that fits a unix socket address.
pub const SOCKET_PATH_BYTES: usize = 107;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp { host: String, port: u16 },
    Unix { path: String },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
            Address::Unix { path } => write!(f, "unix:{path}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub user: Option<String>,
    pub password: String,
}

/// A server and how long it may stay silent.
#[derive(Debug, Clone)]
pub struct Target {
    pub address: Address,
    pub login: Option<Login>,
    pub timeout: Duration,
}

impl Target {
    /// A blocking, authenticated connection.
    pub fn connect(&self) -> Result<OwnedFd, Failure> {
        let socket = self.open().map_err(|error| self.unreachable(&error))?;
        if let Some(login) = &self.login {
            self.authenticate(&socket, login)?;
        }
        Ok(socket)
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
            _ => "start the server, or correct -h, -p or -s",
        };
        Failure::run(format!("cannot connect to {} ({error})", self.address), remedy)
    }

    fn authenticate(&self, socket: &OwnedFd, login: &Login) -> Result<(), Failure> {
        let words: Vec<&str> =
            ["AUTH"].into_iter().chain(login.user.as_deref()).chain([login.password.as_str()]).collect();
        let answer = self.ask(socket, &words)?;
        match answer.starts_with(b"+OK") {
            true => Ok(()),
            false => Err(Failure::run(
                format!("the server refused the login: {}", preview(&answer)),
                "correct -a and --user",
            )),
        }
    }

    /// The number of keys that the server holds in database 0.
    pub fn count_keys(&self) -> Result<u64, Failure> {
        let answer = self.ask(&self.connect()?, &["INFO", "keyspace"])?;
        match answer.starts_with(b"$") {
            true => Ok(resp::keys_in(&answer)),
            false => Err(Failure::run(
                format!("the server answered INFO keyspace with {}", preview(&answer)),
                "--prefill needs a server that reports db0:keys=N",
            )),
        }
    }

    /// Send one command and wait for its whole reply, as raw bytes.
    fn ask(&self, socket: &OwnedFd, words: &[&str]) -> Result<Vec<u8>, Failure> {
        let deadline = Instant::now() + self.timeout;
        let asked = words[0];
        self.tell(socket, &resp::command(words)).and_then(|()| self.hear(socket, deadline)).map_err(|error| {
            let cause = match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    format!("no answer to {asked} within {:?}", self.timeout)
                }
                _ => format!("no answer to {asked} ({error})"),
            };
            Failure::run(cause, format!("check that {} speaks RESP", self.address))
        })
    }

    fn tell(&self, socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[sys::send(socket.as_fd(), bytes)?..];
        }
        Ok(())
    }

    fn hear(&self, socket: &OwnedFd, deadline: Instant) -> io::Result<Vec<u8>> {
        let (mut skipper, mut tally) = (Skipper::any(), Tally::default());
        let (mut reply, mut chunk) = (Vec::new(), [0; 4096]);
        while tally.replies == 0 {
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let received = sys::recv(socket.as_fd(), &mut chunk)?;
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
}

/// The first bytes of a reply, for a message.
fn preview(reply: &[u8]) -> String {
    reply[..reply.len().min(80)].trim_ascii_end().escape_ascii().to_string()
}
