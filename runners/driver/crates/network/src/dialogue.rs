//! The blocking dialogue with a server before and after the load.

use std::io;
use std::time::{Duration, Instant};

use socket2::{SockAddr, SockRef};

use crate::channel::Channel;
use crate::opening::Dial;
use crate::target::Target;
use machine::socket;
use protocol::expectation::Expectation;
use protocol::replies::{Replies, Tally};
use protocol::reply::Reply;
use protocol::resp;
use protocol::skipper::Skipper;
use text::failure::Failure;

/// A full queue of a unix socket is tried again this often.
const QUEUE_AGAIN: Duration = Duration::from_millis(1);

impl Target {
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
            } else if !socket::await_ready(dial.socket(), dial.interest(), left)
                .map_err(|error| self.unreachable(&error))?
            {
                continue;
            }
            dial.go_on(self)?;
        }
        Ok(())
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
