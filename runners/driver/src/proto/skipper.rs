//! Finds where RESP2 replies end, without building them: a parser would cost more than the request.
//!
//! The state is a few numbers, so a reply may be cut at any byte and nothing is carried over. Nested arrays need no
//! stack: only the number of elements still outstanding matters.

use super::{Garbage, Replies, Tally};

/// Errors are reported with at most this many bytes of their text.
const ERROR_TEXT: usize = 200;
/// Longest length or integer: i64 has 19 digits.
const NUMBER_DIGITS: u32 = 19;

/// The usual reply as a constant: its first bytes and its whole length. Runs of it are jumped over.
#[derive(Debug, Clone)]
pub struct Stride {
    prefix: u64,
    mask: u64,
    length: usize,
}

impl Stride {
    /// A reply of `prefix` (at most 8 bytes) and `rest` bytes that end with CR LF; none when the prefix is longer.
    pub fn new(prefix: &[u8], rest: usize) -> Option<Stride> {
        if prefix.len() > 8 {
            return None;
        }
        let mut word = [0; 8];
        let mut mask = [0; 8];
        word[..prefix.len()].copy_from_slice(prefix);
        mask[..prefix.len()].fill(0xff);
        Some(Stride {
            prefix: u64::from_le_bytes(word),
            mask: u64::from_le_bytes(mask),
            length: prefix.len() + rest,
        })
    }

    /// How many whole replies of this shape `bytes` begin with. The last may be left for the slow path.
    #[inline]
    fn run(&self, bytes: &[u8]) -> usize {
        let mut count = 0;
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + 8) {
            let head = u64::from_le_bytes(head.try_into().expect("eight bytes"));
            let end = at + self.length;
            let same = head & self.mask == self.prefix;
            if !same || bytes.get(end - 2..end) != Some(b"\r\n".as_slice()) {
                break;
            }
            count += 1;
            at = end;
        }
        count
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Simple,
    Error,
    Integer,
    Bulk,
    Array,
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

/// The number in the line of a type, digit by digit.
#[derive(Debug, Clone, Copy, Default)]
struct Number {
    value: i64,
    digits: u32,
    negative: bool,
}

impl Number {
    /// None when the byte cannot stand at this place of a number.
    fn push(&mut self, byte: u8) -> Option<()> {
        match byte {
            b'-' if self.digits == 0 && !self.negative => self.negative = true,
            b'0'..=b'9' if self.digits < NUMBER_DIGITS => {
                self.value = self.value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                self.digits += 1;
            }
            _ => return None,
        }
        Some(())
    }

    /// None when there was no digit.
    fn signed(self) -> Option<i64> {
        let value = if self.negative { -self.value } else { self.value };
        (self.digits > 0).then_some(value)
    }
}

#[derive(Debug, Clone)]
pub struct Skipper {
    expected: Option<u8>,
    stride: Option<Stride>,
    state: State,
    /// Elements that must still end before the reply ends; 0 between replies.
    outstanding: u64,
    nested: bool,
    null: bool,
    failed: bool,
    number: Number,
    error: Vec<u8>,
}

impl Skipper {
    /// Takes replies of every type.
    pub fn any() -> Skipper {
        Skipper::new(None, None)
    }

    /// Takes errors, and replies that begin with the byte `expected` if there is one; `stride` is their usual shape.
    pub fn new(expected: Option<u8>, stride: Option<Stride>) -> Skipper {
        Skipper {
            expected,
            stride,
            state: State::Type,
            outstanding: 0,
            nested: false,
            null: false,
            failed: false,
            number: Number::default(),
            error: Vec::new(),
        }
    }

    /// Jump over the usual replies at the front of `bytes`; the number of bytes jumped.
    #[inline]
    fn jump(&self, bytes: &[u8], tally: &mut Tally) -> usize {
        let Some(stride) = &self.stride else { return 0 };
        let count = stride.run(bytes);
        tally.replies += count as u64;
        count * stride.length
    }

    /// Take the type byte.
    fn open(&mut self, byte: u8) -> Result<(), Garbage> {
        let kind = match byte {
            b'+' => Kind::Simple,
            b'-' => Kind::Error,
            b':' => Kind::Integer,
            b'$' => Kind::Bulk,
            b'*' => Kind::Array,
            _ => return Err(unexpected("a reply type", byte)),
        };
        if self.outstanding == 0 {
            self.begin_reply(byte)?;
        }
        self.number = Number::default();
        self.state = State::Line(kind);
        Ok(())
    }

