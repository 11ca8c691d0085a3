//! The replies that commands of RESP should get: their type, their text where it is always the same, and their order.

use std::sync::atomic::{AtomicU8, Ordering};

use super::Garbage;
use super::stride::Stride;
use crate::template::Script;

/// Of a reply that is refused, so many bytes are shown.
const SHOWN: usize = 40;

/// What a reply may be, besides an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Type {
    /// Of every type, which may differ from reply to reply: a program decides.
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
    pub reply: Type,
    /// Whether a null is an answer. It always is where the type is not known.
    pub nullable: bool,
    /// Its usual bytes, over which runs of replies are jumped.
    pub usual: Option<Stride>,
}

/// Commands by what answers them, whatever their arguments are.
const KNOWN: [(Type, bool, &str); 6] = [
    (
        Type::Line("+OK"),
        false,
        "AUTH DISCARD FLUSHALL FLUSHDB HMSET LSET LTRIM MSET MULTI PSETEX RENAME SELECT SETEX UNWATCH WATCH",
    ),
    (
        Type::Byte(b':'),
        false,
        "APPEND BITCOUNT DBSIZE DECR DECRBY DEL EXISTS EXPIRE HDEL HEXISTS HINCRBY HLEN HSET HSETNX HSTRLEN INCR \
         INCRBY LINSERT LLEN LPUSH LPUSHX LREM MSETNX PERSIST PEXPIRE PFADD PFCOUNT PTTL PUBLISH RPUSH RPUSHX \
         SADD SCARD SETBIT GETBIT SETNX SISMEMBER SMOVE SPUBLISH SREM STRLEN TOUCH TTL UNLINK XDEL XLEN XTRIM ZCARD \
         ZCOUNT ZREM",
    ),
    (Type::Byte(b'$'), true, "GET GETDEL GETEX GETSET HGET LINDEX LMOVE RPOPLPUSH XADD"),
    (Type::Byte(b'$'), false, "ECHO GETRANGE HINCRBYFLOAT INCRBYFLOAT"),
    (Type::Byte(b'*'), false, "HMGET LRANGE MGET SCAN ZPOPMAX ZPOPMIN ZRANGE"),
    (Type::Byte(b'*'), true, "EXEC"),
];
/// Commands whose reply is made by a program.
const PROGRAMS: [&str; 6] = ["EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO"];
/// Conditions of SET: without one it always says OK.
const CONDITIONS: [&str; 6] = ["NX", "XX", "IFEQ", "IFNE", "IFDEQ", "IFDNE"];

impl Expectation {
    fn of(command: String, reply: Type, nullable: bool) -> Expectation {
        let usual = match reply {
            Type::Line(line) => Stride::new(format!("{line}\r\n").as_bytes(), 0),
            _ => None,
        };
        Expectation { command, reply, nullable, usual }
    }

    /// Of `words`. The value of a bulk is usually `value_bytes` long.
    pub fn to<W: AsRef<[u8]>>(words: &[W], value_bytes: usize) -> Expectation {
        let words: Vec<String> =
            words.iter().take(16).map(|word| String::from_utf8_lossy(word.as_ref()).to_uppercase()).collect();
        let command = words.first().cloned().unwrap_or_default();
        let (reply, nullable) = reply_to(&words);
        let expected = Expectation::of(command, reply, nullable);
        match expected.command.as_str() {
            "GET" | "LPOP" | "RPOP" if reply == Type::Byte(b'$') => expected.usually("$", value_bytes),
            "SADD" | "ZADD" if reply == Type::Byte(b':') => {
                Expectation { usual: Stride::new(b":0\r\n", 0), ..expected }
            }
            _ => expected,
        }
    }

    fn usually(self, kind: &str, bytes: usize) -> Expectation {
        Expectation { usual: Stride::new(format!("{kind}{bytes}\r\n").as_bytes(), bytes + 2), ..self }
    }

    /// The same, sent between MULTI and EXEC.
    fn queued(&self) -> Expectation {
        Expectation::of(self.command.clone(), Type::Line("+QUEUED"), false)
    }

