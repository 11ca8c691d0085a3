//! The skipper of memcached's replies against a plain reference parser, on replies cut anywhere.

use crate::reference::{memcached, skipped};
use proptest::prelude::*;
use protocol::memcached::Answer;
use protocol::memcached::Kind;
use protocol::memcached::Memcached;
use protocol::memcached::Skipper;
use protocol::replies::Replies;
use protocol::replies::Tally;
use protocol::template::Placeholders;
use protocol::template::Value;
use workload::memcached::load::Load;
use workload::memcached::suite;
use workload::memcached::suite::TESTS;
use workload::memcached::suite::Test;
use workload::order::Order;

/// A reply as it may come: the lines of a family with what they mean, kept apart from the product's own table.
#[derive(Debug, Clone)]
struct Reply {
    bytes: Vec<u8>,
    hits: u64,
    error: Option<String>,
}

fn line(text: &str, hits: u64) -> Reply {
    Reply { bytes: format!("{text}\r\n").into_bytes(), hits, error: None }
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let almost = prop::sample::select(vec![&b"END\r\n"[..], b"\r\nEND\r\n", b"VA 3\r\n", b"\r\n", b""]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(any::<u8>(), 3),
        almost.prop_map(<[u8]>::to_vec)
    ]
}

fn item(head: String, value: &[u8]) -> Vec<u8> {
    [head.as_bytes(), b"\r\n", value, b"\r\n"].concat()
}

/// Values, each with a number that may stand beside it.
type Values = Vec<(Vec<u8>, Option<u64>)>;

/// `VALUE` lines with their data, and CAS numbers.
fn items_of_get(values: Values) -> Reply {
    let cas = |cas: &Option<u64>| cas.map_or(String::new(), |cas| format!(" {cas}"));
    let one = |(value, unique): &(Vec<u8>, Option<u64>)| {
        let head = format!("VALUE key:000000000007 0 {}{}", value.len(), cas(unique));
        item(head, value)
    };
    let mut bytes: Vec<u8> = values.iter().flat_map(one).collect();
    bytes.extend_from_slice(b"END\r\n");
    Reply { bytes, hits: values.len() as u64, error: None }
}

/// `VA` lines with their data, and opaque numbers.
fn items_of_quiet_mg(values: Values) -> Reply {
    let one = |(value, flag): &(Vec<u8>, Option<u64>)| match flag {
        Some(flag) => item(format!("VA {} O{flag}", value.len()), value),
        None => item(format!("VA {}", value.len()), value),
    };
    let mut bytes: Vec<u8> = values.iter().flat_map(one).collect();
    bytes.extend_from_slice(b"MN\r\n");
    Reply { bytes, hits: values.len() as u64, error: None }
}

/// The reply to a command of `kind` that asks for `keys` keys.
fn reply(kind: Kind, keys: u64) -> BoxedStrategy<Reply> {
    let error = prop::sample::select(vec!["ERROR", "CLIENT_ERROR bad", "SERVER_ERROR out of memory"]);
    let error = error.prop_map(move |text| {
        let end = if matches!(kind, Kind::Quiet | Kind::Silent) { "\r\nMN" } else { "" };
        Reply { error: Some(text.to_owned()), ..line(&format!("{text}{end}"), 0) }
    });
    let values = prop::collection::vec((value(), any::<Option<u64>>()), 0..=keys as usize);
    let lines = |hit: &'static str, misses: &'static [&'static str]| {
        let miss = prop::sample::select(misses);
        prop_oneof![3 => Just(line(hit, 1)), 1 => miss.prop_map(|text| line(text, 0))].boxed()
    };
    let answer = match kind {
        Kind::Values => values.prop_map(items_of_get).boxed(),
        Kind::Quiet => values.prop_map(items_of_quiet_mg).boxed(),
        Kind::Item => prop_oneof![
            3 => value().prop_map(|value| {
                Reply { bytes: item(format!("VA {} f0 t-1", value.len()), &value), hits: 1, error: None }
            }),
            2 => value().prop_map(|value| {
                Reply { bytes: item(format!("VA {}", value.len()), &value), hits: 1, error: None }
            }),
            1 => Just(line("EN", 0)),
        ]
        .boxed(),
        Kind::Head if keys == 0 => Just(line("HD O1", 1)).boxed(),
        Kind::Stored if keys == 0 => Just(line("STORED", 1)).boxed(),
        Kind::Head => {
            prop_oneof![Just(line("HD O1", 1)), lines("HD", &["NS", "NF", "EX", "EN", "NF O1"])].boxed()
        }
        Kind::Stored => lines("STORED", &["NOT_STORED", "EXISTS", "NOT_FOUND"]),
        Kind::Number => prop_oneof![
            any::<u64>().prop_map(|number| line(&number.to_string(), 1)),
            Just(line("NOT_FOUND", 0))
        ]
        .boxed(),
        Kind::Touched => lines("TOUCHED", &["NOT_FOUND"]),
        Kind::Deleted => lines("DELETED", &["NOT_FOUND"]),
        Kind::Version => lines("VERSION 1.6.18", &["VERSION 1.6.18-next build"]),
        Kind::Silent | Kind::NoOp => Just(line("MN", 0)).boxed(),
    };
    prop_oneof![9 => answer, 1 => error].boxed()
}

