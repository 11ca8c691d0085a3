//! What `speedbench run` sends: which commands a test, a mix or a sequence stands for.

use std::collections::BTreeSet;

use crate::key_name::KeyName;
use crate::memcached::load::Load;
use crate::memcached::suite::{self, Needs};
use crate::order::Order;
use crate::protocol_name::ProtocolName;
use crate::source::{Origin, READING, Source, Test, resp_source};
use crate::traffic::Traffic;
use engine::job::NamedCommand;
use protocol::template::{CURSOR, Placeholders, REPLY};
use text::checks::require;
use text::failure::Failure;

/// What is sent: one command, several with weights that are mixed, or a sequence.
#[derive(Debug, Clone)]
pub struct Workload {
    name: Option<String>,
    parts: Parts,
    order: Order,
}

#[derive(Debug, Clone)]
enum Parts {
    Resp(Vec<Item<Source>>),
    Memcached(Vec<Item<&'static suite::Test>>),
}

/// One command, and how often it is sent.
#[derive(Debug, Clone)]
pub struct Item<S> {
    pub name: String,
    pub source: S,
    pub count: u64,
}

impl Workload {
    /// The tests that run when none is named.
    pub fn all(protocol: ProtocolName) -> Vec<Workload> {
        let single = |name: &str| Workload::named(protocol, name).expect("the name of a test");
        match protocol {
            ProtocolName::Resp => Test::ALL.map(|test| single(test.name())).to_vec(),
            ProtocolName::Memcached => suite::default_tests().map(|test| single(test.name)).collect(),
        }
    }

    /// `get`, or a mix such as `get:9+set:1`.
    pub fn named(protocol: ProtocolName, name: &str) -> Result<Workload, Failure> {
        let parts = match protocol {
            ProtocolName::Resp => Parts::Resp(parts(name, resp_source)?),
            ProtocolName::Memcached => Parts::Memcached(parts(name, suite::find_test)?),
        };
        Ok(Workload { name: Some(name.to_owned()), parts, order: Order::Mix })
    }

    /// The same under another name.
    pub fn with_name(self, name: &str) -> Workload {
        Workload { name: Some(name.to_owned()), ..self }
    }

    /// Commands of RESP; at least one.
    pub fn of(items: Vec<Item<Source>>, order: Order) -> Workload {
        Workload { name: None, parts: Parts::Resp(items), order }
    }

    /// Tests of memcached; at least one.
    pub fn of_memcached(items: Vec<Item<&'static suite::Test>>, order: Order) -> Workload {
        Workload { name: None, parts: Parts::Memcached(items), order }
    }

    /// The name of its test, if it is one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What its counts mean.
    pub fn order(&self) -> Order {
        match self.order {
            Order::Decks | Order::Scan(_) => Order::Mix,
            order => order,
        }
    }

    /// The placeholder of what a reply names for the command after it, if there is one.
    pub fn reply_name(&self) -> Option<&'static str> {
        match self.order {
            Order::Scan(_) => Some(CURSOR),
            Order::Sequence => self.commands_with_reply().contains(&true).then_some(REPLY),
            Order::Mix | Order::Decks => None,
        }
    }

    /// For each command, whether it holds [`REPLY`].
    fn commands_with_reply(&self) -> Vec<bool> {
        let Parts::Resp(items) = &self.parts else { return Vec::new() };
        let has_reply = |word: &Vec<u8>| word.windows(REPLY.len()).any(|part| part == REPLY.as_bytes());
        items.iter().map(|item| item.source.words(false).iter().any(has_reply)).collect()
    }

    /// A usage failure when commands hold [`REPLY`] before which there is no reply.
    pub fn check_replies(&self) -> Result<(), Failure> {
        let with_reply = self.commands_with_reply();
        require(
            self.order() == Order::Sequence || !with_reply.contains(&true),
            "__reply__ stands in commands without an order",
            "give them as a sequence",
        )?;
        require(
            with_reply.first() != Some(&true),
            "the first command holds __reply__",
            "give one that is answered before it",
        )
    }