    /// What a message says should have come.
    fn wanted(&self, first: u8) -> String {
        match self.reply {
            Type::Any => "a reply".to_owned(),
            Type::First => format!("a '{}' reply, as the first one was,", char::from(first)),
            Type::Byte(byte) => format!("a '{}' reply", char::from(byte)),
            Type::Line(line) => format!("'{line}'"),
        }
    }
}

/// The type of the reply to `words`, which are in capitals, and whether a null is one.
fn reply_to(words: &[String]) -> (Type, bool) {
    let Some(name) = words.first().map(String::as_str) else { return (Type::Any, true) };
    let says = |names: &[&str]| words.iter().skip(2).any(|word| names.contains(&word.as_str()));
    match (name, words.len()) {
        ("PING", 1) => (Type::Line("+PONG"), false),
        ("PING", _) => (Type::Byte(b'$'), false),
        ("SET", 4..) if says(&["GET"]) => (Type::Byte(b'$'), true),
        ("SET", 4..) => (Type::Line("+OK"), says(&CONDITIONS)),
        ("SET", _) => (Type::Line("+OK"), false),
        // With a count these answer with lists.
        ("LPOP" | "RPOP" | "SPOP", ..=2) => (Type::Byte(b'$'), true),
        ("ZADD", _) if !says(&["INCR"]) => (Type::Byte(b':'), false),
        (program, _) if PROGRAMS.contains(&program) => (Type::Any, true),
        _ => {
            let known =
                KNOWN.iter().find(|(_, _, names)| names.split_whitespace().any(|known| known == name));
            known.map_or((Type::First, true), |(reply, nullable, _)| (*reply, *nullable))
        }
    }
}

/// The replies to the commands of a script, in their order.
#[derive(Debug)]
pub struct Expected {
    commands: Box<[Expectation]>,
    /// The type of the first reply to each command; 0 until there was one.
    first: Box<[AtomicU8]>,
    order: Box<[u16]>,
}

impl Expected {
    /// Always the same.
    pub fn one(expectation: Expectation) -> Expected {
        Expected::new(vec![expectation], vec![0])
    }

    pub fn new(commands: Vec<Expectation>, order: Vec<u16>) -> Expected {
        let first = commands.iter().map(|_| AtomicU8::new(0)).collect();
        Expected { commands: commands.into(), first, order: order.into() }
    }

    pub fn of(script: &Script) -> Expected {
        match script.commands.as_slice() {
            [command] => Expected::one(command.reply.clone()),
            _ => Expected::new(in_transactions(script), script.order.clone()),
        }
    }

    /// Whether there is but one.
    #[inline(always)]
    pub fn is_one(&self) -> bool {
        self.commands.len() == 1
    }

    #[inline(always)]
    pub fn at(&self, place: usize) -> &Expectation {
        &self.commands[usize::from(self.order[place])]
    }

    #[inline(always)]
    pub fn only(&self) -> &Expectation {
        &self.commands[0]
    }

    /// Places in the order.
    #[inline]
    pub fn length(&self) -> usize {
        self.order.len()
    }

    /// Whether a reply at `place` that begins with `byte` is of the right type.
    pub fn suits(&self, place: usize, byte: u8) -> bool {
        match self.at(place).reply {
            Type::Any => true,
            Type::First => [0, byte].contains(&self.first(place).load(Ordering::Relaxed)),
            Type::Byte(wanted) => wanted == byte,
            Type::Line(line) => line.as_bytes()[0] == byte,
        }
    }

    /// A reply at `place` that is no error and no null begins with `byte`: whether those before did, too.
    pub fn learn(&self, place: usize, byte: u8) -> bool {
        if self.at(place).reply != Type::First {
            return true;
        }
        let learned = self.first(place).compare_exchange(0, byte, Ordering::Relaxed, Ordering::Relaxed);
        learned.is_ok() || learned == Err(byte)
    }

