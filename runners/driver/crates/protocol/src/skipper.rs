//! Finds where RESP2 and RESP3 replies end without building them: a parser would cost more than sending the request.
//!
//! The state is a few numbers, so a reply may be cut at any byte and no bytes need to be kept. Nested aggregates need no
//! stack: only the number of elements still outstanding matters. Push frames are counted apart,
//! attributes are skipped.

pub mod judge;

use std::sync::Arc;

use crate::expectation::Expectation;
use crate::expected::ExpectedReplies;
use crate::number::Number;
use crate::replies::{ProtocolError, Replies, Tally};

/// Errors are reported with at most this many bytes of their text.
const ERROR_TEXT: usize = 200;
/// So many redirections are kept for those who follow them.
const MOST_REDIRECTIONS: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A line of text: simple string, double, boolean, big number.
    Simple,
    Error,
    Integer,
    Null,
    /// Bytes after their length: bulk or verbatim string.
    Bulk,
    BulkError,
    /// So many elements: array, set, push.
    Array,
    /// So many pairs of elements.
    Map,
    /// Pairs that tell something about the element after them.
    Attribute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the type byte of a reply or of an element.
    Type,
    /// In the line of a type, before its CR.
    Line(Kind),
    /// After the CR of a line.
    LineFeed(Kind),
    /// So many bytes of a bulk are still to come.
    Body(u64),
    /// Before the CR that closes a bulk, and before its LF.
    BodyCr,
    BodyLf,
}

/// How the current reply compares with the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    Passed,
    /// It begins with this byte, which is right unless its length says that it is a null.
    Begun(u8),
    /// It begins with this byte, which is right only if its length says that it is a null.
    NullOnly(u8),
    /// So many bytes of the expected line have come.
    Line(usize),
}

#[derive(Debug, Clone)]
pub struct Skipper {
    expected: Arc<ExpectedReplies>,
    /// Of the current reply, or of the next one, among those that are expected.
    place: usize,
    trial: Trial,
    state: State,
    /// Elements that must still end before the reply ends; 0 between replies.
    outstanding: u64,
    nested: bool,
    null: bool,
    failed: bool,
    /// Whether the current bulk is the text of an error.
    error_body: bool,
    /// Whether what is being skipped is no reply: a push frame or an attribute.
    aside: bool,
    /// Whether it is a push frame.
    push: bool,
    number: Number,
    error: Vec<u8>,
    /// The last of them, which nobody has taken.
    redirections: Vec<(u64, String)>,
}

impl Skipper {
    /// Takes replies of every type.
    pub fn any() -> Skipper {
        Skipper::new(Expectation::default())
    }

    /// Takes errors, and replies as `expected`.
    pub fn new(expected: Expectation) -> Skipper {
        Skipper::following(Arc::new(ExpectedReplies::one(expected)), 0)
    }

    /// Takes errors, and replies as `expected`, of which that at `place` comes first.
    pub fn following(expected: Arc<ExpectedReplies>, place: usize) -> Skipper {
        Skipper {
            place: place % expected.order().length(),
            expected,
            trial: Trial::Passed,
            state: State::Type,
            outstanding: 0,
            nested: false,
            null: false,
            failed: false,
            error_body: false,
            aside: false,
            push: false,
            number: Number::default(),
            error: Vec::new(),
            redirections: Vec::new(),
        }
    }

    /// Skip the usual replies at the front of `bytes` at once; the number of bytes skipped.
    #[inline(always)]
    fn jump(&mut self, bytes: &[u8], tally: &mut Tally) -> usize {
        match self.expected.only() {
            Some(shapes) => shapes.skip(bytes, u64::MAX, tally),
            None => self.jump_in_order(bytes, tally),
        }
    }

    /// The same when there are several commands: usual replies one by one, others in runs of one command.
    fn jump_in_order(&mut self, bytes: &[u8], tally: &mut Tally) -> usize {
        let order = self.expected.order();
        let (mut at, mut place) = (0, self.place);
        loop {
            let (next, length) = self.expected.skip_usual(place, &bytes[at..], tally);
            (place, at) = (next, at + length);
            let (run, before) = (order.run(place), tally.replies);
            at += self.expected.shapes(place).skip(&bytes[at..], run as u64, tally);
            let skipped = (tally.replies - before) as usize;
            tally.replies += self.expected.silent_before(place, skipped);
            place = order.after(place, skipped);
            if skipped < run {
                self.place = place;
                return at;
            }
        }
    }

