//! Items of a file as memcached's dump has them: a header, then a line for each item with the lengths of its key and its
//! data, which may hold any bytes. The file is read in pieces, as the items are wanted.

mod cursor;

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io;
use std::sync::{Arc, OnceLock};

use cursor::{Cursor, ItemPlace};

const HEADER: &[u8] = b"dumpflags, time, exptime";
/// The line of the first item.
const FIRST_LINE: u64 = 2;

/// A file that was read once from begin to end, so that it is known to be whole, and whose keys are in memory.
#[derive(Debug)]
pub struct Dump {
    file: File,
    /// Where the first item begins.
    begin: u64,
    length: u64,
    keys: Vec<u8>,
    /// Where the key of each item ends in `keys`.
    ends: Vec<u64>,
    pub longest_key: usize,
    pub longest_data: usize,
    /// Why the file could not be read any more.
    fault: OnceLock<String>,
}

/// What is wrong with the file, and in which line, from 1; none before its first one.
#[derive(Debug, PartialEq, Eq)]
pub struct DumpError {
    pub line: Option<u64>,
    pub cause: String,
}

impl Display for DumpError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "line {line} {}", self.cause),
            None => formatter.write_str(&self.cause),
        }
    }
}

impl From<io::Error> for DumpError {
    fn from(error: io::Error) -> DumpError {
        DumpError { line: None, cause: format!("cannot be read ({error})") }
    }
}

/// An item, valid until the next one is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    pub key: &'a [u8],
    pub data: &'a [u8],
    /// Seconds; 0 when it lives for ever.
    pub expiry: u64,
}

impl Dump {
    /// Read the file at `path` once.
    pub fn open(path: &str) -> Result<Dump, DumpError> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut dump = Dump {
            file,
            begin: 0,
            length,
            keys: Vec::new(),
            ends: Vec::new(),
            longest_key: 0,
            longest_data: 0,
            fault: OnceLock::new(),
        };
        let mut cursor = Cursor::default();
        let header = cursor.line(&dump)?;
        if !header.is_some_and(|range| cursor.buffer[range].starts_with(HEADER)) {
            let cause = "does not begin with 'dumpflags, time, exptime'".to_owned();
            return Err(DumpError { line: Some(1), cause });
        }
        dump.begin = cursor.at;
        cursor.line = FIRST_LINE;
        while let Some(place) = cursor.item(&dump)? {
            let key = cursor.item_at(&place).key;
            dump.longest_key = dump.longest_key.max(key.len());
            dump.longest_data = dump.longest_data.max(place.data.len());
            dump.keys.extend_from_slice(key);
            dump.ends.push(dump.keys.len() as u64);
        }
        match dump.ends.is_empty() {
            true => Err(DumpError { line: Some(FIRST_LINE), cause: "has no item".to_owned() }),
            false => Ok(dump),
        }
    }

    pub fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The key of item `number`, from 0.
    pub fn key(&self, number: u64) -> &[u8] {
        let end = |number: u64| self.ends[number as usize] as usize;
        &self.keys[number.checked_sub(1).map_or(0, end)..end(number)]
    }

    /// Why items could not be read any more, if that happened.
    pub fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// A reader that begins with the first item.
    pub fn reader(self: &Arc<Dump>) -> DumpReader {
        DumpReader { dump: self.clone(), cursor: Cursor::default(), place: ItemPlace::default() }
    }
}

/// Reads the items of a dump one after the other, and again.
#[derive(Debug)]
pub struct DumpReader {
    dump: Arc<Dump>,
    cursor: Cursor,
    place: ItemPlace,
}

impl DumpReader {
    /// The next item, after the last one the first. None when the file has become another one: [`Dump::fault`] tells.
    pub fn next_item(&mut self) -> Option<Item<'_>> {
        if self.cursor.at < self.dump.begin {
            self.rewind();
        }
        let item = match self.cursor.item(&self.dump) {
            Ok(None) => {
                self.rewind();
                self.cursor.item(&self.dump)
            }
            item => item,
        };
        match item {
            Ok(Some(place)) => {
                self.place = place;
                Some(self.cursor.item_at(&self.place))
            }
            Ok(None) => self.fail(&DumpError { line: None, cause: "has no item any more".to_owned() }),
            Err(error) => self.fail(&error),
        }
    }

    fn rewind(&mut self) {
        self.cursor = Cursor::of_items(self.dump.begin, std::mem::take(&mut self.cursor.buffer));
    }

    #[cold]
    fn fail(&mut self, error: &DumpError) -> Option<Item<'_>> {
        // The first cause is kept.
        let _ = self.dump.fault.set(error.to_string());
        None
    }
}

#[cfg(test)]
mod tests {
    use super::cursor::PIECE;
    use super::*;

