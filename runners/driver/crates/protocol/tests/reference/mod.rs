//! Plain parsers that read a whole answer at once: what the skippers must agree with, in the tests and in `fuzz/`.
#![allow(dead_code, reason = "each user takes one of them")]

pub mod memcached;
pub mod resp;

use protocol::replies::Replies;
use protocol::replies::Tally;

/// What an answer holds, up to its end or to the first byte that cannot stand where it does.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub tally: Tally,
    pub refused: bool,
}

/// Why a reply has no end.
pub enum Stop {
    Cut,
    Refused,
}

/// Errors are told with at most so many bytes.
const ERROR_TEXT: usize = 200;

fn message(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(ERROR_TEXT)]).into_owned()
}

/// What `skipper` makes of `bytes` when they come in pieces that end at `cuts`, which ascend; without the nulls within
/// replies, which the parsers do not count.
pub fn skipped(mut skipper: impl Replies, bytes: &[u8], cuts: &[usize]) -> Reading {
    let mut reading = Reading::default();
    let mut from = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        reading.refused = skipper.skip(&bytes[from..cut], &mut reading.tally).is_err();
        if reading.refused {
            break;
        }
        from = cut;
    }
    reading.tally.null_elements = 0;
    reading
}