    /// Its commands, as they were given.
    pub fn items(&self) -> Vec<Item<Origin<'_>>> {
        match &self.parts {
            Parts::Resp(items) => items.iter().map(|item| item.with(item.source.origin())).collect(),
            Parts::Memcached(items) => {
                items.iter().map(|item| item.with(Origin::Test(item.source.name))).collect()
            }
        }
    }

    /// Its name, or its commands with their counts: `get:9+set:1`, `multi;incr:3;exec`.
    pub fn text(&self) -> String {
        let join = |texts: Vec<String>| texts.join(if self.order() == Order::Mix { "+" } else { ";" });
        match (&self.name, &self.parts) {
            (Some(name), _) => name.clone(),
            (None, Parts::Resp(items)) => join(items.iter().map(Item::text).collect()),
            (None, Parts::Memcached(items)) => join(items.iter().map(Item::text).collect()),
        }
    }

    pub fn traffic(&self, places: &Placeholders, seed: u64) -> Traffic {
        match &self.parts {
            Parts::Resp(items) => {
                let command = |(at, item): (usize, &Item<Source>)| {
                    (item.count, item.source.command(&places.of_command(at)))
                };
                let commands = items.iter().enumerate().map(command);
                Traffic::Resp(self.order.script(commands.collect(), seed))
            }
            Parts::Memcached(items) => {
                let tests: Vec<_> = items.iter().map(|item| (item.source, item.count)).collect();
                Traffic::Memcached(Load::ordered(&tests, self.order, places, seed))
            }
        }
    }

    /// Its commands in the order of its script. Hits of memcached are counted by its skipper.
    pub fn named_commands(&self) -> Vec<NamedCommand> {
        let named_commands = |name: &String, reads| NamedCommand { name: name.clone(), reads };
        match &self.parts {
            Parts::Resp(items) => {
                items.iter().map(|item| named_commands(&item.name, item.source.is_one_of(&READING))).collect()
            }
            Parts::Memcached(items) => items.iter().map(|item| named_commands(&item.name, false)).collect(),
        }
    }

    /// For each command, whether it reads one value.
    pub fn reading(&self) -> Vec<bool> {
        match &self.parts {
            Parts::Resp(items) => items.iter().map(|item| item.source.is_one_of(&READING)).collect(),
            Parts::Memcached(items) => items.iter().map(|item| item.source.reads_value()).collect(),
        }
    }

    /// The keys that a prefill sets, as texts with a place for their number; those of the tests when it names none.
    pub fn string_keys(&self) -> BTreeSet<Vec<u8>> {
        let mut keys = match &self.parts {
            Parts::Resp(items) => items.iter().filter_map(|item| item.source.string_keys()).collect(),
            Parts::Memcached(_) => BTreeSet::new(),
        };
        if keys.is_empty() {
            keys.insert(b"key:__key__".to_vec());
        }
        keys
    }

    /// Sets `key` to a value, with a time to live of `__ttl__` if it shall `end`.
    pub fn of_set(key: &[u8], end: bool) -> Workload {
        let end = if end { ["EX", "__ttl__"].as_slice() } else { &[] };
        let words = [b"SET", key, b"__data__"].into_iter().chain(end.iter().map(|word| word.as_bytes()));
        Workload::of_request("set", words.map(<[u8]>::to_vec).collect())
    }

    /// One request, called `name`.
    pub fn of_request(name: &str, words: Vec<Vec<u8>>) -> Workload {
        let item = Item { name: name.to_owned(), source: Source::Request(words), count: 1 };
        Workload::of(vec![item], Order::Mix)
    }

    /// Whether replies show hits and misses.
    pub fn looks_for_keys(&self) -> bool {
        match &self.parts {
            Parts::Resp(_) => self.reading().contains(&true),
            Parts::Memcached(items) => items.iter().any(|item| item.source.keys > 0),
        }
    }

    /// How its keys begin, before their numbers; none without keys. A usage failure when several servers cannot share them.
    pub fn key_head(&self, places: &Placeholders) -> Result<Option<Vec<u8>>, Failure> {
        let names: Vec<(&String, KeyName)> = match &self.parts {
            Parts::Resp(items) => items.iter().map(|item| (&item.name, item.source.key_name())).collect(),
            Parts::Memcached(items) => {
                items.iter().map(|item| (&item.name, item.source.key_name(places))).collect()
            }
        };
        let mut heads: Vec<Vec<u8>> = Vec::new();
        for (test, name) in names {
            require(
                name != KeyName::Other,
                &format!("the keys of {test} cannot be spread over several servers"),
                "leave it out, or give one server: only keys that are a name and a number of -r can",
            )?;
            heads.extend(name.head().filter(|head| !heads.contains(head)));
        }
        require(
            heads.len() <= 1,
            &format!(
                "{} has keys of several kinds, which cannot be spread over several servers",
                self.text()
            ),
            "measure its tests one after the other",
        )?;
        Ok(heads.pop())
    }

    /// Whether a server may refuse some of its stores without a word.
    pub fn stores_silently(&self) -> bool {
        match &self.parts {
            Parts::Resp(_) => false,
            Parts::Memcached(items) => items.iter().any(|item| item.source.is_silent()),
        }
    }

    /// Whether some of its commands get no reply; a cause and a remedy if it would never end.
    pub fn silences(&self) -> Result<bool, (&'static str, &'static str)> {
        let Parts::Resp(items) = &self.parts else { return Ok(false) };
        let (mut begun, mut is_off) = (false, false);
        for item in items {
            match client_reply(&item.source.words(false)).as_deref() {
                Some("OFF") => (begun, is_off) = (true, true),
                Some("ON") => is_off = false,
                Some(_) => return Err(("CLIENT REPLY SKIP is sent", "send CLIENT REPLY OFF and ON")),
                None => {}
            }
        }
        match begun && (is_off || self.order() == Order::Mix) {
            true => Err((
                "CLIENT REPLY OFF is sent and nothing says when its commands have ended",
                "send it in a sequence that ends with CLIENT REPLY ON",
            )),
            false => Ok(begun),
        }
    }

    /// Whether a request holds `text`.
    pub fn contains(&self, text: &[u8]) -> bool {
        let Parts::Resp(items) = &self.parts else { return false };
        let mut words = items.iter().flat_map(|item| item.source.words(false));
        words.any(|word| memchr::memmem::find(&word, text).is_some())
    }

    /// Keys that the tests need and a prefill does not set.
    pub fn needs(&self) -> Vec<Needs> {
        match &self.parts {
            Parts::Resp(_) => Vec::new(),
            Parts::Memcached(items) => {
                let needs = items.iter().map(|item| item.source.needs);
                needs.filter(|needs| !matches!(needs, Needs::Nothing | Needs::Keys)).collect()
            }
        }
    }
}

