//! The tests of memcached: requests and usual replies as texts, in the order in which they run by default.

use crate::key_name::KeyName;
use generator::values::Ttl;
use protocol::command::Command;
use protocol::expectation::Expectation;
use protocol::memcached::{Answer, Kind, Pattern};
use protocol::template::{Fill, Part, Placeholders};
use text::failure::Failure;

/// `head`, so many times `each`, `tail`. `{d}` is the number of bytes of a value, `{i}` which of the times it is, `__ttl__` when
/// a value ends, the rest as in custom commands.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    head: &'static str,
    each: &'static str,
    times: usize,
    tail: &'static str,
}

/// Keys that must be there before a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// The keyspace.
    Keys,
    /// The keyspace in keys that are sent as base64.
    BinaryKeys,
    /// A counter for each number of the keyspace.
    Counters,
    /// A key for each request: the test deletes them.
    KeyPerRequest,
    /// Ten of them for each request.
    TenKeysPerRequest,
}

impl Needs {
    /// The test that stores these keys.
    pub fn filler(self) -> Option<&'static Test> {
        match self {
            Needs::Nothing => None,
            Needs::Keys => Some(named("set")),
            Needs::BinaryKeys => Some(named("ms_base64")),
            Needs::Counters => Some(&COUNTERS),
            Needs::KeyPerRequest => Some(&DOOMED),
            Needs::TenKeysPerRequest => Some(&TEN_DOOMED),
        }
    }

    /// Whether its keys are used up.
    pub fn is_per_request(self) -> bool {
        matches!(self, Needs::KeyPerRequest | Needs::TenKeysPerRequest)
    }

    /// For how many numbers keys are stored before `requests` requests on a keyspace of `keys`; none: no number of requests
    /// is given.
    pub fn numbers(self, requests: Option<u64>, keys: u64) -> u64 {
        requests.filter(|_| self.is_per_request()).unwrap_or(keys)
    }
}

#[derive(Debug)]
pub struct Test {
    pub title: &'static str,
    /// The name by which -t selects it.
    pub name: &'static str,
    request: Text,
    kind: Kind,
    /// Keys that one request looks for; 0 when it has no misses.
    pub keys: u64,
    usual: Option<Text>,
    pub needs: Needs,
    /// Whether it runs only when -t names it.
    pub extra: bool,
}

const fn once(head: &'static str) -> Text {
    Text { head, each: "", times: 0, tail: "" }
}

const fn each(head: &'static str, each: &'static str, times: usize, tail: &'static str) -> Text {
    Text { head, each, times, tail }
}

const fn test(title: &'static str, name: &'static str, request: Text, kind: Kind, keys: u64) -> Test {
    Test { title, name, request, kind, keys, usual: None, needs: Needs::Nothing, extra: false }
}

/// Asks for so many keys, which are there.
const fn values(title: &'static str, name: &'static str, command: &'static str, keys: usize) -> Test {
    test(title, name, each(command, KEY, keys, "\r\n"), Kind::Values, keys as u64).needing(Needs::Keys)
}

/// The same where the reply holds nothing but keys and values, so that the usual one is known.
const fn hits(title: &'static str, name: &'static str, command: &'static str, keys: usize) -> Test {
    values(title, name, command, keys).usually(each("", VALUE, keys, END))
}

/// Ten commands without a reply, closed by one that has one.
const fn noreply(title: &'static str, name: &'static str, command: &'static str) -> Test {
    let request = each("", command, 10, "mn\r\n");
    test(title, name, request, Kind::Silent, 0).usually(once("MN\r\n")).when_named()
}

impl Test {
    const fn usually(self, usual: Text) -> Test {
        Test { usual: Some(usual), ..self }
    }

    const fn needing(self, needs: Needs) -> Test {
        Test { needs, ..self }
    }

    const fn when_named(self) -> Test {
        Test { extra: true, ..self }
    }
}

