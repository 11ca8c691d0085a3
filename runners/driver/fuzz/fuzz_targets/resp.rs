//! The skipper of RESP replies against the parser that the tests use, however the bytes are cut.
#![no_main]

#[path = "../cuts.rs"]
mod cuts;
#[path = "../../tests/reference/mod.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;
use reference::{resp, skipped};
use speedbench::proto::Expectation;
use speedbench::proto::resp::{bulk, reply, status};
use speedbench::proto::skipper::Skipper;

/// What the commands of the driver expect.
fn expectation(choice: u8) -> Expectation {
    match choice % 8 {
        0 => Expectation::default(),
        1 => status("+OK\r\n"),
        2 => status("+PONG\r\n"),
        3 => bulk(3),
        4 => bulk(0),
        5 => bulk(100),
        6 => reply(b'*'),
        _ => reply(b':'),
    }
}

fuzz_target!(|data: &[u8]| {
    let [choice, seed, bytes @ ..] = data else { return };
    let expected = expectation(*choice);
    let wanted = resp::read(bytes, expected.begins_with);
    for cuts in cuts::ways(bytes.len(), *seed) {
        assert_eq!(skipped(Skipper::new(expected.clone()), bytes, &cuts), wanted, "cut at {cuts:?}");
    }
});