impl<S> Item<S> {
    fn with<T>(&self, source: T) -> Item<T> {
        Item { name: self.name.clone(), source, count: self.count }
    }

    fn text(&self) -> String {
        match self.count {
            1 => self.name.clone(),
            count => format!("{}:{count}", self.name),
        }
    }
}

/// The last word of a CLIENT REPLY, in capitals.
fn client_reply(words: &[Vec<u8>]) -> Option<String> {
    let words: Vec<String> =
        words.iter().take(4).map(|word| String::from_utf8_lossy(word).to_uppercase()).collect();
    match &words[..] {
        [client, reply, word] if client == "CLIENT" && reply == "REPLY" => Some(word.clone()),
        _ => None,
    }
}

/// Tests, each with its weight, which is 1 unless it is given.
fn parts<S>(text: &str, source: impl Fn(&str) -> Result<S, Failure>) -> Result<Vec<Item<S>>, Failure> {
    let part = |text: &str| {
        let (name, weight) = text.split_once(':').unwrap_or((text, "1"));
        Ok(Item { name: name.to_owned(), source: source(name)?, count: self::weight(name, weight)? })
    };
    text.split('+').map(part).collect()
}

fn weight(name: &str, weight: &str) -> Result<u64, Failure> {
    weight.parse().ok().filter(|weight| (1..=1000).contains(weight)).ok_or_else(|| {
        Failure::usage(
            format!("the weight '{weight}' of {name} is not one"),
            "give 1 to 1000, as in get:9+set:1",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::template::Value;

    fn places() -> Placeholders {
        Placeholders { numbers: true, value: Value::Drawn(3), ..Placeholders::default() }
    }

    #[test]
    fn protocols_have_tests_of_their_own() {
        assert!(Workload::named(ProtocolName::Memcached, "gets_10:3+ms").is_ok());
        assert!(Workload::named(ProtocolName::Resp, "gets_10").is_err());
        let incr = Workload::named(ProtocolName::Memcached, "incr:2+get").unwrap();
        assert_eq!(incr.needs(), [Needs::Counters]);
    }

    #[test]
    fn a_mix_has_the_weights_of_its_name() {
        let mix = Workload::named(ProtocolName::Resp, "get:3+set").unwrap();
        let script = mix.traffic(&places(), 1).script().clone();
        let sets = script.order.commands().iter().filter(|at| **at == 1).count();
        assert_eq!(script.order.length(), 4 * sets);
        let named_commands = mix.named_commands();
        let names: Vec<_> =
            named_commands.iter().map(|command| (command.name.as_str(), command.reads)).collect();
        assert_eq!(names, [("get", true), ("set", false)]);
        assert!(Workload::named(ProtocolName::Resp, "get:0+set").is_err());
    }
}
