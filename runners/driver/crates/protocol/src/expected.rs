//! The replies that commands of RESP should get: their type, their text where it is always the same, and their order.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::command_order::CommandOrder;
use crate::expectation::{Expectation, ReplyType, Silence};
use crate::replies::{ProtocolError, Tally};
use crate::script::Script;
use crate::shapes::Shapes;

/// Of a reply that is refused, so many bytes are shown.
const PREVIEW_BYTES: usize = 40;

/// The replies to the commands of a script, in their order.
#[derive(Debug)]
pub struct ExpectedReplies {
    commands: Box<[Expectation]>,
    /// Of each command.
    shapes: Box<[Shapes]>,
    /// The type of the first reply to each command; 0 until there was one.
    first: Box<[AtomicU8]>,
    /// Of the commands that are answered.
    order: CommandOrder,
    /// At each place of the order: so many commands before it get no reply. None: every command gets one.
    silent: Option<Box<[u64]>>,
}

impl ExpectedReplies {
    /// Always the same.
    pub fn one(expectation: Expectation) -> ExpectedReplies {
        ExpectedReplies::new(vec![expectation], CommandOrder::new(&[0]))
    }

    pub fn new(commands: Vec<Expectation>, order: CommandOrder) -> ExpectedReplies {
        let first = commands.iter().map(|_| AtomicU8::new(0)).collect();
        let shapes = commands.iter().map(Shapes::of).collect();
        let (order, silent) = answered(&commands, order);
        ExpectedReplies { commands: commands.into(), shapes, first, order, silent }
    }

    pub fn of(script: &Script) -> ExpectedReplies {
        match script.commands.as_slice() {
            [command] => ExpectedReplies::one(command.reply.clone()),
            _ => ExpectedReplies::new(in_transactions(script), script.order.clone()),
        }
    }

