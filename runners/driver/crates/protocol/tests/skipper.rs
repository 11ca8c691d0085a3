//! The skipper against a plain recursive parser, on replies cut anywhere.

mod reference;

use proptest::prelude::*;
use reference::resp::read;
use reference::{Reading, skipped};
use std::sync::Arc;

use protocol::command_order::CommandOrder;
use protocol::expectation::Expectation;
use protocol::expectation::ReplyType;
use protocol::expected::ExpectedReplies;
use protocol::replies::Replies;
use protocol::replies::Tally;
use protocol::skipper::Skipper;
use protocol::stride::Stride;

#[derive(Debug, Clone)]
enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    NullArray,
    Array(Vec<Reply>),
    /// RESP3: a null, and a line of another type.
    Underscore,
    Line(&'static str),
    Verbatim(Vec<u8>),
    BulkError(String),
    Set(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    /// An attribute with what it describes.
    Described(Vec<(Reply, Reply)>, Box<Reply>),
    /// No reply; stands between replies only.
    Push(Vec<Reply>),
}

impl Reply {
    fn render(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Simple(text) => out.extend(format!("+{text}\r\n").bytes()),
            Reply::Error(text) => out.extend(format!("-{text}\r\n").bytes()),
            Reply::Integer(number) => out.extend(format!(":{number}\r\n").bytes()),
            Reply::Bulk(bytes) => blob('$', bytes, out),
            Reply::Null => out.extend(b"$-1\r\n"),
            Reply::NullArray => out.extend(b"*-1\r\n"),
            Reply::Array(elements) => aggregate('*', elements, out),
            Reply::Set(elements) => aggregate('~', elements, out),
            Reply::Push(elements) => aggregate('>', elements, out),
            Reply::Underscore => out.extend(b"_\r\n"),
            Reply::Line(text) => out.extend(format!("{text}\r\n").bytes()),
            Reply::Verbatim(bytes) => blob('=', &[b"txt:", bytes.as_slice()].concat(), out),
            Reply::BulkError(text) => blob('!', text.as_bytes(), out),
            Reply::Map(pairs) => map('%', pairs, out),
            Reply::Described(pairs, reply) => {
                map('|', pairs, out);
                reply.render(out);
            }
        }
    }
}

fn blob(kind: char, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(format!("{kind}{}\r\n", bytes.len()).bytes());
    out.extend(bytes);
    out.extend(b"\r\n");
}

fn aggregate(kind: char, elements: &[Reply], out: &mut Vec<u8>) {
    out.extend(format!("{kind}{}\r\n", elements.len()).bytes());
    elements.iter().for_each(|element| element.render(out));
}

fn map(kind: char, pairs: &[(Reply, Reply)], out: &mut Vec<u8>) {
    out.extend(format!("{kind}{}\r\n", pairs.len()).bytes());
    for (key, value) in pairs {
        key.render(out);
        value.render(out);
    }
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        4 => Just(Reply::Simple("OK".into())),
        1 => "[ -~]{0,20}".prop_map(Reply::Simple),
        1 => "[A-Z]{3} [ -~]{0,20}".prop_map(Reply::Error),
        2 => any::<i32>().prop_map(|number| Reply::Integer(number.into())),
        3 => prop::collection::vec(any::<u8>(), 8).prop_map(Reply::Bulk),
        2 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Reply::Bulk),
        1 => Just(Reply::Null),
        1 => Just(Reply::NullArray),
        1 => Just(Reply::Underscore),
        2 => prop::sample::select(vec![",1.5", ",-inf", ",nan", "#t", "#f", "(-349287349283479283749"])
            .prop_map(Reply::Line),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Reply::Verbatim),
        1 => "[A-Z]{3} [ -~]{0,20}".prop_map(Reply::BulkError),
    ];
    leaf.prop_recursive(3, 24, 5, |element| {
        let elements = prop::collection::vec(element.clone(), 0..5);
        let pairs = prop::collection::vec((element.clone(), element.clone()), 0..3);
        prop_oneof![
            3 => elements.clone().prop_map(Reply::Array),
            1 => elements.prop_map(Reply::Set),
            1 => pairs.clone().prop_map(Reply::Map),
            1 => (pairs, element).prop_map(|(pairs, reply)| Reply::Described(pairs, Box::new(reply))),
        ]
    })
}

/// What may stand between two replies, too.
fn any_item() -> impl Strategy<Value = Reply> {
    let push = prop::collection::vec(any_reply(), 0..4).prop_map(Reply::Push);
    prop_oneof![8 => any_reply(), 1 => push]
}

/// Places at which to cut `length` bytes, ascending.
fn places(cuts: &[prop::sample::Index], length: usize) -> Vec<usize> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(length + 1)).collect();
    places.sort_unstable();
    places
}

