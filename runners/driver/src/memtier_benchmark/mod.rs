//! `speedbench memtier-benchmark`: the usual options of memtier_benchmark, turned into a plan of one phase.

mod help;

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use crate::cli::{self, require};
use crate::command_line::{CommandLine, HIDDEN, text_without_password};
use crate::endpoint::Words;
use crate::failure::Failure;
use crate::job::Window;
use crate::keys::Distribution;
use crate::memcached::suite;
use crate::net::{self, Address, Target};
use crate::plan::{KeySpace, Length, Mode, Output, Phase, Plan, Terms, check_rate};
use crate::redis_benchmark::report::print;
use crate::schedule::Law;
use crate::values::{Sizes, Ttl};
use crate::workload::{Item, Order, Protocol, Source, Workload};
use crate::{session, table, words};

/// The names under which the program is this front end.
pub const NAMES: [&str; 2] = ["memtier-benchmark", "memtier_benchmark"];

const SEE_HELP: &str = "see --help";
const TIMEOUT: Duration = Duration::from_secs(10);
const MOST_WEIGHT: u64 = 65_535;

const TERMS: Terms = Terms {
    clients: "--clients",
    threads: "--threads",
    pipeline: "--pipeline",
    keys: "the number of keys",
    bytes: "--data-size",
    length: "--requests or --test-time",
    resp3: "-P resp3",
    tracking: "",
};

/// What the options say, defaults first.
struct Options {
    host: String,
    port: Option<u16>,
    socket: Option<String>,
    protocol: Protocol,
    resp3: bool,
    login: Option<String>,
    /// Of each thread.
    clients: usize,
    threads: usize,
    /// Of each connection; none is one for each key, of all together.
    requests: Option<u64>,
    test_time: Option<Duration>,
    pipeline: usize,
    /// Of each connection.
    rate: Option<f64>,
    ratio: [u64; 2],
    commands: Vec<(String, u64)>,
    sizes: Sizes,
    ttl: Option<Ttl>,
    prefix: Option<String>,
    keys: [u64; 2],
    pattern: char,
    deviation: Option<f64>,
    median: Option<f64>,
    exponent: f64,
    json_file: Option<String>,
    histogram: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            host: "localhost".to_owned(),
            port: None,
            socket: None,
            protocol: Protocol::Resp,
            resp3: false,
            login: None,
            clients: 50,
            threads: 4,
            requests: Some(10_000),
            test_time: None,
            pipeline: 1,
            rate: None,
            ratio: [1, 10],
            commands: Vec::new(),
            sizes: Sizes::Fixed(32),
            ttl: None,
            prefix: None,
            keys: [0, 10_000_000],
            pattern: 'R',
            deviation: None,
            median: None,
            exponent: 1.0,
            json_file: None,
            histogram: true,
        }
    }
}

/// Obey `words`, which follow the program's name; `name` is one of [`NAMES`].
pub fn run(name: &str, words: Vec<OsString>) -> Result<(), Failure> {
    let program: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut line = CommandLine::new(&program[..program.len() - words.len()], words);
    let mut options = Options::default();
    while let Some(option) = line.option()? {
        match option.as_str() {
            "--help" => return print(&help::HELP.replace("memtier-benchmark", name)),
            "--version" | "-v" => return print(&format!("{name} {}\n", env!("CARGO_PKG_VERSION"))),
            _ => options.take(long(&option)?, &mut line)?,
        }
    }
    let mut document = session::run(&options.plan(line.record())?)?;
    if let Some(path) = &options.json_file {
        std::fs::write(path, document.to_json() + "\n").map_err(|error| {
            Failure::run(format!("cannot write {path} ({error})"), "give --json-out-file a place to write to")
        })?;
    }
    if !options.histogram {
        document.tests.iter_mut().for_each(|test| test.latency = Default::default());
    }
    print(&table::render(&document))
}

