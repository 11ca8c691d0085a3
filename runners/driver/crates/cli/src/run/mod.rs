//! `speedbench run`: words in, one checked plan out, and its result.

pub mod habits;
pub mod ladder;
pub mod names;
pub mod options;
pub mod phases;
pub mod ramp;
pub mod values;

use std::ffi::OsString;

use clap::Command;

use crate::arguments::{self, Advice, Parsed};
use crate::uri;
use engine::resources;
use habits::HABITS;
use options::RunOptions;
use report::{csv, html, table};
use text::failure::Failure;
use text::output::{WholeFile, print, unwritable};
use text::secrets::HIDDEN;
use workload::plan::Output;

const ABOUT: &str = "Measure a server that speaks RESP (Redis, Valkey) or the protocol of memcached";
const HTML: &str = "--html";
const ADVICE: Advice<'_> =
    Advice { see: "see `speedbench run --help`", habits: &HABITS, word: Some(habits::WORD) };

pub fn command() -> Command {
    arguments::command::<RunOptions>("speedbench run", Some(ABOUT))
}

/// Run with `words`, which follow `program`, the words that name it.
pub fn run(program: &[String], words: Vec<OsString>) -> Result<(), Failure> {
    let (options, given): (RunOptions, _) = match arguments::parse(command(), words, ADVICE)? {
        Parsed::Options(options, given) => (options, given),
        Parsed::Text(text) => return print(&text),
    };
    let (plan, ladder) = options.plan(&given, given.record(program, publish))?;
    if let Some(result) = ladder.run(&plan, &given)? {
        print(&result)?;
        return resources::check_signals();
    }
    let page = plan.html.as_deref().map(begin_page).transpose()?;
    let document = session::run::run(&plan)?;
    if let Some((page, path)) = page {
        page.finish(&html::render(&document)).map_err(|error| unwritable(path, HTML, &error))?;
    }
    let text = match plan.output {
        Output::Json => document.to_json() + "\n",
        Output::Csv => csv::render(&document),
        Output::Table => table::render(&document),
    };
    print(&text)?;
    document.cut_short.map_or(Ok(()), |cut| Err(cut.failure))
}

/// The file at `path` that gets the result as a page; a failure before anything is measured when it cannot be written.
fn begin_page(path: &str) -> Result<(WholeFile, &str), Failure> {
    WholeFile::create(path).map(|file| (file, path)).map_err(|error| unwritable(path, HTML, &error))
}

/// The value of the option `id` without passwords.
fn publish(id: &str, value: &str) -> String {
    match id {
        "password" => HIDDEN.to_owned(),
        "uri" => uri::without_login(value),
        _ => value.to_owned(),
    }
}
