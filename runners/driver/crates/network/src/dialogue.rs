//! The blocking dialogue with a server before and after the load.

use std::io;
use std::time::{Duration, Instant};

use socket2::{SockAddr, SockRef};

use crate::channel::Channel;
use crate::opening::Opening;
use crate::target::Target;
use machine::socket;
use protocol::expectation::Expectation;
use protocol::replies::{Replies, Tally};
use protocol::reply::Reply;
use protocol::resp;
use protocol::skipper::Skipper;
use text::failure::Failure;
use text::words::printable;

/// A full queue of a unix socket is tried again this often.
const QUEUE_AGAIN: Duration = Duration::from_millis(1);

impl Target {
    /// A blocking connection on which the greeting was answered.
    pub fn connect(&self) -> Result<Channel, Failure> {
        let (channel, _) = self.open_connection()?.0.into_channel();
        self.set_blocking(&channel).map_err(|error| self.unreachable(&error))?;
        Ok(channel)
    }

    /// An open non-blocking connection, and its peer: the first address of the host that accepts.
    pub fn open_connection(&self) -> Result<(Opening, SockAddr), Failure> {
        let mut refused = self.unreachable(&io::ErrorKind::AddrNotAvailable.into());
        for peer in self.peers().map_err(|error| self.unreachable(&error))? {
            let mut opening = match Opening::begin(self, &peer) {
                Ok(opening) => opening,
                Err(failure) => {
                    refused = failure;
                    continue;
                }
            };
            match self.open(&mut opening) {
                Ok(()) => return Ok((opening, peer)),
                Err(failure) if opening.is_connected() => return Err(failure),
                Err(failure) => refused = failure,
            }
        }
        Err(refused)
    }

    /// Make the socket of `channel` block, up to the timeout.
    fn set_blocking(&self, channel: &Channel) -> io::Result<()> {
        let socket = channel.socket();
        let socket = SockRef::from(&socket);
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(self.timeout))?;
        socket.set_write_timeout(Some(self.timeout))
    }

    /// Wait until `opening` is open, as long as the timeout allows.
    fn open(&self, opening: &mut Opening) -> Result<(), Failure> {
        let deadline = Instant::now() + self.timeout;
        while !opening.is_open() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(opening.timeout_failure(self));
            }
            if opening.is_queueing() {
                std::thread::sleep(QUEUE_AGAIN.min(left));
            } else if !socket::await_ready(opening.socket(), opening.interest(), left)
                .map_err(|error| self.unreachable(&error))?
            {
                continue;
            }
            opening.advance(self)?;
        }
        Ok(())
    }

    /// Connect, send `words`, and disconnect: the reply.
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

    /// Send a request that is ready to be sent over a blocking channel, and wait for its whole reply.
    pub fn ask_raw(&self, channel: &mut Channel, request: &[u8]) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + self.timeout;
        send_all(channel, request)?;
        receive_reply(channel, deadline, Skipper::any())
    }

    /// Send one command and wait for its whole reply, as raw bytes.
    fn ask<W: AsRef<[u8]>>(&self, channel: &mut Channel, words: &[W]) -> Result<Vec<u8>, Failure> {
        let deadline = Instant::now() + self.timeout;
        send_all(channel, &resp::command(words))
            .and_then(|()| receive_reply(channel, deadline, Skipper::new(Expectation::to(words, 0))))
            .map_err(|error| self.unanswered(words, &error))
    }
}

/// Send all of `bytes` over a blocking channel.
pub fn send_all(channel: &mut Channel, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() || channel.holds_back() {
        bytes = &bytes[channel.send(bytes)?..];
    }
    Ok(())
}

fn receive_reply(channel: &mut Channel, deadline: Instant, mut skipper: Skipper) -> io::Result<Vec<u8>> {
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
    printable(reply[..reply.len().min(80)].trim_ascii_end())
}