    const HEAD: &str = "dumpflags, time, exptime, nbytes, nsuffix, it_flags, clsid, nkey, key, data\n";

    /// A dump of these lines, in a file that has no name any more.
    fn dump(name: &str, lines: &[u8]) -> Result<Arc<Dump>, DumpError> {
        let path = std::env::temp_dir().join(format!("speedbench-dump-{}-{name}", std::process::id()));
        std::fs::write(&path, [HEAD.as_bytes(), lines].concat()).unwrap();
        let dump = Dump::open(path.to_str().unwrap());
        std::fs::remove_file(path).unwrap();
        dump.map(Arc::new)
    }

    fn items(dump: &Arc<Dump>, count: usize) -> Vec<(Vec<u8>, Vec<u8>, u64)> {
        let mut reader = dump.reader();
        let mut next =
            || reader.next_item().map(|it| (it.key.to_vec(), it.data.to_vec(), it.expiry)).unwrap();
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn items_come_in_order_and_again() {
        let lines = b"0, 0, 9, 5, 0, 0, 0, 2, k1, abc\r\n\n0,0,0,8,0,0,0,3,\"k,2\", \"a\"\"\r\n\0,\"\n0, 0, 0, 2, 0, 0, 0, 1, z, ";
        let dump = dump("order", lines).unwrap();
        let item = |key: &[u8], data: &[u8], expiry| (key.to_vec(), data.to_vec(), expiry);
        let all = [item(b"k1", b"abc", 9), item(b"k,2", b"a\"\r\n\0,", 0), item(b"z", b"", 0)];
        assert_eq!(items(&dump, 7), [&all[..], &all, &all[..1]].concat());
        assert_eq!((dump.count(), dump.longest_key, dump.longest_data), (3, 3, 6));
        assert_eq!(
            [0, 1, 2].map(|number| dump.key(number).to_vec()),
            [b"k1".to_vec(), b"k,2".to_vec(), b"z".to_vec()]
        );
    }

    #[test]
    fn items_are_longer_than_the_pieces_of_the_file() {
        let data: Vec<u8> = (0..3 * PIECE).map(|at| b'a' + (at % 23) as u8).collect();
        let line = |key: &str, data: &[u8]| {
            [
                format!("0, 0, 0, {}, 0, 0, 0, {}, \"{key}\", \"", data.len() + 2, key.len()).as_bytes(),
                data,
                b"\"\n",
            ]
            .concat()
        };
        let lines: Vec<u8> = (0..9).flat_map(|at| line(&format!("k{at}"), &data[at * 5000..])).collect();
        let dump = dump("long", &lines).unwrap();
        for (at, (key, value, _)) in items(&dump, 20).into_iter().enumerate() {
            assert_eq!((key, value), (format!("k{}", at % 9).into_bytes(), data[at % 9 * 5000..].to_vec()));
        }
    }

    #[test]
    fn what_is_wrong_has_a_line() {
        let good = "0, 0, 0, 3, 0, 0, 0, 1, a, b\n";
        for (line, message) in [
            ("", "line 2 has no item"),
            ("hello\n", "line 2 does not begin with eight numbers and commas"),
            ("0, 0, 0, 3, 0, 0, 0, 1\n", "line 2 does not begin with eight numbers and commas"),
            (&format!("{good}{good}0, 0, 0, 12, 0, 0, 0, 1, a, b"), "line 4 is cut within its data"),
            (&format!("{good}0, 0, 0, 3, 0, 0, 0, 12, a, b"), "line 3 is cut within its key"),
            ("0, 0, 0, 12, 0, 0, 0, 1, a, \"b\"\n", "line 2 is shorter in its data than it says"),
            ("0, 0, 0, 3, 0, 0, 0, 1, a, \"bc\"\n", "line 2 is longer in its data than it says"),
            ("0, 0, 0, 3, 0, 0, 0, 1, a, bc\n", "line 2 has more data than it says"),
            ("0, 0, 0, 3, 0, 0, 0, 1, ab, c\n", "line 2 has no ', ' between key and data"),
            ("0, 0, 0, 1, 0, 0, 0, 1, a, b\n", "line 2 has data of fewer than 2 bytes"),
            ("0, 0, 0, 3, 0, 0, 0, 0, , b\n", "line 2 has an empty key"),
            ("0, 0, 0, 9000000000, 0, 0, 0, 1, a, b\n", "line 2 has an item of more than 1 GiB"),
        ] {
            let error = dump(&format!("wrong-{}", line.len()), line.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), message, "{line}");
        }
        let foreign = Dump::open("/proc/self/status").unwrap_err();
        assert_eq!(foreign.line, Some(1));
        assert!(Dump::open("/nonexistent").unwrap_err().to_string().starts_with("cannot be read"));
    }
}
