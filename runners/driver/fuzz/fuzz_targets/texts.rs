//! Texts that people write: words as redis-cli cuts them against a plain machine, URIs, workload files. Each is taken or
//! refused in one line.
#![no_main]

use cli::uri;
use libfuzzer_sys::fuzz_target;
use text::failure::Failure;
use text::words;
use workload::file;

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Between,
    Bare,
    Quoted(u8),
    /// Behind the quote that closes a word.
    Closed,
}

/// The words of `text`, byte by byte; none when redis-cli refuses it.
fn cut(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut place, mut at) = (Vec::<Vec<u8>>::new(), Place::Between, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        if place == Place::Between && !byte.is_ascii_whitespace() {
            words.push(Vec::new());
            place = Place::Bare;
        }
        let Some(word) = words.last_mut() else { continue };
        match (place, byte) {
            (Place::Between, _) => {}
            (Place::Closed, byte) if !byte.is_ascii_whitespace() => return None,
            (Place::Closed, _) => place = Place::Between,
            (Place::Bare, byte) if byte.is_ascii_whitespace() => place = Place::Between,
            (Place::Bare, b'"' | b'\'') => place = Place::Quoted(byte),
            (Place::Quoted(quote), byte) if byte == quote => place = Place::Closed,
            (Place::Quoted(b'\''), b'\\') if text.get(at) == Some(&b'\'') => {
                word.push(b'\'');
                at += 1;
            }
            (Place::Quoted(b'"'), b'\\') => {
                let escaped = *text.get(at)?;
                at += 1;
                let digits = text.get(at..at + 2).filter(|two| two.iter().all(u8::is_ascii_hexdigit));
                match (escaped, digits) {
                    (b'x', Some(digits)) => {
                        at += 2;
                        let digit = |at: usize| char::from(digits[at]).to_digit(16).expect("a digit") as u8;
                        word.push(digit(0) * 16 + digit(1));
                    }
                    (b'n', _) => word.push(b'\n'),
                    (b'r', _) => word.push(b'\r'),
                    (b't', _) => word.push(b'\t'),
                    (b'a', _) => word.push(7),
                    (b'b', _) => word.push(8),
                    (other, _) => word.push(other),
                }
            }
            (_, byte) => word.push(byte),
        }
    }
    (!matches!(place, Place::Quoted(_))).then_some(words)
}

fn refused_in_one_line<T>(answer: Result<T, Failure>) {
    if let Err(failure) = answer {
        assert_eq!(failure.to_string().lines().count(), 1, "{failure}");
    }
}

fuzz_target!(|data: &[u8]| {
    let [choice, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match choice % 4 {
        0 => assert_eq!(words::split(text), cut(text.as_bytes())),
        1 => refused_in_one_line(uri::parse(text)),
        2 => refused_in_one_line(file::parse(text, false)),
        _ => refused_in_one_line(file::parse(text, true)),
    }
});
