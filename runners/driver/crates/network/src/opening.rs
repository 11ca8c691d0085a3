//! Opening a connection without waiting for it: connect, shake hands, send the greeting and take its answers.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::channel::{Channel, Tls};
use crate::target::Target;
use machine::clock;
use machine::socket::Interest;
use protocol::expectation::Expectation;
use protocol::replies::{Replies, Tally};
use protocol::resp;
use protocol::skipper::Skipper;
use text::failure::Failure;

/// When each part of opening ended, monotonic ns. What there was nothing to do for ends with the part before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moments {
    pub began: u64,
    pub connected: u64,
    pub secured: u64,
    pub open: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The queue of a unix socket is full, and its server does not tell when it is no longer.
    Queue,
    Connect,
    Shake,
    Greet,
    Open,
}

pub struct Dial {
    channel: Channel,
    peer: SockAddr,
    stage: Stage,
    moments: Moments,
    /// Commands of the greeting that are answered, and the one under way.
    answered: usize,
    request: Vec<u8>,
    sent: usize,
    replies: Skipper,
}

impl Dial {
    /// Begin to connect to `peer`, an address of `target`, and go as far as it goes now.
    pub fn begin(target: &Target, peer: &SockAddr) -> Result<Dial, Failure> {
        let began = clock::now();
        let socket = stream(peer).map_err(|error| target.unreachable(&error))?;
        let channel = match &target.tls {
            None => Channel::Plain(socket),
            Some(tls) => Channel::Tls(Box::new(Tls::new(tls.session(target.host())?, socket))),
        };
        let mut dial = Dial {
            channel,
            peer: peer.clone(),
            stage: Stage::Queue,
            moments: Moments { began, ..Moments::default() },
            answered: 0,
            request: Vec::new(),
            sent: 0,
            replies: Skipper::any(),
        };
        dial.go_on(target)?;
        Ok(dial)
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.channel.socket()
    }

    /// Whether the server has taken the connection.
    pub fn is_connected(&self) -> bool {
        self.moments.connected > 0
    }

    /// Whether no readiness of the socket will tell when to go on.
    pub fn is_queueing(&self) -> bool {
        self.stage == Stage::Queue
    }

    /// What must be ready before it is of use to go on.
    pub fn interest(&self) -> Interest {
        let unsent = self.sent < self.request.len() || self.channel.holds_back();
        match self.stage {
            Stage::Connect | Stage::Open => Interest::RepliesAndRoom,
            _ if unsent => Interest::RepliesAndRoom,
            _ => Interest::Replies,
        }
    }

    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Go as far as it goes now. The socket must have been ready for its [`Dial::interest`].
    pub fn go_on(&mut self, target: &Target) -> Result<(), Failure> {
        while !self.is_open() {
            let ended = match self.stage {
                Stage::Queue => self.connect().map_err(|error| target.unreachable(&error))?,
                Stage::Connect => self.take_connection().map_err(|error| target.unreachable(&error))?,
                Stage::Shake => {
                    waiting(self.channel.shake()).map_err(|error| target.handshake_failed(&error))?
                }
                Stage::Greet => self.greet(target)?,
                Stage::Open => true,
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
            Stage::Queue | Stage::Connect => {
                self.moments.connected = now;
                Stage::Shake
            }
            Stage::Shake => {
                self.moments.secured = now;
                Stage::Greet
            }
            Stage::Greet | Stage::Open => {
                self.moments.open = now;
                Stage::Open
            }
        };
    }

    /// The open connection, and how long it took.
    pub fn into_channel(self) -> (Channel, Moments) {
        (self.channel, self.moments)
    }

    /// The failure when what is awaited takes longer than the timeout of `target`.
    pub fn too_slow(&self, target: &Target) -> Failure {
        let late = io::Error::from(io::ErrorKind::TimedOut);
        match (self.stage, target.greeting.get(self.answered)) {
            (Stage::Queue | Stage::Connect, _) => target.unreachable(&late),
            (Stage::Greet, Some(words)) => target.unanswered(words, &late),
            _ => target.handshake_failed(&late),
        }
    }

    /// Whether the connection is taken already.
    fn connect(&mut self) -> io::Result<bool> {
        match SockRef::from(&self.channel.socket()).connect(&self.peer) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                self.stage = Stage::Connect;
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
            let answer = self.exchange(words);
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

    /// Ask `words`; none until the answer is there.
    fn exchange(&mut self, words: &[String]) -> io::Result<Option<Tally>> {
        if self.request.is_empty() {
            self.request = resp::command(words);
            self.replies = Skipper::new(Expectation::to(words, 0));
            self.sent = 0;
        }
        while self.sent < self.request.len() || self.channel.holds_back() {
            match unless_blocked(self.channel.send(&self.request[self.sent..])) {
                Ok(Some(sent)) => self.sent += sent,
                Ok(None) => return Ok(None),
                Err(error) => return self.last_words().map(Some).ok_or(error),
            }
        }
        let (mut tally, mut chunk) = (Tally::default(), [0; 4096]);
        while tally.replies == 0 {
            match unless_blocked(self.channel.recv(&mut chunk))? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(received) => self
                    .replies
                    .skip(&chunk[..received], &mut tally)
                    .map_err(|garbage| io::Error::new(io::ErrorKind::InvalidData, garbage.0))?,
                None => return Ok(None),
            }
        }
        Ok(Some(tally))
    }

    /// What a server has said that closed the connection.
    fn last_words(&mut self) -> Option<Tally> {
        let (mut tally, mut chunk) = (Tally::default(), [0; 4096]);
        let received = self.channel.recv(&mut chunk).ok()?;
        self.replies.skip(&chunk[..received], &mut tally).ok()?;
        (tally.errors > 0).then_some(tally)
    }
}

/// A socket for `peer` that never waits.
fn stream(peer: &SockAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(peer.domain(), Type::STREAM.nonblocking(), None)?;
    if peer.domain() != Domain::UNIX {
        socket.set_tcp_nodelay(true)?;
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
