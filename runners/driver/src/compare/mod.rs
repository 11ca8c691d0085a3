//! `speedbench compare`: two or more results beside each other, with what can be known of their difference.

mod metric;
mod report;
mod result_file;
mod statistics;

use std::ffi::OsString;

use lexopt::prelude::*;
use serde::Serialize;

use crate::failure::Failure;
use metric::Comparison;
use result_file::{ResultFile, Test};

pub const HELP: &str = "\
Compare results that `speedbench run --json` wrote.

Usage: speedbench compare BASE.json NEW.json [NEW.json ...]
       speedbench compare --base FILE FILE... --new FILE FILE...

With one file per side the intervals come from the slices and latencies of that run; they know
nothing of how runs differ. With two or more files per side the runs are the samples.

  --base FILES...    results of one side, two or more ...
  --new FILES...     ... and of the other
  --any-driver       compare results of different driver binaries, too
  --json             one document, schema speedbench-compare.v1, instead of tables
  --help
";

#[derive(Debug, Default)]
struct Options {
    files: Vec<String>,
    base: Vec<String>,
    new: Vec<String>,
    any_driver: bool,
    json: bool,
}

/// What the intervals tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Slices and latencies of one run per side.
    Slices,
    /// Runs of each side.
    Runs,
}

/// Two sides, each of them one run or several.
#[derive(Debug, Serialize)]
pub struct Pair {
    base: Vec<String>,
    new: Vec<String>,
    method: Method,
    warnings: Vec<String>,
    tests: Vec<TestPair>,
}

#[derive(Debug, Serialize)]
pub struct TestPair {
    name: String,
    metrics: Vec<Comparison>,
}

#[derive(Debug, Serialize)]
pub struct Document {
    schema: &'static str,
    confidence: f64,
    comparisons: Vec<Pair>,
}

/// Compare as the words after `compare` say; the text for stdout.
pub fn run(words: Vec<OsString>) -> Result<String, Failure> {
    let Some(options) = parse(words)? else { return Ok(HELP.to_owned()) };
    let sides = match options.files.as_slice() {
        [] => vec![(read(&options.base)?, read(&options.new)?)],
        [base, others @ ..] => {
            let base = ResultFile::read(base)?;
            let beside = |other: &String| Ok((vec![base.clone()], vec![ResultFile::read(other)?]));
            others.iter().map(beside).collect::<Result<_, Failure>>()?
        }
    };
    let pair = |(base, new): &(Vec<ResultFile>, Vec<ResultFile>)| compare(base, new, options.any_driver);
    let comparisons = sides.iter().map(pair).collect::<Result<_, _>>()?;
    let document = Document { schema: "speedbench-compare.v1", confidence: 0.95, comparisons };
    Ok(match options.json {
        true => serde_json::to_string(&document).expect("the document has string keys only") + "\n",
        false => report::render(&document),
    })
}

fn read(paths: &[String]) -> Result<Vec<ResultFile>, Failure> {
    paths.iter().map(|path| ResultFile::read(path)).collect()
}

/// None when help is asked for.
fn parse(words: Vec<OsString>) -> Result<Option<Options>, Failure> {
    let mut parser = lexopt::Parser::from_args(words);
    let mut options = Options::default();
    while let Some(word) = parser.next().map_err(bad_words)? {
        match word {
            Long("help") => return Ok(None),
            Long("base") => options.base = files(&mut parser)?,
            Long("new") => options.new = files(&mut parser)?,
            Long("any-driver") => options.any_driver = true,
            Long("json") => options.json = true,
            Value(path) => options.files.push(path.to_string_lossy().into_owned()),
            other => return Err(bad_words(other.unexpected())),
        }
    }
    options.check()?;
    Ok(Some(options))
}

fn files(parser: &mut lexopt::Parser) -> Result<Vec<String>, Failure> {
    let values = parser.values().map_err(bad_words)?;
    Ok(values.map(|path| path.to_string_lossy().into_owned()).collect())
}

fn bad_words(error: lexopt::Error) -> Failure {
    Failure::usage(error, "see `speedbench compare --help`")
}

impl Options {
    fn check(&self) -> Result<(), Failure> {
        let remedy = "name two files, or two and more behind each of --base and --new";
        let sides = [self.base.len(), self.new.len()];
        match (self.files.len(), sides) {
            (2.., [0, 0]) | (0, [(2..), (2..)]) => Ok(()),
            (0, [0, 0]) => Err(Failure::usage("there is nothing to compare", remedy)),
            (1, [0, 0]) => Err(Failure::usage("there is one file to compare", remedy)),
            (0, _) => Err(Failure::usage("a side has fewer than two files", remedy)),
            _ => Err(Failure::usage("files stand before --base or --new", remedy)),
        }
    }
}

