//! The bytes to and from one server: a socket, or TLS over one.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys;

pub enum Channel {
    Plain(OwnedFd),
    Tls(Box<Tls>),
}

/// A TLS session and its socket.
pub struct Tls {
    session: rustls::ClientConnection,
    socket: OwnedFd,
}

/// The socket as rustls wants it.
struct Wire<'a>(BorrowedFd<'a>);

impl Read for Wire<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        sys::recv(self.0, bytes)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sys::send(self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Channel {
    pub fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Channel::Plain(socket) => socket.as_fd(),
            Channel::Tls(tls) => tls.socket.as_fd(),
        }
    }

    /// Shake hands, if there is TLS; `WouldBlock` when the socket must be ready first.
    pub fn shake(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(_) => Ok(()),
            Channel::Tls(tls) => tls.shake(),
        }
    }

    /// Send what is taken now; `WouldBlock` when nothing is. With no bytes: send more of what TLS holds back.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => sys::send(socket.as_fd(), bytes),
            Channel::Tls(tls) => tls.send(bytes),
        }
    }

    /// Receive what is there; 0 when the peer has closed.
    #[inline]
    pub fn recv(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => sys::recv(socket.as_fd(), bytes),
            Channel::Tls(tls) => tls.recv(bytes),
        }
    }

    /// Whether TLS has taken bytes that the socket has not.
    #[inline]
    pub fn holds_back(&self) -> bool {
        match self {
            Channel::Plain(_) => false,
            Channel::Tls(tls) => tls.session.wants_write(),
        }
    }
}

impl Tls {
    /// A session that has not begun, over a socket that never waits.
    pub fn new(session: rustls::ClientConnection, socket: OwnedFd) -> Tls {
        Tls { session, socket }
    }

    /// Shake hands up to the last byte that the server needs; `WouldBlock` when the socket must be ready first.
    fn shake(&mut self) -> io::Result<()> {
        while self.session.is_handshaking() {
            self.session.complete_io(&mut Wire(self.socket.as_fd()))?;
        }
        self.push()
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.session.writer().write(bytes)?;
        match self.push() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => Ok(taken),
            Err(error) => Err(error),
            Ok(()) => Ok(taken),
        }
    }

    fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut Wire(self.socket.as_fd()))?;
        }
        Ok(())
    }

    fn recv(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that closes without saying so closes all the same.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                answer => return answer,
            }
            self.session.read_tls(&mut Wire(self.socket.as_fd()))?;
            self.session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}
