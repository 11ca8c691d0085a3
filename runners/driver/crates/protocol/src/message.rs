//! Messages of RESP as lists of their words, read in place: for modes that need the contents of messages.

use crate::replies::ProtocolError;

/// Words of a message that are kept; what comes after them is skipped.
const KEPT: usize = 8;

/// One message, its nesting left out.
#[derive(Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type byte.
    pub kind: u8,
    words: [&'a [u8]; KEPT],
    /// Whether it is a null of any version of RESP.
    pub is_null: bool,
    /// Bytes of the whole message.
    pub length: usize,
}

impl<'a> Message<'a> {
    /// The message at the front of `bytes`; none when it is not whole.
    pub fn read(bytes: &'a [u8]) -> Result<Option<Message<'a>>, ProtocolError> {
        let Some(&kind) = bytes.first() else { return Ok(None) };
        let mut reader = Reader { bytes, at: 0, words: [b""; KEPT], kept: 0, outstanding: 1 };
        while reader.outstanding > 0 {
            if reader.element()?.is_none() {
                return Ok(None);
            }
        }
        let is_null = [&b"_"[..], b"$-1\r", b"*-1\r"].iter().any(|null| bytes.starts_with(null));
        Ok(Some(Message { kind, words: reader.words, is_null, length: reader.at }))
    }

    /// Word number `index`: a string, or the text of a number; empty when there is none.
    pub fn word(&self, index: usize) -> &'a [u8] {
        self.words.get(index).copied().unwrap_or_default()
    }

    pub fn is_error(&self) -> bool {
        matches!(self.kind, b'-' | b'!')
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    words: [&'a [u8]; KEPT],
    kept: usize,
    outstanding: u64,
}

impl<'a> Reader<'a> {
    /// Take one element, or the head of a list; none when it is not whole.
    fn element(&mut self) -> Result<Option<()>, ProtocolError> {
        let Some((kind, line)) = self.line() else { return Ok(None) };
        self.outstanding -= 1;
        match kind {
            b'$' | b'=' | b'!' => match length(line)? {
                -1 => self.keep(b""),
                length => match self.body(length as usize) {
                    Some(body) => self.keep(body),
                    None => return Ok(None),
                },
            },
            b'*' | b'~' | b'>' => self.outstanding += length(line)?.max(0) as u64,
            b'%' => self.outstanding += 2 * length(line)?.max(0) as u64,
            b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => self.keep(line),
            byte => {
                let byte = byte.escape_ascii();
                return Err(ProtocolError(format!("the server said '{byte}' where a message should begin")));
            }
        }
        Ok(Some(()))
    }

    fn keep(&mut self, word: &'a [u8]) {
        if let Some(place) = self.words.get_mut(self.kept) {
            *place = word;
            self.kept += 1;
        }
    }

    fn line(&mut self) -> Option<(u8, &'a [u8])> {
        let rest = &self.bytes[self.at..];
        let end = memchr::memchr(b'\n', rest)?;
        self.at += end + 1;
        let (&kind, line) = rest[..end].split_first().unwrap_or((&b'\n', b""));
        Some((kind, line.strip_suffix(b"\r").unwrap_or(line)))
    }

    fn body(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let body = self.bytes.get(self.at..end)?;
        self.at = end + 2;
        (self.at <= self.bytes.len()).then_some(body)
    }
}

/// The length in a line, -1 for null.
fn length(line: &[u8]) -> Result<i64, ProtocolError> {
    let text = std::str::from_utf8(line).unwrap_or_default();
    text.parse().ok().filter(|length| (-1..=1 << 40).contains(length)).ok_or_else(|| {
        ProtocolError(format!("the server said '{}' where a length should be", line.escape_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\na\r\nb\r\n+next\r\n";

    #[test]
    fn a_message_is_flat() {
        let message = Message::read(MESSAGE).unwrap().unwrap();
        assert_eq!((message.kind, message.length), (b'*', MESSAGE.len() - 7));
        assert_eq!([message.word(0), message.word(1), message.word(2)], [&b"message"[..], b"c", b"a\r\nb"]);
        let nested = b"*1\r\n*2\r\n$1\r\ns\r\n%1\r\n+id\r\n*2\r\n_\r\n:-3\r\n";
        let message = Message::read(nested).unwrap().unwrap();
        assert_eq!(
            [message.word(0), message.word(1), message.word(3), message.word(9)],
            [&b"s"[..], b"id", b"-3", b""]
        );
    }

    #[test]
    fn a_null_is_no_empty_string() {
        let is_null = |bytes: &[u8]| Message::read(bytes).unwrap().unwrap().is_null;
        assert!([&b"_\r\n"[..], b"$-1\r\n", b"*-1\r\n"].into_iter().all(is_null));
        assert!(![&b"$0\r\n\r\n"[..], b"*0\r\n", b":-1\r\n", b"+\r\n"].into_iter().any(is_null));
    }

    #[test]
    fn a_cut_message_is_not_whole() {
        for end in 0..MESSAGE.len() - 7 {
            assert_eq!(Message::read(&MESSAGE[..end]), Ok(None), "{end}");
        }
    }

    #[test]
    fn garbage_is_told() {
        for bytes in [&b"HTTP/1.1 400\r\n"[..], b"$x\r\n", b"*-7\r\n", b"\r\n"] {
            assert!(Message::read(bytes).is_err(), "{bytes:?}");
        }
    }
}
