//! `speedbench duel`: words in, one checked plan out, and its result.

pub mod options;

use std::ffi::OsString;

use clap::Command;

use crate::arguments::{self, Advice, Parsed};
use crate::run::habits::{self, HABITS};
use crate::uri;
use duel::table;
use options::DuelOptions;
use text::failure::Failure;
use text::output::print;
use text::secrets::HIDDEN;

const ABOUT: &str = "\
Measure two servers beside each other: is head slower than base?

The connections to both are open at once, and short slices of the same load alternate between them, so that what \
happens to the machine happens to both. The answer is about these two processes: two processes of one build differ by \
2 to 3% for as long as they live. To judge builds, repeat the duel with fresh processes of both.";
const ADVICE: Advice<'_> =
    Advice { see: "see `speedbench duel --help`", habits: &HABITS, word: Some(habits::WORD) };

pub fn command() -> Command {
    arguments::command::<DuelOptions>("speedbench duel", Some(ABOUT))
}

/// Run with `words`, which follow `program`, the words that name it.
///
/// When a server fails after something was measured, that is printed, and the failure is returned.
pub fn run(program: &[String], words: Vec<OsString>) -> Result<(), Failure> {
    let (options, given): (DuelOptions, _) = match arguments::parse(command(), words, ADVICE)? {
        Parsed::Options(options, given) => (options, given),
        Parsed::Text(text) => return print(&text),
    };
    let as_json = options.pair.json;
    let plan = options.plan(&given, given.record(program, publish))?;
    let document = duel::run::run(&plan)?;
    print(&if as_json { document.to_json() + "\n" } else { table::render(&document) })?;
    document.failure.map_or(Ok(()), Err)
}

/// The value of the option `id` without passwords.
fn publish(id: &str, value: &str) -> String {
    match id {
        "password" => HIDDEN.to_owned(),
        "base" | "head" if value.contains("://") => uri::without_login(value),
        _ => value.to_owned(),
    }
}
