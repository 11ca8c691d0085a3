//! A comparison for a person with a terminal of 80 columns.

use crate::document::{Document, Pair};
use crate::metric::{Comparison, Method, NO_DIFFERENCE};

const HEAD: &str = "                     base         new   change         interval  verdict\n";

pub fn render(document: &Document) -> String {
    let pairs: Vec<String> = document.comparisons.iter().map(pair).collect();
    pairs.join("\n") + &legend(document)
}

fn pair(pair: &Pair) -> String {
    let mut text = format!("base: {}\nnew:  {}\n", pair.base.join(" "), pair.new.join(" "));
    pair.warnings.iter().for_each(|warning| text += &format!("! {warning}\n"));
    for test in &pair.tests {
        text += &format!("\n{}\n{HEAD}", test.name);
        test.metrics.iter().for_each(|metric| text += &row(metric, pair.method));
    }
    text
}

fn row(metric: &Comparison, method: Method) -> String {
    let end = |ratio: Option<f64>| ratio.map_or("?".to_owned(), percent);
    let interval = match (metric.low, metric.high) {
        (None, None) => "-".to_owned(),
        (low, high) => format!("{} to {}", end(low), end(high)),
    };
    let verdict = match metric.detectable {
        Some(part) if metric.verdict == NO_DIFFERENCE => {
            format!("none; {} seen", percent(1.0 + part).replace('+', ""))
        }
        // Latencies of one run depend on each other.
        _ if method == Method::Slices && metric.is_latency => format!("({})", metric.verdict),
        _ => metric.verdict.to_owned(),
    };
    format!(
        "  {:<13}{:>10}{:>12}{:>9}{:>17}  {verdict}\n",
        metric.title,
        number(metric.base),
        number(metric.new),
        percent(metric.ratio),
        interval
    )
}

/// The change in percent.
fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    if change.abs() < 100.0 { format!("{change:+.1}%") } else { format!("{change:+.0}%") }
}

fn number(value: f64) -> String {
    if value < 10_000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn legend(document: &Document) -> String {
    let metrics: usize =
        document.comparisons.iter().flat_map(|pair| &pair.tests).map(|test| test.metrics.len()).sum();
    let source = match document.comparisons.first().map(|pair| pair.method) {
        Some(Method::Runs) => "They are of the differences between runs (Welch).",
        _ => {
            "They are of the slices and the latencies within one run. Runs differ by more,\n\
             and latencies of one run depend on each other, hence the parentheses: measure\n\
             several runs per side and give them to --base and --new."
        }
    };
    format!(
        "\nIntervals of 95%: of {metrics} comparisons about {:.0} say a difference where none is.\n{source}\n\
         `none; X% seen`: no difference seen; X% would have been, four times in five.\n",
        (metrics as f64 * 0.05).ceil()
    )
}
