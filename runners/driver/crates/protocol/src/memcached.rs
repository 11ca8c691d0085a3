//! The text and meta protocols of memcached: what may answer a command, and where the answer ends.
//!
//! Replies do not say which command they answer, so the skipper follows the script: it knows whose reply comes next.

mod kind;

use std::sync::Arc;

use crate::command_order::CommandOrder;
use crate::replies::{Protocol, ProtocolError, Replies, Tally};
use crate::script::Script;
use crate::template::Part;
pub use kind::Kind;
use kind::{Meaning, is_number};

/// Errors are reported with at most this many bytes of their text.
const ERROR_TEXT: usize = 200;
/// No line of the protocol is longer: a key has at most 250 bytes, an error text some words.
const LONGEST_LINE: usize = 2048;

/// The usual reply: its length and the bytes that are always the same. Replies that match are skipped at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    length: usize,
    pieces: Vec<(usize, Vec<u8>)>,
}

impl Pattern {
    /// The reply of these parts; none when its length varies.
    pub fn new(parts: &[Part]) -> Option<Pattern> {
        if parts.iter().any(|part| part.varying().is_some()) {
            return None;
        }
        let mut pattern = Pattern { length: 0, pieces: Vec::new() };
        for part in parts {
            if let Part::Literal(bytes) = part
                && !bytes.is_empty()
            {
                pattern.pieces.push((pattern.length, bytes.clone()));
            }
            pattern.length += part.width();
        }
        Some(pattern)
    }

    #[inline]
    fn fits(&self, bytes: &[u8]) -> bool {
        let same = |(at, piece): &(usize, Vec<u8>)| bytes[*at..*at + piece.len()] == **piece;
        bytes.len() >= self.length && self.pieces.iter().all(same)
    }
}

/// The reply that one command should get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The name of the test in messages.
    pub test: &'static str,
    pub kind: Kind,
    /// Keys that the command looks for; each is a hit or a miss. 0 when it looks for none, and can miss none.
    pub keys: u64,
    /// A reply in which all keys were found.
    pub usual: Option<Pattern>,
}

/// The protocol with the answers to the commands of one script.
#[derive(Debug, Clone)]
pub struct Memcached {
    answers: Arc<[Answer]>,
    order: CommandOrder,
}

impl Memcached {
    /// `answers` are in the order of the script's commands.
    pub fn new(answers: Vec<Answer>, script: &Script) -> Memcached {
        let order = if answers.len() == 1 { CommandOrder::new(&[0]) } else { script.order.clone() };
        Memcached { answers: answers.into(), order }
    }

    /// Of one command, whose `answer` is this.
    pub fn of_one(answer: Answer) -> Memcached {
        Memcached { answers: [answer].into(), order: CommandOrder::new(&[0]) }
    }

    /// The skipper of a connection that enters the script's order at `place`.
    pub fn skipper(&self, place: usize) -> Skipper {
        Skipper {
            answers: self.answers.clone(),
            order: self.order.clone(),
            place: place % self.order.length(),
            state: State::Line,
            begun: false,
            found: 0,
            line: Vec::new(),
            error: None,
        }
    }
}

impl Protocol for Memcached {
    type Replies = Skipper;
    const NAME: &'static str = "the text protocol of memcached";
    const ERROR_MARK: &'static str = "";

    fn replies(&self, script: &Script, index: usize) -> Skipper {
        self.skipper(script.entry(index))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Line,
    /// So many bytes of data and of the CR LF behind them are still to come.
    Data(u64),
}

#[derive(Debug, Clone)]
pub struct Skipper {
    answers: Arc<[Answer]>,
    order: CommandOrder,
    /// Place in `order` of the command whose reply comes next.
    place: usize,
    state: State,
    /// Whether lines of the reply were taken.
    begun: bool,
    /// Keys that the reply has shown so far.
    found: u64,
    /// The begin of a line that was cut.
    line: Vec<u8>,
    /// The first error in the reply.
    error: Option<String>,
}

impl Skipper {
    #[inline]
    fn answer(&self) -> &Answer {
        &self.answers[self.order.command(self.place)]
    }

    /// Skip usual replies at the front of `bytes` at once; the number of bytes skipped.
    #[inline]
    fn jump(&mut self, bytes: &[u8], tally: &mut Tally) -> usize {
        let mut at = 0;
        while let Answer { keys, usual: Some(pattern), .. } = self.answer()
            && pattern.fits(&bytes[at..])
        {
            at += pattern.length;
            tally.replies += 1;
            tally.hits += keys;
            self.next();
        }
        at
    }

    #[inline]
    fn next(&mut self) {
        self.place = self.order.after(self.place, 1);
    }

