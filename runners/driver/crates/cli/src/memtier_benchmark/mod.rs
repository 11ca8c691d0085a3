//! `speedbench memtier-benchmark`: the usual options of memtier_benchmark, turned into a plan of one phase.

pub mod help;
pub mod options;
pub mod plan;

use std::ffi::OsString;

use crate::command_line::CommandLine;
use options::Options;
use report::table;
use session::run;
use text::failure::Failure;
use text::output::print;

/// The names under which the program is this front end.
pub const NAMES: [&str; 2] = ["memtier-benchmark", "memtier_benchmark"];

/// Obey `words`, which follow the program's name; `name` is one of [`NAMES`].
pub fn run(name: &str, words: Vec<OsString>) -> Result<(), Failure> {
    let program: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut line = CommandLine::new(&program[..program.len() - words.len()], words);
    let mut options = Options::default();
    while let Some(option) = line.option()? {
        match option.as_str() {
            "--help" => return print(&help::HELP.replace("memtier-benchmark", name)),
            "--version" | "-v" => return print(&format!("{name} {}\n", env!("CARGO_PKG_VERSION"))),
            _ => options.take(&option, &mut line)?,
        }
    }
    let mut document = run::run(&options.plan(line.record())?)?;
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
