//! What a connection sends next, as the reply to its last request decides: one request at a time.

use protocol::replies::ProtocolError;
use protocol::script::{self, ScanLimit};
use protocol::template::{LONGEST_REPLY, REPLY};

/// What a reply names ends within so many bytes of it: lines with types and lengths stand before it.
const LONGEST_HEAD: usize = LONGEST_REPLY + 128;
/// The places of the order of a scan: the request that begins it, and that which goes on with it.
const FIRST: usize = 0;
const NEXT: usize = 1;

/// Where the dialogue of a connection is.
pub struct Dialogue {
    rule: script::Dialogue,
    /// Requests of a scan since it has begun.
    continued: u64,
    /// The begin of the reply that is being received.
    head: Vec<u8>,
}

/// The next request: its place in the order, and what the last reply has named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    pub place: usize,
    pub named: Vec<u8>,
}

impl Next {
    fn first() -> Next {
        Next { place: FIRST, named: Vec::new() }
    }
}

impl Dialogue {
    pub fn new(rule: script::Dialogue) -> Dialogue {
        Dialogue { rule, continued: 0, head: Vec::new() }
    }

    /// Take bytes of the reply to the last request.
    pub fn take(&mut self, bytes: &[u8]) {
        let room = LONGEST_HEAD - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The reply is complete: what comes next, which is the command at `place` if all goes on, and whether that `takes` what
    /// the reply names. A reply that names nothing, as an error, begins a scan or such a sequence again.
    pub fn end_reply(&mut self, place: usize, takes: bool) -> Result<Next, ProtocolError> {
        let head = std::mem::take(&mut self.head);
        match (self.rule, named(&head)) {
            (script::Dialogue::Scan(limit), Ok(Some(cursor))) if self.goes_on(limit, cursor) => {
                self.continued += 1;
                Ok(Next { place: NEXT, named: cursor.to_vec() })
            }
            (script::Dialogue::Scan(_), _) => Ok(self.restart()),
            (script::Dialogue::Sequence, _) if !takes => Ok(Next { place, named: Vec::new() }),
            (script::Dialogue::Sequence, Ok(Some(text))) => Ok(Next { place, named: text.to_vec() }),
            (script::Dialogue::Sequence, Ok(None)) => Ok(Next::first()),
            (script::Dialogue::Sequence, Err(TooLong)) => Err(ProtocolError(format!(
                "the server answered with more than {LONGEST_REPLY} bytes, which {REPLY} does not hold"
            ))),
        }
    }

    fn goes_on(&self, ScanLimit(most): ScanLimit, cursor: &[u8]) -> bool {
        let is_number = cursor.iter().all(u8::is_ascii_digit);
        is_number && cursor != b"0" && most.is_none_or(|most| self.continued < most)
    }

    /// Begin again.
    pub fn restart(&mut self) -> Next {
        self.head.clear();
        self.continued = 0;
        Next::first()
    }
}

/// What a reply names ends behind its head.
#[derive(Debug, PartialEq, Eq)]
struct TooLong;

/// The text or number of the reply that begins with `head`, the first one of a list; none of an error, a null or an empty list.
fn named(head: &[u8]) -> Result<Option<&[u8]>, TooLong> {
    let mut rest = head;
    loop {
        let end = rest.windows(2).position(|end| end == b"\r\n").ok_or(TooLong)?;
        let (line, behind) = (&rest[..end], &rest[end + 2..]);
        let Some((kind, text)) = line.split_first() else { return Ok(None) };
        let is_empty = matches!(text, b"0" | b"-1");
        match kind {
            b'*' | b'~' | b'%' | b'|' | b'>' if !is_empty => rest = behind,
            b'$' | b'=' if text != b"-1" => {
                let length = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                let bulk = length.and_then(|length: usize| behind.get(..length)).ok_or(TooLong)?;
                // A verbatim string has its format and a colon before it.
                let text = if *kind == b'=' { bulk.get(4..).unwrap_or_default() } else { bulk };
                return short(text);
            }
            b'+' | b':' | b',' | b'(' | b'#' => return short(text),
            _ => return Ok(None),
        }
    }
}

fn short(text: &[u8]) -> Result<Option<&[u8]>, TooLong> {
    if text.len() <= LONGEST_REPLY { Ok(Some(text)) } else { Err(TooLong) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(dialogue: &mut Dialogue, bytes: &[u8]) -> Next {
        bytes.chunks(3).for_each(|part| dialogue.take(part));
        dialogue.end_reply(1, true).unwrap()
    }

    fn scan(most: Option<u64>) -> Dialogue {
        Dialogue::new(script::Dialogue::Scan(ScanLimit(most)))
    }

    fn next(named: &str) -> Next {
        Next { place: NEXT, named: named.as_bytes().to_vec() }
    }

    #[test]
    fn a_scan_goes_on_until_its_cursor_is_zero() {
        let mut scan = scan(None);
        let long = [b"*2\r\n$20\r\n18446744073709551615\r\n*1\r\n$999\r\n".as_slice(), &[0xff; 999], b"\r\n"]
            .concat();
        assert_eq!(reply(&mut scan, &long), next("18446744073709551615"));
        assert_eq!(reply(&mut scan, b"*2\r\n$2\r\n17\r\n*0\r\n"), next("17"));
        assert_eq!(reply(&mut scan, b"*2\r\n$1\r\n0\r\n*0\r\n"), Next::first());
    }

    #[test]
    fn an_error_or_the_most_requests_begin_a_scan_again() {
        let mut scan = scan(Some(2));
        let next = |scan: &mut Dialogue| reply(scan, b"*2\r\n$1\r\n7\r\n*0\r\n").place;
        let places: Vec<usize> = (0..6).map(|_| next(&mut scan)).collect();
        assert_eq!(places, [NEXT, NEXT, FIRST, NEXT, NEXT, FIRST]);
        assert_eq!(next(&mut scan), NEXT);
        assert_eq!(reply(&mut scan, b"-ERR invalid cursor\r\n"), Next::first());
        assert_eq!([next(&mut scan), next(&mut scan), next(&mut scan)], [NEXT, NEXT, FIRST]);
    }

    #[test]
    fn a_sequence_takes_the_first_text_of_a_reply() {
        let mut sequence = Dialogue::new(script::Dialogue::Sequence);
        for (bytes, text) in [
            ("$15\r\n1764547200000-0\r\n", "1764547200000-0"),
            (":42\r\n", "42"),
            ("+OK\r\n", "OK"),
            (",1.5\r\n", "1.5"),
            ("=6\r\ntxt:ab\r\n", "ab"),
            ("$0\r\n\r\n", ""),
            ("*1\r\n*2\r\n$1\r\ns\r\n*0\r\n", "s"),
        ] {
            assert_eq!(reply(&mut sequence, bytes.as_bytes()), next(text), "{bytes:?}");
        }
        for bytes in ["$-1\r\n", "*0\r\n", "*-1\r\n", "_\r\n", "-ERR no\r\n"] {
            assert_eq!(reply(&mut sequence, bytes.as_bytes()), Next::first(), "{bytes:?}");
            sequence.take(bytes.as_bytes());
            assert_eq!(sequence.end_reply(1, false), Ok(next("")), "{bytes:?}");
        }
        let long = format!("$513\r\n{}\r\n", "x".repeat(513));
        sequence.take(long.as_bytes());
        let failure = sequence.end_reply(1, true).unwrap_err();
        assert!(failure.0.contains("more than 512 bytes"), "{failure:?}");
    }
}
