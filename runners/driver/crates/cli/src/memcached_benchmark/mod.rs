//! `speedbench memcached-benchmark`: redis-benchmark's options and formats in front of memcached.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::arguments::Parsed;
use crate::redis_benchmark;
use crate::redis_benchmark::options::{self, Options};
use crate::redis_benchmark::planned::PlannedTest;
use crate::redis_benchmark::report::Printer;
use crate::redis_benchmark::server::ServerSettings;
use crate::redis_benchmark::suite::value;
use engine::job::Job;
use engine::node::Node;
use network::memcached::{self, Refusals};
use protocol::template::{Placeholders, Value};
use text::checks::require;
use text::failure::Failure;
use text::output;
use workload::filling::Filling;
use workload::memcached::load::Load;
use workload::memcached::suite::{self, Needs, Test};
use workload::phase;
use workload::protocol_name::ProtocolName;

/// The names under which the program is this front end.
pub const NAMES: [&str; 2] = ["memcached-benchmark", "mc-benchmark"];
/// Options of redis-benchmark that mean something here.
const MEANT: [&str; 32] = [
    "host",
    "port",
    "socket",
    "timeout",
    "sources",
    "password",
    "user",
    "tls",
    "sni",
    "cacert",
    "cacertdir",
    "insecure",
    "cert",
    "key",
    "ciphers",
    "ciphersuites",
    "groups",
    "clients",
    "requests",
    "value_bytes",
    "keepalive",
    "keyspace",
    "pipeline",
    "names",
    "threads",
    "seed",
    "precision",
    "quiet",
    "forever",
    "csv",
    "help",
    "version",
];
/// Requests are kept whole in memory, up to a hundred keys or ten values in each.
const LARGEST_VALUE: usize = 16 << 20;

/// The options of redis-benchmark, called `name`, without those that mean nothing here.
pub fn command(name: &'static str) -> Command {
    let meant = |arg: Arg| {
        let is_meant = MEANT.contains(&arg.get_id().as_str());
        arg.hide(!is_meant)
    };
    redis_benchmark::command(name)
        .override_usage(format!("{name} [OPTIONS]"))
        .after_help(tests_help())
        .mut_args(meant)
}

/// The names of all tests.
fn tests_help() -> String {
    let join = |names: Vec<&str>| names.join(" ");
    let default = join(suite::default_tests().map(|test| test.name).collect());
    let extra = join(suite::TESTS.iter().filter(|test| test.extra).map(|test| test.name).collect());
    format!(
        "Keys that a test needs are stored before it, not counted.\n\n\
         Tests that run without -t, in this order:\n{default}\n\nAnd when -t names them:\n{extra}"
    )
}

/// Run with `words`, which follow the program's name; `name` is one of [`NAMES`].
pub fn run(name: &'static str, words: Vec<OsString>) -> Result<(), Failure> {
    let options = match options::parse(command(name), words)? {
        Parsed::Options(options, _) => options,
        Parsed::Text(text) => return output::print(&text),
    };
    if let Some(word) = options.command.first() {
        return Err(options::invalid(&String::from_utf8_lossy(word)));
    }
    let tests = tests(&options)?;
    redis_benchmark::warn(&options, tests.iter().map(|test| &test.load.script));
    measure_all(&options, &tests)
}

/// One test that will be measured.
struct Prepared {
    test: &'static Test,
    planned: PlannedTest,
    load: Load,
}

fn places(options: &Options) -> Placeholders {
    Placeholders { value: Value::Same(value(options.load.value_bytes)), ..Placeholders::default() }
}

fn prepared(test: &'static Test, options: &Options) -> Prepared {
    let load = Load::new(test, &places(options), options.load.seed);
    let planned = PlannedTest {
        title: test.title.to_owned(),
        script: load.script.clone(),
        payload_bytes: options.load.value_bytes,
        before: None,
    };
    Prepared { test, planned, load }
}

fn measure_all(options: &Options, tests: &[Prepared]) -> Result<(), Failure> {
    let node = Node::of(options.target(ProtocolName::Memcached)?);
    memcached::require_logins(&node.target)?;
    let mut printer = Printer::new(options, ServerSettings::default());
    let mut filled = vec![Needs::Nothing];
    loop {
        for test in tests {
            fill(options, &node, test, &mut filled)?;
            let job = job(options, &node, test);
            let stages = phase::stages(options.warmup(), options.length());
            let target = || std::iter::once(&node.target);
            let refusals = test.test.is_silent().then(|| Refusals::before(target())).transpose()?;
            let outcome =
                test.load.run(&job, &stages, &mut |progress| printer.progress(test.test.title, progress))?;
            refusals.map_or(Ok(()), |refusals| refusals.check(target(), test.test.name))?;
            printer.result(options, &test.planned, outcome)?;
        }
        printer.end_round(options)?;
        if !options.tests.forever {
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
    let keys = needs.numbers(options.length().requests(), keyspace(options));
    if !needs.is_per_request() {
        filled.push(needs);
    }
    let filling = Filling::of_memcached(job(options, node, test), needs, keys, &places(options));
    filling.map_or(Ok(()), |filling| filling.run())
}

fn keyspace(options: &Options) -> u64 {
    options.load.keyspace.unwrap_or(1).max(1)
}

fn job(options: &Options, node: &Node, test: &Prepared) -> Job {
    redis_benchmark::job(options, test.test.title, std::slice::from_ref(node), &test.load.script)
}

/// The tests that are asked for, in the order of the suite.
fn tests(options: &Options) -> Result<Vec<Prepared>, Failure> {
    require(options.load.value_bytes <= LARGEST_VALUE, "-d is above 16 MiB", "give a smaller value")?;
    let named: Vec<&Test> = match &options.tests.names {
        Some(list) => list.split(',').map(suite::find_test).collect::<Result<_, _>>()?,
        None => suite::default_tests().collect(),
    };
    let selected = suite::TESTS.iter().filter(|test| named.iter().any(|named| named.name == test.name));
    let prepared: Vec<Prepared> = selected.map(|test| prepared(test, options)).collect();
    prepared.iter().try_for_each(|test| options.check_buffers(&test.load.script))?;
    Ok(prepared)
}
