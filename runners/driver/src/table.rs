//! The result for a person: one line per test.

use crate::document::{Document, TestResult};

const HEAD: [&str; 8] =
    ["test", "requests/s", "p50 us", "p99 us", "max us", "client ns/req", "server ns/req", "remarks"];

/// A table with a line of context above it.
pub fn render(document: &Document) -> String {
    let mut text = format!(
        "{} {}, {} thread(s), seed {}\n",
        document.target.protocol, document.target.address, document.driver.threads, document.driver.seed,
    );
    if let Some(prefill) = &document.prefill {
        text += &format!("prefilled {} keys in {:.2} s\n", prefill.keys, prefill.seconds);
    }
    let head = HEAD.map(str::to_owned);
    for cells in [head].into_iter().chain(document.tests.iter().map(cells)) {
        text += &line(&cells);
    }
    text
}

fn cells(test: &TestResult) -> [String; 8] {
    [
        test.name.clone(),
        format!("{:.0}", test.throughput_rps),
        format!("{:.1}", test.latency_us.p50),
        format!("{:.1}", test.latency_us.p99),
        format!("{:.1}", test.latency_us.max),
        format!("{:.1}", test.client_cpu.ns_per_request),
        test.server_cpu.as_ref().map_or("-".to_owned(), |cpu| format!("{:.1}", cpu.ns_per_request)),
        remarks(test),
    ]
}

fn remarks(test: &TestResult) -> String {
    let mut remarks: Vec<String> = test.flags.iter().map(|flag| (*flag).to_owned()).collect();
    if test.misses > 0 {
        remarks.push(format!("{} misses", test.misses));
    }
    if test.errors.count > 0 {
        remarks.push(format!("{} errors", test.errors.count));
    }
    remarks.join(", ")
}

fn line(cells: &[String; 8]) -> String {
    let [name, numbers @ .., remarks] = cells;
    let numbers: String = numbers.iter().map(|cell| format!(" {cell:>13}")).collect();
    format!("{name:<5}{numbers}  {remarks}").trim_end().to_owned() + "\n"
}
