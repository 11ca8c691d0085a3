//! RESP2, the protocol of Redis and Valkey: its commands, and the dialogue before and after a load.

use super::skipper::{Skipper, Stride};
use super::{Proto, Template, Test};

pub struct Resp;

impl Proto for Resp {
    type Replies = Skipper;

    fn template(&self, test: Test, value_bytes: usize) -> Template {
        let key = |prefix: &str| format!("{prefix}:000000000000").into_bytes();
        match test {
            Test::Ping => template(&[b"PING"]),
            Test::Set => template(&[b"SET", &key("key"), &vec![b'x'; value_bytes]]),
            Test::Get => template(&[b"GET", &key("key")]),
            Test::Incr => template(&[b"INCR", &key("counter")]),
        }
    }

    fn replies(&self, test: Test, value_bytes: usize) -> Skipper {
        match test {
            Test::Ping => Skipper::new(Some(b'+'), Stride::new(b"+PONG\r\n", 0)),
            Test::Set => Skipper::new(Some(b'+'), Stride::new(b"+OK\r\n", 0)),
            Test::Get => {
                let header = format!("${value_bytes}\r\n");
                Skipper::new(Some(b'$'), Stride::new(header.as_bytes(), value_bytes + 2))
            }
            Test::Incr => Skipper::new(Some(b':'), None),
        }
    }
}

/// The command of `words`: the name, then a key that ends in its digits, then the value.
fn template(words: &[&[u8]]) -> Template {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    let mut ends = Vec::new();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        ends.push(bytes.len());
        bytes.extend_from_slice(b"\r\n");
    }
    Template {
        bytes,
        key_at: ends.get(1).map(|end| end - crate::digits::WIDTH),
        value: ends.get(2).map(|end| end - words[2].len()..*end),
    }
}

/// The command of `words` as bytes.
pub fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// The number of keys in database 0, out of the reply to `INFO keyspace`; 0 when the reply does not name it.
pub fn keys_in(info: &[u8]) -> u64 {
    String::from_utf8_lossy(info)
        .lines()
        .find_map(|line| line.strip_prefix("db0:keys=")?.split(',').next()?.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_the_places_of_key_and_value() {
        let set = Resp.template(Test::Set, 3);
        assert_eq!(set.bytes, b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$3\r\nxxx\r\n");
        let key_at = set.key_at.unwrap();
        assert_eq!(&set.bytes[key_at - 4..key_at + 13], b"key:000000000000\r");
        assert_eq!(&set.bytes[set.value.unwrap()], b"xxx");
        let incr = Resp.template(Test::Incr, 3);
        assert_eq!(incr.bytes, b"*2\r\n$4\r\nINCR\r\n$20\r\ncounter:000000000000\r\n");
        assert_eq!(incr.value, None);
        assert_eq!(Resp.template(Test::Ping, 3).key_at, None);
    }

    #[test]
    fn reads_the_key_count() {
        assert_eq!(keys_in(b"$50\r\n# Keyspace\r\ndb0:keys=12,expires=0,avg_ttl=0\r\n\r\n"), 12);
        assert_eq!(keys_in(b"$14\r\n# Keyspace\r\ndb1:keys=3\r\n"), 0);
    }
}
