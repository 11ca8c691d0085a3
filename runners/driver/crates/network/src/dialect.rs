//! The protocols in which a session with a server begins.

use protocol::expectation::Expectation;
use protocol::memcached::{self, Answer, Kind, Memcached};
use protocol::replies::{Protocol, ProtocolError, Replies, Tally};
use protocol::resp::{self, Resp};
use protocol::skipper;

/// The protocol of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    Resp,
    /// The text protocol of memcached, in which a session can begin with a login and nothing else.
    Memcached,
}

impl Dialect {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Resp => "RESP",
            Dialect::Memcached => Memcached::NAME,
        }
    }

    /// What stands before the text of an error.
    pub fn error_mark(self) -> &'static str {
        match self {
            Dialect::Resp => Resp::ERROR_MARK,
            Dialect::Memcached => Memcached::ERROR_MARK,
        }
    }

    /// The bytes of the command `words`.
    pub fn request(self, words: &[String]) -> Vec<u8> {
        match self {
            Dialect::Resp => resp::command(words),
            // "Authentication" in memcached's protocol.txt: a `set` of any key, with user and password as its value.
            Dialect::Memcached => {
                let login = words[1..].join(" ");
                format!("set auth 0 0 {}\r\n{login}\r\n", login.len()).into_bytes()
            }
        }
    }

    /// The parser of the reply to the command `words`.
    pub fn answers(self, words: &[String]) -> Answers {
        match self {
            Dialect::Resp => Answers::Resp(skipper::Skipper::new(Expectation::to(words, 0))),
            Dialect::Memcached => {
                let stored = Answer { test: "the login", kind: Kind::Stored, keys: 0, usual: None };
                Answers::Memcached(Memcached::of_one(stored).skipper(0))
            }
        }
    }
}

/// What takes the answers to the commands that open a session.
pub enum Answers {
    Resp(skipper::Skipper),
    Memcached(memcached::Skipper),
}

impl Answers {
    /// See [`Replies::skip`].
    pub fn skip(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), ProtocolError> {
        match self {
            Answers::Resp(skipper) => skipper.skip(bytes, tally),
            Answers::Memcached(skipper) => skipper.skip(bytes, tally),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_that_of_the_protocol() {
        let words = ["AUTH", "bench", "a word"].map(str::to_owned);
        assert_eq!(Dialect::Memcached.request(&words), b"set auth 0 0 12\r\nbench a word\r\n");
        assert_eq!(Dialect::Resp.request(&words)[..14], *b"*3\r\n$4\r\nAUTH\r\n");
        let mut tally = Tally::default();
        Dialect::Memcached.answers(&words).skip(b"STORED\r\n", &mut tally).unwrap();
        assert_eq!((tally.replies, tally.errors), (1, 0));
        assert!(Dialect::Memcached.answers(&words).skip(b"+OK\r\n", &mut tally).is_err());
    }
}
