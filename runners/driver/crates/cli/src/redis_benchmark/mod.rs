//! `speedbench redis-benchmark`: the options, tests and formats of redis-benchmark (and additions of
//! valkey-benchmark) in front of the one engine.

pub mod custom;
pub mod formats;
pub mod help;
pub mod idle;
pub mod options;
pub mod plan;
pub mod planned;
pub mod report;
pub mod server;
pub mod suite;

use std::ffi::OsString;
use std::sync::Arc;

use engine::job::{Job, Window};
use engine::node::{self, Node};
use engine::total::Total;
use engine::{cluster, workers};
use generator::keys::KeyOrder;
use generator::values::ValuePool;
use options::{Asked, Options};
use planned::Planned;
use protocol::resp::Resp;
use protocol::script::Script;
use report::Printer;
use server::Configured;
use text::failure::Failure;
use text::output;
use workload::phase;

/// The names under which the program is this front end.
pub const NAMES: [&str; 2] = ["redis-benchmark", "valkey-benchmark"];

/// Obey `words`, which follow the program's name; `name` is one of [`NAMES`].
pub fn run(name: &str, words: Vec<OsString>) -> Result<(), Failure> {
    let mut options = match options::parse(words)? {
        Asked::Help => return output::print(&help::HELP.replace("redis-benchmark", name)),
        Asked::Version => return output::print(&format!("{name} {}\n", env!("CARGO_PKG_VERSION"))),
        Asked::Run(options) => *options,
    };
    options.with_extras = name == "valkey-benchmark";
    let tests = plan::tests(&options)?;
    warn(&options, tests.iter().map(|test| &test.script));
    let target = options.target()?;
    let nodes = match options.endpoint.cluster {
        true => cluster::nodes(&target)?,
        false => vec![cluster::Master { name: String::new(), node: Node { target, tags: [].into() } }],
    };
    if options.endpoint.cluster {
        options.threads.get_or_insert(nodes.len());
        output::print(&formats::masters(&nodes))?;
    }
    let nodes: Vec<Node> = nodes.into_iter().map(|master| master.node).collect();
    match options.idle {
        true => idle::hold(&options, &nodes),
        false => measure_all(&options, &nodes, &tests),
    }
}

/// Say what is odd about the options and about what they ask `scripts` for, once each.
pub fn warn<'a>(options: &Options, mut scripts: impl Iterator<Item = &'a Script>) {
    let depth = scripts.find_map(|script| options.depth_warning(script));
    for warning in options.warnings.iter().chain(&depth) {
        eprintln!("WARNING: {warning}");
    }
}

fn measure_all(options: &Options, nodes: &[Node], tests: &[Planned]) -> Result<(), Failure> {
    // Only the full report names settings of the server.
    let configured = match options.quiet || options.csv {
        true => Configured::default(),
        false => server::configuration(nodes)?,
    };
    let mut printer = Printer::new(options, configured);
    loop {
        for test in tests {
            measure(options, nodes, test, &mut printer)?;
        }
        printer.end_round(options)?;
        if !options.forever {
            return Ok(());
        }
    }
}

fn measure(options: &Options, nodes: &[Node], test: &Planned, printer: &mut Printer) -> Result<(), Failure> {
    if let Some(words) = &test.before {
        node::prepare(nodes, words)?;
    }
    let job = job(options, &test.title, nodes, &test.script);
    let stages = phase::stages(options.warmup, options.length);
    let outcome = workers::run(&Resp::of(&test.script), &job, &stages, &mut |progress| {
        printer.progress(&test.title, progress)
    })?;
    printer.result(options, test, &Total::of(&outcome))
}

/// The load of `script`, called `name`, on `nodes`, as `options` ask for it.
pub fn job(options: &Options, name: &str, nodes: &[Node], script: &Script) -> Job {
    Job {
        name: name.to_owned(),
        nodes: nodes.to_vec(),
        script: Arc::new(script.clone()),
        spoken: Vec::new(),
        clients: options.clients,
        threads: options.threads.unwrap_or(1).clamp(1, options.clients),
        pipeline: options.pipeline,
        window: Window::Batch,
        rate: options.rate,
        keepalive: options.keepalive,
        keyspace: options.keyspace.unwrap_or(1).max(1),
        key_order: if options.sequential { KeyOrder::Sequential } else { KeyOrder::Uniform },
        values: ValuePool::new(options.seed, 0),
        seed: options.seed,
        probe: None,
        cpus: Vec::new(),
        server_pid: None,
        counters: None,
        slice_ns: 1_000_000_000,
        interval_slices: None,
        allow_errors: false,
        verify: None,
    }
}
