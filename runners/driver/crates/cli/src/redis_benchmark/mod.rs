//! `speedbench redis-benchmark`: the options, tests and formats of redis-benchmark (and additions of
//! valkey-benchmark) in front of the one engine.

pub mod custom;
pub mod dataset;
pub mod formats;
pub mod idle;
pub mod options;
pub mod plan;
pub mod planned;
pub mod report;
pub mod server;
pub mod suite;
pub mod texts;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use clap::Command;

use crate::arguments::{self, Parsed};
use engine::cluster::Roles;
use engine::job::{Job, Window};
use engine::node::{self, Node};
use engine::recovery::Recovery;
use engine::{cluster, workers};
use generator::keys::KeyOrder;
use generator::values::ValuePool;
use network::target::Target;
use options::Options;
use planned::PlannedTest;
use protocol::command::Step;
use protocol::resp::Resp;
use protocol::script::Script;
use report::Printer;
use server::ServerSettings;
use suite::{NEWEST, Version};
use text::failure::Failure;
use text::output;
use workload::phase;
use workload::protocol_name::ProtocolName;

/// The names under which the program is this front end.
pub const NAMES: [&str; 2] = ["redis-benchmark", "valkey-benchmark"];

/// A load of a cluster goes on when slots move; a connection that is lost and cannot be opened again ends it.
const FOLLOWING: Recovery = Recovery {
    attempts: Some(1),
    pause: Duration::from_millis(10),
    factor: 2.0,
    longest: Duration::from_secs(1),
    connect_timeout: Duration::from_secs(1),
};
const IN_ITS_PLACE: &str = concat!("(speedbench ", env!("CARGO_PKG_VERSION"), " in its place)");
const AFTER_HELP: &str = "\
A command may hold __rand_int__ (a number of its own), __rand_1st__ to __rand_9th__ (the same number in the whole \
sequence), __key__ (in the command), __seq__ (counts all commands), __data__ (a value of -d bytes) and, with --cluster, \
{tag}. A word in double quotes may hold escapes: \"\\x00\\n\". A word ';' separates commands of a sequence; a number \
before a command repeats it.

  redis-benchmark -q -n 100000 -P 16 -t set,get
  redis-benchmark -r 100000 -n 1000000 --csv -- multi ';' 3 incr a:__rand_int__ ';' exec";

/// The options of redis-benchmark, called `name`.
pub fn command(name: &'static str) -> Command {
    arguments::command::<Options>(name, None)
        .override_usage(format!("{name} [OPTIONS] [COMMAND ARGS...]"))
        .after_help(AFTER_HELP)
        .mut_arg("version", |arg| arg.short('v'))
        .version(version(name, NEWEST))
}

/// What it stands in for, and what it is.
fn version(name: &str, stands_for: Version) -> &'static str {
    match name {
        // It is said once in the life of a process, so that nothing piles up.
        "redis-benchmark" => format!("{stands_for} {IN_ITS_PLACE}").leak(),
        "memcached-benchmark" => env!("CARGO_PKG_VERSION"),
        _ => IN_ITS_PLACE,
    }
}

/// The version that the last `--as` among `words` names. `--version` ends the reading of options, wherever `--as` stands.
fn asked_version(words: &[OsString]) -> Version {
    let asked = words.windows(2).rev().find(|pair| pair[0] == "--as");
    asked.and_then(|pair| options::version(&pair[1].to_string_lossy()).ok()).unwrap_or(NEWEST)
}

/// Run with `words`, which follow the program's name; `name` is one of [`NAMES`].
pub fn run(name: &'static str, words: Vec<OsString>) -> Result<(), Failure> {
    let command = command(name).version(version(name, asked_version(&words)));
    let mut options = match options::parse(command, words)? {
        Parsed::Options(options, _) => options,
        Parsed::Text(text) => return output::print(&text),
    };
    options.is_valkey = name == "valkey-benchmark";
    let tests = plan::tests(&options)?;
    warn(&options, tests.iter().map(|test| &test.script));
    measured(options, &tests).map_err(|failure| texts::said_by(name, failure))
}