fn wrong(option: &str, word: &str) -> Failure {
    Failure::usage(format!("--{option} cannot be '{word}'"), SEE_HELP)
}

/// The long name of an option, without its dashes.
fn long(option: &str) -> Result<&str, Failure> {
    Ok(match option {
        "-h" | "-s" => "host",
        "-p" => "port",
        "-S" => "unix-socket",
        "-P" => "protocol",
        "-a" => "authenticate",
        "-c" => "clients",
        "-t" => "threads",
        "-n" => "requests",
        "-d" => "data-size",
        other => other.strip_prefix("--").ok_or_else(|| unknown(other))?,
    })
}

fn unknown(option: &str) -> Failure {
    Failure::usage(format!("there is no option {option} here"), SEE_HELP)
}

fn parsed<T: FromStr>(option: &str, word: &str) -> Result<T, Failure> {
    word.parse().map_err(|_| wrong(option, word))
}

/// Two numbers with `between` them, the lesser first.
fn range<T: FromStr + PartialOrd>(option: &str, word: &str) -> Result<(T, T), Failure> {
    let (least, most) = word.split_once('-').ok_or_else(|| wrong(option, word))?;
    let (least, most) = (parsed(option, least)?, parsed(option, most)?);
    if least <= most { Ok((least, most)) } else { Err(wrong(option, word)) }
}

impl Options {
    fn take(&mut self, option: &str, line: &mut CommandLine) -> Result<(), Failure> {
        match option {
            "hide-histogram" => self.histogram = false,
            // Streams of connections always differ here.
            "distinct-client-seed" | "randomize" | "random-data" => {}
            _ => {
                let word = match option {
                    "authenticate" => line.secret(option, |_| HIDDEN.to_owned()),
                    "command" => line.secret(option, text_without_password),
                    _ => line.text(option),
                }?;
                self.take_value(option, &word)?;
            }
        }
        Ok(())
    }

    fn take_value(&mut self, option: &str, word: &str) -> Result<(), Failure> {
        let last = self.commands.last_mut();
        match option {
            "host" | "server" => self.host = word.to_owned(),
            "port" => self.port = Some(parsed(option, word)?),
            "unix-socket" => self.socket = Some(word.to_owned()),
            "protocol" => (self.protocol, self.resp3) = protocol(word)?,
            "authenticate" => self.login = Some(word.to_owned()),
            "clients" => self.clients = parsed(option, word)?,
            "threads" => self.threads = parsed(option, word)?,
            "requests" if word == "allkeys" => self.requests = None,
            "requests" => self.requests = Some(parsed(option, word)?),
            "test-time" => self.test_time = Some(cli::duration(parsed(option, word)?, "--test-time")?),
            "pipeline" => self.pipeline = parsed(option, word)?,
            "rate-limiting" => self.rate = Some(parsed(option, word)?),
            "ratio" => self.ratio = ratio(word)?,
            "command" => self.commands.push((word.to_owned(), 1)),
            "command-ratio" => {
                let (_, ratio) = last.ok_or_else(|| wrong(option, word))?;
                *ratio = parsed::<u64>(option, word)?;
            }
            "data-size" => self.sizes = Sizes::Fixed(parsed(option, word)?),
            "data-size-range" => {
                let (least, most) = range(option, word)?;
                self.sizes = Sizes::Range(least, most);
            }
            "data-size-list" => self.sizes = Sizes::Weighted(list(word)?),
            "expiry-range" => {
                let (least, most) = range(option, word)?;
                require(least > 0, "--expiry-range begins with 0", "give seconds above 0")?;
                self.ttl = Some(Ttl(least, most));
            }
            "key-prefix" => self.prefix = Some(word.to_owned()),
            "key-minimum" => self.keys[0] = parsed(option, word)?,
            "key-maximum" => self.keys[1] = parsed(option, word)?,
            "key-pattern" | "command-key-pattern" => self.pattern = pattern(option, word)?,
            "key-stddev" => self.deviation = Some(parsed(option, word)?),
            "key-median" => self.median = Some(parsed(option, word)?),
            "key-zipf-exp" => self.exponent = parsed(option, word)?,
            "json-out-file" => self.json_file = Some(word.to_owned()),
            _ => return Err(unknown(&format!("--{option}"))),
        }
        Ok(())
    }