fn compare(base: &[ResultFile], new: &[ResultFile], any_driver: bool) -> Result<Pair, Failure> {
    let all: Vec<&ResultFile> = base.iter().chain(new).collect();
    let mut warnings = Vec::new();
    one_driver(&all, any_driver, &mut warnings)?;
    other_environments(&all, &mut warnings);
    let method = if base.len() > 1 { Method::Runs } else { Method::Slices };
    let names = common_names(&all);
    if names.is_empty() {
        return Err(Failure::run("the files have no test in common", "run the same tests for both"));
    }
    names.iter().try_for_each(|name| same_load(&all, name))?;
    same_workload(&all)?;
    let mut tests = Vec::new();
    for name in names {
        let of = |side: &[ResultFile]| -> Vec<Test> {
            side.iter().filter_map(|file| file.test(&name).cloned()).collect()
        };
        flags(&all, &name, &mut warnings);
        let compared = metric::compare(method, &of(base), &of(new)).map_err(|why| {
            Failure::run(
                format!("the latencies of {name} cannot be read ({why})"),
                "write the file again with `run --json`",
            )
        })?;
        warnings.extend(compared.left_out.iter().map(|why| format!("{name}: {why} and is left out")));
        tests.push(TestPair { name, metrics: compared.metrics });
    }
    let paths = |side: &[ResultFile]| side.iter().map(|file| file.path.clone()).collect();
    Ok(Pair { base: paths(base), new: paths(new), method, warnings, tests })
}

/// The tests that all files have, in the order in which they were run.
fn common_names(files: &[&ResultFile]) -> Vec<String> {
    let names = files[0].tests.iter().map(|test| test.name.clone());
    names.filter(|name| files.iter().all(|file| file.test(name).is_some())).collect()
}

fn one_driver(files: &[&ResultFile], any: bool, warnings: &mut Vec<String>) -> Result<(), Failure> {
    let first = files[0];
    for file in &files[1..] {
        let same = file.driver.digest == first.driver.digest;
        if !same && !any {
            return Err(Failure::run(
                format!("{} and {} were measured by different driver binaries", first.path, file.path),
                "measure again with one driver, or give --any-driver",
            ));
        }
        if !same {
            warnings.push(format!("{} and {} are of different driver binaries", first.path, file.path));
        }
    }
    Ok(())
}

fn other_environments(files: &[&ResultFile], warnings: &mut Vec<String>) {
    let first = files[0];
    for file in &files[1..] {
        for (fact, value) in &first.environment {
            let other = file.environment.get(fact);
            if other != Some(value) {
                let told = other.map_or("not told".to_owned(), ToString::to_string);
                warnings.push(format!("{fact} is {value} in {} and {told} in {}", first.path, file.path));
            }
        }
    }
}

/// Refuse to compare what was not asked of the servers in the same way.
fn same_load(files: &[&ResultFile], name: &str) -> Result<(), Failure> {
    let asked = |file: &ResultFile| {
        let test = file.test(name).expect("the test is in all files");
        let mut asked = test.workload.clone();
        asked.insert("protocol".into(), file.target.protocol.clone().into());
        let rate = test.open.as_ref().and_then(|open| open.get("asked_rps")).cloned();
        asked.insert("asked_rps".into(), rate.unwrap_or_default());
        asked
    };
    let first = asked(files[0]);
    for file in &files[1..] {
        let other = asked(file);
        let differs = first.keys().chain(other.keys()).find(|key| first.get(*key) != other.get(*key));
        if let Some(key) = differs {
            let told = |side: &serde_json::Map<String, serde_json::Value>| {
                side.get(key).map_or("nothing".to_owned(), ToString::to_string)
            };
            return Err(Failure::run(
                format!(
                    "{name} is another load in {} than in {}: its {key} is {}, not {}",
                    file.path,
                    files[0].path,
                    told(&other),
                    told(&first)
                ),
                "compare results of one workload",
            ));
        }
    }
    Ok(())
}

/// Refuse tests that had others before them, which leave other keys in the server.
fn same_workload(files: &[&ResultFile]) -> Result<(), Failure> {
    let first = files[0];
    match files.iter().find(|file| file.driver.workload_digest != first.driver.workload_digest) {
        None => Ok(()),
        Some(file) => Err(Failure::run(
            format!("{} has other phases than {} beside those in common", file.path, first.path),
            "compare results of one workload",
        )),
    }
}

fn flags(files: &[&ResultFile], name: &str, warnings: &mut Vec<String>) {
    for file in files {
        let raised = file.test(name).map(|test| test.flags.join(", ")).unwrap_or_default();
        if !raised.is_empty() {
            warnings.push(format!("{name} of {} has flags: {raised}", file.path));
        }
    }
}
