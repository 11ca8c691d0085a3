//! RESP2 and RESP3 by recursive descent.

use super::{Reading, Stop, message};
use protocol::expectation::Expectation;
use protocol::expectation::ReplyType;

/// Read the replies in `bytes`. Those that are no error, push frame or attribute must be as `expected`.
pub fn read(bytes: &[u8], expected: &Expectation) -> Reading {
    let mut reading = Reading::default();
    let mut reader = Reader { bytes, at: 0, errors: Vec::new(), announced: 0 };
    while let Some(&kind) = bytes.get(reader.at) {
        let aside = matches!(kind, b'>' | b'|');
        if !b">|-!".contains(&kind) && reader.is_other(kind, expected) {
            reading.refused = true;
            break;
        }
        reader.announced = 1;
        match reader.element(false) {
            Ok(_) if aside => {
                reading.tally.pushes += u64::from(kind == b'>');
                reader.errors.clear();
            }
            Ok(null) => {
                reading.tally.replies += 1;
                reading.tally.nulls += u64::from(null);
                reading.tally.errors += u64::from(!reader.errors.is_empty());
                let first = reader.errors.drain(..).next();
                reading.tally.first_error = reading.tally.first_error.take().or(first);
            }
            Err(stop) => {
                reading.refused = matches!(stop, Stop::Refused);
                break;
            }
        }
    }
    reading
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Texts of the errors in the item that is being read.
    errors: Vec<String>,
    /// Elements of the item that were announced and have not ended.
    announced: u128,
}

impl<'a> Reader<'a> {
    /// Whether what is there of the reply that begins with `kind` is already another than `expected`.
    fn is_other(&self, kind: u8, expected: &Expectation) -> bool {
        let rest = &self.bytes[self.at + 1..];
        let right = match expected.reply {
            ReplyType::Any => return false,
            ReplyType::Byte(byte) => byte == kind,
            ReplyType::Line(line) => {
                let text = rest.split(|byte| *byte == b'\r').next().unwrap_or_default();
                let (is_whole, wanted) = (text.len() < rest.len(), &line.as_bytes()[1..]);
                kind == b'+' && if is_whole { text == wanted } else { wanted.starts_with(text) }
            }
            ReplyType::First => panic!("what comes first is not known here"),
        };
        if kind == b'_' {
            return !expected.nullable;
        }
        let mut ahead = Reader { errors: Vec::new(), at: self.at + 1, ..*self };
        match if b"$*".contains(&kind) { ahead.number() } else { Ok(0) } {
            Ok(-1) => !expected.nullable,
            Err(Stop::Cut) => !right && !expected.nullable,
            _ => !right,
        }
    }

    /// Read one element with all that is in it; whether it is a null.
    fn element(&mut self, nested: bool) -> Result<bool, Stop> {
        let kind = *self.bytes.get(self.at).ok_or(Stop::Cut)?;
        self.at += 1;
        match kind {
            b'+' | b',' | b'#' | b'(' => self.text().map(drop)?,
            b'-' => {
                let text = message(self.text()?);
                self.errors.push(text);
            }
            b':' => self.number().map(drop)?,
            b'_' => self.line_end()?,
            b'$' | b'=' | b'!' => match self.number()? {
                -1 if kind != b'!' => return self.end(true),
                length => self.body(length, kind == b'!')?,
            },
            b'*' | b'~' | b'>' => match self.number()? {
                -1 => return self.end(true),
                length => return self.elements(unsigned(length)?),
            },
            b'%' => {
                let pairs = unsigned(self.number()?)?;
                return self.elements(2 * pairs);
            }
            b'|' if nested => {
                let pairs = unsigned(self.number()?)?;
                self.announce(2 * pairs)?;
                (0..2 * pairs).try_for_each(|_| self.element(true).map(drop))?;
                return self.element(true);
            }
            b'|' => {
                let pairs = unsigned(self.number()?)?;
                return self.elements(2 * pairs);
            }
            _ => return Err(Stop::Refused),
        }
        self.end(kind == b'_')
    }

    fn elements(&mut self, count: u64) -> Result<bool, Stop> {
        self.announce(count)?;
        self.announced -= 1;
        (0..count).try_for_each(|_| self.element(true).map(drop))?;
        Ok(false)
    }

    /// More than a u64 of elements are not believed.
    fn announce(&mut self, count: u64) -> Result<(), Stop> {
        self.announced += u128::from(count);
        if self.announced > u128::from(u64::MAX) { Err(Stop::Refused) } else { Ok(()) }
    }

    fn end(&mut self, null: bool) -> Result<bool, Stop> {
        self.announced -= 1;
        Ok(null)
    }

    /// The rest of the line, without its end.
    fn text(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\r').ok_or(Stop::Cut)?;
        self.at += length;
        self.line_end()?;
        Ok(&rest[..length])
    }

    fn line_end(&mut self) -> Result<(), Stop> {
        for wanted in [b'\r', b'\n'] {
            let byte = *self.bytes.get(self.at).ok_or(Stop::Cut)?;
            self.at += 1;
            if byte != wanted {
                return Err(Stop::Refused);
            }
        }
        Ok(())
    }

    /// The rest of the line as a number of at most 19 digits whose magnitude is that of an i64.
    fn number(&mut self) -> Result<i64, Stop> {
        let rest = &self.bytes[self.at..];
        let begin = rest.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let (negative, digits) = match begin.strip_prefix(b"-") {
            Some(digits) => (true, digits),
            None => (false, begin),
        };
        if digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
            return Err(Stop::Refused);
        }
        let text = std::str::from_utf8(digits).expect("digits are ASCII");
        let magnitude = if text.is_empty() { Ok(0) } else { text.parse::<i64>() };
        let magnitude = magnitude.map_err(|_| Stop::Refused)?;
        self.text()?;
        match text {
            "" => Err(Stop::Refused),
            _ => Ok(if negative { -magnitude } else { magnitude }),
        }
    }

    fn body(&mut self, length: i64, error: bool) -> Result<(), Stop> {
        let length = usize::try_from(length).map_err(|_| Stop::Refused)?;
        let body = self.bytes[self.at..].get(..length).ok_or(Stop::Cut)?;
        self.at += length;
        self.line_end()?;
        if error {
            self.errors.push(message(body));
        }
        Ok(())
    }
}

fn unsigned(length: i64) -> Result<u64, Stop> {
    u64::try_from(length).map_err(|_| Stop::Refused)
}
