//! The results as CSV (RFC 4180): a header, then one row per test.

use crate::document::Document;
use crate::result::TestResult;

type Column = (&'static str, fn(&TestResult) -> String);

/// README.md describes them; a fact that was not asked for is an empty cell.
const COLUMNS: [Column; 23] = [
    ("test", |test| test.name.clone()),
    ("mode", |test| test.mode.to_string()),
    ("clients", |test| test.workload["clients"].to_string()),
    ("pipeline", |test| test.workload["pipeline"].to_string()),
    ("window_s", |test| test.window_s.to_string()),
    ("requests", |test| test.requests.to_string()),
    ("unfinished", |test| test.unfinished.to_string()),
    ("throughput_rps", |test| test.throughput_rps.to_string()),
    ("hits", |test| test.hits.to_string()),
    ("misses", |test| test.misses.to_string()),
    ("errors", |test| test.errors.count.to_string()),
    ("latency_us_min", |test| test.latency_us.min.to_string()),
    ("latency_us_mean", |test| test.latency_us.mean.to_string()),
    ("latency_us_p50", |test| test.latency_us.p50.to_string()),
    ("latency_us_p90", |test| test.latency_us.p90.to_string()),
    ("latency_us_p95", |test| test.latency_us.p95.to_string()),
    ("latency_us_p99", |test| test.latency_us.p99.to_string()),
    ("latency_us_p99_9", |test| test.latency_us.p99_9.to_string()),
    ("latency_us_max", |test| test.latency_us.max.to_string()),
    ("client_ns_per_request", |test| test.client_cpu.ns_per_request.to_string()),
    ("client_busiest_thread", |test| test.client_cpu.busiest_thread.to_string()),
    ("server_ns_per_request", |test| {
        test.server_cpu.as_ref().map_or(String::new(), |cpu| cpu.ns_per_request.to_string())
    }),
    ("flags", |test| test.flags.join(" ")),
];

pub fn render(document: &Document) -> String {
    let rows = document.tests.iter().map(|test| row(cells(test)));
    [row(names())].into_iter().chain(rows).collect()
}

/// The names of the columns.
pub fn names() -> impl Iterator<Item = String> {
    COLUMNS.iter().map(|(name, _)| (*name).to_owned())
}

/// The cells of a test.
pub fn cells(test: &TestResult) -> impl Iterator<Item = String> {
    COLUMNS.iter().map(|(_, cell)| cell(test))
}

/// A line of `cells`.
pub fn row(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| quoted(&cell)).collect::<Vec<_>>().join(",") + "\r\n"
}

/// A cell with a comma, a quote or a line break stands in quotes, and its quotes are doubled.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_quotes_has_them() {
        let cells = ["get:9+set:1", "a,b", "say \"x\"", "", "two\nlines"].map(str::to_owned);
        assert_eq!(row(cells.into_iter()), "get:9+set:1,\"a,b\",\"say \"\"x\"\"\",,\"two\nlines\"\r\n");
    }
}
