//! The answer to "is head slower?" in one sentence.

use serde::Serialize;

use crate::ratio::{P99, Ratio, SERVER_CPU, THROUGHPUT};

/// What a duel can tell and what it cannot.
pub const CAVEAT: &str = "\
This judges two processes, not two builds: two processes of one build differ by 2 to 3% for as long as they live. \
To judge builds, repeat the duel with fresh processes of both.";

/// The answer of one metric: the server's CPU time, if it was read; or the rate; or in an open loop, whose rate is
/// fixed, the latency.
#[derive(Debug, Serialize)]
pub struct Verdict {
    pub metric: Option<&'static str>,
    /// `slower`, `faster`, `no difference` or `unknown`.
    pub head: &'static str,
    pub text: String,
}

/// How a metric is called, and the words for less and for more of it.
fn words(metric: &str) -> (&'static str, [&'static str; 2]) {
    match metric {
        SERVER_CPU => ("server CPU time per request", ["less", "more"]),
        THROUGHPUT => ("requests per second", ["fewer", "more"]),
        _ => ("p99 latency", ["less", "more"]),
    }
}

impl Verdict {
    pub fn of(ratios: &[Ratio], mode: &str) -> Verdict {
        let measured = |name| ratios.iter().find(|ratio| ratio.metric == name);
        let second = if mode == "open" { P99 } else { THROUGHPUT };
        let known = measured(SERVER_CPU).or_else(|| measured(second));
        match known.and_then(|ratio| Some((ratio, ratio.low?, ratio.high?))) {
            Some((ratio, low, high)) => Verdict::by(ratio, low, high),
            None => Verdict {
                metric: known.map(|ratio| ratio.metric),
                head: "unknown",
                text: "too few pairs of slices to tell: raise --duration".to_owned(),
            },
        }
    }

    fn by(ratio: &Ratio, low: f64, high: f64) -> Verdict {
        let (name, [less, more]) = words(ratio.metric);
        let change = |word: &str, [least, center, most]: [f64; 3]| {
            format!(
                "{} {word} {name} than base ({} to {})",
                percent(center),
                percent(least.min(most)),
                percent(least.max(most))
            )
        };
        let by = |part: f64| (part - 1.0).abs();
        let changes = [by(low), by(ratio.ratio), by(high)];
        let is_worse_above = ratio.metric != THROUGHPUT;
        let (head, text) = match (low > 1.0, high < 1.0) {
            (true, _) => (if is_worse_above { "slower" } else { "faster" }, change(more, changes)),
            (_, true) => (if is_worse_above { "faster" } else { "slower" }, change(less, changes)),
            _ => ("no difference", format!("of more than {} in {name}", percent(by(low).max(by(high))))),
        };
        let text = match head {
            "no difference" => format!("no difference {text}"),
            _ => format!("head is {head}: {text}"),
        };
        Verdict { metric: Some(ratio.metric), head, text }
    }
}

fn percent(part: f64) -> String {
    format!("{:.1}%", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(metric: &'static str, low: Option<f64>, ratio: f64, high: Option<f64>) -> Ratio {
        Ratio { metric, title: "", base: 1.0, head: ratio, ratio, low, high, pairs: 30, verdict: "" }
    }

    fn said(metric: &'static str, [low, center, high]: [f64; 3]) -> (&'static str, String) {
        let verdict = Verdict::of(&[ratio(metric, Some(low), center, Some(high))], "closed");
        (verdict.head, verdict.text)
    }

    #[test]
    fn a_difference_is_said_with_its_interval() {
        let (head, text) = said(SERVER_CPU, [1.02, 1.03, 1.04]);
        assert_eq!(head, "slower");
        assert_eq!(text, "head is slower: 3.0% more server CPU time per request than base (2.0% to 4.0%)");
        let (head, text) = said(THROUGHPUT, [0.90, 0.95, 0.98]);
        assert_eq!(head, "slower");
        assert_eq!(text, "head is slower: 5.0% fewer requests per second than base (2.0% to 10.0%)");
        assert_eq!(said(SERVER_CPU, [0.90, 0.95, 0.98]).0, "faster");
        assert_eq!(said(THROUGHPUT, [1.02, 1.03, 1.04]).0, "faster");
    }

    #[test]
    fn no_difference_names_what_it_would_have_missed() {
        let (head, text) = said(SERVER_CPU, [0.994, 1.001, 1.008]);
        assert_eq!(
            (head, text.as_str()),
            ("no difference", "no difference of more than 0.8% in server CPU time per request")
        );
    }

    #[test]
    fn the_cpu_time_goes_before_the_rate_and_an_open_loop_has_its_latency() {
        let ratios = [
            ratio(THROUGHPUT, Some(0.9), 0.9, Some(0.9)),
            ratio(P99, Some(1.1), 1.1, Some(1.1)),
            ratio(SERVER_CPU, None, 1.0, None),
        ];
        assert_eq!(Verdict::of(&ratios, "closed").head, "unknown");
        assert_eq!(Verdict::of(&ratios[..2], "closed").metric, Some(THROUGHPUT));
        assert_eq!(Verdict::of(&ratios[..2], "open").metric, Some(P99));
        assert_eq!(Verdict::of(&[], "open").metric, None);
    }
}
