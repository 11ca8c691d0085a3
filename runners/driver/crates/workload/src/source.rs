//! The commands of RESP that a workload sends: tests with names, and requests as they are given.

use crate::key_name::KeyName;
use protocol::command::Command;
use protocol::expectation::Expectation;
use protocol::resp;
use protocol::template::{Fill, Part, Placeholders, Varying};
use text::failure::Failure;

/// What one request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    Ping,
    Set,
    Get,
    Incr,
}

impl Test {
    pub const ALL: [Test; 4] = [Test::Ping, Test::Set, Test::Get, Test::Incr];

    pub fn name(self) -> &'static str {
        match self {
            Test::Ping => "ping",
            Test::Set => "set",
            Test::Get => "get",
            Test::Incr => "incr",
        }
    }

    fn named(name: &str) -> Option<Test> {
        Test::ALL.into_iter().find(|test| test.name() == name)
    }

    /// Its words, which hold `{tag}` in a cluster.
    fn words(self, tags: bool) -> &'static [&'static str] {
        match (self, tags) {
            (Test::Ping, _) => &["PING"],
            (Test::Set, false) => &["SET", KEY, "__data__"],
            (Test::Set, true) => &["SET", "key:{tag}:__rand_int__", "__data__"],
            (Test::Get, false) => &["GET", KEY],
            (Test::Get, true) => &["GET", "key:{tag}:__rand_int__"],
            (Test::Incr, false) => &["INCR", "counter:__rand_int__"],
            (Test::Incr, true) => &["INCR", "counter:{tag}:__rand_int__"],
        }
    }
}

const KEY: &str = "key:__rand_int__";

#[derive(Debug, Clone)]
pub enum Source {
    Test(Test),
    /// Words that may hold placeholders.
    Request(Vec<Vec<u8>>),
    /// The set of the next item of a dump, described by these words.
    Item(Vec<Vec<u8>>),
}

/// The form in which a command was given.
pub enum Origin<'a> {
    /// The name of a test.
    Test(&'static str),
    Request(&'a [Vec<u8>]),
}

/// Commands that read one value: an empty reply means that the key was not there.
pub const READING: [&str; 4] = ["GET", "GETEX", "GETDEL", "HGET"];

/// Commands whose keys hold strings, which a prefill can set.
const OF_STRINGS: [&str; 10] =
    ["GET", "SET", "GETEX", "GETDEL", "GETSET", "SETEX", "PSETEX", "SETNX", "STRLEN", "GETRANGE"];

impl Source {
    pub fn origin(&self) -> Origin<'_> {
        match self {
            Source::Test(test) => Origin::Test(test.name()),
            Source::Request(words) | Source::Item(words) => Origin::Request(words),
        }
    }

    pub fn words(&self, tags: bool) -> Vec<Vec<u8>> {
        match self {
            Source::Test(test) => test.words(tags).iter().map(|word| word.as_bytes().to_vec()).collect(),
            Source::Request(words) | Source::Item(words) => words.clone(),
        }
    }

    pub fn command(&self, places: &Placeholders) -> Command {
        let words = self.words(places.tags);
        if let (Source::Item(_), Some(items)) = (self, places.items) {
            let item = Part::Filled(Fill::Varying(Varying::Item(items)));
            return Command::new(&[item], Expectation::to(&words, 0));
        }
        resp::template(&words, places, Expectation::to(&words, places.value_bytes()))
    }

    pub fn is_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.words(false)[0].eq_ignore_ascii_case(name.as_bytes()))
    }

    /// The string keys that it names, if they differ in one number only.
    pub fn string_keys(&self) -> Option<Vec<u8>> {
        let words = self.words(false);
        let key = words.get(1).filter(|_| self.is_one_of(&OF_STRINGS))?;
        let places = Placeholders { numbers: true, ..Placeholders::default() };
        let (mut text, mut numbers) = (Vec::new(), 0);
        for part in places.cut(key) {
            match part {
                Part::Literal(bytes) => text.extend(bytes),
                Part::Filled(Fill::Number | Fill::Shared(_)) => {
                    text.extend_from_slice(b"__key__");
                    numbers += 1;
                }
                Part::Filled(_) => return None,
            }
        }
        (numbers == 1).then_some(text)
    }

    /// What its keys are called: its second word may be one, without a tag, and no other word holds a key's number.
    pub fn key_name(&self) -> KeyName {
        let places = Placeholders { numbers: true, ..Placeholders::default() };
        let mut name = KeyName::None;
        for (at, word) in self.words(false).iter().enumerate() {
            let parts = places.cut(word);
            let is_number =
                |part: &Part| matches!(part, Part::Filled(Fill::Number | Fill::Shared(_) | Fill::Sequence));
            name = match parts.as_slice() {
                parts if !parts.iter().any(is_number) => continue,
                [Part::Literal(head), Part::Filled(Fill::Number | Fill::Shared(_)), Part::Literal(tail)]
                    if at == 1 && tail.is_empty() && !head.contains(&b'{') =>
                {
                    KeyName::Head(head.clone())
                }
                _ => return KeyName::Other,
            };
        }
        name
    }
}

/// The test of that name.
pub fn resp_source(name: &str) -> Result<Source, Failure> {
    resp_test(name).map(Source::Test)
}

fn resp_test(name: &str) -> Result<Test, Failure> {
    Test::named(name).ok_or_else(|| {
        let known = Test::ALL.map(Test::name).join(", ");
        Failure::usage(format!("there is no test '{name}'"), format!("-t takes {known}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_a_name_and_a_number_can_be_spread() {
        let name = |text: &str| {
            Source::Request(text.split(' ').map(|word| word.as_bytes().to_vec()).collect()).key_name()
        };
        let user = KeyName::Head(b"user:".to_vec());
        for (text, expected) in [
            ("GET user:__key__", user.clone()),
            ("SET user:__rand_1st__ __data__ EX 10", user.clone()),
            ("MULTI", KeyName::None),
            ("CLIENT REPLY OFF", KeyName::None),
            ("GET user:__key__:name", KeyName::Other),
            ("GET user:{tag}:__key__", KeyName::Other),
            ("HSET h field:__rand_int__ x", KeyName::Other),
            ("MGET a:__rand_int__ a:__rand_int__", KeyName::Other),
            ("SET a:__seq__ x", KeyName::Other),
        ] {
            assert_eq!(name(text), expected, "{text}");
        }
        assert_eq!(Source::Test(Test::Ping).key_name(), KeyName::None);
        assert_eq!(Source::Test(Test::Incr).key_name(), KeyName::Head(b"counter:".to_vec()));
    }
}