/// The tests of a script and replies to their commands, in its order.
fn conversation() -> impl Strategy<Value = (Vec<&'static Test>, Vec<Reply>)> {
    let tests = prop::collection::vec(prop::sample::select(TESTS.iter().collect::<Vec<_>>()), 1..4);
    tests.prop_flat_map(|tests| {
        let order = load(&tests).script.order.commands();
        let answers: Vec<Answer> = tests
            .iter()
            .map(|test| test.answer(&Placeholders { value: Value::Drawn(3), ..Placeholders::default() }))
            .collect();
        let next = |place: usize| {
            let answer = &answers[usize::from(order[place % order.len()])];
            reply(answer.kind, answer.keys)
        };
        let replies: Vec<_> = (0..12).map(next).collect();
        (Just(tests), replies)
    })
}

fn load(tests: &[&'static Test]) -> Load {
    let weighted: Vec<_> = tests.iter().map(|test| (*test, 1)).collect();
    Load::ordered(
        &weighted,
        Order::Mix,
        &Placeholders { value: Value::Drawn(3), ..Placeholders::default() },
        1,
    )
}

/// The reference: what was rendered, as far as it is whole within `length` bytes.
fn reference(tests: &[&'static Test], replies: &[Reply], length: usize) -> Tally {
    let order = load(tests).script.order.commands();
    let (mut tally, mut end) = (Tally::default(), 0);
    for (place, reply) in replies.iter().enumerate() {
        end += reply.bytes.len();
        // The error of a quiet batch is told before its end.
        let message = reply.error.as_ref().filter(|text| end - reply.bytes.len() + text.len() + 2 <= length);
        tally.first_error = tally.first_error.or(message.cloned());
        if end > length {
            break;
        }
        let keys = tests[usize::from(order[place % order.len()])].keys;
        tally.replies += 1;
        match &reply.error {
            Some(_) => tally.errors += 1,
            None => {
                tally.hits += reply.hits.min(keys);
                tally.misses += keys - reply.hits.min(keys);
            }
        }
    }
    tally
}

/// Feed `bytes` in pieces that end at `cuts`.
fn skip(mut skipper: Skipper, bytes: &[u8], cuts: &[usize]) -> Tally {
    let mut tally = Tally::default();
    let mut from = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        skipper.skip(&bytes[from..cut], &mut tally).unwrap();
        from = cut;
    }
    tally
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn counts_what_was_rendered(
        (tests, replies) in conversation(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        tail in any::<prop::sample::Index>(),
    ) {
        let mut bytes: Vec<u8> = replies.iter().flat_map(|reply| reply.bytes.clone()).collect();
        let skipper = load(&tests).proto.skipper(0);
        prop_assert_eq!(skip(skipper.clone(), &bytes, &[]), reference(&tests, &replies, bytes.len()));
        // The last reply may not be whole, and the pieces end anywhere.
        bytes.truncate(tail.index(bytes.len() + 1));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(skip(skipper.clone(), &bytes, &cuts), reference(&tests, &replies, bytes.len()));
        let every: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(skip(skipper, &bytes, &every), reference(&tests, &replies, bytes.len()));
    }

    #[test]
    fn takes_and_refuses_what_a_parser_does(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            prop::collection::vec(prop::sample::select(ALMOST), 0..20)
                .prop_map(|pieces| pieces.concat().into_bytes()),
        ],
        test in prop::sample::select(TESTS.iter().collect::<Vec<_>>()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        // A jump over usual replies does not look at the digits of a key.
        let answers = vec![Answer { usual: None, ..test.answer(&Placeholders { value: Value::Drawn(3), ..Placeholders::default() }) }];
        let careful = Memcached::new(answers.clone(), &load(&[test]).script).skipper(0);
        let expected = memcached::read(&bytes, &answers);
        prop_assert_eq!(&skipped(careful, &bytes, &cuts), &expected);
        let jumping = skipped(load(&[test]).proto.skipper(0), &bytes, &cuts);
        prop_assert!(expected.refused || jumping == expected);
    }
}

/// Pieces of replies, whole or not, and what must not stand in them.
const ALMOST: &[&str] = &[
    "VALUE key:000000000001 0 3\r\n",
    "VALUE a 0 3 7\r\n",
    "VALUE",
    "VA 3\r\n",
    "VA",
    " ",
    "\r\n",
    "\r",
    "\n",
    "0",
    "3",
    "18446744073709551615",
    "END\r\n",
    "END",
    "HD\r\n",
    "HD",
    "MN\r\n",
    "EN\r\n",
    "STORED\r\n",
    "NOT_FOUND\r\n",
    "TOUCHED\r\n",
    "VERSION 1\r\n",
    "ERROR\r\n",
    "SERVER_ERROR a\r\n",
    "abc\r\n",
    "-1",
];

#[test]
fn what_was_not_asked_is_refused() {
    let refused = |name: &str, bytes: &str| {
        let mut skipper = load(&[suite::find_test(name).unwrap()]).proto.skipper(0);
        skipper.skip(bytes.as_bytes(), &mut Tally::default()).unwrap_err().0
    };
    for (name, bytes) in [
        ("get", "HTTP/1.1 400 Bad Request\r\n"),
        ("get", "+OK\r\n"),
        ("get", "STORED\r\n"),
        ("get", "END \r\n"),
        ("get", "END\n"),
        ("get", "VALUE key 0\r\n"),
        ("get", "VALUE key 0 -1\r\n"),
        ("get", "VALUE key 0 18446744073709551615\r\n"),
        ("get", "VALUE key 0 1\r\nabc"),
        ("get", "VALUE key 0 1\r\na\rX"),
        ("get", "VALUE a 0 1\r\na\r\nVALUE b 0 1\r\n"),
        ("set", "-ERR unknown command\r\n"),
        ("set", "STORED now\r\n"),
        ("set", "DELETED\r\n"),
        ("set", "NOT_STORED\r\n"),
        ("ms", "NS\r\n"),
        ("ms_quiet", "NS\r\n"),
        ("incr", "12a\r\n"),
        ("incr", "\r\n"),
        ("mg", "HD\r\n"),
        ("mg", "VA\r\n"),
        ("ms", "VA 1\r\n"),
        ("mn", "OK\r\n"),
        ("mg_quiet", "END\r\n"),
        ("ms_quiet", "HD\r\n"),
        ("get", "ERRORS\r\n"),
    ] {
        refused(name, bytes);
    }
    assert_eq!(
        refused("set", "DELETED\r\n"),
        "the server answered set with 'DELETED' where STORED should stand"
    );
    assert!(refused("get", &"x".repeat(3000)).contains("line of more than 2048 bytes"));
}

#[test]
fn errors_of_noreply_do_not_shift_the_replies_after_them() {
    let tests = [suite::find_test("set_noreply").unwrap(), suite::find_test("get_miss").unwrap()];
    let load = Load::ordered(
        &tests.map(|test| (test, 1)),
        Order::Sequence,
        &Placeholders { value: Value::Drawn(3), ..Placeholders::default() },
        1,
    );
    let said =
        b"SERVER_ERROR out of memory storing object\r\nSERVER_ERROR again\r\nMN\r\nEND\r\nMN\r\nEND\r\n";
    let (mut skipper, mut tally) = (load.proto.skipper(0), Tally::default());
    skipper.skip(said, &mut tally).unwrap();
    assert_eq!((tally.replies, tally.errors, tally.misses), (4, 1, 2));
    assert_eq!(tally.first_error.as_deref(), Some("SERVER_ERROR out of memory storing object"));
    // What was to be silent is not.
    assert!(load.proto.skipper(0).skip(b"STORED\r\nMN\r\n", &mut Tally::default()).is_err());
}