    fn plan(&self, argv: Vec<String>) -> Result<Plan, Failure> {
        let connections = self.clients.saturating_mul(self.threads);
        let keys = self.key_space()?;
        let length = match (self.test_time, self.requests) {
            (Some(time), _) => Length::Lasting(time),
            (None, Some(each)) => Length::Requests(each.saturating_mul(connections as u64)),
            (None, None) => Length::Requests(keys.count),
        };
        let mode = match self.rate {
            None => Mode::Closed,
            Some(rate) => {
                let rate = check_rate(rate * connections as f64, "--rate-limiting")?;
                Mode::Open { rate, arrivals: Law::Fixed }
            }
        };
        let usual = Phase::of(self.workload()?);
        let phase = Phase {
            clients: connections,
            threads: self.threads,
            pipeline: self.pipeline,
            window: Window::Rolling,
            keys,
            values: self.sizes.clone(),
            ttl: self.ttl,
            warmup: Duration::ZERO,
            length,
            mode,
            resp3: self.resp3,
            ..usual
        };
        phase.check(&TERMS, self.protocol)?;
        let plan = Plan {
            argv,
            protocol: self.protocol,
            target: self.target()?,
            database: 0,
            cluster: false,
            seed: 1,
            overwrites: false,
            cpus: Vec::new(),
            server_pid: None,
            server_events: Vec::new(),
            slice_ms: 100,
            allow_errors: false,
            output: Output::Table,
            hdr_log: None,
            phases: vec![phase],
        };
        plan.check()?;
        Ok(plan)
    }

    fn target(&self) -> Result<Target, Failure> {
        let port = self.port.unwrap_or(self.protocol.port());
        let address = match &self.socket {
            Some(path) => Address::unix(path)?,
            None => Address::Tcp { host: self.host.clone(), port },
        };
        let auth = |login: &String| match login.split_once(':') {
            Some((user, password)) => net::auth(Some(user), password),
            None => net::auth(None, login),
        };
        require(
            self.login.is_none() || self.protocol == Protocol::Resp,
            "-a is given for memcached",
            "leave it out",
        )?;
        Ok(Target { address, tls: None, greeting: self.login.iter().map(auth).collect(), timeout: TIMEOUT })
    }

