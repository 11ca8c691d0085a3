//! The replies to recorded requests, of which nobody knows beforehand what they should be.

use memchr::memchr;

use protocol::replies::{Protocol, ProtocolError, Replies, Tally};
use protocol::script::Script;
use protocol::skipper::Skipper;

/// Errors are reported with at most this many bytes of their text.
const ERROR_TEXT: usize = 200;
const LONGEST_LINE: usize = 4096;

/// RESP, with replies of every type.
pub struct AnyResp;

impl Protocol for AnyResp {
    type Replies = Skipper;
    const NAME: &'static str = "RESP";
    const ERROR_MARK: &'static str = "-";

    fn replies(&self, _: &Script, _: usize) -> Skipper {
        Skipper::any()
    }
}

/// The text protocol of memcached, with the replies to retrievals, storage, deletions and counters.
pub struct AnyMemcached;

impl Protocol for AnyMemcached {
    type Replies = Lines;
    const NAME: &'static str = "the text protocol of memcached";
    const ERROR_MARK: &'static str = "";

    fn replies(&self, _: &Script, _: usize) -> Lines {
        Lines::default()
    }
}

/// Replies of lines: values with their data up to END, or one line.
#[derive(Default)]
pub struct Lines {
    /// The begin of a line that was cut.
    line: Vec<u8>,
    /// Bytes of data and of the line end behind it that are still to come.
    data: u64,
    found: bool,
}

impl Lines {
    /// Take a whole line; whether it ends a reply.
    fn take(&mut self, line: &[u8], tally: &mut Tally) -> Result<bool, ProtocolError> {
        let line = line.trim_ascii_end();
        let mut words = line.split(|byte| *byte == b' ');
        match words.next().unwrap_or_default() {
            b"VALUE" => {
                let length =
                    words.nth(2).and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
                self.data = length.ok_or_else(|| unexpected(line))?.saturating_add(2);
                self.found = true;
                return Ok(false);
            }
            b"END" => match std::mem::take(&mut self.found) {
                true => tally.hits += 1,
                false => tally.misses += 1,
            },
            b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => {
                tally.errors += 1;
                let text = String::from_utf8_lossy(&line[..line.len().min(ERROR_TEXT)]).into_owned();
                tally.first_error.get_or_insert(text);
            }
            b"STORED" | b"NOT_STORED" | b"EXISTS" | b"NOT_FOUND" | b"DELETED" => {}
            number if !number.is_empty() && number.iter().all(u8::is_ascii_digit) => {}
            _ => return Err(unexpected(line)),
        }
        tally.replies += 1;
        Ok(true)
    }
}

fn unexpected(line: &[u8]) -> ProtocolError {
    let preview = line[..line.len().min(60)].escape_ascii();
    ProtocolError(format!("the server answered '{preview}' where a reply should stand"))
}

impl Replies for Lines {
    fn restart(&mut self, _: usize) {
        *self = Lines::default();
    }

    fn skip(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), ProtocolError> {
        let mut at = 0;
        while at < bytes.len() {
            at += self.skip_one(&bytes[at..], tally)?.0;
        }
        Ok(())
    }

    fn skip_one(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(usize, bool), ProtocolError> {
        let mut at = 0;
        while at < bytes.len() {
            if self.data > 0 {
                let taken = self.data.min((bytes.len() - at) as u64);
                self.data -= taken;
                at += taken as usize;
                continue;
            }
            let rest = &bytes[at..];
            let Some(end) = memchr(b'\n', rest) else {
                self.line.extend_from_slice(rest);
                if self.line.len() > LONGEST_LINE {
                    return Err(unexpected(&self.line));
                }
                return Ok((bytes.len(), false));
            };
            at += end + 1;
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(&rest[..end]);
            let has_ended = self.take(&line, tally)?;
            line.clear();
            self.line = line;
            if has_ended {
                return Ok((at, true));
            }
        }
        Ok((at, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_memcached_may_be_cut_anywhere() {
        let bytes = b"VALUE k 0 5\r\nEND\r\n\r\nEND\r\nEND\r\nSTORED\r\n7\r\nNOT_FOUND\r\nSERVER_ERROR out of memory\r\n";
        for step in 1..bytes.len() {
            let (mut lines, mut tally) = (Lines::default(), Tally::default());
            bytes.chunks(step).for_each(|part| lines.skip(part, &mut tally).unwrap());
            assert_eq!((tally.replies, tally.hits, tally.misses, tally.errors), (6, 1, 1, 1), "{step}");
        }
        assert!(Lines::default().skip(b"HELLO\r\n", &mut Tally::default()).is_err());
    }
}
