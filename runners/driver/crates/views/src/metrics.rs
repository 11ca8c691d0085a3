//! Scores in the text format of Prometheus, version 0.0.4.

use std::fmt::Write;

use engine::histogram::Histogram;
use engine::scoreboard::{Score, Scoreboard};
use text::units::seconds;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the buckets of latencies, in ns with the seconds that they are.
const BOUNDS: [(u64, &str); 19] = [
    (10_000, "0.00001"),
    (20_000, "0.00002"),
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (200_000, "0.0002"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_000_000, "0.002"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (20_000_000, "0.02"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (200_000_000, "0.2"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_000_000_000, "2"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
];

/// A metric with one number of each test.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    of: fn(&Score) -> u64,
}

const NUMBERS: [Family; 5] = [
    Family {
        name: "speedbench_requests_total",
        kind: "counter",
        help: "Replies inside the window, errors included.",
        of: |score| score.replies,
    },
    Family {
        name: "speedbench_errors_total",
        kind: "counter",
        help: "Error replies inside the window, and requests that were lost.",
        of: |score| score.errors,
    },
    Family {
        name: "speedbench_bytes_total",
        kind: "counter",
        help: "Bytes sent and received since the connections were opened.",
        of: |score| score.bytes,
    },
    Family {
        name: "speedbench_reconnects_total",
        kind: "counter",
        help: "Connections that were opened again.",
        of: |score| score.reconnects,
    },
    Family {
        name: "speedbench_connections",
        kind: "gauge",
        help: "Connections that are open, or send, while their number changes.",
        of: |score| score.connections,
    },
];

const LATENCY: &str = "speedbench_latency_seconds";

/// The metrics of all `tests` so far, with the score of each.
pub fn text(tests: &[(&Scoreboard, Score)]) -> String {
    let mut text = String::new();
    for Family { name, kind, help, of } in NUMBERS {
        begin(&mut text, name, kind, help);
        for (scoreboard, score) in tests {
            line(&mut text, name, &format!("test=\"{}\"", escaped(&scoreboard.test)), of(score));
        }
    }
    begin(&mut text, LATENCY, "histogram", "Latencies inside the window, by command.");
    for (scoreboard, score) in tests {
        let test = escaped(&scoreboard.test);
        for (command, latency) in commands(scoreboard, score) {
            histogram(&mut text, &format!("test=\"{test}\",command=\"{}\"", escaped(command)), latency);
        }
    }
    text
}

/// The commands of a test; it is one itself when it has no others.
fn commands<'a>(scoreboard: &'a Scoreboard, score: &'a Score) -> Vec<(&'a str, &'a Histogram)> {
    match scoreboard.commands.is_empty() {
        true => vec![(scoreboard.test.as_str(), &score.latency)],
        false => scoreboard.commands.iter().map(String::as_str).zip(&score.commands).collect(),
    }
}

fn histogram(text: &mut String, labels: &str, latency: &Histogram) {
    let bucket = format!("{LATENCY}_bucket");
    for (ns, bound) in BOUNDS {
        line(text, &bucket, &format!("{labels},le=\"{bound}\""), latency.count_up_to(ns));
    }
    line(text, &bucket, &format!("{labels},le=\"+Inf\""), latency.count());
    line(text, &format!("{LATENCY}_sum"), labels, seconds(latency.sum()));
    line(text, &format!("{LATENCY}_count"), labels, latency.count());
}

fn begin(text: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("memory takes all");
}

fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    writeln!(text, "{name}{{{labels}}} {value}").expect("memory takes all");
}

/// `label` as the value of a label.
fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fall_into_buckets_that_add_up() {
        let scoreboard = Scoreboard::new("a \"b\" \\", Vec::new(), 1);
        let mut score = Score { replies: 3, errors: 1, bytes: 70, connections: 2, ..Score::default() };
        [15_000, 15_000, 3_000_000_000].iter().for_each(|ns| score.latency.record(*ns, 1));
        let text = text(&[(&scoreboard, score)]);
        let labels = r#"test="a \"b\" \\""#;
        for line in [
            format!("speedbench_requests_total{{{labels}}} 3"),
            format!("speedbench_errors_total{{{labels}}} 1"),
            format!("speedbench_bytes_total{{{labels}}} 70"),
            format!("speedbench_connections{{{labels}}} 2"),
            format!(r#"speedbench_latency_seconds_bucket{{{labels},command="a \"b\" \\",le="0.00001"}} 0"#),
            format!(r#"speedbench_latency_seconds_bucket{{{labels},command="a \"b\" \\",le="0.00002"}} 2"#),
            format!(r#"speedbench_latency_seconds_bucket{{{labels},command="a \"b\" \\",le="2"}} 2"#),
            format!(r#"speedbench_latency_seconds_bucket{{{labels},command="a \"b\" \\",le="5"}} 3"#),
            format!(r#"speedbench_latency_seconds_bucket{{{labels},command="a \"b\" \\",le="+Inf"}} 3"#),
            format!(r#"speedbench_latency_seconds_sum{{{labels},command="a \"b\" \\"}} 3.00003"#),
            format!(r#"speedbench_latency_seconds_count{{{labels},command="a \"b\" \\"}} 3"#),
            "# TYPE speedbench_latency_seconds histogram".to_owned(),
        ] {
            assert_eq!(text.lines().filter(|other| *other == line).count(), 1, "{line} in {text}");
        }
    }

    #[test]
    fn bounds_are_the_seconds_that_their_names_say() {
        for (ns, bound) in BOUNDS {
            assert_eq!((bound.parse::<f64>().unwrap() * 1e9).round() as u64, ns);
        }
        assert!(BOUNDS.is_sorted());
    }
}