const KEY: &str = " key:__rand_int__";
const VALUE: &str = "VALUE key:__rand_int__ 0 {d}\r\n__data__\r\n";
const MG: &str = "mg key:__rand_int__ v q\r\n";
const VA: &str = "VA {d}\r\n__data__\r\n";
const END: &str = "END\r\n";
const STORED: Text = once("STORED\r\n");
const HD: Text = once("HD\r\n");

/// In the order of their default run; extras follow the test that they resemble.
pub static TESTS: &[Test] = &[
    test("MN", "mn", once("mn\r\n"), Kind::NoOp, 0).usually(once("MN\r\n")),
    test("VERSION", "version", once("version\r\n"), Kind::Version, 0),
    test("SET", "set", once("set key:__rand_int__ 0 __ttl__ {d}\r\n__data__\r\n"), Kind::Stored, 0)
        .usually(STORED),
    noreply(
        "SET (10 keys, noreply)",
        "set_noreply",
        "set key:__rand_int__ 0 __ttl__ {d} noreply\r\n__data__\r\n",
    ),
    hits("GET (hit)", "get", "get", 1),
    test("GET (miss)", "get_miss", once("get absent:__rand_int__\r\n"), Kind::Values, 1),
    hits("GET (10 keys)", "get_10", "get", 10).when_named(),
    hits("GET (100 keys)", "get_100", "get", 100).when_named(),
    values("GETS", "gets", "gets", 1).when_named(),
    values("GETS (10 keys)", "gets_10", "gets", 10),
    values("GETS (100 keys)", "gets_100", "gets", 100),
    test("ADD", "add", once("add new:__seq__ 0 0 {d}\r\n__data__\r\n"), Kind::Stored, 1).usually(STORED),
    noreply("ADD (10 keys, noreply)", "add_noreply", "add new{i}:__seq__ 0 0 {d} noreply\r\n__data__\r\n"),
    test("REPLACE", "replace", once("replace key:__rand_int__ 0 0 {d}\r\n__data__\r\n"), Kind::Stored, 1)
        .usually(STORED)
        .needing(Needs::Keys),
    noreply(
        "REPLACE (10 keys, noreply)",
        "replace_noreply",
        "replace key:__rand_int__ 0 0 {d} noreply\r\n__data__\r\n",
    )
    .needing(Needs::Keys),
    test("APPEND (0 bytes)", "append", once("append key:__rand_int__ 0 0 0\r\n\r\n"), Kind::Stored, 1)
        .usually(STORED)
        .needing(Needs::Keys),
    noreply(
        "APPEND (10 keys, 0 bytes, noreply)",
        "append_noreply",
        "append key:__rand_int__ 0 0 0 noreply\r\n\r\n",
    )
    .needing(Needs::Keys),
    test("PREPEND (0 bytes)", "prepend", once("prepend key:__rand_int__ 0 0 0\r\n\r\n"), Kind::Stored, 1)
        .usually(STORED)
        .needing(Needs::Keys)
        .when_named(),
    noreply(
        "PREPEND (10 keys, 0 bytes, noreply)",
        "prepend_noreply",
        "prepend key:__rand_int__ 0 0 0 noreply\r\n\r\n",
    )
    .needing(Needs::Keys),
    test("CAS (refused)", "cas", once("cas key:__rand_int__ 0 0 {d} 0\r\n__data__\r\n"), Kind::Stored, 1)
        .needing(Needs::Keys),
    noreply(
        "CAS (10 keys, refused, noreply)",
        "cas_noreply",
        "cas key:__rand_int__ 0 0 {d} 0 noreply\r\n__data__\r\n",
    )
    .needing(Needs::Keys),
    test("INCR", "incr", once("incr counter:__rand_int__ 1\r\n"), Kind::Number, 1).needing(Needs::Counters),
    test("DECR", "decr", once("decr counter:__rand_int__ 1\r\n"), Kind::Number, 1)
        .needing(Needs::Counters)
        .when_named(),
    noreply("INCR (10 keys, noreply)", "incr_noreply", "incr counter:__rand_int__ 1 noreply\r\n")
        .needing(Needs::Counters),
    noreply("DECR (10 keys, noreply)", "decr_noreply", "decr counter:__rand_int__ 1 noreply\r\n")
        .needing(Needs::Counters),
    test("TOUCH", "touch", once("touch key:__rand_int__ 3600\r\n"), Kind::Touched, 1)
        .usually(once("TOUCHED\r\n"))
        .needing(Needs::Keys),
    noreply("TOUCH (10 keys, noreply)", "touch_noreply", "touch key:__rand_int__ 3600 noreply\r\n")
        .needing(Needs::Keys),
    hits("GAT", "gat", "gat 3600", 1),
    hits("GAT (10 keys)", "gat_10", "gat 3600", 10).when_named(),
    hits("GAT (100 keys)", "gat_100", "gat 3600", 100).when_named(),
    values("GATS", "gats", "gats 3600", 1).when_named(),
    values("GATS (10 keys)", "gats_10", "gats 3600", 10).when_named(),
    values("GATS (100 keys)", "gats_100", "gats 3600", 100).when_named(),
    test("DELETE", "delete", once("delete doomed:__seq__\r\n"), Kind::Deleted, 1)
        .usually(once("DELETED\r\n"))
        .needing(Needs::KeyPerRequest),
    noreply("DELETE (10 keys, noreply)", "delete_noreply", "delete doomed{i}:__seq__ noreply\r\n")
        .needing(Needs::TenKeysPerRequest),
    test("MS", "ms", once("ms key:__rand_int__ {d}\r\n__data__\r\n"), Kind::Head, 0).usually(HD),
    test(
        "MS (base64 key, TTL, opaque)",
        "ms_base64",
        once("ms a2V5__rand_int__ {d} b T3600 O1\r\n__data__\r\n"),
        Kind::Head,
        0,
    )
    .usually(once("HD O1\r\n"))
    .when_named(),
    test(
        "MS (10 keys, quiet)",
        "ms_quiet",
        each("", "ms key:__rand_int__ {d} q\r\n__data__\r\n", 10, "mn\r\n"),
        Kind::Quiet,
        0,
    )
    .usually(once("MN\r\n"))
    .when_named(),
    test("MG", "mg", once("mg key:__rand_int__ v\r\n"), Kind::Item, 1).usually(once(VA)).needing(Needs::Keys),
    test(
        "MG (value, flags, size, TTL, opaque)",
        "mg_flags",
        once("mg key:__rand_int__ v f s t O1\r\n"),
        Kind::Item,
        1,
    )
    .needing(Needs::Keys)
    .when_named(),
    test("MG (base64 key)", "mg_base64", once("mg a2V5__rand_int__ b v\r\n"), Kind::Item, 1)
        .usually(once(VA))
        .needing(Needs::BinaryKeys)
        .when_named(),
    test("MG (touch, no value)", "mg_touch", once("mg key:__rand_int__ T3600\r\n"), Kind::Head, 1)
        .usually(HD)
        .needing(Needs::Keys)
        .when_named(),
    test("MG (10 keys, quiet)", "mg_quiet", each("", MG, 10, "mn\r\n"), Kind::Quiet, 10)
        .usually(each("", VA, 10, "MN\r\n"))
        .needing(Needs::Keys),
    test("MD", "md", once("md doomed:__seq__\r\n"), Kind::Head, 1).usually(HD).needing(Needs::KeyPerRequest),
    test("MA", "ma", once("ma counter:__rand_int__\r\n"), Kind::Head, 1).usually(HD).needing(Needs::Counters),
    test("MA (value)", "ma_value", once("ma counter:__rand_int__ v\r\n"), Kind::Item, 1)
        .needing(Needs::Counters)
        .when_named(),
];