/// A skipper of every type, with a fast path that many of the replies take.
fn skippers() -> impl Strategy<Value = Option<Stride>> {
    prop_oneof![
        Just(None),
        Just(Stride::new(b"+OK\r\n", 0)),
        Just(Stride::new(b"$8\r\n", 10)),
        Just(Stride::new(b"$0\r\n", 2)),
    ]
}

fn taking_all(stride: Option<Stride>) -> Skipper {
    Skipper::new(Expectation { usual: stride, ..Expectation::default() })
}

/// Of any type but that of the first reply, which the parser does not know.
fn expectations() -> impl Strategy<Value = Expectation> {
    let types = [
        ReplyType::Any,
        ReplyType::Byte(b':'),
        ReplyType::Byte(b'$'),
        ReplyType::Byte(b'*'),
        ReplyType::Line("+OK"),
    ];
    (prop::sample::select(types.as_slice().to_vec()), any::<bool>())
        .prop_map(|(reply, nullable)| Expectation { reply, nullable, ..Expectation::default() })
}

/// What answers a command of these words.
fn to(words: &str) -> Expectation {
    Expectation::to(&words.split(' ').collect::<Vec<_>>(), 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn counts_what_a_parser_counts(
        replies in prop::collection::vec(any_item(), 0..12),
        stride in skippers(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        tail in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        replies.iter().for_each(|reply| reply.render(&mut bytes));
        let whole = skipped(taking_all(stride), &bytes, &[]);
        let counted = replies.iter().filter(|reply| !matches!(reply, Reply::Push(_))).count();
        prop_assert_eq!((whole.tally.replies, whole.refused), (counted as u64, false));
        // The last reply may not be whole, and the pieces end anywhere.
        bytes.truncate(tail.index(bytes.len() + 1));
        let cuts = places(&cuts, bytes.len());
        prop_assert_eq!(skipped(taking_all(stride), &bytes, &cuts), read(&bytes, &Expectation::default()));
    }

    #[test]
    fn takes_and_refuses_what_a_parser_does(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "[-+:$*>%|~=!_0-9\r\n]{0,60}".prop_map(String::into_bytes),
            prop::collection::vec(prop::sample::select(ALMOST), 0..20)
                .prop_map(|pieces| pieces.concat().into_bytes()),
        ],
        expected in expectations(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let skipper = Skipper::new(expected.clone());
        prop_assert_eq!(skipped(skipper, &bytes, &places(&cuts, bytes.len())), read(&bytes, &expected));
    }

    #[test]
    fn replies_are_told_apart_by_their_order(
        order in prop::collection::vec(0..3u16, 1..12),
        place in 0..12usize,
        lie in prop::option::of(any::<prop::sample::Index>()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let answers = ["$1\r\na\r\n", "+OK\r\n", ":12\r\n"];
        let commands = vec![to("GET a"), to("SET a b"), to("INCR a")];
        let expected = ExpectedReplies::new(commands, CommandOrder::new(&order));
        let skipper = Skipper::following(Arc::new(expected), place);
        let mut asked: Vec<usize> =
            (0..order.len()).map(|at| usize::from(order[(place + at) % order.len()])).collect();
        let lies_at = lie.map(|lie| lie.index(asked.len()));
        if let Some(at) = lies_at {
            asked[at] = (asked[at] + 1) % answers.len();
        }
        let bytes = asked.iter().map(|at| answers[*at]).collect::<String>().into_bytes();
        let Reading { tally, refused } = skipped(skipper, &bytes, &places(&cuts, bytes.len()));
        prop_assert_eq!((tally.replies, refused), (lies_at.unwrap_or(asked.len()) as u64, lies_at.is_some()));
    }
}

#[test]
fn what_gets_no_reply_is_answered_with_what_follows() {
    let commands = ["GET a", "CLIENT REPLY OFF", "SET a b", "client reply on"].map(to).to_vec();
    let order = CommandOrder::new(&[0, 1, 2, 2, 2, 3]);
    let expected = Arc::new(ExpectedReplies::new(commands, order));
    let bytes = b"$1\r\na\r\n+OK\r\n$1\r\na\r\n+OK\r\n";
    for cut in 0..bytes.len() {
        let mut tally = Tally::default();
        let mut skipper = Skipper::following(expected.clone(), 0);
        skipper.skip(&bytes[..cut], &mut tally).unwrap();
        let answered = [(7, 1), (12, 6), (19, 7), (24, 12)];
        let replies = answered.iter().rev().find(|(end, _)| cut >= *end).map_or(0, |(_, replies)| *replies);
        assert_eq!(tally.replies, replies, "{cut}");
        skipper.skip(&bytes[cut..], &mut tally).unwrap();
        assert_eq!(tally.replies, 12, "{cut}");
    }
    let wrong = Skipper::following(expected, 0).skip(b"$1\r\na\r\n:1\r\n", &mut Tally::default());
    assert!(wrong.is_err());
}

/// Pieces of replies, whole or not, and what must not stand in them.
const ALMOST: &[&str] = &[
    "+OK\r\n",
    "-ERR a\r\n",
    ":1\r\n",
    ":-\r\n",
    "$3\r\n",
    "abc\r\n",
    "$-1\r\n",
    "$-2\r\n",
    "*2\r\n",
    "*-1\r\n",
    "*0\r\n",
    "%1\r\n",
    "|1\r\n",
    ">1\r\n",
    "~1\r\n",
    "!5\r\n",
    "=7\r\n",
    "_\r\n",
    "_x",
    "\r\n",
    "\n",
    "\r",
    "9223372036854775807",
    "9223372036854775808",
    "*9223372036854775807\r\n",
    "|9223372036854775807\r\n",
];

#[test]
fn every_single_byte_is_a_place_to_cut() {
    let bytes = b"*3\r\n$3\r\nabc\r\n*2\r\n:-12\r\n$-1\r\n-ERR x\r\n$-1\r\n+OK\r\n*0\r\n";
    let all: Vec<usize> = (1..bytes.len()).collect();
    let Reading { tally, refused } = skipped(Skipper::any(), bytes, &all);
    let first_error = Some("ERR x".to_owned());
    assert_eq!(tally, Tally { replies: 4, nulls: 1, errors: 1, first_error, ..Tally::default() });
    assert!(!refused);
}

#[test]
fn an_error_in_an_array_counts_when_the_array_is_whole() {
    let (mut skipper, mut tally) = (Skipper::any(), Tally::default());
    skipper.skip(b"*3\r\n-ERR first\r\n-ERR second\r\n", &mut tally).unwrap();
    assert_eq!(tally, Tally::default());
    skipper.skip(b":1\r\n", &mut tally).unwrap();
    let first_error = Some("ERR first".to_owned());
    assert_eq!(tally, Tally { replies: 1, nulls: 0, errors: 1, first_error, ..Tally::default() });
}

#[test]
fn garbage_is_refused() {
    let refused =
        |mut skipper: Skipper, bytes: &[u8]| skipper.skip(bytes, &mut Tally::default()).unwrap_err().0;
    for bytes in [
        "HTTP/1.1 400 Bad Request\r\n",
        "$abc\r\n",
        "$\r\n",
        "$-2\r\n",
        "*-7\r\n",
        ":\r\n",
        "$3\r\nabcd\r\n",
        "+OK\rX",
        ":99999999999999999999\r\n",
        "%x\r\n",
    ] {
        refused(Skipper::any(), bytes.as_bytes());
    }
}

#[test]
fn a_refusal_names_the_command_and_what_came() {
    for (words, bytes, message) in [
        ("get k", "*1\r\n:1\r\n", "GET with '*1' where a '$' reply should stand"),
        ("get k", "$1\r\na\r\n+OK\r\n", "GET with '+OK' where a '$' reply should stand"),
        ("get k", "hello\r\n", "GET with 'hello' where a '$' reply should stand"),
        ("SET k v", "+OKAY\r\n", "SET with '+OKAY' where '+OK' should stand"),
        ("SET k v", "+O\r\n", "SET with '+O' where '+OK' should stand"),
        ("SET k v", "_\r\n", "SET with '_' where '+OK' should stand"),
        ("GETRANGE k 0 1", "$-1\r\n", "GETRANGE with '$-1' where a '$' reply should stand"),
        (
            "FOO",
            ":1\r\n*-1\r\n+OK\r\n",
            "FOO with '+OK' where a ':' reply, as the first one was, should stand",
        ),
        (
            "FOO",
            "$-1\r\n*1\r\n:1\r\n$1\r\na\r\n",
            "FOO with '$1' where a '*' reply, as the first one was, should stand",
        ),
    ] {
        let garbage = Skipper::new(to(words)).skip(bytes.as_bytes(), &mut Tally::default()).unwrap_err().0;
        assert_eq!(garbage, format!("the server answered {message}"));
    }
}

#[test]
fn nulls_within_replies_are_counted_apart() {
    let mut tally = protocol::replies::Tally::default();
    let bytes = b"*3\r\n$-1\r\n$1\r\na\r\n$-1\r\n$-1\r\n";
    protocol::replies::Replies::skip(&mut Skipper::any(), bytes, &mut tally).unwrap();
    assert_eq!((tally.replies, tally.nulls, tally.null_elements), (2, 1, 2));
}
