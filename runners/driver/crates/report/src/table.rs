//! The result for a terminal of 80 columns: one line per test, then the distribution of the latencies of each.

use crate::document::Document;
use crate::notes;
use crate::result::TestResult;
use engine::histogram::Histogram;

const HEAD: [[&str; 7]; 2] = [
    ["", "", "p50", "p99", "max", "client", "server"],
    ["test", "requests/s", "us", "us", "us", "ns/req", "ns/req"],
];

/// Percentiles with the quantiles that they are: 99.9 / 100 is a little more than 0.999.
const CURVE: [(&str, f64); 8] = [
    ("50", 0.5),
    ("75", 0.75),
    ("90", 0.9),
    ("95", 0.95),
    ("99", 0.99),
    ("99.9", 0.999),
    ("99.99", 0.9999),
    ("100", 1.0),
];

const BAR_COLUMNS: f64 = 34.0;

pub fn render(document: &Document) -> String {
    let mut text = format!(
        "{} {}, {} thread(s), seed {}\n",
        document.target.protocol, document.target.address, document.driver.threads, document.driver.seed,
    );
    if let Some(joined) = &document.joined {
        text += &format!(
            "joined of {} machines, {:.2}% of the windows in common\n",
            joined.parts.len(),
            joined.overlap * 100.0
        );
    }
    if let Some(part) = &document.part {
        text +=
            &format!("part {} of {} of the load: `speedbench join` makes one result\n", part.number, part.of);
    }
    if let Some(prefill) = &document.prefill {
        text += &format!("prefilled {} keys in {:.2} s\n", prefill.keys, prefill.seconds);
    }
    for head in HEAD {
        text += &line(&head.map(str::to_owned));
    }
    for test in &document.tests {
        text += &line(&cells(test));
        text += &remarks(test);
        notes::of(test).iter().for_each(|note| text += &format!("  {note}\n"));
    }
    text += &document.cut_short.iter().map(|cut| format!("  ! {}\n", cut.line())).collect::<String>();
    let curve_of =
        |test: &TestResult| curve(&test.name, notes::clock(&test.mode, test.open.is_some()), &test.latency);
    document.tests.iter().for_each(|test| text += &curve_of(test));
    text
}

fn cells(test: &TestResult) -> [String; 7] {
    [
        test.name.clone(),
        format!("{:.0}", test.throughput_rps),
        format!("{:.1}", test.latency_us.p50),
        format!("{:.1}", test.latency_us.p99),
        format!("{:.1}", test.latency_us.max),
        format!("{:.1}", test.client_cpu.ns_per_request),
        test.server_cpu.as_ref().map_or("-".to_owned(), |cpu| format!("{:.1}", cpu.ns_per_request)),
    ]
}

/// A line below that of the test; nothing when there is nothing to remark.
fn remarks(test: &TestResult) -> String {
    let mut remarks: Vec<String> = test.flags.iter().map(ToString::to_string).collect();
    for (count, what) in [(test.misses, "misses"), (test.errors.count, "errors")] {
        if count > 0 {
            remarks.push(format!("{count} {what}"));
        }
    }
    if remarks.is_empty() { String::new() } else { format!("  ! {}\n", remarks.join(", ")) }
}

/// A name that is too long for its column has a line of its own.
fn line([name, numbers @ ..]: &[String; 7]) -> String {
    let break_after = if name.len() > 16 { format!("\n{:16}", "") } else { String::new() };
    let [rate, p50, p99, max, client, server] = numbers;
    format!("{name:<16}{break_after}{rate:>11}{p50:>11}{p99:>11}{max:>11}{client:>10}{server:>10}\n")
}

/// The value at each step, how many latencies are above it, and a bar on a logarithmic scale from min to max.
fn curve(name: &str, clock: &str, latency: &Histogram) -> String {
    let count = latency.count();
    if count == 0 {
        return String::new();
    }
    let (min, max) = (latency.min().max(1) as f64, latency.max().max(1) as f64);
    let mut text = format!(
        "\n{name}: {count} latencies, mean {:.1} us\n{clock}\n percent          us      slower  log scale, {:.1} to {:.1} us\n",
        latency.mean() / 1e3,
        min / 1e3,
        max / 1e3
    );
    for (percent, quantile) in CURVE {
        let value = latency.quantile(quantile);
        let slower = count - rank(quantile, count);
        let length = (value.max(1) as f64 / min).ln() / (max / min).ln().max(f64::MIN_POSITIVE) * BAR_COLUMNS;
        let bar = "#".repeat(length.round().clamp(0.0, BAR_COLUMNS) as usize);
        let row = format!("{percent:>8}{:>12.1}{slower:>12}  {bar}", value as f64 / 1e3);
        text += row.trim_end();
        text.push('\n');
    }
    text
}

/// How many of `count` values are up to that quantile.
fn rank(quantile: f64, count: u64) -> u64 {
    ((quantile * count as f64).ceil() as u64).clamp(1, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_values_and_counts_within_80_columns() {
        let mut latency = Histogram::default();
        (1..=20_000).for_each(|us| latency.record(us * 1000, 1));
        let text = curve("get", "closed", &latency);
        let rows: Vec<Vec<&str>> =
            text.lines().skip(4).map(|line| line.split_whitespace().collect()).collect();
        let near =
            |value: &str, expected: f64| (value.parse::<f64>().unwrap() / expected - 1.0).abs() < 0.002;
        let expected = [
            ("50", 10_000.0, "10000"),
            ("75", 15_000.0, "5000"),
            ("90", 18_000.0, "2000"),
            ("95", 19_000.0, "1000"),
            ("99", 19_800.0, "200"),
            ("99.9", 19_980.0, "20"),
            ("99.99", 19_998.0, "2"),
            ("100", 20_000.0, "0"),
        ];
        for (row, (percent, us, slower)) in rows.iter().zip(expected) {
            assert!(row[0] == percent && near(row[1], us) && row[2] == slower, "{text}");
        }
        assert_eq!(rows.len(), expected.len());
        assert_eq!(rows[7][3].len(), BAR_COLUMNS as usize);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn equal_values_have_no_scale() {
        let mut latency = Histogram::default();
        latency.record(1000, 5);
        assert_eq!(
            curve("get", "closed", &latency).lines().last().unwrap().trim(),
            "100         1.0           0"
        );
        assert_eq!(curve("get", "closed", &Histogram::default()), "");
    }
}
