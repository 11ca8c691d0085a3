//! `speedbench`: exit code 0 with a result on stdout, or one line on stderr with 1 (run failed) or 2 (usage).

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use speedbench::cli::{self, Command};
use speedbench::failure::Failure;
use speedbench::plan::Output;
use speedbench::{
    compare, counters, csv, memcached_benchmark, memtier_benchmark, redis_benchmark, session, table,
};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // There is nobody left to tell when this fails; the exit code remains.
            let _ = writeln!(io::stderr(), "speedbench: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

type FrontEnd = fn(&str, Vec<OsString>) -> Result<(), Failure>;

/// The front end of that name, with the name.
fn front_end(name: &OsStr) -> Option<(FrontEnd, &'static str)> {
    let redis = redis_benchmark::NAMES.map(|name| (redis_benchmark::run as FrontEnd, name));
    let memcached = memcached_benchmark::NAMES.map(|name| (memcached_benchmark::run as FrontEnd, name));
    let memtier = memtier_benchmark::NAMES.map(|name| (memtier_benchmark::run as FrontEnd, name));
    redis.into_iter().chain(memcached).chain(memtier).find(|(_, known)| name == *known)
}

fn run() -> Result<(), Failure> {
    let words: Vec<_> = std::env::args_os().collect();
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
        (None, None) => run_native(),
    }
}

fn run_native() -> Result<(), Failure> {
    match cli::parse(std::env::args_os())? {
        Command::Help => print(cli::HELP),
        Command::Version => print(&format!("speedbench {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Run(plan) => {
            let document = session::run(&plan)?;
            print(&match plan.output {
                Output::Json => document.to_json() + "\n",
                Output::Csv => csv::render(&document),
                Output::Table => table::render(&document),
            })
        }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    io::stdout().write_all(text.as_bytes()).map_err(|error| {
        Failure::run(format!("cannot write the result to stdout ({error})"), "give it a reader")
    })
}
