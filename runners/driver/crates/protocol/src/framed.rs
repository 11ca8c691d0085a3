//! Commands whose length varies with one key number alone.

use std::ops::Range;

use crate::command::Step;
use crate::literal::Literal;
use crate::template::{PlainKeys, Varying};

/// A command that holds one key number without leading zeros, and perhaps a value behind it: all places are known as soon
/// as the number's digits are counted.
#[derive(Debug, Clone)]
pub struct Framed {
    pub keys: PlainKeys,
    /// The bytes before the key number, by its count of digits: they may contain the length of the key.
    pub heads: Vec<Literal>,
    /// The bytes after the key number, with room for the value.
    pub tail: Literal,
    /// The range of the value in the tail; empty if the command has no value.
    pub value: Range<usize>,
}

/// Digits of the greatest key number.
const MOST_DIGITS: usize = u64::MAX.ilog10() as usize + 1;

impl Framed {
    /// The command of these `bytes` and `steps`, unless it holds more than one key number and one value.
    pub fn of(bytes: &[u8], steps: &[Step]) -> Option<Framed> {
        let (first, steps) = steps.split_first()?;
        let Step::DrawVarying(Varying::Key(keys)) = first else { return None };
        let (length, steps) = match steps {
            [Step::PasteLength { at, plus }, rest @ ..] => (Some((*at, *plus)), rest),
            _ => (None, steps),
        };
        let (at, value) = match *steps {
            [Step::Paste { at }] => (at, 0..0),
            [Step::Paste { at }, Step::Value { at: from, bytes }] => (at, from - at..from - at + bytes),
            _ => return None,
        };
        let (head, tail) = bytes.split_at(at);
        let head_of = |digits: usize| match length {
            Some((at, plus)) => [&head[..at], (plus + digits).to_string().as_bytes(), &head[at..]].concat(),
            None => head.to_vec(),
        };
        let heads = (1..=MOST_DIGITS).map(|digits| head_of(digits).into()).collect();
        Some(Framed { keys: *keys, heads, tail: tail.to_vec().into(), value })
    }
}
