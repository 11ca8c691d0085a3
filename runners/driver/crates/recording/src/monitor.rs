//! A line of MONITOR: `1700000000.123456 [0 127.0.0.1:5000] "SET" "k" "v\x00"`.

use crate::omission::Reason;
use crate::request::{Request, hash, push_length, push_word};

/// The words of a line, out of their quotes.
#[derive(Default)]
pub struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    /// Fill `request` with what `line` says, or say why not.
    pub fn read(&mut self, line: &[u8], request: &mut Request) -> Result<(), Reason> {
        let head = Head::parse(line).ok_or(Reason::Unreadable)?;
        if head.client == b"lua" {
            return Err(Reason::Script);
        }
        self.unquote(head.words).ok_or(Reason::Unreadable)?;
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        let words = begins.zip(&self.ends).map(|(from, &to)| &self.bytes[from..to]);
        let name = words.clone().next().unwrap_or_default();
        request.name.extend_from_slice(name);
        if words.clone().any(|word| word == b"(redacted)") {
            return Err(Reason::Redacted);
        }
        push_length(&mut request.bytes, b'*', self.ends.len());
        words.for_each(|word| push_word(&mut request.bytes, word));
        request.at_ns = Some(head.at_ns);
        request.client = hash(head.client);
        request.database = head.database;
        Ok(())
    }

    /// Take the words out of their quotes and escapes, those of `sdscatrepr`; none when they are not whole.
    fn unquote(&mut self, mut text: &[u8]) -> Option<()> {
        self.bytes.clear();
        self.ends.clear();
        loop {
            text = self.word(text.strip_prefix(b"\"")?)?;
            self.ends.push(self.bytes.len());
            match text {
                [] => return Some(()),
                _ => text = text.strip_prefix(b" ")?,
            }
        }
    }

    /// Read one word up to its closing quote. Returns the text after the quote.
    fn word<'a>(&mut self, mut text: &'a [u8]) -> Option<&'a [u8]> {
        loop {
            let at = memchr::memchr2(b'"', b'\\', text)?;
            self.bytes.extend_from_slice(&text[..at]);
            if text[at] == b'"' {
                return Some(&text[at + 1..]);
            }
            let (byte, taken) = escape(&text[at + 1..])?;
            self.bytes.push(byte);
            text = &text[at + 1 + taken..];
        }
    }
}

/// The byte behind a backslash, and how many characters stand for it.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    let byte = match text.first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        b'x' => {
            let digits = std::str::from_utf8(text.get(1..3)?).ok()?;
            return Some((u8::from_str_radix(digits, 16).ok()?, 3));
        }
        same @ (b'"' | b'\\') => *same,
        _ => return None,
    };
    Some((byte, 1))
}

/// What stands before the words of a line.
struct Head<'a> {
    at_ns: u64,
    database: u64,
    client: &'a [u8],
    words: &'a [u8],
}

impl Head<'_> {
    fn parse(line: &[u8]) -> Option<Head<'_>> {
        let line = line.strip_prefix(b"+").unwrap_or(line);
        let begin = memchr::memmem::find(&line[..line.len().min(64)], b" [")?;
        let rest = &line[begin + 2..];
        let end = memchr::memmem::find(rest, b"] \"")?;
        let space = memchr::memchr(b' ', &rest[..end])?;
        Some(Head {
            at_ns: time_ns(&line[..begin])?,
            database: number(&rest[..space])?,
            client: &rest[space + 1..end],
            words: &rest[end + 2..],
        })
    }
}

/// Seconds with six decimals as ns.
fn time_ns(text: &[u8]) -> Option<u64> {
    let point = memchr::memchr(b'.', text)?;
    let (seconds, decimals) = (&text[..point], &text[point + 1..]);
    (decimals.len() == 6).then_some(())?;
    number(seconds)?.checked_mul(1_000_000_000)?.checked_add(number(decimals)? * 1000)
}

/// A number without a sign.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Whether `line` is one of MONITOR, or what comes before the first.
pub fn is_one(line: &[u8]) -> bool {
    matches!(line, b"OK" | b"+OK") || Head::parse(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8]) -> Result<Request, Reason> {
        let mut request = Request::default();
        Words::default().read(line, &mut request).map(|()| request)
    }

    #[test]
    fn escapes_become_the_bytes_that_were_sent() {
        let request =
            read(br#"1700000000.123456 [3 127.0.0.1:5000] "SET" "k \"\\" "v\x00\n\r\t\a\b\xff""#).unwrap();
        let expected: &[u8] = b"*3\r\n$3\r\nSET\r\n$4\r\nk \"\\\r\n$8\r\nv\0\n\r\t\x07\x08\xff\r\n";
        assert_eq!(request.bytes, expected);
        assert_eq!((request.at_ns, request.database), (Some(1_700_000_000_123_456_000), 3));
        assert_eq!(request.client, hash(b"127.0.0.1:5000"));
    }

    #[test]
    fn clients_have_addresses_of_all_kinds() {
        for client in ["[::1]:5000", "unix:/tmp/my [0 socket.sock", "127.0.0.1:1"] {
            let line = format!(r#"+1.000000 [0 {client}] "PING""#);
            assert_eq!(read(line.as_bytes()).unwrap().client, hash(client.as_bytes()));
        }
    }

    #[test]
    fn what_is_not_sent_again_has_its_reason() {
        for (line, reason) in [
            (r#"1.000000 [0 lua] "set" "a" "1""#, Reason::Script),
            (r#"1.000000 [0 1.1.1.1:1] "AUTH" "(redacted)""#, Reason::Redacted),
            (r#"1.000000 [0 1.1.1.1:1] "SET" "a"#, Reason::Unreadable),
            (r#"1.000000 [0 1.1.1.1:1] "SET" "\q""#, Reason::Unreadable),
            (r#"1.000000 [0 1.1.1.1:1] "SET""a""#, Reason::Unreadable),
            (r#"1.0 [0 1.1.1.1:1] "SET""#, Reason::Unreadable),
            ("", Reason::Unreadable),
        ] {
            assert_eq!(read(line.as_bytes()).unwrap_err(), reason, "{line}");
        }
    }
}
