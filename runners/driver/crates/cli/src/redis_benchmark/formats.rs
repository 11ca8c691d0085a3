//! The output formats of redis-benchmark; only the numbers differ.

use std::time::Duration;

use crate::redis_benchmark::options::Options;
use crate::redis_benchmark::planned::PlannedTest;
use crate::redis_benchmark::server::ServerSettings;
use engine::cluster::{Member, Roles};
use engine::histogram::Histogram;
use engine::progress::Progress;
use engine::total::Total;
use text::units::{per, seconds};

pub const CSV_HEADER: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n";

/// Up to here the cumulative distribution has steps of a tenth of a millisecond, then of a whole one.
const FINE_UP_TO_NS: u64 = 2_000_000;
const FINE_STEP_NS: u64 = 100_000;
const COARSE_STEP_NS: u64 = 1_000_000;

fn ms(ns: f64) -> f64 {
    ns / 1e6
}

fn rate(total: &Total) -> f64 {
    per(total.inside.replies as f64, seconds(total.window_ns))
}

/// avg, min, p50, p95, p99 and max in ms.
fn latencies(latency: &Histogram) -> [f64; 6] {
    let quantile = |at: f64| ms(latency.quantile(at) as f64);
    let (min, max) = (ms(latency.min() as f64), ms(latency.max() as f64));
    [ms(latency.mean()), min, quantile(0.5), quantile(0.95), quantile(0.99), max]
}

/// The title inside of quotes: quotes are doubled, as CSV readers expect.
pub fn csv_row(title: &str, total: &Total) -> String {
    let latencies: String = latencies(&total.latency).iter().map(|ms| format!(",\"{ms:.3}\"")).collect();
    format!("\"{}\",\"{:.2}\"{latencies}\n", title.replace('"', "\"\""), rate(total))
}

pub fn one_line(title: &str, total: &Total) -> String {
    let p50 = ms(total.latency.quantile(0.5) as f64);
    let misses = match total.inside.misses {
        0 => String::new(),
        misses => format!(", misses={misses}"),
    };
    format!("{title}: {:.2} requests per second, p50={p50:.3} msec{misses}\n", rate(total))
}

pub fn report(
    options: &Options,
    (title, test): (&str, &PlannedTest),
    total: &Total,
    configured: &ServerSettings,
) -> String {
    let mut text = format!("====== {title} ======\n");
    text += &format!(
        "  {} requests completed in {:.2} seconds\n",
        total.inside.replies,
        seconds(total.window_ns)
    );
    text += &format!("  {} parallel clients\n", options.load.clients);
    text += &format!("  {} bytes payload\n", test.payload_bytes);
    text += &format!("  keep alive: {}\n", u8::from(options.load.keepalive));
    text += &configured.text(options.endpoint.access.cluster.then_some(options.load.roles));
    text += &match options.load.threads {
        None => "  multi-thread: no\n".to_owned(),
        Some(threads) => format!("  multi-thread: yes\n  threads: {threads}\n"),
    };
    if total.inside.hits + total.inside.misses > 0 {
        text += &format!("  hits: {}\n  misses: {}\n", total.inside.hits, total.inside.misses);
    }
    text += "\nLatency by percentile distribution:\n";
    text += &by_percentile(&total.latency, options.output.precision);
    text += "\nCumulative distribution of latencies:\n";
    text += &cumulative(&total.latency);
    text += &format!("\nSummary:\n  throughput summary: {:.2} requests per second\n", rate(total));
    text += "  latency summary (msec):\n";
    text += &format!(
        "    {}\n",
        ["avg", "min", "p50", "p95", "p99", "max"].map(|name| format!("{name:>9}")).join(" ")
    );
    text += &format!("    {}\n", latencies(&total.latency).map(|ms| format!("{ms:9.3}")).join(" "));
    text
}

fn line(percent: f64, ns: f64, count: u64) -> String {
    format!("{percent:.3}% <= {:.3} milliseconds (cumulative count {count})\n", ms(ns))
}

/// One line per halving of the distance to 100%, as far as the counts differ.
fn by_percentile(latency: &Histogram, digits: u8) -> String {
    let histogram = latency.to_hdr(digits);
    let mut text = String::new();
    let (mut cumulative, mut before) = (0, None);
    for step in histogram.iter_quantiles(1) {
        cumulative += step.count_since_last_iteration();
        if before != Some(cumulative) || cumulative == histogram.len() {
            let value = histogram.highest_equivalent(step.value_iterated_to());
            text += &line(step.quantile_iterated_to() * 100.0, value as f64, cumulative);
        }
        before = Some(cumulative);
    }
    text
}

/// How many were at most so long, in steps up to the longest, as far as the counts differ.
fn cumulative(latency: &Histogram) -> String {
    let mut text = String::new();
    let (mut edge, mut before) = (FINE_STEP_NS, None);
    loop {
        let count = latency.count_up_to(edge);
        if before != Some(count) || count == latency.count() {
            text += &line(100.0 * per(count as f64, latency.count() as f64), edge as f64, count);
        }
        if count == latency.count() {
            return text;
        }
        before = Some(count);
        edge += if edge < FINE_UP_TO_NS { FINE_STEP_NS } else { COARSE_STEP_NS };
    }
}

/// What was counted since the `last` time and in all, each with how long that took.
pub fn progress(title: &str, last: (Progress, Duration), now: (Progress, Duration)) -> String {
    let replies = now.0.replies.saturating_sub(last.0.replies);
    let latency_ns = now.0.latency_ns.saturating_sub(last.0.latency_ns);
    format!(
        "{title}: rps={:.1} (overall: {:.1}) avg_msec={:.3} (overall: {:.3})",
        per(replies as f64, last.1.as_secs_f64()),
        per(now.0.replies as f64, now.1.as_secs_f64()),
        ms(per(latency_ns as f64, replies as f64)),
        ms(per(now.0.latency_ns as f64, now.0.replies as f64)),
    )
}

/// The lines about a cluster before its tests.
pub fn members(members: &[Member], roles: Roles) -> String {
    let line = |(place, member): (usize, &Member)| {
        let head = match (roles, member.is_replica) {
            (Roles::Masters, _) => format!("Master {place}"),
            (_, false) => format!("Node {place}(Primary)"),
            (_, true) => format!("Node {place}(Replica)"),
        };
        format!("{head}: {} {}\n", member.name, member.node.target.address.host_and_port())
    };
    let lines: String = members.iter().enumerate().map(line).collect();
    let role = match roles {
        Roles::Masters => "master",
        Roles::Replicas => "replica",
        Roles::All => "cluster",
    };
    format!("Cluster has {} {role} nodes:\n\n{lines}\n", members.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency() -> Histogram {
        let mut latency = Histogram::default();
        (0..1000).for_each(|value| latency.record(20_000 + value * 5_000, 1));
        latency
    }

    #[test]
    fn distributions_end_with_all() {
        let by_percentile = by_percentile(&latency(), 3);
        assert!(
            by_percentile.starts_with("0.000% <= 0.020 milliseconds (cumulative count 1)\n50.000% <= 2.5")
        );
        assert!(by_percentile.ends_with("(cumulative count 1000)\n"), "{by_percentile}");
        let cumulative = cumulative(&latency());
        assert!(cumulative.starts_with("1.7"), "{cumulative}");
        assert!(
            cumulative.ends_with("100.000% <= 6.000 milliseconds (cumulative count 1000)\n"),
            "{cumulative}"
        );
        assert_eq!(cumulative.lines().count(), 20 + 4);
    }
}