    fn begin_reply(&mut self, byte: u8) -> Result<(), Garbage> {
        if byte != b'-' && self.expected.is_some_and(|expected| expected != byte) {
            let expected = char::from(self.expected.unwrap_or(byte));
            return Err(unexpected(&format!("a '{expected}' reply"), byte));
        }
        self.outstanding = 1;
        (self.nested, self.null, self.failed) = (false, false, false);
        Ok(())
    }

    /// Take bytes up to the CR of a line; how many.
    fn line(&mut self, kind: Kind, bytes: &[u8]) -> Result<usize, Garbage> {
        let end = memchr::memchr(b'\r', bytes);
        let text = &bytes[..end.unwrap_or(bytes.len())];
        match kind {
            Kind::Simple => {}
            Kind::Error if self.failed => {}
            Kind::Error => self.keep_error(text),
            Kind::Integer | Kind::Bulk | Kind::Array => {
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

    /// The first error of a reply is told when the reply is whole.
    fn keep_error(&mut self, text: &[u8]) {
        let room = ERROR_TEXT.saturating_sub(self.error.len());
        self.error.extend_from_slice(&text[..text.len().min(room)]);
    }

    /// The line is whole: what follows it.
    fn end_line(&mut self, kind: Kind, tally: &mut Tally) -> Result<(), Garbage> {
        match kind {
            Kind::Simple => self.end_element(tally),
            Kind::Error => {
                self.failed = true;
                self.end_element(tally);
            }
            Kind::Integer => self.length().map(|_| self.end_element(tally))?,
            Kind::Bulk => match self.length()? {
                -1 => self.end_null(tally),
                length => self.state = State::Body(unsigned(length)?),
            },
            Kind::Array => match self.length()? {
                -1 => self.end_null(tally),
                length => self.end_header(unsigned(length)?, tally)?,
            },
        }
        Ok(())
    }

    fn length(&self) -> Result<i64, Garbage> {
        self.number.signed().ok_or_else(|| unexpected("a number", b'\r'))
    }

    fn end_null(&mut self, tally: &mut Tally) {
        self.null = !self.nested;
        self.end_element(tally);
    }

    /// The header of an array of `length` elements is one element that is replaced by them.
    fn end_header(&mut self, length: u64, tally: &mut Tally) -> Result<(), Garbage> {
        self.nested = true;
        self.outstanding = self
            .outstanding
            .checked_add(length)
            .ok_or_else(|| Garbage(format!("the server announced an array of {length} elements")))?;
        self.end_element(tally);
        Ok(())
    }

    fn end_element(&mut self, tally: &mut Tally) {
        self.state = State::Type;
        self.outstanding -= 1;
        if self.outstanding == 0 {
            tally.replies += 1;
            tally.nulls += u64::from(self.null);
        }
        if self.outstanding == 0 && self.failed {
            self.end_failed(tally);
        }
    }

    #[cold]
    fn end_failed(&mut self, tally: &mut Tally) {
        let text = std::mem::take(&mut self.error);
        tally.errors += 1;
        tally.first_error.get_or_insert_with(|| String::from_utf8_lossy(&text).into_owned());
    }

    /// Take some of `bytes`, which is not empty; how many.
    fn step(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<usize, Garbage> {
        match self.state {
            State::Type => self.open(bytes[0]).map(|()| 1),
            State::Line(kind) => self.line(kind, bytes),
            State::LineFeed(kind) => {
                require(b'\n', bytes[0])?;
                self.end_line(kind, tally).map(|()| 1)
            }
            State::Body(left) => {
                let taken = left.min(bytes.len() as u64);
                self.state = if taken == left { State::BodyCr } else { State::Body(left - taken) };
                Ok(taken as usize)
            }
            State::BodyCr => {
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
    #[inline]
    fn skip(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), Garbage> {
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
}

fn require(wanted: u8, byte: u8) -> Result<(), Garbage> {
    match byte == wanted {
        true => Ok(()),
        false => Err(unexpected(&format!("'{}'", wanted.escape_ascii()), byte)),
    }
}

fn unsigned(length: i64) -> Result<u64, Garbage> {
    u64::try_from(length).map_err(|_| Garbage(format!("the server announced a length of {length}")))
}

fn unexpected(wanted: &str, byte: u8) -> Garbage {
    Garbage(format!("the server answered '{}' where {wanted} should begin", byte.escape_ascii()))
}
