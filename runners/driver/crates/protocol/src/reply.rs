//! Replies as values, for the dialogue before and after a load. The load itself only skips them.

/// A RESP2 or RESP3 reply; maps are lists of keys and values in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Strings of all kinds, and the text of numbers.
    Text(Vec<u8>),
    Error(String),
    Null,
    List(Vec<Reply>),
}

impl Reply {
    /// The first reply in `bytes`, push frames left out; none when it is not whole or not RESP.
    pub fn parse(bytes: &[u8]) -> Option<Reply> {
        let mut reader = Reader { bytes, depth: 0 };
        loop {
            let aside = matches!(reader.bytes.first()?, b'>' | b'|');
            let reply = reader.reply()?;
            if !aside {
                return Some(reply);
            }
        }
    }

    pub fn text(&self) -> Option<String> {
        match self {
            Reply::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    pub fn number(&self) -> Option<u64> {
        self.text()?.parse().ok()
    }

    pub fn list(&self) -> &[Reply] {
        match self {
            Reply::List(elements) => elements,
            _ => &[],
        }
    }
}

/// Deeper nested lists answer no command that is sent here, and could overflow the stack.
const DEEPEST: usize = 32;

struct Reader<'a> {
    bytes: &'a [u8],
    /// Lists around the reply that is read.
    depth: usize,
}

impl Reader<'_> {
    fn reply(&mut self) -> Option<Reply> {
        let (kind, line) = self.line()?;
        let text = String::from_utf8_lossy(&line).into_owned();
        let length = text.parse::<i64>();
        match (kind, length) {
            (b'-', _) => Some(Reply::Error(text)),
            (b'_', _) | (b'$' | b'*', Ok(-1)) => Some(Reply::Null),
            (b'$' | b'=', Ok(length)) => self.body(length).map(Reply::Text),
            (b'!', Ok(length)) => {
                self.body(length).map(|body| Reply::Error(String::from_utf8_lossy(&body).into_owned()))
            }
            (b'*' | b'~' | b'>', Ok(length)) => self.list(length),
            (b'%' | b'|', Ok(length)) => self.list(length.checked_mul(2)?),
            _ => Some(Reply::Text(line)),
        }
    }

    fn line(&mut self) -> Option<(u8, Vec<u8>)> {
        let end = self.bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let (&kind, line) = self.bytes[..end].split_first()?;
        self.bytes = &self.bytes[end + 2..];
        Some((kind, line.to_vec()))
    }

    fn body(&mut self, length: i64) -> Option<Vec<u8>> {
        let length = usize::try_from(length).ok()?;
        let body = self.bytes.get(..length)?.to_vec();
        self.bytes = self.bytes.get(length + 2..)?;
        Some(body)
    }

    fn list(&mut self, length: i64) -> Option<Reply> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let list = (0..length).map(|_| self.reply()).collect::<Option<_>>();
        self.depth -= 1;
        list.map(Reply::List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_becomes_a_value() {
        let text = |text: &str| Reply::Text(text.as_bytes().to_vec());
        let read = Reply::parse(b">1\r\n+push\r\n%1\r\n$4\r\nsave\r\n*3\r\n:7\r\n_\r\n-ERR no\r\n").unwrap();
        let list = Reply::List(vec![text("7"), Reply::Null, Reply::Error("ERR no".into())]);
        assert_eq!(read, Reply::List(vec![text("save"), list.clone()]));
        assert_eq!(list.list()[0].number(), Some(7));
        assert_eq!(Reply::parse(b"*2\r\n:1\r\n"), None);
        assert_eq!(Reply::parse(b"$-1\r\n"), Some(Reply::Null));
    }

    #[test]
    fn lists_without_a_bottom_are_no_reply() {
        let nested = |depth| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
        assert!(Reply::parse(&nested(DEEPEST)).is_some());
        assert_eq!(Reply::parse(&nested(1_000_000)), None);
    }
}
