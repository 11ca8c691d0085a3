//! The requests of a connection do not depend on how many are prepared at once.

use std::sync::Arc;

use engine::batch::Batch;
use engine::fill_source::FillSource;
use generator::keys::Keys;
use generator::rng::Rng;
use generator::values::ValuePool;
use proptest::prelude::*;
use protocol::command::Command;
use protocol::expectation::Expectation;
use protocol::resp::template;
use protocol::script::Script;
use protocol::template::{Placeholders, PlainKeys, Value};

/// Requests with a number, with a value of few and of many bytes, with a number that is repeated, and with none.
const TEXTS: [&str; 4] = [
    "GET key:__rand_int__\r\n",
    "SET key:__rand_int__ __data__ and more of it\r\n",
    "MSET a:__rand_1st__ __data__ b:__rand_1st__ c:__seq__\r\n",
    "PING\r\n",
];

fn commands(value_bytes: usize) -> Vec<Command> {
    let places = Placeholders { numbers: true, value: Value::Drawn(value_bytes), ..Placeholders::default() };
    TEXTS.iter().map(|text| Command::new(&places.cut(text.as_bytes()), Expectation::default())).collect()
}

fn batch(script: &Script, most: usize) -> Batch {
    batch_with_keys(script, most, Vec::new())
}

fn batch_with_keys(script: &Script, most: usize, command_keys: Vec<Keys>) -> Batch {
    let source = FillSource {
        keys: Keys::Uniform { keyspace: 1_000_000 },
        shared_keys: Vec::new(),
        command_keys,
        values: ValuePool::new(1, 200),
        rng: Rng::stream(1, 3),
        tags: Arc::from([]),
        sequence: 3,
        clients: 5,
        reply: Vec::new(),
        items: None,
        table: None,
    };
    Batch::new(Arc::new(script.clone()), most, true, source)
}

fn prepared(batch: &mut Batch, count: usize) -> Vec<u8> {
    let length = batch.prepare(count);
    batch.bytes()[..length].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn batches_are_the_requests_one_by_one(
        weights in prop::collection::vec(1..20u64, 4),
        shuffled in any::<bool>(),
        value_bytes in prop_oneof![0..40usize, Just(200)],
        counts in prop::collection::vec(1..80usize, 1..6),
    ) {
        let commands = commands(value_bytes);
        let script = match shuffled {
            true => Script::mix(weights.into_iter().zip(commands).collect(), 7),
            false => Script::sequence(weights.iter().map(|weight| *weight as usize).zip(commands).collect()),
        };
        let (mut whole, mut single) = (batch(&script, 80), batch(&script, 80));
        for count in counts {
            let one_by_one: Vec<u8> = (0..count).flat_map(|_| prepared(&mut single, 1)).collect();
            prop_assert_eq!(prepared(&mut whole, count), one_by_one);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Commands with one key number are copied whole; the general way assembles them from pieces. Both must agree.
    #[test]
    fn commands_with_plain_keys_are_the_same_in_one_piece_and_in_many(
        words in prop::collection::vec(
            prop_oneof![Just(vec!["GET", "__key__"]), Just(vec!["SET", "memtier-__key__", "__data__"]), Just(vec!["PING"])],
            1..4,
        ),
        first in prop_oneof![Just(0), Just(95), Just(99_999_900), Just(u64::MAX - 1_000)],
        keyspace in prop_oneof![Just(1u64), Just(10), Just(1_000)],
        value_bytes in prop_oneof![0..40usize, Just(200)],
        counts in prop::collection::vec(1..80usize, 1..6),
    ) {
        let places = |command| Placeholders {
            value: Value::Drawn(value_bytes),
            plain_keys: Some(PlainKeys { first, command }),
            ..Placeholders::default()
        };
        let script = |in_one_piece: bool| {
            let commands = words.iter().enumerate().map(|(at, words)| {
                let mut command = template(words, &places(at), Expectation::default());
                command.framed = command.framed.filter(|_| in_one_piece);
                (1 + at as u64, command)
            });
            Script::decks(commands.collect())
        };
        let batch = |in_one_piece| {
            batch_with_keys(&script(in_one_piece), 80, vec![Keys::Uniform { keyspace }; words.len()])
        };
        let (mut one, mut many) = (batch(true), batch(false));
        for count in counts {
            prop_assert_eq!(prepared(&mut one, count), prepared(&mut many, count));
        }
        if words.iter().any(|words| words.len() > 1) {
            prop_assert_eq!(one.sent(), many.sent());
        }
    }
}

#[test]
fn a_mix_sends_each_command_as_often_as_it_weighs() {
    let script = Script::mix(vec![(9, commands(3).remove(0)), (1, commands(3).remove(1))], 7);
    let requests = script.order.length();
    let mut batch = batch(&script, 100);
    let sent: Vec<u8> =
        (0..requests).step_by(100).flat_map(|at| prepared(&mut batch, 100.min(requests - at))).collect();
    let text = String::from_utf8_lossy(&sent);
    assert_eq!(
        (text.matches("GET ").count(), text.matches("SET ").count()),
        (requests / 10 * 9, requests / 10)
    );
}

/// The twelve digits behind each `mark` of what `count` requests of a sequence of these texts send.
fn numbers_behind(marks: [&str; 2], steps: &[(usize, &str)], count: usize) -> [Vec<String>; 2] {
    let places = Placeholders { numbers: true, ..Placeholders::default() };
    let command = |text: &str| Command::new(&places.cut(text.as_bytes()), Expectation::default());
    let script = Script::sequence(steps.iter().map(|(times, text)| (*times, command(text))).collect());
    let sent = String::from_utf8(prepared(&mut batch(&script, count), count)).unwrap();
    marks.map(|mark| {
        sent.match_indices(mark).map(|(at, _)| sent[at + mark.len()..][..12].to_owned()).collect()
    })
}

#[test]
fn the_commands_of_a_sequence_share_their_numbers() {
    let steps = [(2, "set a__rand_1st__ b__rand_2nd__\r\n"), (1, "get c__rand_2nd__ d__rand_1st__\r\n")];
    for (first, second) in [("a", "d"), ("b", "c")] {
        let [set, get] = numbers_behind([first, second], &steps, 30);
        let twice: Vec<String> = get.iter().flat_map(|number| [number.clone(), number.clone()]).collect();
        assert_eq!(set, twice);
        assert!(get.windows(2).all(|pair| pair[0] != pair[1]), "each sequence draws anew");
    }
    let [once, others] = numbers_behind(["a", "b"], &[(3, "a__rand_1st__ b__key__\r\n")], 9);
    assert!(once.chunks(3).all(|unit| unit[0] == unit[1] && unit[1] == unit[2]), "{once:?}");
    assert!(others.windows(2).all(|pair| pair[0] != pair[1]), "{others:?}");
}
