//! A place in the file of a dump, and the items behind it.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::dump::{Dump, DumpError, FIRST_LINE, Item};

/// The file is read in pieces of this size, or of an item that is longer.
pub const PIECE: usize = 16 * 1024;
/// No item is longer than a value of Redis may be, quotes and key included.
const LONGEST: usize = 1 << 30;
/// Numbers before the key.
const NUMBERS: usize = 8;
/// The data of an item has so many bytes fewer than its length says.
const END: usize = 2;

/// Where an item is in the buffer of a cursor.
#[derive(Debug, Clone, Default)]
pub struct ItemPlace {
    key: Range<usize>,
    pub data: Range<usize>,
    expiry: u64,
}

/// A position in the file, and a buffer of the bytes that follow it.
#[derive(Debug, Default)]
pub struct Cursor {
    /// The place in the file of the first byte that was not taken.
    pub at: u64,
    pub line: u64,
    pub buffer: Vec<u8>,
    /// What was read and not yet taken.
    unread: Range<usize>,
}

impl Cursor {
    /// The first byte of the first item, with the memory of another cursor.
    pub fn of_items(begin: u64, buffer: Vec<u8>) -> Cursor {
        Cursor { at: begin, line: FIRST_LINE, buffer, unread: 0..0 }
    }

    /// The item that was taken last.
    pub fn item_at(&self, place: &ItemPlace) -> Item<'_> {
        Item {
            key: &self.buffer[place.key.clone()],
            data: &self.buffer[place.data.clone()],
            expiry: place.expiry,
        }
    }

    fn error(&self, cause: impl Into<String>) -> DumpError {
        DumpError { line: Some(self.line), cause: cause.into() }
    }

    /// Have at least `least` bytes, or all that are left; whether there are so many.
    fn fill(&mut self, dump: &Dump, least: usize) -> Result<bool, DumpError> {
        if self.unread.len() >= least {
            return Ok(true);
        }
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        let room = least.max(PIECE);
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        while self.unread.len() < least {
            let from = self.at + self.unread.len() as u64;
            let left = usize::try_from(dump.length.saturating_sub(from)).unwrap_or(usize::MAX);
            let end = self.buffer.len().min(self.unread.end.saturating_add(left));
            match dump.file.read_at(&mut self.buffer[self.unread.end..end], from) {
                Ok(0) => return Ok(false),
                Ok(count) => self.unread.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn take(&mut self, count: usize) {
        self.unread.start += count;
        self.at += count as u64;
    }

    /// The bytes up to the next end of a line, which is taken, too; none at the end of the file.
    pub fn line(&mut self, dump: &Dump) -> Result<Option<Range<usize>>, DumpError> {
        let mut searched = 0;
        while self.fill(dump, searched + 1)? {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(at) = unread[searched..].iter().position(|byte| *byte == b'\n') {
                let begin = self.unread.start;
                self.take(searched + at + 1);
                return Ok(Some(begin..begin + searched + at));
            }
            searched = unread.len();
            if searched > PIECE {
                break;
            }
        }
        Ok(None)
    }

    /// Take the next item; none at the end of the file.
    pub fn item(&mut self, dump: &Dump) -> Result<Option<ItemPlace>, DumpError> {
        self.skip_blanks(dump)?;
        if !self.fill(dump, 1)? {
            return if self.at < dump.length { Err(self.error("is cut away")) } else { Ok(None) };
        }
        let (numbers, head) = self.numbers(dump)?;
        let [_, _, expiry, data_bytes, _, _, _, key_bytes] = numbers;
        let sizes = (usize::try_from(key_bytes), usize::try_from(data_bytes));
        let (Ok(key_bytes), Ok(data_bytes)) = sizes else {
            return Err(self.error("has an item of more than 1 GiB"));
        };
        let data_bytes =
            data_bytes.checked_sub(END).ok_or_else(|| self.error("has data of fewer than 2 bytes"))?;
        if key_bytes == 0 {
            return Err(self.error("has an empty key"));
        }
        if key_bytes.saturating_add(data_bytes) > LONGEST {
            return Err(self.error("has an item of more than 1 GiB"));
        }
        let (key, after_key) = self.text(dump, head, key_bytes, "key")?;
        if !self.has(dump, after_key, b", ")? {
            return Err(self.error("has no ', ' between key and data"));
        }
        let (data, after_data) = self.text(dump, after_key + 2, data_bytes, "data")?;
        let length = self.end_of_line(dump, after_data)?;
        let begin = self.unread.start;
        self.take(length);
        self.line += 1;
        let moved = |range: Range<usize>| begin + range.start..begin + range.end;
        Ok(Some(ItemPlace { key: moved(key), data: moved(data), expiry }))
    }

    fn skip_blanks(&mut self, dump: &Dump) -> Result<(), DumpError> {
        while self.fill(dump, 1)? && matches!(self.buffer[self.unread.start], b' ' | b'\r' | b'\n') {
            self.line += u64::from(self.buffer[self.unread.start] == b'\n');
            self.take(1);
        }
        Ok(())
    }

    /// The numbers at the begin of an item, and where what follows them begins.
    fn numbers(&mut self, dump: &Dump) -> Result<([u64; NUMBERS], usize), DumpError> {
        let (mut numbers, mut at) = ([0u64; NUMBERS], 0);
        for number in &mut numbers {
            let mut digits = 0;
            loop {
                self.fill(dump, at + 1)?;
                match self.buffer[self.unread.clone()].get(at) {
                    Some(digit @ b'0'..=b'9') if digits < 18 => {
                        *number = *number * 10 + u64::from(digit - b'0')
                    }
                    _ => break,
                }
                (digits, at) = (digits + 1, at + 1);
            }
            if digits == 0 || !self.has(dump, at, b",")? {
                return Err(self.error("does not begin with eight numbers and commas"));
            }
            at += 1;
            while self.has(dump, at, b" ")? {
                at += 1;
            }
        }
        Ok((numbers, at))
    }

    /// Whether `text` is `at` so many bytes behind what was taken.
    fn has(&mut self, dump: &Dump, at: usize, text: &[u8]) -> Result<bool, DumpError> {
        self.fill(dump, at + text.len())?;
        Ok(self.buffer[self.unread.clone()].get(at..at + text.len()) == Some(text))
    }

    /// A text of so many bytes `at` that place, without its quotes, if it has some: in them a quote is written twice.
    fn text(
        &mut self,
        dump: &Dump,
        at: usize,
        bytes: usize,
        name: &str,
    ) -> Result<(Range<usize>, usize), DumpError> {
        let cut = |cursor: &Cursor| cursor.error(format!("is cut within its {name}"));
        if !self.has(dump, at, b"\"")? {
            if !self.fill(dump, at + bytes)? {
                return Err(cut(self));
            }
            return Ok((at..at + bytes, at + bytes));
        }
        let (begin, mut from) = (at + 1, at + 1);
        if self.fill(dump, begin + bytes + 1)? {
            let text = &self.buffer[self.unread.clone()][begin..=begin + bytes];
            if memchr::memchr(b'"', text) == Some(bytes) {
                return Ok((begin..begin + bytes, begin + bytes + 1));
            }
        }
        for to in begin..begin + bytes {
            if !self.fill(dump, from + 1)? {
                return Err(cut(self));
            }
            let base = self.unread.start;
            let byte = self.buffer[base + from];
            from += 1;
            if byte == b'"' {
                if !self.has(dump, from, b"\"")? {
                    return Err(self.error(format!("is shorter in its {name} than it says")));
                }
                from += 1;
            }
            let base = self.unread.start;
            self.buffer[base + to] = byte;
        }
        match self.has(dump, from, b"\"")? {
            true => Ok((begin..begin + bytes, from + 1)),
            false => Err(self.error(format!("is longer in its {name} than it says"))),
        }
    }

    /// The bytes up to the end of the line behind an item, which may be the end of the file.
    fn end_of_line(&mut self, dump: &Dump, at: usize) -> Result<usize, DumpError> {
        let mut at = at;
        while self.has(dump, at, b"\r")? || self.has(dump, at, b" ")? {
            at += 1;
        }
        if self.has(dump, at, b"\n")? {
            return Ok(at + 1);
        }
        match self.fill(dump, at + 1)? {
            true => Err(self.error("has more data than it says")),
            false => Ok(at),
        }
    }
}
