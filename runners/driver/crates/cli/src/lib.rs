//! The command lines of `speedbench`: its own, and those that imitate other programs.

pub mod command_line;
pub mod endpoint;
pub mod memcached_benchmark;
pub mod memtier_benchmark;
pub mod option_values;
pub mod redis_benchmark;
pub mod run;
pub mod uri;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use machine::counters;
use report::{csv, table};
use run::options::Command;
use text::failure::Failure;
use text::output::print;
use workload::plan::Output;

type FrontEnd = fn(&str, Vec<OsString>) -> Result<(), Failure>;

/// The front end of that name, with the name.
fn front_end(name: &OsStr) -> Option<(FrontEnd, &'static str)> {
    let redis = redis_benchmark::NAMES.map(|name| (redis_benchmark::run as FrontEnd, name));
    let memcached = memcached_benchmark::NAMES.map(|name| (memcached_benchmark::run as FrontEnd, name));
    let memtier = memtier_benchmark::NAMES.map(|name| (memtier_benchmark::run as FrontEnd, name));
    redis.into_iter().chain(memcached).chain(memtier).find(|(_, known)| name == *known)
}

/// Do what the words of a command line say, the program's name first.
pub fn obey(words: Vec<OsString>) -> Result<(), Failure> {
    let called = words.first().and_then(|name| Path::new(name).file_name()).unwrap_or_default();
    match (front_end(called), words.get(1).and_then(|word| front_end(word))) {
        (Some((run, name)), _) => run(name, words[1..].to_vec()),
        (None, Some((run, name))) => run(name, words[2..].to_vec()),
        (None, None) if words.get(1).is_some_and(|word| word == "compare") => {
            print(&compare::run(words[2..].to_vec())?)
        }
        (None, None) if words.get(1).is_some_and(|word| word == "counters") => {
            print(&format!("{}\n", counters::offered()))
        }
        (None, None) => run_native(words),
    }
}

fn run_native(words: Vec<OsString>) -> Result<(), Failure> {
    match run::options::parse(words)? {
        Command::Help => print(run::help::HELP),
        Command::Version => print(&format!("speedbench {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Run(plan) => {
            let document = session::run::run(&plan)?;
            print(&match plan.output {
                Output::Json => document.to_json() + "\n",
                Output::Csv => csv::render(&document),
                Output::Table => table::render(&document),
            })
        }
    }
}
