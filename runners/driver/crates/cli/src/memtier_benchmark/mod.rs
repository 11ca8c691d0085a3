//! `speedbench memtier-benchmark`: the usual options of memtier_benchmark, turned into a plan of one phase.

pub mod options;
pub mod plan;
pub mod values;

use std::ffi::OsString;

use clap::Command;

use crate::arguments::{self, Advice, Parsed};
use options::Options;
use report::table;
use text::failure::Failure;
use text::output::print;
use text::secrets::{HIDDEN, text_without_password};

/// The names under which the program is this front end.
pub const NAMES: [&str; 2] = ["memtier-benchmark", "memtier_benchmark"];

const SEE_HELP: &str = "see --help";
const ABOUT: &str = "memtier_benchmark's usual options in front of speedbench; README.md says what differs";

/// The options of memtier_benchmark, called `name`.
pub fn command(name: &'static str) -> Command {
    arguments::command::<Options>(name, Some(ABOUT))
        .mut_arg("version", |arg| arg.short('v'))
        .version(concat!("(speedbench ", env!("CARGO_PKG_VERSION"), " in its place)"))
}

/// Run with `words`, which follow the program's name; `name` is one of [`NAMES`].
pub fn run(name: &'static str, words: Vec<OsString>) -> Result<(), Failure> {
    let program: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = &program[..program.len() - words.len()];
    let (options, given): (Options, _) = match arguments::parse(command(name), words, Advice::see(SEE_HELP))?
    {
        Parsed::Options(options, given) => (options, given),
        Parsed::Text(text) => return print(&text),
    };
    let plan = options.plan(&given, given.record(program, publish))?;
    let mut document = session::run::run(&plan)?;
    if let Some(path) = &options.result.json_file {
        std::fs::write(path, document.to_json() + "\n").map_err(|error| {
            Failure::run(format!("cannot write {path} ({error})"), "give --json-out-file a place to write to")
        })?;
    }
    if options.result.hide_histogram {
        document.tests.iter_mut().for_each(|test| test.latency = Default::default());
    }
    print(&table::render(&document))
}

/// The value of the option `id` without passwords.
fn publish(id: &str, value: &str) -> String {
    match id {
        "login" => HIDDEN.to_owned(),
        "command" => text_without_password(value),
        _ => value.to_owned(),
    }
}
