//! The skipper against a plain recursive parser, on replies cut anywhere.

use proptest::prelude::*;
use speedbench::proto::skipper::{Skipper, Stride};
use speedbench::proto::{Replies, Tally};

#[derive(Debug, Clone)]
enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    NullArray,
    Array(Vec<Reply>),
}

impl Reply {
    fn render(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Simple(text) => out.extend(format!("+{text}\r\n").bytes()),
            Reply::Error(text) => out.extend(format!("-{text}\r\n").bytes()),
            Reply::Integer(number) => out.extend(format!(":{number}\r\n").bytes()),
            Reply::Bulk(bytes) => {
                out.extend(format!("${}\r\n", bytes.len()).bytes());
                out.extend(bytes);
                out.extend(b"\r\n");
            }
            Reply::Null => out.extend(b"$-1\r\n"),
            Reply::NullArray => out.extend(b"*-1\r\n"),
            Reply::Array(elements) => {
                out.extend(format!("*{}\r\n", elements.len()).bytes());
                elements.iter().for_each(|element| element.render(out));
            }
        }
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
    ];
    leaf.prop_recursive(3, 24, 5, |element| prop::collection::vec(element, 0..5).prop_map(Reply::Array))
}

/// The reference: a recursive parser. The end of the reply at `at`, and the errors in it; none when it is not whole.
fn parse(bytes: &[u8], at: usize) -> Option<(usize, Vec<String>)> {
    let length = bytes.get(at..)?.windows(2).position(|pair| pair == b"\r\n")?;
    let line = std::str::from_utf8(&bytes[at + 1..at + length]).unwrap();
    let next = at + length + 2;
    match (bytes[at], line) {
        (b'+' | b':', _) | (b'$' | b'*', "-1") => Some((next, Vec::new())),
        (b'-', text) => Some((next, vec![text.to_owned()])),
        (b'$', number) => {
            let end = next + number.parse::<usize>().unwrap() + 2;
            (end <= bytes.len()).then_some((end, Vec::new()))
        }
        (b'*', number) => {
            let (mut end, mut errors) = (next, Vec::new());
            for _ in 0..number.parse::<usize>().unwrap() {
                let (after, more) = parse(bytes, end)?;
                end = after;
                errors.extend(more);
            }
            Some((end, errors))
        }
        other => panic!("{other:?}"),
    }
}

fn reference(bytes: &[u8]) -> Tally {
    let (mut at, mut tally) = (0, Tally::default());
    while let Some((end, errors)) = parse(bytes, at) {
        tally.replies += 1;
        tally.nulls += u64::from(bytes[at..].starts_with(b"$-1") || bytes[at..].starts_with(b"*-1"));
        tally.errors += u64::from(!errors.is_empty());
        tally.first_error = tally.first_error.or(errors.into_iter().next());
        at = end;
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
    Skipper::new(None, stride)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn counts_what_a_parser_counts(
        replies in prop::collection::vec(any_reply(), 0..12),
        stride in skippers(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        tail in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        replies.iter().for_each(|reply| reply.render(&mut bytes));
        let whole = taking_all(stride.clone());
        prop_assert_eq!(skip(whole, &bytes, &[]).replies, replies.len() as u64);
        // The last reply may not be whole, and the pieces end anywhere.
        bytes.truncate(tail.index(bytes.len() + 1));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(skip(taking_all(stride), &bytes, &cuts), reference(&bytes));
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), stride in skippers()) {
        let _ = taking_all(stride).skip(&bytes, &mut Tally::default());
    }

    #[test]
    fn never_panics_on_almost_replies(bytes in "[-+:$*0-9\r\n]{0,60}", stride in skippers()) {
        let _ = taking_all(stride).skip(bytes.as_bytes(), &mut Tally::default());
    }
}

#[test]
fn every_single_byte_is_a_place_to_cut() {
    let bytes = b"*3\r\n$3\r\nabc\r\n*2\r\n:-12\r\n$-1\r\n-ERR x\r\n$-1\r\n+OK\r\n*0\r\n";
    let all: Vec<usize> = (1..bytes.len()).collect();
    let tally = skip(Skipper::any(), bytes, &all);
    let first_error = Some("ERR x".to_owned());
    assert_eq!(tally, Tally { replies: 4, nulls: 1, errors: 1, first_error });
}

#[test]
fn an_error_in_an_array_counts_when_the_array_is_whole() {
    let (mut skipper, mut tally) = (Skipper::any(), Tally::default());
    skipper.skip(b"*3\r\n-ERR first\r\n-ERR second\r\n", &mut tally).unwrap();
    assert_eq!(tally, Tally::default());
    skipper.skip(b":1\r\n", &mut tally).unwrap();
    let first_error = Some("ERR first".to_owned());
    assert_eq!(tally, Tally { replies: 1, nulls: 0, errors: 1, first_error });
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
        "%1\r\n",
    ] {
        refused(Skipper::any(), bytes.as_bytes());
    }
    let told = refused(Skipper::new(Some(b'$'), None), b"+OK\r\n");
    assert_eq!(told, "the server answered '+' where a '$' reply should begin");
    let told = refused(Skipper::new(Some(b'$'), Stride::new(b"$1\r\n", 3)), b"$1\r\na\r\n+OK\r\n");
    assert_eq!(told, "the server answered '+' where a '$' reply should begin");
}
