//! Opening a connection without blocking: connect, TLS handshake, greeting and its answers.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::channel::{Channel, Tls};
use crate::dialect::Answers;
use crate::target::Target;
use machine::clock;
use machine::socket::Interest;
use protocol::replies::Tally;
use text::failure::Failure;

/// When each part of opening ended, monotonic ns. A part with nothing to do ends with the part before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpeningTimes {
    pub began: u64,
    pub connected: u64,
    pub secured: u64,
    pub open: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpeningStage {
    /// The queue of a unix socket is full; nothing signals when it has room again.
    Queue,
    Connect,
    Shake,
    Greet,
    Open,
}

pub struct Opening {
    channel: Channel,
    peer: SockAddr,
    stage: OpeningStage,
    times: OpeningTimes,
    /// The number of answered commands of the greeting, and the current one.
    answered: usize,
    request: Vec<u8>,
    sent: usize,
    /// Takes the answer to the request, once there is one.
    answers: Option<Answers>,
}

impl Opening {
    /// Begin to connect to `peer`, an address of `target`, as far as is possible without blocking.
    pub fn begin(target: &Target, peer: &SockAddr) -> Result<Opening, Failure> {
        let began = clock::now();
        let socket = stream(peer, target).map_err(|error| target.unreachable(&error))?;
        let channel = match &target.tls {
            None => Channel::Plain(socket),
            Some(tls) => Channel::Tls(Box::new(Tls::new(tls.session(target.host())?, socket))),
        };
        let mut opening = Opening {
            channel,
            peer: peer.clone(),
            stage: OpeningStage::Queue,
            times: OpeningTimes { began, ..OpeningTimes::default() },
            answered: 0,
            request: Vec::new(),
            sent: 0,
            answers: None,
        };
        opening.advance(target)?;
        Ok(opening)
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.channel.socket()
    }

    /// Whether the server has accepted the connection.
    pub fn is_connected(&self) -> bool {
        self.times.connected > 0
    }

    /// Whether the socket will not signal when to continue.
    pub fn is_queueing(&self) -> bool {
        self.stage == OpeningStage::Queue
    }

    /// The readiness without which nothing can continue.
    pub fn interest(&self) -> Interest {
        let unsent = self.sent < self.request.len() || self.channel.holds_back();
        match self.stage {
            OpeningStage::Connect | OpeningStage::Open => Interest::RepliesAndRoom,
            _ if unsent => Interest::RepliesAndRoom,
            _ => Interest::Replies,
        }
    }

    pub fn is_open(&self) -> bool {
        self.stage == OpeningStage::Open
    }

    /// Continue as far as is possible without blocking. The socket must have been ready for its [`Opening::interest`].
    pub fn advance(&mut self, target: &Target) -> Result<(), Failure> {
        while !self.is_open() {
            let ended = match self.stage {
                OpeningStage::Queue => self.connect().map_err(|error| target.unreachable(&error))?,
                OpeningStage::Connect => {
                    self.take_connection().map_err(|error| target.unreachable(&error))?
                }
                OpeningStage::Shake => {
                    waiting(self.channel.shake_hands()).map_err(|error| target.handshake_failed(&error))?
                }
                OpeningStage::Greet => self.greet(target)?,
                OpeningStage::Open => true,
            };
            if !ended {
                break;
            }
            self.next_stage();
        }
        Ok(())
    }

    fn next_stage(&mut self) {
        let now = clock::now();
        self.stage = match self.stage {
            OpeningStage::Queue | OpeningStage::Connect => {
                self.times.connected = now;
                OpeningStage::Shake
            }
            OpeningStage::Shake => {
                self.times.secured = now;
                OpeningStage::Greet
            }
            OpeningStage::Greet | OpeningStage::Open => {
                self.times.open = now;
                OpeningStage::Open
            }
        };
    }

    /// The open connection, and how long it took.
    pub fn into_channel(self) -> (Channel, OpeningTimes) {
        (self.channel, self.times)
    }

    /// The failure when what is awaited takes longer than the timeout of `target`.
    pub fn timeout_failure(&self, target: &Target) -> Failure {
        let late = io::Error::from(io::ErrorKind::TimedOut);
        match (self.stage, target.greeting.get(self.answered)) {
            (OpeningStage::Queue | OpeningStage::Connect, _) => target.unreachable(&late),
            (OpeningStage::Greet, Some(words)) => target.unanswered(words, &late),
            _ => target.handshake_failed(&late),
        }
    }

