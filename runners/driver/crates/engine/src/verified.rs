//! Verification of a share of the replies: a value that was read must be the one that belongs to its key.
//!
//! Requests are a function of seed and connection. So the checker generates the requests of its connection again,
//! one per reply, and knows which key was requested without a message from the sending side.

use crate::batch::Replay;
use crate::job::{Job, Verify};
use generator::rng::Rng;
use protocol::replies::{Protocol, ProtocolError, Replies, Tally};
use protocol::script::Script;

/// The samples of connection i have stream number 2^63 + i, which no connection has.
const SAMPLES: u64 = 1 << 63;

/// A protocol with verified replies.
pub struct Verified<'a, P> {
    pub proto: P,
    pub job: &'a Job,
    pub verify: &'a Verify,
}

impl<'a, P: Protocol> Protocol for Verified<'a, P> {
    type Replies = Checker<'a, P::Replies>;
    const NAME: &'static str = P::NAME;
    const ERROR_MARK: &'static str = P::ERROR_MARK;

    fn replies(&self, script: &Script, index: usize) -> Self::Replies {
        Checker {
            replies: self.proto.replies(script, index),
            replay: self.job.replay(index),
            samples: Rng::stream(self.job.seed, SAMPLES + index as u64),
            verify: self.verify,
            reply: Vec::new(),
        }
    }
}

pub struct Checker<'a, R> {
    replies: R,
    replay: Replay,
    samples: Rng,
    verify: &'a Verify,
    /// The current reply.
    reply: Vec<u8>,
}

impl<R: Replies> Checker<'_, R> {
    /// Compare the reply, which is whole, if it is one of the sample.
    fn check(&mut self) -> Result<(), ProtocolError> {
        let (command, number) = self.replay.next_request();
        if !self.verify.reading[command] || self.samples.unit() >= self.verify.share {
            return Ok(());
        }
        let value = self.replay.value_of(number);
        match holds(&self.reply, value) {
            true => Ok(()),
            false => Err(ProtocolError(format!(
                "key number {number} does not hold its value of {} bytes but {}",
                value.len(),
                self.reply[..self.reply.len().min(80)].escape_ascii()
            ))),
        }
    }
}

impl<R: Replies> Replies for Checker<'_, R> {
    fn restart(&mut self, place: usize) {
        self.replies.restart(place);
        self.reply.clear();
    }

    fn skip(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), ProtocolError> {
        let mut at = 0;
        while at < bytes.len() {
            let before = (tally.replies, tally.errors);
            let (taken, whole) = self.replies.skip_one(&bytes[at..], tally)?;
            self.reply.extend_from_slice(&bytes[at..at + taken]);
            at += taken;
            if !whole {
                continue;
            }
            match (tally.replies > before.0, tally.errors > before.1) {
                (true, false) => self.check()?,
                (true, true) => _ = self.replay.next_request(),
                // A push frame answers nothing.
                (false, _) => {}
            }
            self.reply.clear();
        }
        Ok(())
    }

    fn skip_one(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(usize, bool), ProtocolError> {
        self.replies.skip_one(bytes, tally)
    }
}

/// Whether a reply holds exactly `value`, or nothing. A value stands behind the line with its length; what may stand
/// behind it is the `END` of memcached.
fn holds(reply: &[u8], value: &[u8]) -> bool {
    let Some(line) = memchr::memchr(b'\n', reply) else { return false };
    let body = &reply[line + 1..];
    let behind = body.strip_prefix(value).and_then(|rest| rest.strip_prefix(b"\r\n"));
    body.is_empty() || behind == Some(b"") || behind == Some(b"END\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_holds_its_value_or_nothing() {
        for reply in ["$-1\r\n", "_\r\n", "END\r\n", "EN\r\n", "$2\r\nab\r\n", "VALUE k 0 2\r\nab\r\nEND\r\n"]
        {
            assert!(holds(reply.as_bytes(), b"ab"), "{reply}");
        }
        for reply in ["$2\r\nac\r\n", "$1\r\na\r\n", "$3\r\nabc\r\n", "VA 2\r\nbb\r\n", "$2\r\nab\r\n+OK\r\n"]
        {
            assert!(!holds(reply.as_bytes(), b"ab"), "{reply}");
        }
        assert!(holds(b"$0\r\n\r\n", b""));
    }
}