/// A counter has ten digits, so that it keeps its length.
static COUNTERS: Test = test(
    "",
    "the setting of counters",
    once("set counter:__rand_int__ 0 0 10\r\n5000000000\r\n"),
    Kind::Stored,
    0,
)
.usually(STORED);
static DOOMED: Test = test(
    "",
    "the setting of keys to delete",
    once("set doomed:__rand_int__ 0 0 {d}\r\n__data__\r\n"),
    Kind::Stored,
    0,
)
.usually(STORED);

static TEN_DOOMED: Test =
    noreply("", "the setting of keys to delete", "set doomed{i}:__key__ 0 0 {d} noreply\r\n__data__\r\n");

fn find(name: &str) -> Option<&'static Test> {
    TESTS.iter().find(|test| test.name == name)
}

fn named(name: &str) -> &'static Test {
    find(name).expect("the name of a test")
}

/// The test of that name; `ping` is `mn`. A usage failure when there is none.
pub fn find_test(name: &str) -> Result<&'static Test, Failure> {
    find(if name == "ping" { "mn" } else { name }).ok_or_else(|| {
        let known: Vec<&str> = TESTS.iter().map(|test| test.name).collect();
        Failure::usage(format!("there is no test '{name}'"), format!("-t takes {}", known.join(",")))
    })
}