    /// Take the type byte.
    fn open(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let kind = match bytes[0] {
            b'+' | b',' | b'#' | b'(' => Kind::Simple,
            b'-' => Kind::Error,
            b':' => Kind::Integer,
            b'_' => Kind::Null,
            b'$' | b'=' => Kind::Bulk,
            b'!' => Kind::BulkError,
            b'*' | b'~' | b'>' => Kind::Array,
            b'%' => Kind::Map,
            b'|' => Kind::Attribute,
            _ if self.outstanding == 0 => return Err(self.refused(bytes)),
            byte => return Err(unexpected("a reply type", byte)),
        };
        if self.outstanding == 0 {
            self.begin_reply(bytes)?;
        }
        self.number = Number::default();
        self.state = State::Line(kind);
        Ok(())
    }

    fn begin_reply(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let byte = bytes[0];
        self.aside = matches!(byte, b'>' | b'|');
        self.push = byte == b'>';
        self.trial = match byte {
            b'>' | b'|' | b'-' | b'!' => Trial::Passed,
            _ => self.judge(bytes)?,
        };
        self.outstanding = 1;
        (self.nested, self.null, self.failed) = (false, false, false);
        Ok(())
    }

    /// Take bytes up to the CR of a line; how many.
    fn line(&mut self, kind: Kind, bytes: &[u8]) -> Result<usize, ProtocolError> {
        let end = memchr::memchr(b'\r', bytes);
        let text = &bytes[..end.unwrap_or(bytes.len())];
        match kind {
            Kind::Simple if self.nested => {}
            Kind::Simple => self.compare(text, end.is_some())?,
            Kind::Error if self.failed => {}
            Kind::Error => self.keep_error(text),
            Kind::Null if text.is_empty() => {}
            Kind::Null => return Err(unexpected("the end of a null", text[0])),
            Kind::Integer | Kind::Bulk | Kind::BulkError | Kind::Array | Kind::Map | Kind::Attribute => {
                for &byte in text {
                    self.number.push(byte).ok_or_else(|| unexpected("a number", byte))?;
                }
            }
        }
        if end.is_some() {
            self.state = State::LineFeed(kind);
        }
        Ok(text.len() + usize::from(end.is_some()))
    }

    /// The first error of a reply is reported when the reply is complete.
    fn keep_error(&mut self, text: &[u8]) {
        let room = ERROR_TEXT.saturating_sub(self.error.len());
        self.error.extend_from_slice(&text[..text.len().min(room)]);
    }

    /// The line is whole: what follows it.
    fn end_line(&mut self, kind: Kind, tally: &mut Tally) -> Result<(), ProtocolError> {
        match kind {
            Kind::Simple => self.end_element(tally),
            Kind::Error => {
                self.failed = true;
                self.end_element(tally);
            }
            Kind::Integer => self.length().map(|_| self.end_element(tally))?,
            Kind::Null => self.end_null(tally),
            Kind::Bulk | Kind::Array => self.end_length(kind, self.length()?, tally)?,
            Kind::BulkError => {
                self.error_body = !self.failed;
                self.failed = true;
                self.state = State::Body(unsigned(self.length()?)?);
            }
            Kind::Map => self.end_header(doubled(self.length()?)?, tally)?,
            // At the top an attribute is an item of its own; inside it adds elements before the one that it describes.
            Kind::Attribute if self.nested => {
                self.announce(doubled(self.length()?)?)?;
                self.state = State::Type;
            }
            Kind::Attribute => self.end_header(doubled(self.length()?)?, tally)?,
        }
        Ok(())
    }

    fn end_length(&mut self, kind: Kind, length: i64, tally: &mut Tally) -> Result<(), ProtocolError> {
        self.judge_length(length)?;
        match (kind, length) {
            (_, -1) => self.end_null(tally),
            (Kind::Bulk, length) => self.state = State::Body(unsigned(length)?),
            (_, length) => self.end_header(unsigned(length)?, tally)?,
        }
        Ok(())
    }

    fn length(&self) -> Result<i64, ProtocolError> {
        self.number.signed().ok_or_else(|| unexpected("a number", b'\r'))
    }

    fn end_null(&mut self, tally: &mut Tally) {
        self.null = !self.nested;
        tally.null_elements += u64::from(self.nested && !self.aside);
        self.end_element(tally);
    }

