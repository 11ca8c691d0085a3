//! Cache traces as CSV: those of Twitter (github.com/twitter/cache-trace, README: timestamp in s, key, key size, value size,
//! client id, operation, TTL) and those of Meta's key-value caches (github.com/facebook/CacheLib, its KVReplayGenerator.h: a
//! head names the columns; `key,op,size,op_count,key_size` with an optional `ttl`, or
//! `op_time,key,key_size,op,op_count,size,cache_hits,ttl`).
//!
//! They tell sizes and not values: values are cut out of random text, by the key.

use generator::rng::Rng;

use crate::format::Wire;
use crate::monitor::number;
use crate::omission::Reason;
use crate::request::{LARGEST, Request, hash, push_length, push_number, push_word};

/// The places of the columns in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    time: Option<usize>,
    key: usize,
    key_bytes: usize,
    value_bytes: usize,
    client: Option<usize>,
    operation: usize,
    times: Option<usize>,
    ttl: Option<usize>,
}

/// Those of Twitter's traces, which have no head.
pub const TWITTER: Columns = Columns {
    time: Some(0),
    key: 1,
    key_bytes: 2,
    value_bytes: 3,
    client: Some(4),
    operation: 5,
    times: None,
    ttl: Some(6),
};

/// More columns than a row has.
const MOST_COLUMNS: usize = 16;
/// Values are slices of a text of this many bytes.
const TEXT_BYTES: usize = 1 << 20;
const ALPHABET: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
/// memcached takes a longer time to live for a date.
const LONGEST_TTL_S: u64 = 30 * 24 * 60 * 60;
const LONGEST_MEMCACHED_KEY: usize = 250;

impl Columns {
    /// Those that the head `line` of Meta's traces names; none when it is no such head.
    pub fn named(line: &[u8]) -> Option<Columns> {
        let names: Vec<&[u8]> = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
        let place = |name: &str| names.iter().position(|other| *other == name.as_bytes());
        (names.len() <= MOST_COLUMNS).then_some(())?;
        Some(Columns {
            time: place("op_time"),
            key: place("key")?,
            key_bytes: place("key_size")?,
            value_bytes: place("size")?,
            client: None,
            operation: place("op")?,
            times: place("op_count"),
            ttl: place("ttl"),
        })
    }

    pub fn has_times(&self) -> bool {
        self.time.is_some()
    }
}

/// Whether `line` is a row of Twitter's traces.
pub fn is_twitter(line: &[u8]) -> bool {
    let cells: Vec<&[u8]> = line.split(|byte| *byte == b',').collect();
    cells.len() == 7
        && [0, 2, 3, 6].iter().all(|at| number(cells[*at]).is_some())
        && Operation::named(cells[5]).is_some()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Get,
    Gets,
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Delete,
    Increment,
    Decrement,
}

impl Operation {
    fn named(name: &[u8]) -> Option<Operation> {
        Some(match name {
            b"get" | b"GET" | b"GET_LEASE" => Operation::Get,
            b"gets" => Operation::Gets,
            b"set" | b"SET" | b"SET_LEASE" => Operation::Set,
            b"add" => Operation::Add,
            // A trace does not tell the version that was compared.
            b"replace" | b"cas" => Operation::Replace,
            b"append" => Operation::Append,
            b"prepend" => Operation::Prepend,
            b"delete" | b"DELETE" => Operation::Delete,
            b"incr" => Operation::Increment,
            b"decr" => Operation::Decrement,
            _ => return None,
        })
    }
}

/// One row.
struct Row<'a> {
    operation: Operation,
    key: &'a [u8],
    value_bytes: usize,
    ttl_s: u64,
}

