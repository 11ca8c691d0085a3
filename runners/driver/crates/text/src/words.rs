//! A command as one text, cut into words as redis-cli does it.

/// The words of `text`: blanks separate them; double quotes hold escapes, single quotes only `\'`. None when a quote is
/// not closed, or not followed by a blank.
pub fn split(text: &str) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = text.trim_ascii_start().as_bytes();
    while !rest.is_empty() {
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Some(words)
}

/// The text of which [`split`] makes `words`.
pub fn join(words: &[Vec<u8>]) -> String {
    words.iter().map(|word| written(word)).collect::<Vec<_>>().join(" ")
}

/// A word, in quotes if it needs them.
fn written(word: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let character = |byte: &u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    format!("\"{}\"", word.iter().map(character).collect::<String>())
}

/// The word that `text` begins with, and what stands behind it.
fn word(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            b'"' => quoted(after, b'"', &mut bytes)?,
            b'\'' => quoted(after, b'\'', &mut bytes)?,
            _ if byte.is_ascii_whitespace() => break,
            _ => {
                bytes.push(byte);
                after
            }
        };
    }
    Some((bytes, rest))
}

/// Take text up to the closing `quote`; what stands behind it.
fn quoted<'a>(text: &'a [u8], quote: u8, bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = text;
    loop {
        let (&byte, after) = rest.split_first()?;
        let (taken, left) = match byte {
            b'\\' if quote == b'"' => escape(after)?,
            b'\\' if after.first() == Some(&b'\'') => (b'\'', &after[1..]),
            _ if byte == quote => {
                return after.first().is_none_or(u8::is_ascii_whitespace).then_some(after);
            }
            _ => (byte, after),
        };
        bytes.push(taken);
        rest = left;
    }
}

/// The byte that stands behind a backslash (`\xHH \n \r \t \a \b`, else the character), and what follows it.
pub fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    let (&kind, rest) = text.split_first()?;
    let byte = match (kind, hex_byte(rest)) {
        (b'x', Some(byte)) => return Some((byte, &rest[2..])),
        (b'n', _) => b'\n',
        (b'r', _) => b'\r',
        (b't', _) => b'\t',
        (b'a', _) => 7,
        (b'b', _) => 8,
        (other, _) => other,
    };
    Some((byte, rest))
}

/// The byte that two hexadecimal digits at the begin of `text` stand for.
pub fn hex_byte(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// `bytes` for a message: what cannot be printed is escaped, quotes stay as they are.
pub fn printable(bytes: &[u8]) -> String {
    let escaped = |byte: &u8| match byte {
        b'\'' | b'"' => char::from(*byte).to_string(),
        _ => byte.escape_ascii().to_string(),
    };
    bytes.iter().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_redis_cli() {
        let cut = |text: &str| {
            split(text).map(|words| words.iter().map(|w| w.escape_ascii().to_string()).collect::<Vec<_>>())
        };
        let some = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(cut("  SET  key:__key__ __data__ "), some(&["SET", "key:__key__", "__data__"]));
        assert_eq!(cut(r#"SET "a b\x00\n" 'c\'d\n' """#), some(&["SET", r"a b\x00\n", r"c\'d\\n", ""]));
        // A sign is not a digit.
        assert_eq!(cut(r#""\x+f\xg0""#), some(&["x+fxg0"]));
        assert_eq!(cut(r#"a"b"c"#), None);
        assert_eq!(cut(r#"SET "a"#), None);
        assert_eq!(cut("SET 'a"), None);
        assert_eq!(cut(""), some(&[]));
    }

    #[test]
    fn words_that_were_joined_are_cut_again() {
        let every_byte: Vec<u8> = (0..=255).collect();
        let words = [b"SET".as_slice(), b"a:__key__", b"", b"a b\\", b"'\"", b"\\x", &every_byte];
        let words: Vec<Vec<u8>> = words.into_iter().map(<[u8]>::to_vec).collect();
        assert_eq!(split(&join(&words)), Some(words.clone()));
        assert_eq!(join(&words[..4]), r#"SET a:__key__ "" "a b\\""#);
    }

    #[test]
    fn quotes_stay_as_they_are() {
        assert_eq!(printable(b"run the 'get' \"x\"\r\xff"), "run the 'get' \"x\"\\r\\xff");
    }
}
