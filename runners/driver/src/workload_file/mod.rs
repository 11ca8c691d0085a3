//! Workload files: TOML or JSON in, checked phases out, and phases as a file has them. Errors name the key and its place.

mod write;

use std::fs::File;
use std::io::Read;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::{self, require};
use crate::failure::Failure;
use crate::job::Window;
use crate::keys;
use crate::memcached::suite;
use crate::modes::{blocking, pubsub};
use crate::plan::{self, Expect, KeySpace, Length, Mode, Phase, Terms, check_rate};
use crate::schedule::Law;
use crate::template::TTL;
use crate::values::{Sizes, Ttl};
use crate::words;
use crate::workload::{self, Item, Order, Protocol, Workload};
pub use write::{document, written};

const SEE_README: &str = "see the table of keys in README.md";
/// The counts of a list of commands add up to no more.
const MOST_COMMANDS: u64 = 65_535;

/// What a file says.
#[derive(Debug)]
pub struct WorkloadFile {
    pub protocol: Protocol,
    pub seed: u64,
    pub phases: Vec<Phase>,
}

/// No workload is longer, in bytes.
const LONGEST: u64 = 16 << 20;

/// The file at `path`: JSON when its name ends so, or when it is `-`, which is stdin.
pub fn read(path: &str) -> Result<WorkloadFile, Failure> {
    let mut text = String::new();
    let mut up_to_limit = |source: &mut dyn Read| source.take(LONGEST + 1).read_to_string(&mut text);
    let read = match path {
        "-" => up_to_limit(&mut std::io::stdin()),
        _ => File::open(path).and_then(|mut file| up_to_limit(&mut file)),
    };
    let length = read
        .map_err(|error| Failure::usage(format!("cannot read {path} ({error})"), "give --workload FILE"))?;
    require(length as u64 <= LONGEST, &format!("{path} is longer than 16 MiB"), "give --workload FILE")?;
    let json = path == "-" || path.ends_with(".json");
    parse(&text, json).map_err(|failure| failure.within(if path == "-" { "stdin" } else { path }))
}

/// The phases that `text` describes.
pub fn parse(text: &str, json: bool) -> Result<WorkloadFile, Failure> {
    let document: Value = match json {
        true => serde_json::from_str(text).map_err(|error| Failure::usage(error, "write JSON"))?,
        false => toml::from_str(text).map_err(|error| not_toml(text, &error))?,
    };
    // TOML has no null: that is how its nan and inf come out.
    require(json || !has_null(&document), "nan or inf is given", "give numbers")?;
    let document: Document = read_as(document)?;
    require(!document.phase.is_empty(), "there is no phase", "write at least one [[phase]]")?;
    let mut phases: Vec<Phase> = Vec::new();
    for (at, value) in document.phase.into_iter().enumerate() {
        let place = place(at, &value);
        phases.push(phase(value, at, document.protocol).map_err(|failure| failure.within(&place))?);
    }
    plan::check_names(&phases)?;
    Ok(WorkloadFile { protocol: document.protocol, seed: document.seed, phases })
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

fn not_toml(text: &str, error: &toml::de::Error) -> Failure {
    let before = error.span().map_or("", |span| &text[..span.start]);
    let line = before.matches('\n').count() + 1;
    Failure::usage(format!("line {line}: {}", error.message()), "write TOML, or JSON in a file named *.json")
}

/// `phase 2 (mixed)`
fn place(at: usize, phase: &Value) -> String {
    match phase.get("name").or(phase.get("test")).and_then(Value::as_str) {
        Some(name) => format!("phase {} ({name})", at + 1),
        None => format!("phase {}", at + 1),
    }
}

/// `value` as a `T`; what does not fit is named by its key.
fn read_as<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let key = match error.path().to_string().as_str() {
            "." => String::new(),
            path => format!("{path}: "),
        };
        Failure::usage(format!("{key}{}", error.inner()), SEE_README)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    protocol: Protocol,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default)]
    phase: Vec<Value>,
}

fn one() -> u64 {
    1
}

/// A phase as it is written.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Option<String>,
    test: Option<String>,
    commands: Option<Vec<Entry>>,
    sequence: Option<Vec<Entry>>,
    clients: Option<usize>,
    threads: Option<usize>,
    pipeline: Option<usize>,
    window: Option<Window>,
    #[serde(default)]
    keys: Keys,
    values: Option<Values>,
    ttl_s: Option<OneOrTwo<u64>>,
    #[serde(default)]
    prefill: bool,
    #[serde(default)]
    expect: Expected,
    #[serde(default)]
    verify: f64,
    warmup_s: Option<f64>,
    warmup_most_s: Option<f64>,
    duration_s: Option<f64>,
    requests: Option<u64>,
    #[serde(default)]
    mode: ModeName,
    pubsub: Option<pubsub::Setting>,
    blocking: Option<blocking::Setting>,
    rate: Option<f64>,
    arrivals: Option<Law>,
    rates: Option<Vec<f64>>,
    limit: Option<plan::Limit>,
    probe: Option<plan::Probe>,
    #[serde(default)]
    resp3: bool,
    #[serde(default)]
    tracking: bool,
}

