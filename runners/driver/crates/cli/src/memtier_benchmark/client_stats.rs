//! Files of what each connection counted: a line for each second, then its latencies.

use std::fmt::Write;
use std::fs;

use crate::memtier_benchmark::commands::Commands;
use crate::memtier_benchmark::latencies::{steps, to_us};
use crate::memtier_benchmark::stats::{Counted, merged, received_by_row};
use engine::client_log::{ClientLog, SecondLog};
use engine::histogram::Histogram;
use report::result::TestResult;
use text::failure::Failure;
use text::units::per;

const NS_PER_US: u64 = 1000;
const US_PER_S: u64 = 1_000_000;

/// Write a file for each connection in run number `run`, whose name ends with the numbers of run, thread and connection.
pub fn write(prefix: &str, run: u32, test: &TestResult, commands: &Commands) -> Result<(), Failure> {
    for (thread, clients) in test.clients.iter().enumerate() {
        for (number, client) in clients.iter().enumerate() {
            write_file(&format!("{prefix}-{run}-{thread}-{number}.csv"), &text(client, commands))?;
        }
    }
    Ok(())
}

/// Begin the first of the files.
pub fn create(prefix: &str) -> Result<(), Failure> {
    write_file(&format!("{prefix}-1-0-0.csv"), "")
}

fn write_file(path: &str, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| {
        Failure::run(
            format!("cannot write {path} ({error})"),
            "give --client-stats the begin of a path to write to",
        )
    })
}

/// What one connection counted of sets, gets or waits, or of one arbitrary command.
struct Column {
    name: String,
    latency: Histogram,
    seconds: Vec<SecondLog>,
    /// Keys of one request.
    keys: u64,
    /// Bytes of one request and of its reply; the latter not where replies of several commands cannot be told apart.
    sent_bytes: f64,
    received_bytes: Option<f64>,
}

fn text(client: &ClientLog, commands: &Commands) -> String {
    let columns = columns(client, commands);
    let seconds = columns.iter().map(|column| column.seconds.len()).max().unwrap_or(0).max(1);
    // A second without a reply has no line, unless it is the first.
    let is_told = |second: &usize| *second == 0 || columns.iter().any(|it| it.second(*second).replies > 0);
    let seconds = (0..seconds).filter(is_told);
    match commands.usual {
        true => usual(&columns, seconds),
        false => arbitrary(&columns, seconds),
    }
}

/// One for each row of the usual commands, and for each of the arbitrary ones.
fn columns(client: &ClientLog, commands: &Commands) -> Vec<Column> {
    let place = |at: usize| if commands.usual { commands.list[at].row } else { at };
    let names: Vec<String> = match commands.usual {
        true => commands.rows.clone(),
        false => commands.list.iter().map(|command| commands.rows[command.row].clone()).collect(),
    };
    let counted: Vec<Counted> = commands
        .list
        .iter()
        .zip(&client.commands)
        .enumerate()
        .map(|(at, (command, log))| {
            let sent = client.traffic.sent.get(at).copied().unwrap_or_default();
            Counted {
                row: place(at),
                count: log.latency.count(),
                keys: command.keys,
                reply_bytes: command.reply_bytes,
                sent_bytes: per(sent.bytes as f64, sent.requests as f64),
                latency: log.latency.histogram(),
                seconds: Vec::new(),
            }
        })
        .collect();
    let received = received_by_row(&counted, names.len(), client.traffic.received_bytes);
    let column = |(row, name): (usize, String)| {
        let mine: Vec<&Counted> = counted.iter().filter(|it| it.row == row).collect();
        let logs = client.commands.iter().enumerate().filter(|(at, _)| place(*at) == row);
        let sum = |of: &dyn Fn(&Counted) -> f64| mine.iter().map(|it| of(it)).sum::<f64>();
        let count = sum(&|it| it.count as f64);
        Column {
            name,
            latency: merged(mine.iter().map(|it| &it.latency)),
            seconds: added(logs.map(|(_, log)| log.seconds.as_slice())),
            keys: per(sum(&|it| (it.keys * it.count) as f64), count).round() as u64,
            sent_bytes: per(sum(&|it| it.sent_bytes * it.count as f64), count),
            received_bytes: received[row].map(|bytes| per(bytes, count)),
        }
    };
    names.into_iter().enumerate().map(column).collect()
}

