//! An append-only file: commands as arrays of bulks, and `#TS:` lines with the second of those that follow.

use std::io;

use crate::input::{Input, Line};
use crate::monitor::number;
use crate::request::{LARGEST, Request, push_length};

/// No head of an array or a bulk is longer, and no annotation.
const LONGEST_LINE: usize = 1024;
const MOST_WORDS: u64 = 1 << 20;

/// What came next in the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Read,
    TooLarge,
    /// The file ends within it.
    Cut,
    End,
    /// Something else stands there.
    Garbage,
}

#[derive(Default)]
pub struct AppendOnly {
    /// The second of the last annotation.
    second: Option<u64>,
}

impl AppendOnly {
    /// Fill `request` with the next command.
    pub fn read(&mut self, input: &mut Input, request: &mut Request) -> io::Result<Command> {
        while input.peek(1)?.first() == Some(&b'#') {
            match input.line(LONGEST_LINE)? {
                Line::Whole(line) => self.annotate(input.bytes(line)),
                Line::TooLong => {}
                Line::Cut(_) | Line::None => return Ok(Command::Cut),
            }
        }
        if input.peek(1)?.is_empty() {
            return Ok(Command::End);
        }
        request.at_ns = self.second.and_then(|second| second.checked_mul(1_000_000_000));
        read_command(input, request)
    }

    /// `#TS:1700000000`; other annotations mean nothing here.
    fn annotate(&mut self, line: &[u8]) {
        self.second = line.strip_prefix(b"#TS:").and_then(number).or(self.second);
    }
}

fn read_command(input: &mut Input, request: &mut Request) -> io::Result<Command> {
    let words = match head(input, b'*')? {
        Ok(words) if (1..=MOST_WORDS).contains(&words) => words,
        Ok(_) => return Ok(Command::Garbage),
        Err(other) => return Ok(other),
    };
    push_length(&mut request.bytes, b'*', words as usize);
    let mut is_too_large = false;
    for at in 0..words {
        let length = match head(input, b'$')? {
            Ok(length) => length,
            Err(other) => return Ok(other),
        };
        is_too_large |= request.bytes.len() as u64 + length > LARGEST as u64;
        if is_too_large {
            if !input.skip(length.saturating_add(2))? {
                return Ok(Command::Cut);
            }
            continue;
        }
        let length = length as usize;
        let Some(word) = input.block(length + 2)? else { return Ok(Command::Cut) };
        let word = input.bytes(word);
        if !word.ends_with(b"\r\n") {
            return Ok(Command::Garbage);
        }
        if at == 0 {
            request.name.extend_from_slice(&word[..length]);
        }
        push_length(&mut request.bytes, b'$', length);
        request.bytes.extend_from_slice(word);
    }
    Ok(if is_too_large { Command::TooLarge } else { Command::Read })
}

/// The length behind the byte `kind`; else what stands there instead.
fn head(input: &mut Input, kind: u8) -> io::Result<Result<u64, Command>> {
    Ok(match input.line(LONGEST_LINE)? {
        Line::Whole(line) => input.bytes(line).strip_prefix(&[kind]).and_then(number).ok_or(Command::Garbage),
        Line::Cut(line) if !input.bytes(line.clone()).starts_with(&[kind]) => Err(Command::Garbage),
        Line::Cut(_) | Line::None => Err(Command::Cut),
        Line::TooLong => Err(Command::Garbage),
    })
}