/// The tests that run when none is named.
pub fn default_tests() -> impl Iterator<Item = &'static Test> {
    TESTS.iter().filter(|test| !test.extra)
}

impl Test {
    pub fn command(&self, places: &Placeholders) -> Command {
        Command::new(&self.request.parts(places), Expectation::default())
    }

    /// What its keys are called.
    pub fn key_name(&self, places: &Placeholders) -> KeyName {
        let mut head: Option<Vec<u8>> = None;
        let mut before: &[u8] = b"";
        let parts = self.request.parts(places);
        for part in &parts {
            match part {
                Part::Literal(text) => before = text,
                Part::Filled(Fill::Sequence | Fill::Shared(_)) => return KeyName::Other,
                Part::Filled(Fill::Number) => {
                    let begin =
                        before.iter().rposition(|byte| byte.is_ascii_whitespace()).map_or(0, |at| at + 1);
                    let key = &before[begin..];
                    // Without a colon it is base64 of something else.
                    if !key.contains(&b':') || head.get_or_insert(key.to_vec()) != key {
                        return KeyName::Other;
                    }
                }
                Part::Filled(_) => {}
            }
        }
        head.map_or(KeyName::None, KeyName::Head)
    }

    /// Whether the server says nothing of what it does, so that it may refuse in silence.
    pub fn is_silent(&self) -> bool {
        self.kind == Kind::Silent
    }

    /// Whether it reads one value, which a test before it has stored.
    pub fn reads_value(&self) -> bool {
        let stored = matches!(self.needs, Needs::Keys | Needs::BinaryKeys);
        stored && self.keys == 1 && matches!(self.kind, Kind::Values | Kind::Item)
    }

    pub fn answer(&self, places: &Placeholders) -> Answer {
        // Any value of the same length is usual.
        let places = Placeholders {
            value: places.value.any(),
            key_bytes: places.key_bytes,
            ..Placeholders::default()
        };
        let usual = self.usual.as_ref().and_then(|text| Pattern::new(&text.parts(&places)));
        Answer { test: self.name, kind: self.kind, keys: self.keys, usual }
    }
}

impl Text {
    /// Keys are stored without a time to live unless `places` has one.
    fn parts(&self, places: &Placeholders) -> Vec<Part> {
        let each = (0..self.times).map(|time| self.each.replace("{i}", &time.to_string()));
        let text = self.head.to_owned() + &each.collect::<String>() + self.tail;
        let places = Placeholders { ttl: places.ttl.or(Some(Ttl(0, 0))), numbers: true, ..places.clone() };
        let mut parts = Vec::new();
        for (at, text) in text.split("{d}").enumerate() {
            parts.extend((at > 0).then(|| places.value.length_part()));
            parts.extend(places.cut(text.as_bytes()));
        }
        parts
    }
}
