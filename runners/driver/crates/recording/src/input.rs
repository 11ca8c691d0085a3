//! A file that is read from its begin to the end that it had when it was opened, by lines or by bytes, with the place of
//! each. A recorder that still writes to it, perhaps of what is replayed, has no influence.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

/// The file is read in pieces of this size.
const PIECE: usize = 256 * 1024;

pub struct Input {
    file: io::Take<File>,
    buffer: Vec<u8>,
    /// What was read and not yet taken.
    unread: Range<usize>,
    /// The place in the file of the first byte that was not taken.
    offset: u64,
    /// Lines that were taken.
    lines: u64,
    ended: bool,
}

/// A line without its end, as a range of the buffer that is valid until more is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Whole(Range<usize>),
    /// The last one, which has no end.
    Cut(Range<usize>),
    /// It was longer than allowed, and was skipped.
    TooLong,
    /// There is none.
    None,
}

impl Input {
    pub fn new(file: File) -> Input {
        let length = file.metadata().map_or(u64::MAX, |of_file| of_file.len());
        Input {
            file: file.take(length),
            buffer: vec![0; PIECE],
            unread: 0..0,
            offset: 0,
            lines: 0,
            ended: false,
        }
    }

    /// The place in the file of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of the line that was taken last, from 1.
    pub fn line_number(&self) -> u64 {
        self.lines
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// The bytes that come next, as many as were read; at least `least` unless the file ends before.
    pub fn peek(&mut self, least: usize) -> io::Result<&[u8]> {
        while self.unread.len() < least && self.read_more()? {}
        Ok(&self.buffer[self.unread.clone()])
    }

    /// Take the next line, which ends with LF or CR LF and has at most `most` bytes.
    pub fn line(&mut self, most: usize) -> io::Result<Line> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.unread.start + searched..self.unread.end];
            if let Some(at) = memchr::memchr(b'\n', rest) {
                let length = searched + at;
                let begin = self.unread.start;
                self.take(length + 1);
                self.lines += 1;
                let is_crlf = length > 0 && self.buffer[begin + length - 1] == b'\r';
                return Ok(Line::Whole(begin..begin + length - usize::from(is_crlf)));
            }
            searched = self.unread.len();
            if searched > most {
                self.skip_line()?;
                self.lines += 1;
                return Ok(Line::TooLong);
            }
            if !self.read_more()? {
                let rest = self.unread.clone();
                self.take(rest.len());
                self.lines += u64::from(!rest.is_empty());
                return Ok(if rest.is_empty() { Line::None } else { Line::Cut(rest) });
            }
        }
    }

    /// Take `count` bytes; none when the file has fewer.
    pub fn block(&mut self, count: usize) -> io::Result<Option<Range<usize>>> {
        while self.unread.len() < count {
            if !self.read_more()? {
                return Ok(None);
            }
        }
        let begin = self.unread.start;
        self.take(count);
        Ok(Some(begin..begin + count))
    }

    /// Take `count` bytes without keeping them; whether the file has so many.
    pub fn skip(&mut self, mut count: u64) -> io::Result<bool> {
        loop {
            let taken = (self.unread.len() as u64).min(count);
            self.take(taken as usize);
            count -= taken;
            if count == 0 {
                return Ok(true);
            }
            if !self.read_more()? {
                return Ok(false);
            }
        }
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let rest = &self.buffer[self.unread.clone()];
            match memchr::memchr(b'\n', rest) {
                Some(at) => {
                    self.take(at + 1);
                    return Ok(());
                }
                None => self.take(rest.len()),
            }
            if !self.read_more()? {
                return Ok(());
            }
        }
    }

    fn take(&mut self, count: usize) {
        self.unread.start += count;
        self.offset += count as u64;
    }

    /// Whether there was more.
    fn read_more(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.unread.is_empty() {
            self.unread = 0..0;
            // Room for what was unusually long is given back.
            self.buffer.truncate(PIECE.max(self.buffer.len() / 2));
            self.buffer.shrink_to(PIECE);
        } else if self.unread.end == self.buffer.len() {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            if self.unread.len() > self.buffer.len() / 2 {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
        }
        loop {
            match self.file.read(&mut self.buffer[self.unread.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let read = read?;
                    self.unread.end += read;
                    self.ended = read == 0;
                    return Ok(read > 0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_appended_while_it_is_read_is_left_out() {
        let path = std::env::temp_dir().join(format!("speedbench-input-{}", std::process::id()));
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let mut input = Input::new(File::open(&path).unwrap());
        let mut appended = OpenOptions::new().append(true).open(&path).unwrap();
        appended.write_all(b"three\n").unwrap();
        std::fs::remove_file(&path).unwrap();
        for line in ["one", "two"] {
            let Line::Whole(range) = input.line(100).unwrap() else { panic!("{line} is there") };
            assert_eq!(input.bytes(range), line.as_bytes());
        }
        assert_eq!(input.line(100).unwrap(), Line::None);
    }
}
