//! The skipper of memcached's replies against the parser that the tests use, however the bytes are cut.
//!
//! A jump over usual replies does not look at the digits of a key, so what it makes of bytes that are not of the
//! protocol may depend on the cuts; there only the skipper without the jump is held to the parser.
#![no_main]

#[path = "../cuts.rs"]
mod cuts;
#[path = "../../crates/protocol/tests/reference/mod.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;
use protocol::memcached::Answer;
use protocol::memcached::Memcached;
use protocol::script::Script;
use protocol::template::{Placeholders, Value};
use reference::{memcached, skipped};
use workload::memcached::suite::TESTS;

fn protocol(answers: &[Answer], script: &Script) -> Memcached {
    Memcached::new(answers.to_vec(), script)
}

fuzz_target!(|data: &[u8]| {
    let [first, second, seed, bytes @ ..] = data else { return };
    // One test, or two in turn.
    let chosen = [Some(first), (seed & 1 == 1).then_some(second)];
    let places = Placeholders { value: Value::Drawn(3), ..Placeholders::default() };
    let tests = chosen.into_iter().flatten().map(|choice| &TESTS[usize::from(*choice) % TESTS.len()]);
    let (commands, answers): (Vec<_>, Vec<_>) =
        tests.map(|test| ((1, test.command(&places)), test.answer(&places.value))).unzip();
    let script = Script::sequence(commands);
    let plain: Vec<Answer> = answers.iter().map(|answer| Answer { usual: None, ..answer.clone() }).collect();
    let wanted = memcached::read(bytes, &answers);
    for cuts in cuts::ways(bytes.len(), *seed) {
        let careful = skipped(protocol(&plain, &script).skipper(0), bytes, &cuts);
        assert_eq!(careful, wanted, "cut at {cuts:?}");
        let jumping = skipped(protocol(&answers, &script).skipper(0), bytes, &cuts);
        if !wanted.refused {
            assert_eq!(jumping, wanted, "jumping, cut at {cuts:?}");
        }
    }
});
