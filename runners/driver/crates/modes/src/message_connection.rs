//! A RESP connection whose messages are read, not skipped.

use std::io;
use std::os::fd::BorrowedFd;

use engine::liveness::Liveness;
use machine::clock;
use machine::epoll::Epoll;
use machine::socket::Interest;
use network::channel::Channel;
use network::target::{Target, remedy_of};
use protocol::message::Message;
use text::failure::{Failure, machine_failure};

/// Taken from the socket at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// What a connection is called in failures: `subscriber 3`.
pub struct Name(String);

pub struct MessageConnection {
    channel: Channel,
    name: Name,
    token: usize,
    unsent: Vec<u8>,
    /// Whether the socket took no more, so room is awaited.
    is_full: bool,
    received: Vec<u8>,
    read: usize,
    liveness: Liveness,
}

impl MessageConnection {
    /// An open connection to `target`, which `epoll` knows as `token`.
    pub fn open(
        target: &Target,
        name: String,
        epoll: &Epoll,
        token: usize,
    ) -> Result<MessageConnection, Failure> {
        let (opening, _) = target.open_connection()?;
        let (channel, _) = opening.into_channel();
        epoll.add(channel.socket(), token).map_err(machine_failure)?;
        Ok(MessageConnection {
            channel,
            name: Name(name),
            token,
            unsent: Vec::new(),
            is_full: false,
            received: Vec::new(),
            read: 0,
            liveness: Liveness::default(),
        })
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.channel.socket()
    }

    /// Send `bytes` as soon as the socket takes them.
    pub fn send(&mut self, bytes: &[u8], epoll: &Epoll) -> Result<(), Failure> {
        self.unsent.extend_from_slice(bytes);
        if self.is_full { Ok(()) } else { self.flush(epoll) }
    }

    /// Send more of what is still unsent.
    pub fn flush(&mut self, epoll: &Epoll) -> Result<(), Failure> {
        while !self.unsent.is_empty() || self.channel.holds_back() {
            match self.channel.send(&self.unsent) {
                Ok(sent) => {
                    self.unsent.drain(..sent);
                    self.liveness.moved(clock::now());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(&error)),
            }
        }
        let is_full = !self.unsent.is_empty() || self.channel.holds_back();
        if is_full != self.is_full {
            let interest = if is_full { Interest::RepliesAndRoom } else { Interest::Replies };
            epoll.change(self.socket(), self.token, interest).map_err(machine_failure)?;
            self.is_full = is_full;
        }
        Ok(())
    }

    /// Receive what is there and give `take` each whole message, with the time at which it came.
    pub fn receive(
        &mut self,
        mut take: impl FnMut(&Name, &Message, u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        loop {
            let received = self.read_socket()?;
            self.read += received;
            let now = clock::now();
            if received > 0 {
                self.liveness.moved(now);
            }
            let mut at = 0;
            while let Some(message) = Message::read(&self.received[at..self.read])
                .map_err(|garbage| self.name.garbled(&garbage.0))?
            {
                at += message.length;
                take(&self.name, &message, now)?;
            }
            self.received.copy_within(at..self.read, 0);
            self.read -= at;
            if received < CHUNK_BYTES {
                return Ok(());
            }
        }
    }

    /// Whether the begin of a message has come, and not its end.
    pub fn has_part(&self) -> bool {
        self.read > 0
    }

    /// Whether no byte has moved for longer than the timeout of `target`; to be asked now and then.
    pub fn is_silent(&mut self, now: u64, target: &Target) -> bool {
        self.liveness.is_silent(self.channel.socket(), now, target.timeout.as_nanos() as u64)
    }

    /// Read what is there; the number of bytes.
    fn read_socket(&mut self) -> Result<usize, Failure> {
        self.received.resize(self.read + CHUNK_BYTES, 0);
        match self.channel.recv(&mut self.received[self.read..]) {
            Ok(0) => Err(self.closed()),
            Ok(received) => Ok(received),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(0)
            }
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// The failure of a connection that the server has closed, with the error that it may have sent before.
    fn last_error(&mut self) -> Failure {
        self.received.resize(self.read + CHUNK_BYTES, 0);
        let received = self.channel.recv(&mut self.received[self.read..]).unwrap_or(0);
        match Message::read(&self.received[..self.read + received]) {
            Ok(Some(message)) if message.is_error() => self.name.refused(&message),
            _ => self.closed(),
        }
    }

    fn closed(&self) -> Failure {
        Failure::run(
            format!("the server closed the connection of {}", self.name.0),
            "look at the server's log and its limits (client-output-buffer-limit, timeout, maxclients)",
        )
    }

    fn broken(&mut self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => self.last_error(),
            _ => Failure::run(
                format!("the connection of {} broke ({error})", self.name.0),
                "look at the server's log",
            ),
        }
    }

    /// The failure of an answer that does not come.
    pub fn silent(&self, target: &Target) -> Failure {
        Failure::run(
            format!("the server stopped answering {} for {:?}", self.name.0, target.timeout),
            "look at the server's log, or raise --timeout",
        )
    }
}

impl Name {
    /// The failure of an answer that is an error, or of the wrong kind.
    pub fn refused(&self, message: &Message) -> Failure {
        let text = String::from_utf8_lossy(message.word(0));
        match message.is_error() {
            true => Failure::run(
                format!("the server answered {} with an error, -{text}", self.0),
                remedy_of(&text, "use a server that knows the command, or log in as a user that may do this"),
            ),
            false => self.garbled(&format!(
                "the server said '{}{text}', which is no answer to that",
                char::from(message.kind)
            )),
        }
    }

    /// The failure of a value that another program has sent.
    pub fn foreign(&self) -> Failure {
        Failure::run(
            format!("{} got a value that was not sent to it", self.0),
            "keep others away from channels and keys that begin with speedbench:",
        )
    }

    fn garbled(&self, garbage: &str) -> Failure {
        Failure::run(format!("wrong answer to {}, {garbage}", self.0), "check that the server speaks RESP")
    }
}