fn added<'a>(logs: impl Iterator<Item = &'a [SecondLog]>) -> Vec<SecondLog> {
    let mut sums: Vec<SecondLog> = Vec::new();
    for seconds in logs {
        sums.resize(sums.len().max(seconds.len()), SecondLog::default());
        for (sum, second) in sums.iter_mut().zip(seconds) {
            sum.replies += second.replies;
            sum.latency_ns += second.latency_ns;
            sum.misses += second.misses;
        }
    }
    sums
}

impl Column {
    fn second(&self, number: usize) -> SecondLog {
        self.seconds.get(number).copied().unwrap_or_default()
    }

    /// Requests and mean latency in s.
    fn requests(&self, number: usize) -> String {
        let SecondLog { replies, latency_ns, .. } = self.second(number);
        let us = latency_ns / replies.max(1) / NS_PER_US;
        format!("{replies},{}.{:06}", us / US_PER_S, us % US_PER_S)
    }

    /// Bytes in both directions, sent and received.
    fn bytes(&self, number: usize) -> String {
        let replies = self.second(number).replies as f64;
        let sent = (self.sent_bytes * replies).round() as u64;
        let received = self.received_bytes.map(|bytes| (bytes * replies).round() as u64);
        match received {
            Some(received) => format!("{},{sent},{received}", sent + received),
            None => format!(",{sent},"),
        }
    }

    /// Keys that were not there, and those that were.
    fn misses(&self, number: usize) -> String {
        let SecondLog { replies, misses, .. } = self.second(number);
        format!("{misses},{}", (self.keys * replies).saturating_sub(misses))
    }

    fn percentiles(&self) -> String {
        let mut text = format!("\nFull-Test {} Latency\nLatency (<= msec),Percent\n", self.name);
        for step in steps(&to_us(&self.latency)) {
            let _ = writeln!(text, "{:>8.3},{:.3}", step.ms, step.percentile);
        }
        text
    }
}

fn usual(columns: &[Column], seconds: impl Iterator<Item = usize>) -> String {
    let [set, get, wait] = columns else { return String::new() };
    let mut text = "Per-Second Benchmark Data\nSecond".to_owned();
    for name in ["SET", "GET"] {
        text += &format!(",{}", titles(name));
    }
    text += ",GET Misses,GET Hits,WAIT Requests,WAIT Average Latency\n";
    for number in seconds {
        let cells = [
            number.to_string(),
            set.requests(number),
            set.bytes(number),
            get.requests(number),
            get.bytes(number),
            get.misses(number),
            wait.requests(number),
        ];
        text += &(cells.join(",") + "\n");
    }
    text + &get.percentiles() + &set.percentiles() + &wait.percentiles()
}

fn arbitrary(columns: &[Column], seconds: impl Iterator<Item = usize>) -> String {
    let mut text = "Per-Second Benchmark Arbitrary Commands Data\nSecond".to_owned();
    for column in columns {
        text += &format!(",{}", titles(&column.name));
    }
    text += "\n";
    for number in seconds {
        text += &format!("{number},");
        for column in columns {
            text += &format!("{},{},", column.requests(number), column.bytes(number));
        }
        text += "\n";
    }
    columns.iter().fold(text, |text, column| text + &column.percentiles())
}

fn titles(name: &str) -> String {
    let titles = ["Requests", "Average Latency", "Total Bytes", "Total Bytes TX", "Total Bytes RX"];
    titles.map(|title| format!("{name} {title}")).join(",")
}