fn measured(mut options: Options, tests: &[PlannedTest]) -> Result<(), Failure> {
    let target = options.target(ProtocolName::Resp)?;
    let nodes = match options.endpoint.access.cluster {
        true => members(&mut options, &target)?,
        false => vec![Node::of(target)],
    };
    match options.load.idle {
        true => idle::hold(&options, &nodes),
        false => measure_all(&options, &nodes, tests),
    }
}

/// The nodes of a cluster that are loaded, each by a thread of its own unless options say otherwise.
fn members(options: &mut Options, seed: &Target) -> Result<Vec<Node>, Failure> {
    let roles = options.load.roles;
    let members = cluster::nodes(seed, roles)?;
    options.load.threads.get_or_insert(members.len());
    output::print(&formats::members(&members, roles))?;
    Ok(members.into_iter().map(|member| member.node).collect())
}

/// Warn about questionable options, and about a pipeline that `scripts` cannot fill, once each.
pub fn warn<'a>(options: &Options, mut scripts: impl Iterator<Item = &'a Script>) {
    let depth = scripts.find_map(|script| options.depth_warning(script));
    options.warnings.iter().chain(&depth).for_each(|warning| output::warn(warning));
}

fn measure_all(options: &Options, nodes: &[Node], tests: &[PlannedTest]) -> Result<(), Failure> {
    // Only the full report names settings of the server.
    let configured = match options.output.quiet || options.output.csv {
        true => ServerSettings::default(),
        false => server::configuration(nodes)?,
    };
    let mut printer = Printer::new(options, configured);
    loop {
        for test in tests {
            measure(options, nodes, test, &mut printer)?;
        }
        printer.end_round(options)?;
        if !options.tests.forever {
            return Ok(());
        }
    }
}

fn measure(
    options: &Options,
    nodes: &[Node],
    test: &PlannedTest,
    printer: &mut Printer,
) -> Result<(), Failure> {
    if let Some(words) = &test.before {
        node::prepare(nodes, words)?;
    }
    // A replica redirects writes only. Following them would load the masters instead.
    let follows = options.load.roles == Roles::Masters && is_led_by_slots(nodes, &test.script);
    let recovery = follows.then_some(FOLLOWING);
    let job = Job { recovery, ..job(options, &test.title, nodes, &test.script) };
    let stages = phase::stages(options.warmup(), options.length());
    let outcome = workers::run(&Resp::of(&test.script), &job, &stages, &mut |progress| {
        printer.progress(&test.title, progress)
    })?;
    printer.result(options, test, outcome)
}

/// Whether the keys of all commands lead to the slots of a node, so that they can follow slots that move.
fn is_led_by_slots(nodes: &[Node], script: &Script) -> bool {
    let is_tagged = |command: &protocol::command::Command| command.steps.contains(&Step::DrawTag);
    !nodes[0].tags.is_empty() && script.commands.iter().all(is_tagged)
}

/// The load of `script`, called `name`, on `nodes`, as `options` ask for it.
pub fn job(options: &Options, name: &str, nodes: &[Node], script: &Script) -> Job {
    Job {
        stairs: None,
        items: None,
        table: options.table.clone(),
        jitter: None,
        alike: false,
        by_client: false,
        name: name.to_owned(),
        nodes: nodes.to_vec(),
        script: Arc::new(script.clone()),
        named_commands: Vec::new(),
        clients: options.load.clients,
        own_clients: 0..options.load.clients,
        threads: options.load.threads.unwrap_or(1).clamp(1, options.load.clients),
        pipeline: options.load.pipeline,
        window: Window::Batch,
        rate: options.load.rate.filter(|rate| *rate > 0.0),
        keepalive: options.load.keepalive,
        reconnect_after: None,
        keyspace: options.load.keyspace.unwrap_or(1).max(1),
        key_order: if options.load.sequential { KeyOrder::Sequential } else { KeyOrder::Uniform },
        command_key_orders: Vec::new(),
        values: ValuePool::new(options.load.seed, 0),
        seed: options.load.seed,
        probe: None,
        cpus: Vec::new(),
        server_pid: None,
        counters: None,
        slice_ns: 1_000_000_000,
        interval_slices: None,
        allow_errors: false,
        verify: None,
        recovery: None,
        begins_at: None,
        scoreboard: None,
    }
}
