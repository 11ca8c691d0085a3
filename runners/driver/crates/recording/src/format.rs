//! The formats of recordings, told by how a file begins.

use serde::{Deserialize, Serialize};

use crate::cache_trace::{Columns, TWITTER, is_twitter};
use crate::monitor;

/// The protocol that requests are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Resp,
    Memcached,
}

/// The format of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The output of `redis-cli MONITOR`.
    Monitor,
    /// An append-only file.
    Aof,
    /// A cache trace as Twitter publishes them.
    Twitter,
    /// A cache trace of key-value caches as Meta publishes them.
    Kvcache,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Monitor => "monitor",
            Format::Aof => "aof",
            Format::Twitter => "twitter",
            Format::Kvcache => "kvcache",
        }
    }

    /// Whether its requests have no protocol of their own.
    pub fn is_of_caches(self) -> bool {
        matches!(self, Format::Twitter | Format::Kvcache)
    }

    /// The format of a file that begins with `bytes`; else a cause and a remedy.
    pub fn of(bytes: &[u8]) -> Result<Format, (String, &'static str)> {
        if let Some((what, remedy)) = foreign(bytes) {
            return Err((what.to_owned(), remedy));
        }
        let line = first_line(bytes);
        match line {
            [b'*', rest @ ..] if monitor::number(rest).is_some() => Ok(Format::Aof),
            _ if line.starts_with(b"#TS:") => Ok(Format::Aof),
            _ if monitor::is_one(line) => Ok(Format::Monitor),
            _ if is_twitter(line) => Ok(Format::Twitter),
            _ if Columns::named(line).is_some() => Ok(Format::Kvcache),
            _ => Err((
                format!("line 1 is of no known recording: '{}'", line[..line.len().min(60)].escape_ascii()),
                "give the output of redis-cli MONITOR, an append-only file, or a cache trace of Twitter's or Meta's columns",
            )),
        }
    }

    /// The columns of a cache trace whose first line is `line`.
    pub fn columns(self, line: &[u8]) -> Option<Columns> {
        match self {
            Format::Twitter => Some(TWITTER),
            Format::Kvcache => Columns::named(line),
            Format::Monitor | Format::Aof => None,
        }
    }
}

/// What a file is that cannot be played as it is, and what to give instead.
fn foreign(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const SNAPSHOT: (&str, &str) = (
        "it begins with a snapshot (RDB), which holds no requests",
        "load it into the server, and give the *.incr.aof beside it; or record with aof-use-rdb-preamble no",
    );
    const PACKED: (&str, &str) = ("it is compressed", "unpack it first (zstd -d, gunzip)");
    let known = [
        (b"REDIS".as_slice(), SNAPSHOT),
        (b"VALKEY", SNAPSHOT),
        (b"file ", ("it is the manifest of an append-only file", "give the *.incr.aof that it names")),
        (b"\x28\xb5\x2f\xfd", PACKED),
        (b"\x1f\x8b", PACKED),
    ];
    if bytes.is_empty() {
        return Some(("it is empty", "record again"));
    }
    known.into_iter().find(|(begin, _)| bytes.starts_with(begin)).map(|(_, what)| what)
}

fn first_line(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_its_format_by_its_begin() {
        for (begin, format) in [
            ("OK\n1.000000 [0 1.1.1.1:1] \"PING\"\n", Format::Monitor),
            ("+1.000000 [0 1.1.1.1:1] \"PING\"\r\n", Format::Monitor),
            ("*1\r\n$4\r\nPING\r\n", Format::Aof),
            ("#TS:1700000000\r\n*1\r\n", Format::Aof),
            ("0,k,1,2,3,get,0\n", Format::Twitter),
            ("key,op,size,op_count,key_size\n", Format::Kvcache),
        ] {
            assert_eq!(Format::of(begin.as_bytes()), Ok(format), "{begin}");
        }
        for (begin, cause) in [
            ("REDIS0011", "snapshot"),
            ("file appendonly.aof.1.base.rdb seq 1 type b", "manifest"),
            ("\x1f\u{8b}", "no known recording"),
            ("", "empty"),
            ("hello", "line 1 is of no known recording: 'hello'"),
        ] {
            assert!(Format::of(begin.as_bytes()).unwrap_err().0.contains(cause), "{begin}");
        }
    }
}