    /// Whether the connection is established already.
    fn connect(&mut self) -> io::Result<bool> {
        match SockRef::from(&self.channel.socket()).connect(&self.peer) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                self.stage = OpeningStage::Connect;
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn take_connection(&mut self) -> io::Result<bool> {
        match SockRef::from(&self.channel.socket()).take_error()? {
            None => Ok(true),
            Some(error) => Err(error),
        }
    }

    fn greet(&mut self, target: &Target) -> Result<bool, Failure> {
        while let Some(words) = target.greeting.get(self.answered) {
            let answer = self.exchange(target, words);
            let Some(tally) = answer.map_err(|error| target.unanswered(words, &error))? else {
                return Ok(false);
            };
            if let Some(text) = tally.first_error {
                return Err(target.refused(words, &text));
            }
            self.answered += 1;
            self.request.clear();
        }
        Ok(true)
    }

    /// Send `words` and read the answer; none while it is incomplete.
    fn exchange(&mut self, target: &Target, words: &[String]) -> io::Result<Option<Tally>> {
        if self.request.is_empty() {
            self.request = target.dialect.request(words);
            self.answers = Some(target.dialect.answers(words));
            self.sent = 0;
        }
        while self.sent < self.request.len() || self.channel.holds_back() {
            match unless_blocked(self.channel.send(&self.request[self.sent..])) {
                Ok(Some(sent)) => self.sent += sent,
                Ok(None) => return Ok(None),
                Err(error) => return self.last_error().map(Some).ok_or(error),
            }
        }
        let (mut tally, mut chunk) = (Tally::default(), [0; 4096]);
        while tally.replies == 0 {
            match unless_blocked(self.channel.recv(&mut chunk))? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(received) => self.take_answer(&chunk[..received], &mut tally)?,
                None => return Ok(None),
            }
        }
        Ok(Some(tally))
    }

    fn take_answer(&mut self, bytes: &[u8], tally: &mut Tally) -> io::Result<()> {
        let Some(answers) = &mut self.answers else { return Ok(()) };
        let taken = answers.skip(bytes, tally);
        taken.map_err(|garbage| io::Error::new(io::ErrorKind::InvalidData, garbage.0))
    }

    /// The error that a server sent before it closed the connection, if any.
    fn last_error(&mut self) -> Option<Tally> {
        let (mut tally, mut chunk) = (Tally::default(), [0; 4096]);
        let received = self.channel.recv(&mut chunk).ok()?;
        self.take_answer(&chunk[..received], &mut tally).ok()?;
        (tally.errors > 0).then_some(tally)
    }
}

/// A non-blocking socket for `peer`, an address of `target`.
fn stream(peer: &SockAddr, target: &Target) -> io::Result<OwnedFd> {
    let protocol = target.mptcp.then_some(Protocol::MPTCP);
    let socket = Socket::new(peer.domain(), Type::STREAM.nonblocking(), protocol)?;
    if peer.domain() != Domain::UNIX {
        socket.set_tcp_nodelay(true)?;
        target.sources.bind(&socket)?;
    }
    Ok(socket.into())
}

fn unless_blocked<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether it is done.
fn waiting(answer: io::Result<()>) -> io::Result<bool> {
    unless_blocked(answer).map(|done| done.is_some())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::dialect::Dialect;
    use crate::sources::Sources;
    use crate::target::Address;

    #[test]
    fn a_socket_is_of_multipath_tcp_if_that_is_asked() {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: 1 };
        let (greeting, timeout, sources) = (Vec::new(), Duration::ZERO, Sources::default());
        let dialect = Dialect::Resp;
        let target = Target { address, dialect, tls: None, greeting, timeout, sources, mptcp: false };
        let peer = &target.peers().unwrap()[0];
        let protocol = |mptcp| {
            let socket = stream(peer, &Target { mptcp, ..target.clone() });
            // A kernel may be built without it.
            socket.ok().map(|socket| SockRef::from(&socket).protocol().unwrap().unwrap())
        };
        assert_eq!(protocol(false), Some(Protocol::TCP));
        assert!(protocol(true).is_none_or(|protocol| protocol == Protocol::MPTCP));
    }
}