    /// The shapes of the replies when there is but one command.
    #[inline(always)]
    pub fn only(&self) -> Option<&Shapes> {
        match &*self.shapes {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The shapes of the reply at `place`.
    #[inline(always)]
    pub fn shapes(&self, place: usize) -> &Shapes {
        &self.shapes[self.order.command(place)]
    }

    #[inline(always)]
    pub fn at(&self, place: usize) -> &Expectation {
        &self.commands[self.order.command(place)]
    }

    /// The order of the commands that are answered.
    #[inline(always)]
    pub fn order(&self) -> &CommandOrder {
        &self.order
    }

    /// Count the usual replies, one to each command from `place` on, that `bytes` begin with: the place after them, and
    /// their length in bytes. None are counted where commands without a reply stand between.
    #[inline(always)]
    pub fn skip_usual(&self, mut place: usize, bytes: &[u8], tally: &mut Tally) -> (usize, usize) {
        if self.silent.is_some() {
            return (place, 0);
        }
        let (mut rest, mut count) = (bytes, 0);
        while let Some(usual) = &self.shapes(place).usual
            && usual.fits(rest)
        {
            rest = &rest[usual.length..];
            count += 1;
            place = self.order.after(place, 1);
        }
        tally.replies += count;
        (place, bytes.len() - rest.len())
    }

    /// How many commands without a reply were sent before those at `replies` places from `place` on.
    #[inline(always)]
    pub fn silent_before(&self, place: usize, replies: usize) -> u64 {
        match &self.silent {
            None => 0,
            Some(silent) => silent[place..place + replies].iter().sum(),
        }
    }

    /// Whether a reply at `place` that begins with `byte` is of the right type.
    pub fn suits(&self, place: usize, byte: u8) -> bool {
        match self.at(place).reply {
            ReplyType::Any => true,
            ReplyType::First => [0, byte].contains(&self.first(place).load(Ordering::Relaxed)),
            ReplyType::Byte(kind) => kind == byte,
            ReplyType::Line(line) => line.as_bytes()[0] == byte,
        }
    }

    /// A reply at `place` that is no error and no null begins with `byte`: whether those before did, too.
    pub fn learn(&self, place: usize, byte: u8) -> bool {
        if self.at(place).reply != ReplyType::First {
            return true;
        }
        let learned = self.first(place).compare_exchange(0, byte, Ordering::Relaxed, Ordering::Relaxed);
        learned.is_ok() || learned == Err(byte)
    }

    fn first(&self, place: usize) -> &AtomicU8 {
        &self.first[self.order.command(place)]
    }

    /// The failure of a reply at `place` that begins with `bytes`.
    #[cold]
    pub fn refused(&self, place: usize, bytes: &[u8]) -> ProtocolError {
        let expected = self.at(place);
        let to =
            if expected.command.is_empty() { String::new() } else { format!(" {} with", expected.command) };
        let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let preview = line[..line.len().min(PREVIEW_BYTES)].escape_ascii();
        let description = expected.description(self.first(place).load(Ordering::Relaxed));
        ProtocolError(format!("the server answered{to} '{preview}' where {description} should stand"))
    }
}

/// The commands of `order` that are answered, and how many before each are not: those from CLIENT REPLY OFF to the CLIENT
/// REPLY ON that follows.
fn answered(commands: &[Expectation], order: CommandOrder) -> (CommandOrder, Option<Box<[u64]>>) {
    let mut is_off = false;
    let silent: Vec<bool> = commands
        .iter()
        .map(|command| {
            is_off = command.silence.map_or(is_off, |silence| silence == Silence::Begins);
            is_off
        })
        .collect();
    if is_off || !silent.contains(&true) {
        return (order, None);
    }
    let (mut answered, mut before, mut count) = (Vec::new(), Vec::new(), 0);
    for command in order.commands() {
        match silent[usize::from(command)] {
            true => count += 1,
            false => {
                answered.push(command);
                before.push(std::mem::take(&mut count));
            }
        }
    }
    (CommandOrder::new(&answered), Some(before.into()))
}

/// What the commands of `script` should get: between MULTI and EXEC they are queued.
///
/// A shuffled script has no valid transactions: the server will answer with errors sooner or later, so any reply is
/// accepted.
fn in_transactions(script: &Script) -> Vec<Expectation> {
    let is = |reply: &Expectation, names: &[&str]| names.contains(&reply.command.as_str());
    let replies = script.commands.iter().map(|command| &command.reply);
    if script.shuffled && replies.clone().any(|reply| is(reply, &["MULTI"])) {
        return replies
            .map(|reply| Expectation {
                nullable: true,
                ..Expectation::of(reply.command.clone(), ReplyType::Any, true)
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
    use crate::resp;
    use crate::template::Placeholders;

    fn expectation(text: &str) -> Expectation {
        Expectation::to(&text.split(' ').collect::<Vec<_>>(), 3)
    }

    #[test]
    fn arguments_change_the_reply() {
        for (text, reply, nullable) in [
            ("get k", ReplyType::Byte(b'$'), true),
            ("SET k v", ReplyType::Line("+OK"), false),
            ("SET k v EX 10", ReplyType::Line("+OK"), false),
            ("set k v nx", ReplyType::Line("+OK"), true),
            ("SET k v XX GET", ReplyType::Byte(b'$'), true),
            ("PING", ReplyType::Line("+PONG"), false),
            ("PING a", ReplyType::Byte(b'$'), false),
            ("LPOP l", ReplyType::Byte(b'$'), true),
            ("LPOP l 2", ReplyType::First, true),
            ("ZADD z NX 1 a", ReplyType::Byte(b':'), false),
            ("ZADD z INCR 1 a", ReplyType::First, true),
            ("EVAL return 0", ReplyType::Any, true),
            ("JSON.GET k", ReplyType::First, true),
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
        let expected = ExpectedReplies::of(&Script::sequence(texts.into_iter().map(command).collect()));
        let types: Vec<ReplyType> = (0..6).map(|place| expected.at(place).reply).collect();
        let (bulk, queued) = (ReplyType::Byte(b'$'), ReplyType::Line("+QUEUED"));
        assert_eq!(types, [bulk, ReplyType::Line("+OK"), queued, queued, ReplyType::Byte(b'*'), bulk]);
    }

    #[test]
    fn the_first_type_is_learned_once() {
        let expected = ExpectedReplies::one(expectation("FOO"));
        assert!(expected.suits(0, b':') && expected.suits(0, b'*'));
        assert!(expected.learn(0, b':') && expected.learn(0, b':') && !expected.learn(0, b'*'));
        assert!(expected.suits(0, b':') && !expected.suits(0, b'*'));
    }
}
