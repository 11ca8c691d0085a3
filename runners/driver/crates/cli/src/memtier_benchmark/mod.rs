//! `speedbench memtier-benchmark`: the usual options of memtier_benchmark, and its outputs.

pub mod commands;
pub mod hdr_files;
pub mod json;
pub mod latencies;
pub mod options;
pub mod plan;
pub mod refused;
pub mod stats;
pub mod table;
pub mod values;

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, SystemTime};

use clap::Command;

use crate::arguments::{self, Advice, Parsed};
use json::Reported;
use options::Options;
use stats::RunStats;
use text::failure::Failure;
use text::output::{self, print};
use text::secrets::{HIDDEN, text_without_password};

/// The names under which the program is this front end.
pub const NAMES: [&str; 2] = ["memtier-benchmark", "memtier_benchmark"];

const ADVICE: Advice<'_> = Advice { see: "see --help", habits: &refused::REFUSED, word: None };
const ABOUT: &str =
    "memtier_benchmark's usual options and its outputs, in front of speedbench; README.md says what differs";
/// Between runs, as there.
const REST: Duration = Duration::from_secs(1);

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
    let (options, given): (Options, _) = match arguments::parse(command(name), words, ADVICE)? {
        Parsed::Options(options, given) => (options, given),
        Parsed::Text(text) => return print(&text),
    };
    options.check(&given)?;
    let commands = options.commands(&given)?;
    let plan = options.plan(&commands, given.record(program, publish))?;
    create_files(&options)?;
    let mut reported = Reported { options: &options, driver: None, runs: Vec::new() };
    for number in 1..=options.result.run_count {
        if number > 1 {
            std::thread::sleep(REST);
        }
        let document = session::run::run(&plan)?;
        let stats = RunStats::of(&document.tests[0], &commands, SystemTime::now());
        warn(number, &document.tests[0].flags);
        if let Some(prefix) = &options.result.hdr_prefix {
            hdr_files::write(prefix, number, &stats)?;
        }
        reported.runs.push(stats);
        reported.driver.get_or_insert(document.driver);
    }
    if let Some(path) = &options.result.json_file {
        write(path, &json::render(&reported), "--json-out-file")?;
    }
    let text = table::render(&reported);
    match &options.result.out_file {
        Some(path) => write(path, &text, "--out-file"),
        None => print(&text),
    }
}

/// Warn of what the outputs of memtier_benchmark have no place for.
fn warn(run: u32, flags: &[&str]) {
    if !flags.is_empty() {
        output::warn(&format!("run {run}: {}: README.md says what it means", flags.join(", ")));
    }
}

/// Begin the files of the outputs, so that one that cannot be written is told before anything is measured.
fn create_files(options: &Options) -> Result<(), Failure> {
    let result = &options.result;
    for (path, option) in [(&result.json_file, "--json-out-file"), (&result.out_file, "--out-file")] {
        path.as_ref().map_or(Ok(()), |path| write(path, "", option))?;
    }
    result.hdr_prefix.as_ref().map_or(Ok(()), |prefix| hdr_files::create(prefix))
}

fn write(path: &str, text: &str, option: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| {
        Failure::run(format!("cannot write {path} ({error})"), format!("give {option} a place to write to"))
    })
}

/// The value of the option `id` without passwords.
fn publish(id: &str, value: &str) -> String {
    match id {
        "login" => HIDDEN.to_owned(),
        "uri" => crate::uri::without_login(value),
        "command" => text_without_password(value),
        _ => value.to_owned(),
    }
}
