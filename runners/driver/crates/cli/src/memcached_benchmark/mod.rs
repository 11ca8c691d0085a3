//! `speedbench memcached-benchmark`: redis-benchmark's options and formats in front of memcached.

pub mod help;

use std::ffi::OsString;

use crate::redis_benchmark;
use crate::redis_benchmark::options::{self, Asked, Options};
use crate::redis_benchmark::planned::Planned;
use crate::redis_benchmark::report::Printer;
use crate::redis_benchmark::server::Configured;
use crate::redis_benchmark::suite::value;
use engine::job::Job;
use engine::node::Node;
use engine::total::Total;
use protocol::template::{Placeholders, Value};
use text::checks::require;
use text::failure::Failure;
use text::output;
use workload::memcached::load::{self, Load};
use workload::memcached::suite::{self, Needs, Test};
use workload::phase::{self, Length};

/// The names under which the program is this front end.
pub const NAMES: [&str; 2] = ["memcached-benchmark", "mc-benchmark"];
const PORT: &str = "11211";

/// Options of redis-benchmark that mean something here: with a value, and without.
const VALUED: [&str; 14] = [
    "-h",
    "-p",
    "-s",
    "-c",
    "-n",
    "-d",
    "-k",
    "-r",
    "-P",
    "-t",
    "--threads",
    "--seed",
    "--precision",
    "--timeout",
];

const PLAIN: [&str; 6] = ["-q", "-l", "--csv", "-v", "--version", "--help"];
/// Requests are kept whole in memory, up to a hundred keys or ten values in each.
const LARGEST_VALUE: usize = 16 << 20;

/// Obey `words`, which follow the program's name; `name` is one of [`NAMES`].
pub fn run(name: &str, words: Vec<OsString>) -> Result<(), Failure> {
    check(&words)?;
    let usual = ["-p", PORT].map(OsString::from);
    let options = match options::parse(usual.into_iter().chain(words).collect())? {
        Asked::Help => return output::print(&help::text().replace("memcached-benchmark", name)),
        Asked::Version => return output::print(&format!("{name} {}\n", env!("CARGO_PKG_VERSION"))),
        Asked::Run(options) => *options,
    };
    let tests = tests(&options)?;
    redis_benchmark::warn(&options, tests.iter().map(|test| &test.load.script));
    measure_all(&options, &tests)
}

/// Refuse options that only redis-benchmark has, and words that are no options.
fn check(words: &[OsString]) -> Result<(), Failure> {
    let mut words = words.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if VALUED.contains(&&*word) {
            words.next();
        } else if !PLAIN.contains(&&*word) {
            return Err(options::invalid(&word));
        }
    }
    Ok(())
}

/// One test that will be measured.
struct Prepared {
    test: &'static Test,
    planned: Planned,
    load: Load,
}

fn places(options: &Options) -> Placeholders {
    Placeholders { value: Value::Same(value(options.value_bytes)), ..Placeholders::default() }
}

fn prepared(test: &'static Test, options: &Options) -> Prepared {
    let load = Load::new(test, &places(options), options.seed);
    let planned = Planned {
        title: test.title.to_owned(),
        script: load.script.clone(),
        payload_bytes: options.value_bytes,
        before: None,
    };
    Prepared { test, planned, load }
}

fn measure_all(options: &Options, tests: &[Prepared]) -> Result<(), Failure> {
    let node = Node { target: options.target()?, tags: [].into() };
    let mut printer = Printer::new(options, Configured::default());
    let mut filled = vec![Needs::Nothing];
    loop {
        for test in tests {
            fill(options, &node, test, &mut filled)?;
            let job = job(options, &node, test);
            let stages = phase::stages(options.warmup, options.length);
            let outcome =
                test.load.run(&job, &stages, &mut |progress| printer.progress(test.test.title, progress))?;
            printer.result(options, &test.planned, &Total::of(&outcome))?;
        }
        printer.end_round(options)?;
        if !options.forever {
            return Ok(());
        }
    }
}

/// Store the keys that `test` needs, unless an earlier test has needed and left them.
fn fill(options: &Options, node: &Node, test: &Prepared, filled: &mut Vec<Needs>) -> Result<(), Failure> {
    let needs = test.test.needs;
    if filled.contains(&needs) {
        return Ok(());
    }
    let keys = match (needs, options.length) {
        (Needs::KeyPerRequest, Length::Requests(requests)) => requests,
        _ => keyspace(options),
    };
    if needs != Needs::KeyPerRequest {
        filled.push(needs);
    }
    load::fill(job(options, node, test), needs, keys, &places(options))
}

fn keyspace(options: &Options) -> u64 {
    options.keyspace.unwrap_or(1).max(1)
}

fn job(options: &Options, node: &Node, test: &Prepared) -> Job {
    redis_benchmark::job(options, test.test.title, std::slice::from_ref(node), &test.load.script)
}

/// The tests that are asked for, in the order of the suite.
fn tests(options: &Options) -> Result<Vec<Prepared>, Failure> {
    require(options.value_bytes <= LARGEST_VALUE, "-d is above 16 MiB", "give a smaller value")?;
    let asked: Vec<&Test> = match &options.tests {
        Some(list) => list.split(',').map(suite::asked).collect::<Result<_, _>>()?,
        None => suite::usual().collect(),
    };
    let wanted = suite::TESTS.iter().filter(|test| asked.iter().any(|asked| asked.name == test.name));
    let prepared: Vec<Prepared> = wanted.map(|test| prepared(test, options)).collect();
    prepared.iter().try_for_each(|test| options.check_buffers(&test.load.script))?;
    Ok(prepared)
}