    fn first(&self, place: usize) -> &AtomicU8 {
        &self.first[usize::from(self.order[place])]
    }

    /// The failure of a reply at `place` that begins with `bytes`.
    #[cold]
    pub fn refused(&self, place: usize, bytes: &[u8]) -> Garbage {
        let expected = self.at(place);
        let to =
            if expected.command.is_empty() { String::new() } else { format!(" {} with", expected.command) };
        let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let shown = line[..line.len().min(SHOWN)].escape_ascii();
        let wanted = expected.wanted(self.first(place).load(Ordering::Relaxed));
        Garbage(format!("the server answered{to} '{shown}' where {wanted} should stand"))
    }
}

/// What the commands of `script` should get: between MULTI and EXEC they are queued.
///
/// A shuffled script has no transactions that a server would take: whatever it says about them is an error sooner or later.
fn in_transactions(script: &Script) -> Vec<Expectation> {
    let is = |reply: &Expectation, names: &[&str]| names.contains(&reply.command.as_str());
    let replies = script.commands.iter().map(|command| &command.reply);
    if script.shuffled && replies.clone().any(|reply| is(reply, &["MULTI"])) {
        return replies
            .map(|reply| Expectation {
                nullable: true,
                ..Expectation::of(reply.command.clone(), Type::Any, true)
            })
            .collect();
    }
    let mut open = false;
    let mut expected = Vec::new();
    for reply in replies {
        let ends = is(reply, &["EXEC", "DISCARD"]);
        let is_queued = open && !ends && !is(reply, &["MULTI", "WATCH"]);
        expected.push(if is_queued { reply.queued() } else { reply.clone() });
        open = (open && !ends) || is(reply, &["MULTI"]);
    }
    expected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::resp;
    use crate::template::Placeholders;

    fn expectation(text: &str) -> Expectation {
        Expectation::to(&text.split(' ').collect::<Vec<_>>(), 3)
    }

    #[test]
    fn arguments_change_the_reply() {
        for (text, reply, nullable) in [
            ("get k", Type::Byte(b'$'), true),
            ("SET k v", Type::Line("+OK"), false),
            ("SET k v EX 10", Type::Line("+OK"), false),
            ("set k v nx", Type::Line("+OK"), true),
            ("SET k v XX GET", Type::Byte(b'$'), true),
            ("PING", Type::Line("+PONG"), false),
            ("PING a", Type::Byte(b'$'), false),
            ("LPOP l", Type::Byte(b'$'), true),
            ("LPOP l 2", Type::First, true),
            ("ZADD z NX 1 a", Type::Byte(b':'), false),
            ("ZADD z INCR 1 a", Type::First, true),
            ("EVAL return 0", Type::Any, true),
            ("JSON.GET k", Type::First, true),
        ] {
            let expected = expectation(text);
            assert_eq!((expected.reply, expected.nullable), (reply, nullable), "{text}");
        }
    }

    #[test]
    fn commands_of_a_transaction_are_queued() {
        let command = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            (1, resp::template(&words, &Placeholders::default(), Expectation::to(&words, 3)))
        };
        let texts = ["GET a", "MULTI", "GET a", "FOO", "EXEC", "GET a"];
        let expected = Expected::of(&Script::sequence(texts.into_iter().map(command).collect()));
        let types: Vec<Type> = (0..6).map(|place| expected.at(place).reply).collect();
        let (bulk, queued) = (Type::Byte(b'$'), Type::Line("+QUEUED"));
        assert_eq!(types, [bulk, Type::Line("+OK"), queued, queued, Type::Byte(b'*'), bulk]);
    }

    #[test]
    fn the_first_type_is_learned_once() {
        let expected = Expected::one(expectation("FOO"));
        assert!(expected.suits(0, b':') && expected.suits(0, b'*'));
        assert!(expected.learn(0, b':') && expected.learn(0, b':') && !expected.learn(0, b'*'));
        assert!(expected.suits(0, b':') && !expected.suits(0, b'*'));
    }
}
