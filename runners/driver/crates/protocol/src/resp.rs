//! RESP, the protocol of Redis and Valkey: how a command is written, and what usually answers it.

use std::sync::Arc;

use crate::command::Command;
use crate::expectation::Expectation;
use crate::expected::ExpectedReplies;
use crate::replies::Protocol;
use crate::script::Script;
use crate::skipper::Skipper;
use crate::template::{Fill, Part, Placeholders};

/// The protocol with the replies to the commands of one script.
pub struct Resp {
    expected: Arc<ExpectedReplies>,
}

impl Resp {
    pub fn of(script: &Script) -> Resp {
        Resp { expected: Arc::new(ExpectedReplies::of(script)) }
    }
}

impl Protocol for Resp {
    type Replies = Skipper;
    const NAME: &'static str = "RESP";
    const ERROR_MARK: &'static str = "-";

    fn replies(&self, script: &Script, index: usize) -> Skipper {
        Skipper::following(self.expected.clone(), script.entry(index))
    }
}

/// The command of `words`, which may hold placeholders.
pub fn template<W: AsRef<[u8]>>(words: &[W], places: &Placeholders, reply: Expectation) -> Command {
    let mut parts = vec![Part::Literal(format!("*{}\r\n", words.len()).into_bytes())];
    for word in words {
        let cut = places.cut(word.as_ref());
        let width: usize = cut.iter().map(Part::width).sum();
        match cut.iter().filter_map(Part::varying).count() {
            0 => parts.push(Part::Literal(format!("${width}\r\n").into_bytes())),
            varying => {
                let length = Part::Filled(Fill::Length { plus: width, varying });
                parts.extend([Part::Literal(b"$".to_vec()), length, Part::Literal(b"\r\n".to_vec())]);
            }
        }
        parts.extend(cut);
        parts.push(Part::Literal(b"\r\n".to_vec()));
    }
    Command::new(&parts, reply)
}

/// The command of `words` as bytes.
pub fn command<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.as_ref().len()).as_bytes());
        bytes.extend_from_slice(word.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The number of keys in `database`, out of the reply to `INFO keyspace`; 0 when the reply does not name it.
pub fn keys_in(info: &[u8], database: u32) -> u64 {
    let begin = format!("db{database}:keys=");
    String::from_utf8_lossy(info)
        .lines()
        .find_map(|line| line.strip_prefix(&begin)?.split(',').next()?.trim().parse().ok())
        .unwrap_or(0)
}

/// The requests in `bytes`, which are arrays of bulks, as ranges; those up to the first that is none.
pub fn requests(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut ranges, mut at) = (Vec::new(), 0);
    while let Some(end) = request_end(bytes, at) {
        ranges.push(at..end);
        at = end;
    }
    ranges
}

/// Where the request at `at` ends.
fn request_end(bytes: &[u8], at: usize) -> Option<usize> {
    let line = |at: usize, kind: u8| {
        let rest = bytes.get(at..)?.strip_prefix(&[kind])?;
        let end = memchr::memchr(b'\r', rest)?;
        let number: usize = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
        Some((number, at + end + 3))
    };
    let (words, mut at) = line(at, b'*')?;
    for _ in 0..words {
        let (length, begin) = line(at, b'$')?;
        at = begin.checked_add(length)?.checked_add(2)?;
    }
    (at <= bytes.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Step;
    use crate::template::Value;

    #[test]
    fn lengths_are_those_of_what_is_filled_in() {
        let places = Placeholders { numbers: true, value: Value::Drawn(3), ..Placeholders::default() };
        let set = template(&["SET", "key:__rand_int__", "__data__"], &places, Expectation::default());
        assert_eq!(set.fixed.bytes, b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$3\r\n000\r\n");
        assert_eq!(set.steps, [Step::Number { at: 22 }, Step::Value { at: 40, bytes: 3 }]);
        assert_eq!(template(&["PING"], &places, Expectation::default()).fixed.bytes, command(&["PING"]));
    }

    #[test]
    fn reads_the_key_count() {
        assert_eq!(keys_in(b"$50\r\n# Keyspace\r\ndb0:keys=12,expires=0,avg_ttl=0\r\n\r\n", 0), 12);
        let other = b"$14\r\n# Keyspace\r\ndb1:keys=3\r\n";
        assert_eq!((keys_in(other, 0), keys_in(other, 1)), (0, 3));
    }
}
