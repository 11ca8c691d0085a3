//! The reply that a command of RESP should get.

use crate::stride::Stride;

/// What a reply may be, besides an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReplyType {
    /// Any type, which may differ from reply to reply: a script in the server decides.
    #[default]
    Any,
    /// Of the type of the first reply to the command on any connection.
    First,
    /// Begins with this byte.
    Byte(u8),
    /// This line, type byte included.
    Line(&'static str),
}

/// The reply that a command should get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expectation {
    /// The name of the command in messages.
    pub command: String,
    pub reply: ReplyType,
    /// Whether a null is an answer. It always is where the type is not known.
    pub nullable: bool,
    /// Its usual bytes: runs of such replies are skipped at once.
    pub usual: Option<Stride>,
    pub silence: Option<Silence>,
}

/// What a command does to the replies from its own on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// There are none.
    Begins,
    /// They come again.
    Ends,
}

/// Commands by what answers them, whatever their arguments are.
const KNOWN: [(ReplyType, bool, &str); 6] = [
    (
        ReplyType::Line("+OK"),
        false,
        "AUTH DISCARD FLUSHALL FLUSHDB HMSET LSET LTRIM MSET MULTI PSETEX RENAME SELECT SETEX UNWATCH WATCH",
    ),
    (
        ReplyType::Byte(b':'),
        false,
        "APPEND BITCOUNT DBSIZE DECR DECRBY DEL EXISTS EXPIRE HDEL HEXISTS HINCRBY HLEN HSET HSETNX HSTRLEN INCR \
         INCRBY LINSERT LLEN LPUSH LPUSHX LREM MSETNX PERSIST PEXPIRE PFADD PFCOUNT PTTL PUBLISH RPUSH RPUSHX \
         SADD SCARD SETBIT GETBIT SETNX SISMEMBER SMOVE SPUBLISH SREM STRLEN TOUCH TTL UNLINK XDEL XLEN XTRIM ZCARD \
         ZCOUNT ZREM",
    ),
    (ReplyType::Byte(b'$'), true, "GET GETDEL GETEX GETSET HGET LINDEX LMOVE RPOPLPUSH XADD"),
    (ReplyType::Byte(b'$'), false, "ECHO GETRANGE HINCRBYFLOAT INCRBYFLOAT"),
    (ReplyType::Byte(b'*'), false, "HMGET LRANGE MGET SCAN ZPOPMAX ZPOPMIN ZRANGE"),
    (ReplyType::Byte(b'*'), true, "EXEC"),
];

/// Commands whose reply a script in the server makes.
const PROGRAMS: [&str; 6] = ["EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO"];
/// Conditions of SET: without one it always says OK.
const CONDITIONS: [&str; 6] = ["NX", "XX", "IFEQ", "IFNE", "IFDEQ", "IFDNE"];

impl Expectation {
    pub fn of(command: String, reply: ReplyType, nullable: bool) -> Expectation {
        let usual = match reply {
            ReplyType::Line(line) => Stride::new(format!("{line}\r\n").as_bytes(), 0),
            _ => None,
        };
        Expectation { command, reply, nullable, usual, silence: None }
    }

    /// Of `words`. The value of a bulk is usually `value_bytes` long.
    pub fn to<W: AsRef<[u8]>>(words: &[W], value_bytes: usize) -> Expectation {
        let words: Vec<String> =
            words.iter().take(16).map(|word| String::from_utf8_lossy(word.as_ref()).to_uppercase()).collect();
        let command = words.first().cloned().unwrap_or_default();
        let (reply, nullable) = reply_to(&words);
        let expected = Expectation::of(command, reply, nullable);
        match expected.command.as_str() {
            "GET" | "LPOP" | "RPOP" if reply == ReplyType::Byte(b'$') => expected.usually("$", value_bytes),
            "CLIENT" => Expectation { silence: silence(&words), ..expected },
            "SADD" | "ZADD" if reply == ReplyType::Byte(b':') => {
                Expectation { usual: Stride::new(b":0\r\n", 0), ..expected }
            }
            _ => expected,
        }
    }

    fn usually(self, kind: &str, bytes: usize) -> Expectation {
        Expectation { usual: Stride::new(format!("{kind}{bytes}\r\n").as_bytes(), bytes + 2), ..self }
    }

    /// The same, sent between MULTI and EXEC.
    pub fn queued(&self) -> Expectation {
        Expectation::of(self.command.clone(), ReplyType::Line("+QUEUED"), false)
    }

    /// The expected reply, in the words of a message.
    pub fn description(&self, first: u8) -> String {
        match self.reply {
            ReplyType::Any => "a reply".to_owned(),
            ReplyType::First => format!("a '{}' reply, as the first one was,", char::from(first)),
            ReplyType::Byte(byte) => format!("a '{}' reply", char::from(byte)),
            ReplyType::Line(line) => format!("'{line}'"),
        }
    }
}

/// The type of the reply to `words`, which are in capitals, and whether a null is one.
fn reply_to(words: &[String]) -> (ReplyType, bool) {
    let Some(name) = words.first().map(String::as_str) else { return (ReplyType::Any, true) };
    let says = |names: &[&str]| words.iter().skip(2).any(|word| names.contains(&word.as_str()));
    match (name, words.len()) {
        ("PING", 1) => (ReplyType::Line("+PONG"), false),
        ("PING", _) => (ReplyType::Byte(b'$'), false),
        ("SET", 4..) if says(&["GET"]) => (ReplyType::Byte(b'$'), true),
        ("SET", 4..) => (ReplyType::Line("+OK"), says(&CONDITIONS)),
        ("SET", _) => (ReplyType::Line("+OK"), false),
        ("CLIENT", 3) if silence(words) == Some(Silence::Ends) => (ReplyType::Line("+OK"), false),
        // With a count these commands answer with lists.
        ("LPOP" | "RPOP" | "SPOP", ..=2) => (ReplyType::Byte(b'$'), true),
        ("ZADD", _) if !says(&["INCR"]) => (ReplyType::Byte(b':'), false),
        (program, _) if PROGRAMS.contains(&program) => (ReplyType::Any, true),
        _ => {
            let known =
                KNOWN.iter().find(|(_, _, names)| names.split_whitespace().any(|known| known == name));
            known.map_or((ReplyType::First, true), |(reply, nullable, _)| (*reply, *nullable))
        }
    }
}

/// What `words`, which are in capitals, do to replies.
fn silence(words: &[String]) -> Option<Silence> {
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["CLIENT", "REPLY", "OFF"] => Some(Silence::Begins),
        ["CLIENT", "REPLY", "ON"] => Some(Silence::Ends),
        _ => None,
    }
}
