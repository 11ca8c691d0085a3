//! The options of memtier_benchmark, as they were given.

use crate::option_values::Words;
use std::str::FromStr;
use std::time::Duration;

use crate::command_line::CommandLine;
use generator::values::{Sizes, Ttl};
use text::checks::{self, require};
use text::failure::Failure;
use text::secrets::{HIDDEN, text_without_password};
use workload::phase_check::Terms;
use workload::protocol_name::Protocol;

const SEE_HELP: &str = "see --help";
pub const TIMEOUT: Duration = Duration::from_secs(10);
pub const MOST_WEIGHT: u64 = 65_535;

pub const TERMS: Terms = Terms {
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
pub struct Options {
    pub host: String,
    pub port: Option<u16>,
    pub socket: Option<String>,
    pub protocol: Protocol,
    pub resp3: bool,
    pub login: Option<String>,
    /// Of each thread.
    pub clients: usize,
    pub threads: usize,
    /// Of each connection; none is one for each key, of all together.
    pub requests: Option<u64>,
    pub test_time: Option<Duration>,
    pub pipeline: usize,
    /// Of each connection.
    pub rate: Option<f64>,
    pub ratio: [u64; 2],
    pub commands: Vec<(String, u64)>,
    pub sizes: Sizes,
    pub ttl: Option<Ttl>,
    pub prefix: Option<String>,
    pub keys: [u64; 2],
    pub pattern: char,
    pub deviation: Option<f64>,
    pub median: Option<f64>,
    pub exponent: f64,
    pub json_file: Option<String>,
    pub histogram: bool,
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

pub fn wrong(option: &str, word: &str) -> Failure {
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
    pub fn take(&mut self, option: &str, line: &mut CommandLine) -> Result<(), Failure> {
        let option = long(option)?;
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
            "test-time" => self.test_time = Some(checks::duration(parsed(option, word)?, "--test-time")?),
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

pub fn ratio(word: &str) -> Result<[u64; 2], Failure> {
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
