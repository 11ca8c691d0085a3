//! The results as memtier_benchmark prints them.

use crate::memtier_benchmark::import::Verification;
use crate::memtier_benchmark::latencies::{percentile_ms, steps, to_us};
use crate::memtier_benchmark::reported::{Reported, Section};
use crate::memtier_benchmark::stats::{Row, RunStats};

const WIDE: usize = 15;
const NARROW: usize = 12;

/// A column: its title, its width, and its cell of a row; the row of totals is the last.
struct Column {
    title: String,
    width: usize,
    cell: Box<dyn Fn(&Row) -> String>,
}

pub fn render(reported: &Reported) -> String {
    let mut text = if reported.options.import.verify_only { String::new() } else { head(reported) };
    for Section { title, stats } in reported.sections() {
        let cut_short = stats.cut_short.iter().map(|cause| format!("CUT SHORT: {cause}\n"));
        text += &format!("\n\n{title}\n{}{}", cut_short.collect::<String>(), table(reported, &stats));
        if !reported.options.result.hide_histogram {
            text += &distribution(&stats);
        }
    }
    match reported.verification {
        Some(verification) => text + &verified(verification),
        None => text,
    }
}

fn verified(Verification { verified, failed }: Verification) -> String {
    format!(
        "\n\nPerforming data verification...\nData verification completed:\n\
         {verified:<10} keys verified successfuly.\n{failed:<10} keys failed.\n"
    )
}

fn head(reported: &Reported) -> String {
    let (number, unit) = reported.length();
    let load = &reported.options.load;
    format!("{:<9} Threads\n{:<9} Connections per thread\n{number:<9} {unit}\n", load.threads, load.clients)
}

fn table(reported: &Reported, stats: &RunStats) -> String {
    let longest = reported.longest_name(stats).max(6) + 1;
    let columns = columns(reported, stats);
    let rule = |sign: &str| {
        let widths = [longest].into_iter().chain(columns.iter().map(|column| column.width));
        widths.map(|width| sign.repeat(width + 1)).collect::<String>()
    };
    let titles: String =
        columns.iter().map(|column| format!("{:>1$} ", column.title, column.width)).collect();
    let mut text = format!("{}\n{:<longest$} {titles}\n{}\n", rule("="), "Type", rule("-"));
    for row in stats.rows.iter().chain([&stats.totals]) {
        let cells: String =
            columns.iter().map(|column| format!("{:>1$} ", (column.cell)(row), column.width)).collect();
        text += &format!("{:<longest$} {cells}\n", row.title());
    }
    text
}

fn columns(reported: &Reported, stats: &RunStats) -> Vec<Column> {
    let usual = stats.usual;
    let rate = |title: &str, cell: fn(&Row) -> f64, has: fn(&Row) -> bool| Column {
        title: title.to_owned(),
        width: NARROW,
        cell: Box::new(move |row| if has(row) { format!("{:.2}", cell(row)) } else { "---".to_owned() }),
    };
    let looks_for_keys = |row: &Row| ["GET", "Totals"].contains(&row.name.as_str());
    let latency = |title: String, cell: Box<dyn Fn(&Row) -> f64>| Column {
        title,
        width: WIDE,
        cell: Box::new(move |row| match usual && row.latency.count() == 0 && row.name != "Totals" {
            true => "---".to_owned(),
            false => format!("{:.5}", cell(row)),
        }),
    };
    let mut columns = vec![rate("Ops/sec", |row| row.rate, |_| true)];
    if usual {
        columns.push(rate("Hits/sec", |row| row.hits_rate, looks_for_keys));
        columns.push(rate("Misses/sec", |row| row.misses_rate, looks_for_keys));
    }
    if reported.options.server.cluster {
        // A redirection ends the run here.
        let has = |row: &Row| row.name != "WAIT";
        columns.push(rate("MOVED/sec", |_| 0.0, has));
        columns.push(rate("ASK/sec", |_| 0.0, has));
    }
    columns.push(latency("Avg. Latency".to_owned(), Box::new(|row| row.latency.mean() / 1e6)));
    for &percentile in &reported.options.result.percentiles {
        let title = format!("p{percentile} Latency");
        columns.push(latency(title, Box::new(move |row| percentile_ms(&row.latency, percentile))));
    }
    columns.push(rate(
        "KB/sec",
        |row| (row.received_rate.unwrap_or(0.0) + row.sent_rate) / 1024.0,
        |row| row.name != "WAIT" && row.received_rate.is_some(),
    ));
    columns
}

/// The distribution of the latencies of each row.
fn distribution(stats: &RunStats) -> String {
    let mut text = format!(
        "\n\nRequest Latency Distribution\n{:<6} {:>12} {:>12}\n{}\n",
        "Type",
        "<= msec   ",
        "Percent",
        "-".repeat(72)
    );
    for (at, row) in stats.rows.iter().enumerate() {
        for step in steps(&to_us(&row.latency)) {
            text += &format!("{:<6} {:>8.3} {:>12.3}\n", row.name, step.ms, step.percentile);
        }
        let is_last = stats.usual && at + 1 == stats.rows.len();
        text += if is_last { "" } else { "---\n" };
    }
    text
}
