//! A duel for a terminal of 80 columns.

use crate::document::{Document, DuelResult};
use crate::ratio::{NO_DIFFERENCE, Ratio};
use crate::sides::Side;

const HEAD: &str = "                     base         head  head/base          interval  head is\n";
const COLUMNS: usize = 80;

pub fn render(document: &Document) -> String {
    let mut text = format!("base: {}\nhead: {}\n", document.base.address, document.head.address);
    for test in &document.tests {
        text += &result(test, document.driver.seed);
    }
    text + "\n" + &wrapped(document.caveat)
}

fn result(test: &DuelResult, seed: u64) -> String {
    let mut text = format!(
        "\n{}: {} pairs of slices of {} ms, order by seed {seed}\n{HEAD}",
        test.name, test.pairs, test.slice_ms
    );
    test.ratios.iter().for_each(|ratio| text += &row(ratio));
    remarks(test).iter().for_each(|remark| text += &format!("  ! {remark}\n"));
    text + &wrapped(&test.verdict.text)
}

fn row(ratio: &Ratio) -> String {
    let interval = match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => format!("{} to {}", percent(low), percent(high)),
        _ => "-".to_owned(),
    };
    let verdict = if ratio.verdict == NO_DIFFERENCE { "-" } else { ratio.verdict };
    format!(
        "  {:<13}{:>10}{:>13}{:>11}{:>18}  {verdict}\n",
        ratio.title,
        number(ratio.base),
        number(ratio.head),
        percent(ratio.ratio),
        interval
    )
}

/// Flags, of the duel and of its sides, and what was missed.
fn remarks(test: &DuelResult) -> Vec<String> {
    let explained = |flag: &&str| match *flag {
        "one_server" => "both sides are one server: any difference is chance".to_owned(),
        "resting_busy" => "a server worked while the other one was measured".to_owned(),
        other => other.to_owned(),
    };
    let mut remarks: Vec<String> = test.flags.iter().map(explained).collect();
    for (side, result) in [(Side::Base, &test.base), (Side::Head, &test.head)] {
        let counts = [(result.misses, "misses"), (result.errors.count, "errors")];
        let counted = counts.into_iter().filter(|(count, _)| *count > 0);
        let raised = result.flags.iter().map(|flag| flag.to_string());
        let words: Vec<String> =
            raised.chain(counted.map(|(count, what)| format!("{count} {what}"))).collect();
        if !words.is_empty() {
            remarks.push(format!("{}: {}", side.name(), words.join(", ")));
        }
    }
    remarks
}

/// The change in percent.
fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    if change.abs() < 100.0 { format!("{change:+.1}%") } else { format!("{change:+.0}%") }
}

fn number(value: f64) -> String {
    if value < 10_000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// `text` in lines that fit.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        match line.len() {
            0 => line.push_str(word),
            length if length + 1 + word.len() <= COLUMNS => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_between_words() {
        let text = wrapped(&"word ".repeat(40));
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.len() <= COLUMNS), "{text}");
        assert_eq!(wrapped("one two"), "one two\n");
    }
}
