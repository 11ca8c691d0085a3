//! A recording that is open, whatever its format: one request after the other, each with its place.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::append_only::{AppendOnly, Command};
use crate::cache_trace::CacheTrace;
use crate::commands::{Meaning, blocks, meaning};
use crate::format::{Format, Wire};
use crate::input::{Input, Line};
use crate::monitor::{Words, number};
use crate::omission::Reason;
use crate::request::{LARGEST, Request};
use text::failure::Failure;

/// The format of a file is told by this much of it.
const BEGIN: usize = 4096;

/// What came next.
#[derive(Debug)]
pub enum Next {
    Request,
    LeftOut(Reason),
    End,
    /// Nothing can be read from here on.
    Broken(Failure),
}

/// How a recording is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub path: PathBuf,
    /// As messages call it.
    pub name: String,
    pub format: Option<Format>,
    pub wire: Wire,
    pub seed: u64,
}

enum Lines {
    Monitor(Words),
    AppendOnly(AppendOnly),
    CacheTrace(CacheTrace),
}

pub struct Recording {
    name: String,
    pub format: Format,
    /// Whether requests have times.
    pub has_times: bool,
    /// Whether these are whole seconds.
    pub has_seconds: bool,
    input: Input,
    lines: Lines,
    /// Of the last request: its place.
    place: u64,
    /// The database of an append-only file's last SELECT.
    database: u64,
}

impl Recording {
    /// Open the file of `source`; usage failures unless it is a recording that can be sent over its wire.
    pub fn open(source: &Source) -> Result<Recording, Failure> {
        let unreadable = |error| unreadable(&source.name, error);
        let file = File::open(&source.path).map_err(unreadable)?;
        require_file(&file, &source.path, &source.name)?;
        let mut input = Input::new(file);
        let begin = input.peek(BEGIN).map_err(unreadable)?;
        let told = Format::of(begin);
        let format = match (source.format, told) {
            (Some(format), Err(_)) if !begin.is_empty() => format,
            (Some(format), Ok(_)) => format,
            (None, Ok(format)) => format,
            (_, Err((cause, remedy))) => {
                return Err(Failure::usage(format!("{}: {cause}", source.name), remedy));
            }
        };
        if source.wire == Wire::Memcached && !format.is_of_caches() {
            return Err(Failure::usage(
                format!("{} was recorded of a server that speaks RESP", source.name),
                "leave --protocol memcached out",
            ));
        }
        let mut recording = Recording {
            name: source.name.clone(),
            format,
            has_times: true,
            has_seconds: format != Format::Monitor,
            input,
            lines: match format {
                Format::Monitor => Lines::Monitor(Words::default()),
                _ => Lines::AppendOnly(AppendOnly::default()),
            },
            place: 0,
            database: 0,
        };
        match format {
            Format::Monitor => {}
            Format::Aof => recording.has_times = is_annotated(&source.path).map_err(unreadable)?,
            Format::Twitter | Format::Kvcache => recording.begin_trace(source)?,
        }
        Ok(recording)
    }

    /// Take the head of a cache trace, if it has one.
    fn begin_trace(&mut self, source: &Source) -> Result<(), Failure> {
        let begin = self.input.peek(BEGIN).map_err(|error| unreadable(&source.name, error))?;
        let line = begin.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
        let columns = self.format.columns(line).ok_or_else(|| {
            Failure::usage(
                format!("{}: line 1 names no columns key, op, size and key_size", source.name),
                "put the head of the trace before its rows",
            )
        })?;
        if self.format == Format::Kvcache {
            self.input.line(BEGIN).map_err(|error| unreadable(&source.name, error))?;
        }
        self.has_times = columns.has_times();
        self.lines = Lines::CacheTrace(CacheTrace::new(columns, source.wire, source.seed));
        Ok(())
    }

    /// Fill `request` with the next one.
    pub fn next(&mut self, request: &mut Request) -> Result<Next, Failure> {
        request.clear();
        self.place = self.input.offset();
        let next = match &mut self.lines {
            Lines::AppendOnly(file) => file.read(&mut self.input, request).map(|command| match command {
                Command::Read => Next::Request,
                Command::TooLarge => Next::LeftOut(Reason::TooLarge),
                Command::Cut => Next::LeftOut(Reason::Cut),
                Command::End => Next::End,
                Command::Garbage => Next::Broken(Failure::run(
                    format!("{}: at byte {} no command begins", self.name, self.place),
                    "look at it with redis-check-aof, and copy the file again",
                )),
            }),
            lines => read_line(&mut self.input, lines, request),
        };
        match next.map_err(|error| unreadable(&self.name, error))? {
            Next::Request if !self.format.is_of_caches() => Ok(self.select(request)),
            next => Ok(next),
        }
    }