/// A command of a mix or a sequence.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    request: Option<Request>,
    test: Option<String>,
    name: Option<String>,
    weight: Option<u64>,
    times: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a command as a string or as a list of words")]
enum Request {
    Text(String),
    Words(Vec<String>),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, or two in a list")]
enum OneOrTwo<T> {
    One(T),
    Two([T; 2]),
}

impl<T: Copy + PartialEq> OneOrTwo<T> {
    fn of(both: [T; 2]) -> OneOrTwo<T> {
        if both[0] == both[1] { OneOrTwo::One(both[0]) } else { OneOrTwo::Two(both) }
    }

    fn both(self) -> [T; 2] {
        match self {
            OneOrTwo::One(only) => [only, only],
            OneOrTwo::Two(both) => both,
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    count: Option<u64>,
    #[serde(default)]
    distribution: DistributionName,
    exponent: Option<f64>,
    mean: Option<f64>,
    deviation: Option<f64>,
    hot_keys: Option<f64>,
    hot_requests: Option<f64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DistributionName {
    #[default]
    Uniform,
    Sequential,
    Parts,
    Zipf,
    Gaussian,
    Hotspot,
    Latest,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    bytes: Option<usize>,
    range: Option<[usize; 2]>,
    weighted: Option<Vec<(usize, u64)>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    hit_rate: Option<OneOrTwo<f64>>,
    keys: Option<u64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModeName {
    #[default]
    Closed,
    Open,
    Search,
    Sweep,
    Idle,
    Churn,
    PubSub,
    Blocking,
}

const TERMS: Terms = Terms {
    clients: "clients",
    threads: "threads",
    pipeline: "pipeline",
    keys: "keys.count",
    bytes: "values",
    length: "requests or duration_s",
    resp3: "resp3",
    tracking: "tracking",
};

fn phase(value: Value, at: usize, protocol: Protocol) -> Result<Phase, Failure> {
    let written: Written = read_as(value)?;
    let length = length(&written)?;
    let mode = mode(&written)?;
    let usual = Phase::of(workload(&written, protocol, &mode)?);
    let unnamed = || usual.workload.name().map_or(format!("phase-{}", at + 1), str::to_owned);
    let phase = Phase {
        name: written.name.clone().map_or_else(|| Ok(unnamed()), |name| label(&name))?,
        clients: written.clients.unwrap_or(usual.clients),
        threads: written.threads.unwrap_or(usual.threads),
        pipeline: written.pipeline.unwrap_or(usual.pipeline),
        window: written.window.unwrap_or(usual.window),
        keys: key_space(&written.keys, usual.keys.count)?,
        values: written.values.as_ref().map_or(Ok(usual.values.clone()), sizes)?,
        ttl: written.ttl_s.map(ttl).transpose()?,
        prefill: written.prefill,
        expect: expect(&written.expect)?,
        verify: share(written.verify, "verify", true)?,
        warmup: match written.warmup_s {
            Some(seconds) => cli::duration(seconds, "warmup_s")?,
            None => length.usual_warmup(),
        },
        warmup_most: written.warmup_most_s.map(|most| cli::duration(most, "warmup_most_s")).transpose()?,
        length,
        mode,
        probe: written.probe.map(|probe| probe.check("probe.clients", "probe.rate")).transpose()?,
        resp3: written.resp3,
        tracking: written.tracking,
        ..usual
    };
    require(
        phase.ttl.is_some() || !phase.workload.holds(TTL),
        "__ttl__ is sent, but ttl_s is not given",
        "give seconds",
    )?;
    phase.check(&TERMS, protocol)?;
    Ok(phase)
}

fn length(written: &Written) -> Result<Length, Failure> {
    match (written.duration_s, written.requests) {
        (Some(_), Some(_)) => {
            Err(Failure::usage("duration_s and requests are both given", "give one of them"))
        }
        (Some(seconds), None) => Ok(Length::Lasting(cli::duration(seconds, "duration_s")?)),
        (None, Some(requests)) => Ok(Length::Requests(requests)),
        (None, None) => Ok(Length::DEFAULT),
    }
}

/// A name that tables and logs can show: a line of its own would break them.
fn label(name: &str) -> Result<String, Failure> {
    let shown = !name.trim().is_empty() && !name.chars().any(char::is_control);
    require(shown, "name is empty or has control characters", "give one line of text")?;
    Ok(name.to_owned())
}

fn workload(written: &Written, protocol: Protocol, mode: &Mode) -> Result<Workload, Failure> {
    match (&written.test, &written.commands, &written.sequence) {
        (None, None, None) => mode
            .usual_workload(protocol)
            .ok_or_else(|| Failure::usage("there is nothing to send", "give test, commands or sequence")),
        _ if mode.has_own_commands() => Err(Failure::usage(
            format!("mode {} has its own commands", mode.name()),
            format!("leave test, commands and sequence out, and see the key {}", mode.name()),
        )),
        (Some(name), None, None) => {
            Workload::named(protocol, &name.to_lowercase()).map_err(|failure| failure.within("test"))
        }
        (None, Some(entries), None) => composed(entries, Order::Mix, protocol),
        (None, None, Some(entries)) => composed(entries, Order::Sequence, protocol),
        _ => Err(Failure::usage(
            "more than one of test, commands and sequence is given",
            "give one, and make further phases of the others",
        )),
    }
}

fn composed(entries: &[Entry], order: Order, protocol: Protocol) -> Result<Workload, Failure> {
    let key = match order {
        Order::Mix => "commands",
        Order::Sequence => "sequence",
    };
    require(!entries.is_empty(), &format!("{key} is empty"), "give at least one command")?;
    let counts = entries.iter().enumerate().map(|(at, entry)| {
        let count = count(entry, order).map_err(|failure| failure.within(format!("{key}[{at}]")))?;
        Ok((at, entry, count))
    });
    let counted: Vec<(usize, &Entry, u64)> = counts.collect::<Result<_, Failure>>()?;
    let commands: u64 = counted.iter().map(|(.., count)| count).sum();
    require(
        commands <= MOST_COMMANDS,
        &format!("{key} adds up to more than {MOST_COMMANDS} commands"),
        "lower weight or times",
    )?;
    match protocol {
        Protocol::Resp => Ok(Workload::of(items(&counted, key, resp_source)?, order)),
        Protocol::Memcached => Ok(Workload::of_memcached(items(&counted, key, memcached_test)?, order)),
    }
}

/// How often a command is sent: its weight in a mix, its repeats in a sequence.
fn count(entry: &Entry, order: Order) -> Result<u64, Failure> {
    let (count, other, name) = match order {
        Order::Mix => (entry.weight, entry.times, "weight"),
        Order::Sequence => (entry.times, entry.weight, "times"),
    };
    require(other.is_none(), "weight is for commands, times is for sequence", &format!("give {name}"))?;
    let count = count.unwrap_or(1);
    let fits = (1..=MOST_COMMANDS).contains(&count);
    require(fits, &format!("{name} cannot be {count}"), &format!("give 1 to {MOST_COMMANDS}"))?;
    Ok(count)
}

fn items<S>(
    counted: &[(usize, &Entry, u64)],
    key: &str,
    source: impl Fn(&Entry) -> Result<(String, S), Failure>,
) -> Result<Vec<Item<S>>, Failure> {
    let item = |&(at, entry, count): &(usize, &Entry, u64)| {
        let (name, source) = source(entry).map_err(|failure| failure.within(format!("{key}[{at}]")))?;
        let name = label(entry.name.as_deref().unwrap_or(&name))
            .map_err(|failure| failure.within(format!("{key}[{at}]")))?;
        Ok(Item { name, source, count })
    };
    counted.iter().map(item).collect()
}

/// A command of RESP with its usual name.
fn resp_source(entry: &Entry) -> Result<(String, workload::Source), Failure> {
    match (&entry.request, &entry.test) {
        (None, Some(test)) => Ok((test.clone(), workload::resp_source(test)?)),
        (Some(request), None) => {
            let words = request_words(request)?;
            let name = String::from_utf8_lossy(&words[0]).to_lowercase();
            Ok((name, workload::Source::Request(words)))
        }
        _ => Err(Failure::usage("a command has either request or test", "give one of them")),
    }
}

fn request_words(request: &Request) -> Result<Vec<Vec<u8>>, Failure> {
    let words = match request {
        Request::Words(words) => words.iter().map(|word| word.clone().into_bytes()).collect(),
        Request::Text(text) => words::split(text)
            .ok_or_else(|| Failure::usage(format!("request: quotes do not match in {text}"), "close them"))?,
    };
    require(
        words.first().is_some_and(|name: &Vec<u8>| !name.is_empty()),
        "request: there is no command",
        "begin it with the name of one",
    )?;
    Ok(words)
}

fn memcached_test(entry: &Entry) -> Result<(String, &'static suite::Test), Failure> {
    match (&entry.request, &entry.test) {
        (None, Some(test)) => Ok((test.clone(), suite::asked(test)?)),
        _ => Err(Failure::usage("a command of memcached is a test", "give test = NAME, not request")),
    }
}

fn key_space(keys: &Keys, usual_count: u64) -> Result<KeySpace, Failure> {
    use DistributionName::{Gaussian, Hotspot, Latest, Parts, Sequential, Uniform, Zipf};
    let name = keys.distribution;
    let parameters = [
        ("exponent", keys.exponent.is_some(), matches!(name, Zipf | Latest)),
        ("mean", keys.mean.is_some(), name == Gaussian),
        ("deviation", keys.deviation.is_some(), name == Gaussian),
        ("hot_keys", keys.hot_keys.is_some(), name == Hotspot),
        ("hot_requests", keys.hot_requests.is_some(), name == Hotspot),
    ];
    for (parameter, given, taken) in parameters {
        require(
            taken || !given,
            &format!("keys.{parameter} means nothing to this distribution"),
            "leave it out, or correct keys.distribution",
        )?;
    }
    let exponent = || within(keys.exponent.unwrap_or(0.99), "keys.exponent", 10.0);
    let distribution = match name {
        Uniform => keys::Distribution::Uniform,
        Sequential => keys::Distribution::Sequential,
        Parts => keys::Distribution::Parts,
        Zipf => keys::Distribution::Zipf { exponent: exponent()? },
        Latest => keys::Distribution::Latest { exponent: exponent()? },
        Gaussian => keys::Distribution::Gaussian {
            mean: share(keys.mean.unwrap_or(0.5), "keys.mean", true)?,
            deviation: within(keys.deviation.unwrap_or(0.125), "keys.deviation", 1.0)?,
        },
        Hotspot => keys::Distribution::Hotspot {
            hot_keys: share(keys.hot_keys.unwrap_or(0.2), "keys.hot_keys", false)?,
            hot_requests: share(keys.hot_requests.unwrap_or(0.8), "keys.hot_requests", true)?,
        },
    };
    Ok(KeySpace { count: keys.count.unwrap_or(usual_count), distribution })
}

/// A number above 0 and at most `most`.
fn within(number: f64, name: &str, most: f64) -> Result<f64, Failure> {
    require(
        number > 0.0 && number <= most,
        &format!("{name} cannot be {number}"),
        &format!("give a number above 0, at most {most}"),
    )?;
    Ok(number)
}

/// A number from 0 to 1; 0 only where it means something.
fn share(number: f64, name: &str, zero: bool) -> Result<f64, Failure> {
    let fits = (0.0..=1.0).contains(&number) && (zero || number > 0.0);
    require(fits, &format!("{name} cannot be {number}"), "give a share between 0 and 1")?;
    Ok(number)
}

fn sizes(values: &Values) -> Result<Sizes, Failure> {
    match (values.bytes, values.range, &values.weighted) {
        (Some(bytes), None, None) => Ok(Sizes::Fixed(bytes)),
        (None, Some([from, to]), None) => {
            require(from <= to, "values.range ends before it begins", "give [least, greatest]")?;
            Ok(Sizes::Range(from, to))
        }
        (None, None, Some(sizes)) => {
            let fits = !sizes.is_empty() && sizes.iter().all(|(_, weight)| (1..=1_000_000).contains(weight));
            require(
                fits,
                "values.weighted is not one",
                "give [[bytes, weight], ...] with weights of 1 to 1000000",
            )?;
            Ok(Sizes::Weighted(sizes.clone()))
        }
        _ => {
            Err(Failure::usage("values has not exactly one of bytes, range and weighted", "give one of them"))
        }
    }
}

fn ttl(seconds: OneOrTwo<u64>) -> Result<Ttl, Failure> {
    let [least, most] = seconds.both();
    let fits = 0 < least && least <= most && most <= u64::from(u32::MAX);
    require(fits, &format!("ttl_s cannot be {least} to {most}"), "give seconds above 0, the lesser first")?;
    Ok(Ttl(least, most))
}

fn expect(expected: &Expected) -> Result<Expect, Failure> {
    let hit_rate = expected.hit_rate.map(OneOrTwo::both);
    if let Some([least, most]) = hit_rate {
        let fits = 0.0 <= least && least <= most && most <= 1.0;
        require(fits, "expect.hit_rate is not a share", "give one or two between 0 and 1, the lesser first")?;
    }
    Ok(Expect { hit_rate, keys: expected.keys })
}

fn mode(written: &Written) -> Result<Mode, Failure> {
    let name = written.mode;
    let scheduled = matches!(name, ModeName::Open | ModeName::Search | ModeName::Sweep);
    let settings = [
        (
            "rate",
            written.rate.is_some(),
            matches!(name, ModeName::Open | ModeName::Search | ModeName::PubSub | ModeName::Blocking),
        ),
        ("rates", written.rates.is_some(), name == ModeName::Sweep),
        ("limit", written.limit.is_some(), name == ModeName::Search),
        ("pubsub", written.pubsub.is_some(), name == ModeName::PubSub),
        ("blocking", written.blocking.is_some(), name == ModeName::Blocking),
        ("arrivals", written.arrivals.is_some(), scheduled),
    ];
    for (setting, given, taken) in settings {
        require(taken || !given, &format!("{setting} means nothing in this mode"), "correct mode")?;
    }
    let missing = |setting: &str| Failure::usage(format!("{setting} is missing"), "this mode needs it");
    let arrivals = written.arrivals.unwrap_or_default();
    let given_rate = written.rate.map(|rate| check_rate(rate, "rate")).transpose()?;
    Ok(match name {
        ModeName::Closed => Mode::Closed,
        ModeName::Open => Mode::Open { rate: given_rate.ok_or_else(|| missing("rate"))?, arrivals },
        ModeName::Search => {
            let limit = written.limit.ok_or_else(|| missing("limit"))?;
            Mode::Search { limit: limit.check("limit")?, arrivals, from: given_rate }
        }
        ModeName::Sweep => {
            let rates = written.rates.clone().ok_or_else(|| missing("rates"))?;
            require(!rates.is_empty(), "rates is empty", "give at least one")?;
            rates.iter().try_for_each(|each| check_rate(*each, "rates").map(drop))?;
            Mode::Sweep { rates, arrivals }
        }
        ModeName::Idle => Mode::Idle,
        ModeName::Churn => Mode::Churn,
        ModeName::PubSub => Mode::PubSub(written.pubsub.unwrap_or_default()).at_rate(given_rate),
        ModeName::Blocking => Mode::Blocking(written.blocking.unwrap_or_default()).at_rate(given_rate),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn told(text: &str) -> String {
        parse(text, false).unwrap_err().to_string()
    }

    #[test]
    fn a_phase_has_the_defaults_of_the_flags() {
        let file = parse("[[phase]]\ntest = 'get'", false).unwrap();
        let phase = &file.phases[0];
        assert_eq!((file.seed, phase.name.as_str(), phase.clients), (1, "get", 50));
        assert_eq!((phase.length, phase.warmup), (Length::DEFAULT, Duration::from_millis(500)));
        assert_eq!((phase.keys.count, &phase.values), (1, &Sizes::Fixed(3)));
    }

    #[test]
    fn errors_name_key_and_place() {
        let line = told("[[phase]]\ntest='get'\n[[phase]]\nname='mixed'\ntest='set'\nkeys.count='many'");
        assert!(line.starts_with("phase 2 (mixed): keys.count: invalid type: string"), "{line}");
        assert!(told("[[phase]]\ntest='get'\nclient=3").starts_with("phase 1 (get): client: unknown field"));
        assert!(told("seed=1\nphase=1]").starts_with("line 2: "));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let modes = r#"
            [[phase]]
            mode = "pubsub"
            pubsub = { publishers = 2, channels = 8, channels_each = 3, subscribe = "shards" }
            rate = 50.5
            [[phase]]
            mode = "blocking"
            blocking = { command = "xreadgroup", block_s = 0.0 }
            [[phase]]
            mode = "search"
            test = "get:2+set"
            limit = { percentile = 99.9, us = 500 }
            [[phase]]
            mode = "sweep"
            rates = [1, 2.5]
            arrivals = "poisson"
            sequence = [{ test = "set", times = 2, name = "store" }, { request = "PING 'a b'" }]
        "#;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let texts = files.map(|path| std::fs::read_to_string(path).unwrap());
        for text in texts.chain([modes.to_owned()]) {
            let file = parse(&text, false).unwrap();
            let written = document(file.protocol, &file.phases);
            let again = parse(&written.to_string(), true).unwrap();
            assert_eq!(format!("{:?}", again.phases), format!("{:?}", file.phases));
            assert_eq!(document(again.protocol, &again.phases), written);
        }
    }
}
