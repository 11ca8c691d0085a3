//! The bytes to and from one server: a socket, or TLS over one.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use machine::socket;

pub enum Channel {
    Plain(OwnedFd),
    Tls(Box<Tls>),
}

/// A TLS session and its socket.
pub struct Tls {
    session: rustls::ClientConnection,
    socket: OwnedFd,
    /// Whether the last read emptied the socket.
    drained: bool,
}

/// The socket with the traits that rustls needs.
struct Wire<'a> {
    socket: BorrowedFd<'a>,
    drained: &'a mut bool,
}

impl Read for Wire<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let received = socket::recv(self.socket, bytes)?;
        *self.drained = received < bytes.len();
        Ok(received)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        socket::send(self.socket, bytes)
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

    /// Do the TLS handshake, if there is TLS; `WouldBlock` when the socket must be ready first.
    pub fn shake_hands(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(_) => Ok(()),
            Channel::Tls(tls) => tls.shake_hands(),
        }
    }

    /// Send as much as the socket takes now; `WouldBlock` when it takes nothing. Without bytes: send more of what TLS has
    /// buffered.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket::send(socket.as_fd(), bytes),
            Channel::Tls(tls) => tls.send(bytes),
        }
    }

    /// Receive what is there; 0 when the peer has closed.
    #[inline]
    pub fn recv(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket::recv(socket.as_fd(), bytes),
            Channel::Tls(tls) => tls.recv(bytes),
        }
    }

    /// Whether nothing more was there, after `recv` had room for `room` bytes and gave `received` of them.
    #[inline]
    pub fn is_drained(&self, received: usize, room: usize) -> bool {
        received < room
            && match self {
                Channel::Plain(_) => true,
                Channel::Tls(tls) => tls.drained,
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
    /// A session that has not begun, over a non-blocking socket.
    pub fn new(session: rustls::ClientConnection, socket: OwnedFd) -> Tls {
        Tls { session, socket, drained: false }
    }

    /// Do the handshake up to the last byte that the server needs; `WouldBlock` when the socket must be ready first.
    fn shake_hands(&mut self) -> io::Result<()> {
        let Tls { session, socket, drained } = self;
        while session.is_handshaking() {
            session.complete_io(&mut Wire { socket: socket.as_fd(), drained })?;
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
        let Tls { session, socket, drained } = self;
        while session.wants_write() {
            session.write_tls(&mut Wire { socket: socket.as_fd(), drained })?;
        }
        Ok(())
    }

    fn recv(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Tls { session, socket, drained } = self;
        loop {
            match session.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that closes without a close_notify has closed as well.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                answer => return answer,
            }
            session.read_tls(&mut Wire { socket: socket.as_fd(), drained })?;
            session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}