    /// Leave out what would change its connection or the server.
    fn select(&mut self, request: &mut Request) -> Next {
        if let Lines::AppendOnly(_) = self.lines {
            request.database = self.database;
        }
        match meaning(&request.name) {
            Meaning::LeftOut(reason) => {
                let is_selected = reason == Reason::Select && matches!(self.lines, Lines::AppendOnly(_));
                self.database = selected(&request.bytes).filter(|_| is_selected).unwrap_or(self.database);
                Next::LeftOut(reason)
            }
            Meaning::Stream if blocks(&request.bytes) => Next::LeftOut(Reason::Blocking),
            Meaning::Sent | Meaning::Stream | Meaning::Begin => Next::Request,
        }
    }

    /// Whether its requests tell which client sent them.
    pub fn has_clients(&self) -> bool {
        matches!(self.format, Format::Monitor | Format::Twitter)
    }

    /// The place of the last request: `line 12`, or `byte 3456`.
    pub fn place(&self) -> String {
        match self.lines {
            Lines::AppendOnly(_) => format!("byte {}", self.place),
            _ => format!("line {}", self.input.line_number()),
        }
    }

    /// Bytes that were read.
    pub fn bytes(&self) -> u64 {
        self.input.offset()
    }
}

/// Fill `request` with what the next line says; empty ones and MONITOR's OK say nothing.
fn read_line(input: &mut Input, lines: &mut Lines, request: &mut Request) -> io::Result<Next> {
    loop {
        let line = input.line(LARGEST)?;
        let (range, is_cut) = match line {
            Line::Whole(range) => (range, false),
            // A last line may lack its end, and be whole all the same.
            Line::Cut(range) => (range, true),
            Line::TooLong => return Ok(Next::LeftOut(Reason::TooLarge)),
            Line::None => return Ok(Next::End),
        };
        let text = input.bytes(range);
        let read = match lines {
            _ if text.is_empty() => continue,
            Lines::Monitor(_) if matches!(text, b"OK" | b"+OK") => continue,
            Lines::Monitor(words) => words.read(text, request),
            Lines::CacheTrace(trace) => trace.read(text, request),
            Lines::AppendOnly(_) => continue,
        };
        return Ok(match read {
            Ok(()) if request.bytes.len() > LARGEST => Next::LeftOut(Reason::TooLarge),
            Ok(()) => Next::Request,
            Err(Reason::Unreadable) if is_cut => Next::LeftOut(Reason::Cut),
            Err(reason) => Next::LeftOut(reason),
        });
    }
}

/// The database that the SELECT in `bytes` names.
fn selected(bytes: &[u8]) -> Option<u64> {
    let word = bytes.strip_suffix(b"\r\n")?.rsplit(|byte| *byte == b'\n').next()?;
    number(word)
}

/// Whether an append-only file has times. The first may come late: the file before it has that of its begin.
fn is_annotated(path: &Path) -> io::Result<bool> {
    let mut input = Input::new(File::open(path)?);
    loop {
        match input.line(LARGEST)? {
            Line::Whole(line) if input.bytes(line.clone()).starts_with(b"#TS:") => return Ok(true),
            Line::Whole(_) | Line::TooLong => {}
            Line::Cut(_) | Line::None => return Ok(false),
        }
    }
}

fn require_file(file: &File, path: &Path, name: &str) -> Result<(), Failure> {
    let kind = file.metadata().map_err(|error| unreadable(name, error))?;
    match kind.is_dir() {
        false => Ok(()),
        true => Err(Failure::usage(
            format!("{} is a folder", path.display()),
            "give a file; of an append-only folder the *.incr.aof",
        )),
    }
}

fn unreadable(name: &str, error: io::Error) -> Failure {
    Failure::usage(format!("cannot read the recording {name} ({error})"), "name a file that can be read")
}