    /// Sets and gets in their ratio, or the commands that are given.
    fn workload(&self) -> Result<Workload, Failure> {
        let counts = match self.commands.is_empty() {
            true => self.ratio.to_vec(),
            false => self.commands.iter().map(|(_, ratio)| *ratio).collect(),
        };
        let total = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)).unwrap_or(u64::MAX);
        require(
            (1..=MOST_WEIGHT).contains(&total),
            "the ratios add up to 0 or more than 65535",
            "give smaller ones",
        )?;
        match self.protocol {
            Protocol::Resp => {
                let words = self.requests_words()?;
                let item = |(words, count): (Vec<Vec<u8>>, u64)| {
                    let name = String::from_utf8_lossy(&words[0]).to_lowercase();
                    Item { name, source: Source::Request(words), count }
                };
                let items = words.into_iter().zip(counts).filter(|(_, count)| *count > 0).map(item);
                Ok(Workload::of(items.collect(), Order::Mix))
            }
            Protocol::Memcached => {
                require(self.commands.is_empty(), "--command is given for memcache_text", "give --ratio")?;
                require(
                    self.prefix.is_none(),
                    "--key-prefix is given for memcache_text",
                    "keys are key:N there",
                )?;
                let tests = ["set", "get"].into_iter().zip(counts).filter(|(_, count)| *count > 0);
                let item = |(name, count): (&str, u64)| {
                    Ok(Item { name: name.to_owned(), source: suite::asked(name)?, count })
                };
                Ok(Workload::of_memcached(tests.map(item).collect::<Result<_, Failure>>()?, Order::Mix))
            }
        }
    }

    fn requests_words(&self) -> Result<Vec<Vec<Vec<u8>>>, Failure> {
        let key = format!("{}__key__", self.prefix.as_deref().unwrap_or("memtier-"));
        if self.commands.is_empty() {
            let end = if self.ttl.is_some() { ["EX", "__ttl__"].as_slice() } else { &[] };
            let set = [&["SET", &key, "__data__"], end].concat();
            let bytes = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
            return Ok(vec![bytes(&set), bytes(&["GET", &key])]);
        }
        let cut = |(text, _): &(String, u64)| {
            let words = words::split(&text.replace("__key__", &key)).filter(|words| !words.is_empty());
            words.ok_or_else(|| wrong("command", text))
        };
        self.commands.iter().map(cut).collect()
    }

    fn key_space(&self) -> Result<KeySpace, Failure> {
        let [least, most] = self.keys;
        require(least <= most, "--key-maximum is below --key-minimum", "give a greater one")?;
        let count = (most - least).saturating_add(1);
        let share = |keys: f64| keys / count as f64;
        let deviation = self.deviation.map_or(1.0 / 6.0, share);
        let mean = self.median.map_or(0.5, |median| share(median - least as f64));
        let fits = deviation > 0.0 && deviation <= 1.0 && (0.0..=1.0).contains(&mean);
        require(
            fits && self.exponent > 0.0 && self.exponent <= 10.0,
            "--key-stddev, --key-median or --key-zipf-exp does not fit the range of keys",
            "give keys of the range, and an exponent above 0",
        )?;
        let distribution = match self.pattern {
            'S' => Distribution::Sequential,
            'P' => Distribution::Parts,
            'G' => Distribution::Gaussian { mean, deviation },
            'Z' => Distribution::Zipf { exponent: self.exponent },
            _ => Distribution::Uniform,
        };
        Ok(KeySpace { count, distribution })
    }
}

fn protocol(word: &str) -> Result<(Protocol, bool), Failure> {
    match word {
        "redis" | "resp2" => Ok((Protocol::Resp, false)),
        "resp3" => Ok((Protocol::Resp, true)),
        "memcache_text" => Ok((Protocol::Memcached, false)),
        _ => Err(Failure::usage(
            format!("--protocol cannot be '{word}'"),
            "give redis, resp2, resp3 or memcache_text",
        )),
    }
}

fn ratio(word: &str) -> Result<[u64; 2], Failure> {
    let (sets, gets) = word.split_once(':').ok_or_else(|| wrong("ratio", word))?;
    Ok([parsed("ratio", sets)?, parsed("ratio", gets)?])
}

fn list(word: &str) -> Result<Vec<(usize, u64)>, Failure> {
    let pair = |pair: &str| {
        let (bytes, weight) = pair.split_once(':').ok_or_else(|| wrong("data-size-list", word))?;
        let weight = parsed("data-size-list", weight)?;
        require(weight > 0, "--data-size-list has a weight of 0", "leave it out")?;
        Ok((parsed("data-size-list", bytes)?, weight))
    };
    word.split(',').map(pair).collect()
}

/// One letter, or the same for sets and gets.
fn pattern(option: &str, word: &str) -> Result<char, Failure> {
    let letters: Vec<&str> = word.split(':').collect();
    let letter =
        letters[0].chars().next().filter(|letter| letters[0].len() == 1 && "RSGZP".contains(*letter));
    require(
        letters.iter().all(|other| *other == letters[0]),
        &format!("--{option} {word} has two patterns"),
        "give both the same, or two runs",
    )?;
    letter.ok_or_else(|| wrong(option, word))
}
