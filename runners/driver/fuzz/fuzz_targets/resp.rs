//! The skipper of RESP replies against the parser that the tests use, however the bytes are cut.
#![no_main]

#[path = "../cuts.rs"]
mod cuts;
#[path = "../../crates/protocol/tests/reference/mod.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;
use protocol::expectation::Expectation;
use protocol::skipper::Skipper;
use reference::{resp, skipped};

/// What the commands of the driver expect.
fn expectation(choice: u8) -> Expectation {
    match choice % 8 {
        0 => Expectation::default(),
        1 => Expectation::to(&["SET", "k", "v"], 0),
        2 => Expectation::to(&["PING"], 0),
        3 => Expectation::to(&["GET", "k"], 3),
        4 => Expectation::to(&["GET", "k"], 0),
        5 => Expectation::to(&["GETRANGE", "k", "0", "9"], 0),
        6 => Expectation::to(&["LRANGE", "k", "0", "9"], 0),
        _ => Expectation::to(&["INCR", "k"], 0),
    }
}

fuzz_target!(|data: &[u8]| {
    let [choice, seed, bytes @ ..] = data else { return };
    let expected = expectation(*choice);
    let wanted = resp::read(bytes, &expected);
    for cuts in cuts::ways(bytes.len(), *seed) {
        assert_eq!(skipped(Skipper::new(expected.clone()), bytes, &cuts), wanted, "cut at {cuts:?}");
    }
});