    /// Take some of `bytes`, which is not empty; how many.
    fn step(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<usize, ProtocolError> {
        match self.state {
            State::Line => self.line(bytes, tally),
            State::Data(left) => self.data(left, bytes, tally),
        }
    }

    fn line(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<usize, ProtocolError> {
        let end = memchr::memchr(b'\n', bytes);
        let taken = end.map_or(bytes.len(), |end| end + 1);
        if self.line.len() + taken > LONGEST_LINE {
            return Err(ProtocolError(format!(
                "the server answered with a line of more than {LONGEST_LINE} bytes"
            )));
        }
        if end.is_none() {
            self.line.extend_from_slice(bytes);
        } else if self.line.is_empty() {
            self.take(&bytes[..taken], tally)?;
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(&bytes[..taken]);
            self.take(&line, tally)?;
        }
        Ok(taken)
    }

    /// Take a whole line with its end.
    fn take(&mut self, line: &[u8], tally: &mut Tally) -> Result<(), ProtocolError> {
        let Some(text) = line.strip_suffix(b"\r\n") else { return Err(self.unexpected(line)) };
        self.begun = true;
        let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        if is_error(word) {
            self.fail(text, tally);
            return Ok(());
        }
        match self.answer().kind.meaning(word, word.len() == text.len()) {
            None => return Err(self.unexpected(line)),
            Some(Meaning::Data(argument)) => {
                let length = text.split(|byte| *byte == b' ').nth(argument).and_then(length);
                self.state = State::Data(length.ok_or_else(|| self.unexpected(line))?);
                self.find()?;
            }
            Some(Meaning::Hit) => {
                self.find()?;
                self.end_line(tally);
            }
            Some(Meaning::Miss) if self.answer().keys == 0 => return Err(self.unexpected(line)),
            Some(Meaning::Miss) => self.end_line(tally),
            Some(Meaning::End) => self.end_reply(tally),
        }
        Ok(())
    }

    fn find(&mut self) -> Result<(), ProtocolError> {
        self.found += 1;
        let Answer { kind, keys, .. } = *self.answer();
        match kind.has_end() && self.found > keys {
            true => {
                Err(ProtocolError(format!("the server answered with more than the {keys} values asked for")))
            }
            false => Ok(()),
        }
    }

    /// The text of an error is kept at once, and the error is counted when the reply ends; the replies of quiet commands
    /// go on after it.
    #[cold]
    fn fail(&mut self, text: &[u8], tally: &mut Tally) {
        let text = String::from_utf8_lossy(&text[..text.len().min(ERROR_TEXT)]).into_owned();
        tally.first_error.get_or_insert_with(|| text.clone());
        self.error.get_or_insert(text);
        if !matches!(self.answer().kind, Kind::Quiet | Kind::Silent) {
            self.end_reply(tally);
        }
    }

    fn data(&mut self, left: u64, bytes: &[u8], tally: &mut Tally) -> Result<usize, ProtocolError> {
        let expected = match left {
            1 => b'\n',
            2 => b'\r',
            _ => {
                let taken = (left - 2).min(bytes.len() as u64);
                self.state = State::Data(left - taken);
                return Ok(taken as usize);
            }
        };
        if bytes[0] != expected {
            let preview = bytes[0].escape_ascii();
            return Err(ProtocolError(format!(
                "the server sent '{preview}' where a value should have ended"
            )));
        }
        self.state = State::Data(left - 1);
        if left == 1 {
            self.state = State::Line;
            self.end_line(tally);
        }
        Ok(1)
    }

    fn end_line(&mut self, tally: &mut Tally) {
        if !self.answer().kind.has_end() {
            self.end_reply(tally);
        }
    }

    fn end_reply(&mut self, tally: &mut Tally) {
        tally.replies += 1;
        match self.error.take() {
            Some(text) => {
                tally.errors += 1;
                tally.first_error.get_or_insert(text);
            }
            None => {
                let keys = self.answer().keys;
                let hits = self.found.min(keys);
                tally.hits += hits;
                tally.misses += keys - hits;
            }
        }
        self.found = 0;
        self.begun = false;
        self.next();
    }

    #[cold]
    fn unexpected(&self, line: &[u8]) -> ProtocolError {
        let preview = line[..line.len().min(80)].trim_ascii_end().escape_ascii();
        let Answer { test, kind, keys, .. } = self.answer();
        ProtocolError(format!(
            "the server answered {test} with '{preview}' where {} should stand",
            kind.description(*keys)
        ))
    }
}

fn is_error(word: &[u8]) -> bool {
    matches!(word, b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR")
}

/// The bytes that follow the line: data of the announced length, CR and LF.
fn length(word: &[u8]) -> Option<u64> {
    let digits = is_number(word).then_some(word)?;
    std::str::from_utf8(digits).ok()?.parse::<u64>().ok()?.checked_add(2)
}

impl Replies for Skipper {
    fn restart(&mut self, place: usize) {
        self.place = place % self.order.length();
        (self.state, self.begun, self.found, self.error) = (State::Line, false, 0, None);
        self.line.clear();
    }

    #[inline]
    fn skip(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), ProtocolError> {
        let mut at = 0;
        while at < bytes.len() {
            if !self.begun && self.line.is_empty() {
                at += self.jump(&bytes[at..], tally);
            }
            if at < bytes.len() {
                at += self.step(&bytes[at..], tally)?;
            }
        }
        Ok(())
    }

    fn skip_one(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(usize, bool), ProtocolError> {
        let (mut at, before) = (0, tally.replies);
        while at < bytes.len() && tally.replies == before {
            at += self.step(&bytes[at..], tally)?;
        }
        Ok((at, tally.replies > before))
    }
}
