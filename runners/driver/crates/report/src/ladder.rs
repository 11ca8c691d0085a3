//! The results of a ladder: a document, schema `speedbench.ladder.v1`, a table with a bar per rung, and CSV.

use serde::Serialize;

use crate::csv;
use crate::document::{Driver, TargetName};
use crate::prefill::Prefill;
use crate::result::TestResult;
use machine::environment::Environment;

pub const SCHEMA: &str = "speedbench.ladder.v1";

const BAR_COLUMNS: f64 = 20.0;
const HEAD: [[&str; 6]; 2] =
    [["", "", "p50", "p99", "client", "server"], ["", "requests/s", "us", "us", "ns/req", "ns/req"]];

#[derive(Debug, Serialize)]
pub struct LadderDocument {
    pub schema: &'static str,
    pub driver: Driver,
    pub target: TargetName,
    pub started_at: String,
    pub environment: Environment,
    /// The setting that differs from rung to rung.
    pub axis: &'static str,
    /// Whether each rung had a server process of its own.
    pub fresh: bool,
    /// In the order of their values.
    pub rungs: Vec<Rung>,
    /// Why the ladder ended before its last rung.
    pub cut_short: Option<String>,
}

/// What was measured at one value of the axis.
#[derive(Debug, Serialize)]
pub struct Rung {
    pub value: f64,
    /// The place in the order of measuring, from 1.
    pub place: usize,
    pub started_at: String,
    pub prefill: Option<Prefill>,
    /// Empty when it failed.
    pub tests: Vec<TestResult>,
    /// Why nothing was measured: cause and remedy.
    pub failure: Option<String>,
}

impl LadderDocument {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("the document has string keys only")
    }

    /// For each test of the rungs, its name and its results with their values.
    fn tests(&self) -> Vec<(&str, Vec<(f64, &TestResult)>)> {
        let mut tests: Vec<(&str, Vec<(f64, &TestResult)>)> = Vec::new();
        for (value, test) in
            self.rungs.iter().flat_map(|rung| rung.tests.iter().map(|test| (rung.value, test)))
        {
            match tests.iter_mut().find(|(name, _)| *name == test.name) {
                Some((_, results)) => results.push((value, test)),
                None => tests.push((&test.name, vec![(value, test)])),
            }
        }
        tests
    }
}

/// For a terminal of 80 columns: a block per test, in it a line and a bar per rung.
pub fn table(document: &LadderDocument) -> String {
    let LadderDocument { target, driver, axis, fresh, .. } = document;
    let kept = if *fresh { "fresh server for each rung" } else { "one server for all rungs" };
    let mut text =
        format!("{} {}, ladder of {}, {kept}, seed {}\n", target.protocol, target.address, axis, driver.seed);
    for (name, results) in document.tests() {
        text += &block(axis, name, &results);
    }
    for rung in &document.rungs {
        let failures = rung.failure.iter();
        failures.for_each(|failure| text += &format!("! {} = {}: {failure}\n", axis, rung.value));
    }
    text
}

fn block(axis: &str, name: &str, results: &[(f64, &TestResult)]) -> String {
    let most = results.iter().map(|(_, test)| test.throughput_rps).fold(f64::MIN_POSITIVE, f64::max);
    let mut text = format!("\n{name}\n");
    let [above, [_, units @ ..]] = HEAD;
    text += &line(&above.map(str::to_owned), "");
    let [rate, p50, p99, client, server] = units.map(str::to_owned);
    text += &line(&[axis.to_owned(), rate, p50, p99, client, server], "");
    for (value, test) in results {
        let length = (test.throughput_rps / most * BAR_COLUMNS).round() as usize;
        text += &line(&cells(*value, test), &"#".repeat(length));
    }
    for (flag, values) in flags(results) {
        text += &format!("! {flag} at {axis} = {}\n", values.join(", "));
    }
    text
}

/// Each flag that is raised, and where.
fn flags<'a>(results: &[(f64, &'a TestResult)]) -> Vec<(&'a str, Vec<String>)> {
    let mut raised: Vec<(&str, Vec<String>)> = Vec::new();
    for (value, flag) in
        results.iter().flat_map(|(value, test)| test.flags.iter().map(|flag| (*value, &**flag)))
    {
        match raised.iter_mut().find(|(name, _)| *name == flag) {
            Some((_, values)) => values.push(value.to_string()),
            None => raised.push((flag, vec![value.to_string()])),
        }
    }
    raised
}

fn cells(value: f64, test: &TestResult) -> [String; 6] {
    [
        value.to_string(),
        format!("{:.0}", test.throughput_rps),
        format!("{:.1}", test.latency_us.p50),
        format!("{:.1}", test.latency_us.p99),
        format!("{:.1}", test.client_cpu.ns_per_request),
        test.server_cpu.as_ref().map_or("-".to_owned(), |cpu| format!("{:.1}", cpu.ns_per_request)),
    ]
}

fn line([value, rate, p50, p99, client, server]: &[String; 6], bar: &str) -> String {
    let text = format!("{value:>11}{rate:>11}{p50:>9}{p99:>10}{client:>9}{server:>9} {bar}");
    format!("{}\n", text.trim_end())
}

/// RFC 4180: a header, then one row per rung and test; a rung that failed has its cells empty, but for the cause.
pub fn rows(document: &LadderDocument) -> String {
    let head = ["axis", "value", "place", "failure"].map(str::to_owned);
    let mut text = csv::row(head.into_iter().chain(csv::names()));
    for rung in &document.rungs {
        let (axis, value, place) = (document.axis.to_owned(), rung.value.to_string(), rung.place.to_string());
        let first = |failure: &str| [axis.clone(), value.clone(), place.clone(), failure.to_owned()];
        for test in &rung.tests {
            text += &csv::row(first("").into_iter().chain(csv::cells(test)));
        }
        if let Some(failure) = &rung.failure {
            let empty = csv::names().map(|_| String::new());
            text += &csv::row(first(failure).into_iter().chain(empty));
        }
    }
    text
}