pub struct CacheTrace {
    columns: Columns,
    wire: Wire,
    text: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl CacheTrace {
    /// Rows with these columns become requests of `wire`; their values depend on `seed` and the key.
    pub fn new(columns: Columns, wire: Wire, seed: u64) -> CacheTrace {
        let mut text = vec![0; TEXT_BYTES];
        Rng::stream(seed, u64::MAX - 2).fill(&mut text);
        text.iter_mut().for_each(|byte| *byte = ALPHABET[usize::from(*byte % 64)]);
        CacheTrace { columns, wire, text, key: Vec::new(), value: Vec::new() }
    }

    /// Fill `request` with what `line` says, or say why not.
    pub fn read(&mut self, line: &[u8], request: &mut Request) -> Result<(), Reason> {
        let (columns, mut places, mut count) = (self.columns, [(0, 0); MOST_COLUMNS], 0);
        let mut begin = 0;
        for end in memchr::memchr_iter(b',', line).chain([line.len()]) {
            *places.get_mut(count).ok_or(Reason::Unreadable)? = (begin, end);
            (begin, count) = (end + 1, count + 1);
        }
        let cell = |at: usize| {
            let (from, to) = places[..count].get(at).copied().ok_or(Reason::Unreadable)?;
            Ok(line[from..to].trim_ascii())
        };
        let amount = |at: usize| number(cell(at)?).ok_or(Reason::Unreadable);
        let optional = |at: Option<usize>, otherwise: u64| at.map_or(Ok(otherwise), amount);
        let (key, key_bytes, value_bytes) =
            (cell(columns.key)?, amount(columns.key_bytes)?, amount(columns.value_bytes)?);
        let operation = Operation::named(cell(columns.operation)?).ok_or(Reason::NoCounterpart)?;
        request.times = optional(columns.times, 1)?;
        let ttl_s = optional(columns.ttl, 0)?;
        if let Some(time) = columns.time {
            request.at_ns = Some(amount(time)?.checked_mul(1_000_000_000).ok_or(Reason::Unreadable)?);
        }
        if key.is_empty() {
            return Err(Reason::Unreadable);
        }
        if key_bytes.saturating_add(value_bytes) > LARGEST as u64 / 2 {
            return Err(Reason::TooLarge);
        }
        // Without clients, the order of each key is kept.
        request.client = hash(columns.client.map_or(Ok(key), cell)?);
        let mut padded = std::mem::take(&mut self.key);
        padded.clear();
        padded.extend_from_slice(key);
        padded.resize(key.len().max(key_bytes as usize), b'_');
        let row = Row { operation, key: &padded, value_bytes: value_bytes as usize, ttl_s };
        let written = match self.wire {
            Wire::Resp => self.write_resp(&row, request),
            Wire::Memcached => self.write_memcached(&row, request),
        };
        self.key = padded;
        written
    }

    /// The value that belongs to the key of `row`, over the one before.
    fn draw_value(&mut self, row: &Row) {
        self.value.clear();
        let mut from = hash(row.key) as usize % self.text.len();
        while self.value.len() < row.value_bytes {
            let taken = (row.value_bytes - self.value.len()).min(self.text.len() - from);
            self.value.extend_from_slice(&self.text[from..from + taken]);
            from = 0;
        }
    }

    fn write_resp(&mut self, row: &Row, request: &mut Request) -> Result<(), Reason> {
        let (name, has_value, option): (&[u8], bool, &[u8]) = match row.operation {
            Operation::Get | Operation::Gets => (b"GET", false, b""),
            Operation::Set => (b"SET", true, b""),
            Operation::Add => (b"SET", true, b"NX"),
            Operation::Replace => (b"SET", true, b"XX"),
            Operation::Append => (b"APPEND", true, b""),
            Operation::Prepend => return Err(Reason::NoCounterpart),
            Operation::Delete => (b"DEL", false, b""),
            Operation::Increment => (b"INCR", false, b""),
            Operation::Decrement => (b"DECR", false, b""),
        };
        let has_ttl = name == b"SET" && row.ttl_s > 0;
        let words = 2 + usize::from(has_value) + usize::from(!option.is_empty()) + 2 * usize::from(has_ttl);
        request.name.extend_from_slice(name);
        let bytes = &mut request.bytes;
        push_length(bytes, b'*', words);
        push_word(bytes, name);
        push_word(bytes, row.key);
        if has_value {
            self.draw_value(row);
            push_word(bytes, &self.value);
        }
        if !option.is_empty() {
            push_word(bytes, option);
        }
        if has_ttl {
            push_word(bytes, b"EX");
            let mut seconds = Vec::with_capacity(20);
            push_number(&mut seconds, row.ttl_s);
            push_word(bytes, &seconds);
        }
        Ok(())
    }

    fn write_memcached(&mut self, row: &Row, request: &mut Request) -> Result<(), Reason> {
        let (name, has_value): (&[u8], bool) = match row.operation {
            Operation::Get => (b"get", false),
            Operation::Gets => (b"gets", false),
            Operation::Set => (b"set", true),
            Operation::Add => (b"add", true),
            Operation::Replace => (b"replace", true),
            Operation::Append => (b"append", true),
            Operation::Prepend => (b"prepend", true),
            Operation::Delete => (b"delete", false),
            Operation::Increment => (b"incr", false),
            Operation::Decrement => (b"decr", false),
        };
        if row.key.len() > LONGEST_MEMCACHED_KEY {
            return Err(Reason::TooLarge);
        }
        if row.key.iter().any(|byte| *byte <= b' ' || *byte == 127) {
            return Err(Reason::Unreadable);
        }
        request.name.extend_from_slice(name);
        let bytes = &mut request.bytes;
        bytes.extend_from_slice(name);
        bytes.push(b' ');
        bytes.extend_from_slice(row.key);
        if has_value {
            bytes.extend_from_slice(b" 0 ");
            push_number(bytes, row.ttl_s.min(LONGEST_TTL_S));
            bytes.push(b' ');
            push_number(bytes, row.value_bytes as u64);
            bytes.extend_from_slice(b"\r\n");
            self.draw_value(row);
            bytes.extend_from_slice(&self.value);
        } else if matches!(row.operation, Operation::Increment | Operation::Decrement) {
            bytes.extend_from_slice(b" 1");
        }
        bytes.extend_from_slice(b"\r\n");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(columns: Columns, wire: Wire, line: &str) -> Result<Request, Reason> {
        let mut request = Request::default();
        request.clear();
        CacheTrace::new(columns, wire, 1).read(line.as_bytes(), &mut request).map(|()| request)
    }

    #[test]
    fn a_row_of_twitter_becomes_a_request_of_either_protocol() {
        let line = "7,nz:u:eeW5,14,3,42,set,600";
        let request = read(TWITTER, Wire::Resp, line).unwrap();
        assert_eq!((request.at_ns, request.client), (Some(7_000_000_000), hash(b"42")));
        let text = String::from_utf8(request.bytes).unwrap();
        assert!(text.starts_with("*5\r\n$3\r\nSET\r\n$14\r\nnz:u:eeW5_____\r\n$3\r\n"), "{text}");
        assert!(text.ends_with("$2\r\nEX\r\n$3\r\n600\r\n"), "{text}");
        let text = String::from_utf8(read(TWITTER, Wire::Memcached, line).unwrap().bytes).unwrap();
        assert!(text.starts_with("set nz:u:eeW5_____ 0 600 3\r\n") && text.ends_with("\r\n"), "{text}");
        let request = read(TWITTER, Wire::Memcached, "7,k,1,0,42,incr,0").unwrap();
        assert_eq!(request.bytes, b"incr k 1\r\n");
    }

    #[test]
    fn a_head_names_the_columns_of_meta() {
        let columns = Columns::named(b"key,op,size,op_count,key_size").unwrap();
        assert!(!columns.has_times());
        let request = read(columns, Wire::Resp, "1668757755,GET,82,3,12").unwrap();
        assert_eq!(request.bytes, b"*2\r\n$3\r\nGET\r\n$12\r\n1668757755__\r\n");
        assert_eq!((request.times, request.client), (3, hash(b"1668757755")));
        let columns = Columns::named(b"op_time,key,key_size,op,op_count,size,cache_hits,ttl").unwrap();
        let request = read(columns, Wire::Resp, "564726470,798057486,9,GET,1,62,1,0").unwrap();
        assert_eq!(request.at_ns, Some(564_726_470_000_000_000));
        assert_eq!(Columns::named(b"a,b"), None);
    }

    #[test]
    fn rows_that_cannot_be_sent_have_their_reason() {
        for (line, reason) in [
            ("7,k,536870912,3,42,get,0", Reason::TooLarge),
            ("7,k,1,3,42,prepend,0", Reason::NoCounterpart),
            ("7,k,1,3,42,frob,0", Reason::NoCounterpart),
            ("7,k,1", Reason::Unreadable),
            ("x,k,1,3,42,get,0", Reason::Unreadable),
            (",,,,,,,,,,,,,,,,,,", Reason::Unreadable),
        ] {
            assert_eq!(read(TWITTER, Wire::Resp, line).unwrap_err(), reason, "{line}");
        }
        let key = format!("7,{},251,3,42,get,0", "k".repeat(251));
        assert_eq!(read(TWITTER, Wire::Memcached, &key).unwrap_err(), Reason::TooLarge);
    }
}