    /// The header of an aggregate of `length` elements is one element that is replaced by them.
    fn end_header(&mut self, length: u64, tally: &mut Tally) -> Result<(), ProtocolError> {
        self.nested = true;
        self.announce(length)?;
        self.end_element(tally);
        Ok(())
    }

    fn announce(&mut self, elements: u64) -> Result<(), ProtocolError> {
        self.outstanding = self
            .outstanding
            .checked_add(elements)
            .ok_or_else(|| ProtocolError(format!("the server announced {elements} elements")))?;
        Ok(())
    }

    fn end_element(&mut self, tally: &mut Tally) {
        self.state = State::Type;
        self.outstanding -= 1;
        if self.outstanding > 0 {
            return;
        }
        if !self.aside {
            tally.replies += 1 + self.expected.silent_before(self.place, 1);
            self.place = self.expected.order().after(self.place, 1);
            tally.nulls += u64::from(self.null);
        }
        tally.pushes += u64::from(self.push);
        if self.failed {
            self.end_failed(tally);
        }
    }

    #[cold]
    fn end_failed(&mut self, tally: &mut Tally) {
        let text = std::mem::take(&mut self.error);
        if self.aside {
            return;
        }
        tally.errors += 1;
        if text.starts_with(b"MOVED ") || text.starts_with(b"ASK ") {
            self.keep_redirection(tally.replies - 1, &text);
        }
        tally.first_error.get_or_insert_with(|| String::from_utf8_lossy(&text).into_owned());
    }

    fn keep_redirection(&mut self, number: u64, text: &[u8]) {
        if self.redirections.len() == MOST_REDIRECTIONS {
            self.redirections.clear();
        }
        self.redirections.push((number, String::from_utf8_lossy(text).into_owned()));
    }

    /// Take some of `bytes`, which is not empty; how many.
    #[inline(never)]
    fn step(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<usize, ProtocolError> {
        match self.state {
            State::Type => self.open(bytes).map(|()| 1),
            State::Line(kind) => self.line(kind, bytes),
            State::LineFeed(kind) => {
                require(b'\n', bytes[0])?;
                self.end_line(kind, tally).map(|()| 1)
            }
            State::Body(left) => {
                let taken = left.min(bytes.len() as u64);
                if self.error_body {
                    self.keep_error(&bytes[..taken as usize]);
                }
                self.state = if taken == left { State::BodyCr } else { State::Body(left - taken) };
                Ok(taken as usize)
            }
            State::BodyCr => {
                self.error_body = false;
                self.state = State::BodyLf;
                require(b'\r', bytes[0]).map(|()| 1)
            }
            State::BodyLf => {
                require(b'\n', bytes[0])?;
                self.end_element(tally);
                Ok(1)
            }
        }
    }
}

impl Replies for Skipper {
    fn restart(&mut self, place: usize) {
        *self = Skipper::following(self.expected.clone(), place);
    }

    fn take_redirections(&mut self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.redirections)
    }

    #[inline]
    fn skip(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), ProtocolError> {
        let mut at = 0;
        while at < bytes.len() {
            if self.outstanding == 0 {
                at += self.jump(&bytes[at..], tally);
            }
            if at < bytes.len() {
                at += self.step(&bytes[at..], tally)?;
            }
        }
        Ok(())
    }

    fn skip_one(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(usize, bool), ProtocolError> {
        let mut at = 0;
        while at < bytes.len() {
            at += self.step(&bytes[at..], tally)?;
            if self.outstanding == 0 {
                return Ok((at, true));
            }
        }
        Ok((at, false))
    }
}

fn require(expected: u8, byte: u8) -> Result<(), ProtocolError> {
    match byte == expected {
        true => Ok(()),
        false => Err(unexpected(&format!("'{}'", expected.escape_ascii()), byte)),
    }
}

fn unsigned(length: i64) -> Result<u64, ProtocolError> {
    u64::try_from(length).map_err(|_| ProtocolError(format!("the server announced a length of {length}")))
}

/// The elements of so many pairs.
fn doubled(pairs: i64) -> Result<u64, ProtocolError> {
    unsigned(pairs).map(|pairs| pairs * 2)
}

fn unexpected(expected: &str, byte: u8) -> ProtocolError {
    ProtocolError(format!("the server answered '{}' where {expected} should begin", byte.escape_ascii()))
}
