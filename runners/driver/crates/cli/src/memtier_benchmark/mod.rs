//! `speedbench memtier-benchmark`: the usual options of memtier_benchmark, and its outputs.

pub mod client_stats;
pub mod command_texts;
pub mod commands;
pub mod hdr_files;
pub mod import;
pub mod json;
pub mod latencies;
pub mod monitor;
pub mod options;
pub mod plan;
pub mod progress;
pub mod refused;
pub mod reported;
pub mod scan;
pub mod server_options;
pub mod stairs;
pub mod stats;
pub mod statsd;
pub mod table;
pub mod values;

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use clap::Command;

use crate::arguments::{self, Advice, Parsed};
use machine::signals;
use options::Options;
use progress::RunProgress;
use report::result::TestResult;
use reported::Reported;
use stats::RunStats;
use text::failure::Failure;
use text::output::{self, WholeFile, print, unwritable};
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
    measure(name, words).map_err(|failure| match failure {
        // Scripts look for the word.
        Failure::Usage(_) => failure.within("error"),
        other => other,
    })
}

fn measure(name: &'static str, words: Vec<OsString>) -> Result<(), Failure> {
    let program: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = &program[..program.len() - words.len()];
    let (options, given): (Options, _) = match arguments::parse(command(name), words, ADVICE)? {
        Parsed::Options(options, given) => (options, given),
        Parsed::Text(text) => return print(&text),
    };
    options.check(&given)?;
    let commands = options.commands(&given)?;
    let items = options.import.items(&options)?;
    let plan = options.plan(&commands, items.as_ref(), given.record(program, publish))?;
    let files = Files::create(&options)?;
    let statsd = options.statsd.client()?;
    options.announce();
    let mut reported = Reported::new(&options, &plan);
    let mut failure = None;
    let runs = if options.import.verify_only { 0 } else { options.result.run_count };
    for number in 1..=runs {
        if number > 1 {
            std::thread::sleep(REST);
        }
        let mut progress = RunProgress::begin(&options, number, statsd.as_ref());
        let document = match session::run::run_watched(&plan, &mut |seen| progress.update(seen)) {
            Ok(document) => document,
            Err(cause) if reported.runs.is_empty() => return Err(cause),
            Err(cause) => {
                failure = Some(cause);
                break;
            }
        };
        let test = &document.tests[0];
        let cut_short = document.cut_short.as_ref().map(|cut| cut.cause.clone());
        let mut stats = RunStats { cut_short, ..RunStats::of(test, &commands, SystemTime::now()) };
        if options.load.clients_start.is_some() {
            stats.active_clients = stairs::active_clients(test, stats.totals.seconds.len());
        }
        progress.end(&stats);
        warn(number, &stats, test);
        if let Some(prefix) = &options.result.hdr_prefix {
            hdr_files::write(prefix, number, &stats)?;
        }
        if let Some(prefix) = &options.result.client_stats {
            client_stats::write(prefix, number, test, &commands)?;
        }
        reported.runs.push(stats);
        reported.driver.get_or_insert(document.driver);
        failure = document.cut_short.map(|cut| cut.failure);
        if failure.is_some() {
            break;
        }
    }
    let verified = items.filter(|_| options.import.verifies() && failure.is_none());
    if let Some(items) = verified {
        match import::verify(&options, &plan.target, &items) {
            Ok(verification) => reported.verification = Some(verification),
            Err(cause) => failure = Some(cause),
        }
    }
    files.write(&reported)?;
    failure.map_or(Ok(()), Err)
}

/// Say on stderr what the outputs of memtier_benchmark have no place for, and in its words what it says there.
fn warn(run: u32, stats: &RunStats, test: &TestResult) {
    if signals::received().is_some_and(|signal| signals::name(signal) == "SIGINT")
        && stats.cut_short.is_some()
    {
        eprintln!(
            "\n[RUN #{run}] Interrupted by user (Ctrl+C) after {:.1} secs, stopping threads...",
            test.window_s
        );
    }
    if let Some(recovery) = test.recovery.as_ref().filter(|recovery| recovery.broken > 0) {
        eprintln!(
            "{} connections were lost; reconnection attempts went on until they were answered",
            recovery.broken
        );
    }
    if let Some(text) = &test.errors.first {
        eprintln!("server handle error response: -{text} ({} in all)", test.errors.count);
    }
    if !test.flags.is_empty() {
        output::warn(&format!("run {run}: {}: README.md says what it means", test.flags.join(", ")));
    }
}

/// The files of the outputs, begun before anything is measured, so that one that cannot be written is told at once.
struct Files {
    json: Option<WholeFile>,
    out: Option<WholeFile>,
}

impl Files {
    fn create(options: &Options) -> Result<Files, Failure> {
        let result = &options.result;
        let create = |path: &Option<String>, option: &str| {
            let create =
                |path: &String| WholeFile::create(path).map_err(|error| unwritable(path, option, &error));
            path.as_ref().map(create).transpose()
        };
        let files = Files {
            json: create(&result.json_file, "--json-out-file")?,
            out: create(&result.out_file, "--out-file")?,
        };
        result.hdr_prefix.as_ref().map_or(Ok(()), |prefix| hdr_files::create(prefix))?;
        result.client_stats.as_ref().map_or(Ok(()), |prefix| client_stats::create(prefix))?;
        Ok(files)
    }

    fn write(self, reported: &Reported) -> Result<(), Failure> {
        let named = |path: &Option<String>| path.clone().unwrap_or_default();
        let result = &reported.options.result;
        if let Some(file) = self.json {
            let written = file.finish(&json::render(reported));
            written.map_err(|error| unwritable(&named(&result.json_file), "--json-out-file", &error))?;
        }
        let text = table::render(reported);
        match self.out {
            Some(file) => {
                file.finish(&text).map_err(|error| unwritable(&named(&result.out_file), "--out-file", &error))
            }
            None => print(&text),
        }
    }
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
