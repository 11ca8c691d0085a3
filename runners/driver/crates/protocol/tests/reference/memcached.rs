//! The text and meta protocols of memcached, line by line.

use protocol::memcached::Answer;
use protocol::memcached::Kind;
use protocol::replies::Tally;

use super::{Reading, Stop, message};

const LONGEST_LINE: usize = 2048;

/// Read the replies in `bytes` to commands with these `answers`, which come in turn.
pub fn read(bytes: &[u8], answers: &[Answer]) -> Reading {
    let mut reading = Reading::default();
    let mut reader = Reader { bytes, at: 0 };
    for answer in answers.iter().cycle() {
        if reader.at == bytes.len() {
            break;
        }
        match reader.reply(answer, &mut reading.tally) {
            Ok(()) => {}
            Err(stop) => {
                reading.refused = matches!(stop, Stop::Refused);
                break;
            }
        }
    }
    reading
}

/// First words of lines that mean a key that is there, and one that is not. Those of the text protocol stand alone.
fn words(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        Kind::Values | Kind::Silent | Kind::NoOp => (&[], &[]),
        Kind::Item => (&[], &["EN", "NF", "NS", "EX"]),
        Kind::Head | Kind::Quiet => (&["HD"], &["EN", "NF", "NS", "EX"]),
        Kind::Stored => (&["STORED"], &["NOT_STORED", "EXISTS", "NOT_FOUND"]),
        Kind::Number => (&[], &["NOT_FOUND"]),
        Kind::Touched => (&["TOUCHED"], &["NOT_FOUND"]),
        Kind::Deleted => (&["DELETED"], &["NOT_FOUND"]),
        Kind::Version => (&["VERSION"], &[]),
    }
}

/// The word of a line with data, and the place of their length in it.
fn data_word(kind: Kind) -> Option<(&'static str, usize)> {
    match kind {
        Kind::Values => Some(("VALUE", 3)),
        Kind::Item | Kind::Quiet => Some(("VA", 1)),
        _ => None,
    }
}

fn last_line(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Values => Some("END"),
        Kind::Quiet | Kind::Silent | Kind::NoOp => Some("MN"),
        _ => None,
    }
}

/// Whether lines of this family may go on behind their first word.
fn is_open(kind: Kind, word: &str) -> bool {
    let is_open =
        matches!(kind, Kind::Item | Kind::Head | Kind::Quiet | Kind::Silent | Kind::NoOp | Kind::Version);
    is_open || word == "VALUE"
}

fn is_count(word: &str) -> bool {
    (1..=20).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn reply(&mut self, answer: &Answer, tally: &mut Tally) -> Result<(), Stop> {
        let (mut found, mut error) = (0, None);
        let (hits, misses) = words(answer.kind);
        let last = last_line(answer.kind);
        loop {
            let line = self.line()?;
            // A word that is not ASCII is none of the words.
            let text = String::from_utf8_lossy(line).into_owned();
            let parts: Vec<&str> = text.split(' ').collect();
            let word = parts[0];
            let known = parts.len() == 1 || is_open(answer.kind, word);
            if ["ERROR", "CLIENT_ERROR", "SERVER_ERROR"].contains(&word) {
                error.get_or_insert_with(|| message(line));
                tally.first_error.get_or_insert_with(|| message(line));
                if matches!(answer.kind, Kind::Quiet | Kind::Silent) {
                    continue;
                }
                break;
            } else if let Some((_, place)) = data_word(answer.kind).filter(|(name, _)| *name == word) {
                let length = parts.get(place).filter(|word| is_count(word)).ok_or(Stop::Refused)?;
                let length: u64 = length.parse().map_err(|_| Stop::Refused)?;
                found += 1;
                self.check(answer, found)?;
                self.data(length)?;
            } else if known && hits.contains(&word) || answer.kind == Kind::Number && is_count(&text) {
                found += 1;
                self.check(answer, found)?;
            } else if known && last == Some(word) {
                break;
            } else if !(known && misses.contains(&word)) || answer.keys == 0 {
                return Err(Stop::Refused);
            }
            if last.is_none() {
                break;
            }
        }
        tally.replies += 1;
        match error {
            Some(_) => tally.errors += 1,
            None => {
                tally.hits += found.min(answer.keys);
                tally.misses += answer.keys - found.min(answer.keys);
            }
        }
        Ok(())
    }

    /// More values than keys were asked for.
    fn check(&self, answer: &Answer, found: u64) -> Result<(), Stop> {
        match last_line(answer.kind).is_some() && found > answer.keys {
            true => Err(Stop::Refused),
            false => Ok(()),
        }
    }

    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(rest.len(), |end| end + 1);
        match (end, rest[..taken].strip_suffix(b"\r\n")) {
            _ if taken > LONGEST_LINE => Err(Stop::Refused),
            (None, _) => Err(Stop::Cut),
            (_, None) => Err(Stop::Refused),
            (_, Some(line)) => {
                self.at += taken;
                Ok(line)
            }
        }
    }

    /// A length that no buffer has is refused, as its end could not be counted.
    fn data(&mut self, length: u64) -> Result<(), Stop> {
        length.checked_add(2).ok_or(Stop::Refused)?;
        let length = usize::try_from(length).map_err(|_| Stop::Cut)?;
        self.at = self.at.checked_add(length).filter(|at| *at <= self.bytes.len()).ok_or(Stop::Cut)?;
        for expected in [b'\r', b'\n'] {
            let byte = *self.bytes.get(self.at).ok_or(Stop::Cut)?;
            self.at += 1;
            if byte != expected {
                return Err(Stop::Refused);
            }
        }
        Ok(())
    }
}
