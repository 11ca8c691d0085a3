//! What one run counted, by the rows of memtier_benchmark.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::memtier_benchmark::commands::Commands;
use crate::memtier_benchmark::stairs::ActiveClients;
use engine::histogram::{Gain, Histogram};
use report::result::TestResult;
use text::units::per;

/// What one run counted.
#[derive(Clone)]
pub struct RunStats {
    /// Since 1970.
    pub began: Duration,
    pub lasted: Duration,
    /// Whether the rows are sets, gets and waits.
    pub usual: bool,
    pub rows: Vec<Row>,
    pub totals: Row,
    /// Why the run ended before its time.
    pub cut_short: Option<String>,
    /// The connections in each second, where they are opened step by step.
    pub active_clients: Vec<ActiveClients>,
}

/// What one run counted of one command, or of all.
#[derive(Clone, Default)]
pub struct Row {
    /// In capitals.
    pub name: String,
    pub count: u64,
    pub rate: f64,
    pub hits_rate: f64,
    pub misses_rate: f64,
    /// Bytes per second; none where replies of several commands cannot be told apart.
    pub received_rate: Option<f64>,
    pub sent_rate: f64,
    pub latency: Histogram,
    pub seconds: Vec<Second>,
    /// Of the totals only.
    pub connection_errors: u64,
    pub connection_errors_rate: f64,
}

impl Row {
    /// `Sets` of `SET`.
    pub fn title(&self) -> String {
        if self.name == "Totals" {
            return self.name.clone();
        }
        let mut letters = self.name.to_lowercase().chars().collect::<Vec<_>>();
        letters[0] = letters[0].to_ascii_uppercase();
        letters.into_iter().collect::<String>() + "s"
    }
}

/// One second of a run; the last has what was still in flight at its end, too.
#[derive(Clone, Default)]
pub struct Second {
    pub latency: Histogram,
    pub received_bytes: Option<f64>,
    pub sent_bytes: f64,
}

/// A command of the script in the window.
pub struct Counted {
    pub row: usize,
    pub count: u64,
    pub keys: u64,
    pub reply_bytes: Option<u64>,
    /// Of one request.
    pub sent_bytes: f64,
    pub latency: Histogram,
    pub seconds: Vec<Histogram>,
}

impl RunStats {
    /// The result of `commands`, which came at `ended`.
    pub fn of(test: &TestResult, commands: &Commands, ended: SystemTime) -> RunStats {
        let counted = counted(test, commands);
        let replies = test.requests + test.unfinished;
        let received = received_by_row(&counted, commands.rows.len(), test.traffic.received_bytes);
        let rows: Vec<Row> = (0..commands.rows.len())
            .map(|at| {
                let mine: Vec<&Counted> = counted.iter().filter(|it| it.row == at).collect();
                row(&commands.rows[at], &mine, received[at], test.window_s)
            })
            .collect();
        let sent: f64 = counted.iter().map(|it| it.sent_bytes * it.count as f64).sum();
        let of_one = per(test.traffic.received_bytes as f64, replies as f64);
        let sent_of_one = per(sent, test.requests as f64);
        let broken = test.recovery.as_ref().map_or(0, |recovery| recovery.broken);
        let totals = Row {
            name: "Totals".to_owned(),
            count: test.requests,
            rate: per(test.requests as f64, test.window_s),
            received_rate: Some(per(of_one * test.requests as f64, test.window_s)),
            sent_rate: per(sent, test.window_s),
            latency: test.latency.clone(),
            connection_errors: broken,
            connection_errors_rate: per(broken as f64, test.window_s),
            seconds: seconds(parts(&test.latency, &test.intervals.gains), Some(of_one), sent_of_one),
            ..Row::default()
        };
        let (hits, misses) = hits_and_misses(test, &counted);
        let lasted = Duration::from_secs_f64(test.window_s);
        let ended = ended.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut stats = RunStats {
            began: ended.saturating_sub(lasted),
            lasted,
            usual: commands.usual,
            rows,
            totals,
            cut_short: None,
            active_clients: Vec::new(),
        };
        stats.count_hits(per(hits as f64, test.window_s), per(misses as f64, test.window_s));
        stats
    }

    /// Of the usual rows, gets look for keys.
    fn count_hits(&mut self, hits: f64, misses: f64) {
        if self.usual {
            let gets = self.rows.iter_mut().filter(|row| row.name == "GET");
            for row in gets.chain([&mut self.totals]) {
                (row.hits_rate, row.misses_rate) = (hits, misses);
            }
        }
    }

    /// The average of `runs`, at least one: rates are averaged, counts and latencies added up.
    pub fn average(runs: &[RunStats]) -> RunStats {
        let row = |of: &dyn Fn(&RunStats) -> Row| Row::average(&runs.iter().map(of).collect::<Vec<_>>());
        let lasted = runs.iter().map(|run| run.lasted).sum::<Duration>() / runs.len() as u32;
        RunStats {
            began: runs[0].began,
            lasted,
            usual: runs[0].usual,
            rows: (0..runs[0].rows.len()).map(|at| row(&|run| run.rows[at].clone())).collect(),
            totals: row(&|run| run.totals.clone()),
            active_clients: Vec::new(),
            cut_short: runs.iter().find_map(|run| run.cut_short.clone()),
        }
    }
}

impl Row {
    fn average(rows: &[Row]) -> Row {
        let mean = |rate: fn(&Row) -> f64| rows.iter().map(rate).sum::<f64>() / rows.len() as f64;
        let received = rows.iter().map(|row| row.received_rate).sum::<Option<f64>>();
        Row {
            name: rows[0].name.clone(),
            count: rows.iter().map(|row| row.count).sum(),
            rate: mean(|row| row.rate),
            hits_rate: mean(|row| row.hits_rate),
            misses_rate: mean(|row| row.misses_rate),
            received_rate: received.map(|sum| sum / rows.len() as f64),
            sent_rate: mean(|row| row.sent_rate),
            latency: merged(rows.iter().map(|row| &row.latency)),
            seconds: Vec::new(),
            connection_errors: rows.iter().map(|row| row.connection_errors).sum(),
            connection_errors_rate: mean(|row| row.connection_errors_rate),
        }
    }
}

/// The commands of the script; a script of one has the result of all.
fn counted(test: &TestResult, commands: &Commands) -> Vec<Counted> {
    let list = commands.list.iter().enumerate();
    list.map(|(at, command)| {
        let sent = test.traffic.sent.get(at).copied().unwrap_or_default();
        let (count, latency, gains) = match test.commands.get(at) {
            Some(result) => (result.requests, &result.latency, &result.intervals),
            None => (test.requests, &test.latency, &test.intervals.gains),
        };
        Counted {
            row: command.row,
            count,
            keys: command.keys,
            reply_bytes: command.reply_bytes,
            sent_bytes: per(sent.bytes as f64, sent.requests as f64),
            latency: latency.clone(),
            seconds: parts(latency, gains),
        }
    })
    .collect()
}

/// The bytes that each of `rows` rows received, of `all`; none where replies of several rows cannot be told apart.
pub fn received_by_row(counted: &[Counted], rows: usize, all: u64) -> Vec<Option<f64>> {
    let known = |it: &Counted| it.reply_bytes.unwrap_or(0) * it.latency.count();
    let unknown = rows_without_reply_bytes(counted);
    let left = all.saturating_sub(counted.iter().map(known).sum()) as f64;
    let received = |at: usize| match unknown.as_slice() {
        [only] if *only == at => Some(left),
        several if several.contains(&at) => None,
        _ => Some(counted.iter().filter(|it| it.row == at).map(|it| known(it) as f64).sum()),
    };
    (0..rows).map(received).collect()
}

fn rows_without_reply_bytes(counted: &[Counted]) -> Vec<usize> {
    let mut rows: Vec<usize> =
        counted.iter().filter(|it| it.reply_bytes.is_none()).map(|it| it.row).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

fn row(name: &str, counted: &[&Counted], received_bytes: Option<f64>, window_s: f64) -> Row {
    let count: u64 = counted.iter().map(|it| it.count).sum();
    let latency = merged(counted.iter().map(|it| &it.latency));
    let sent: f64 = counted.iter().map(|it| it.sent_bytes * it.count as f64).sum();
    let received_of_one = received_bytes.map(|bytes| per(bytes, latency.count() as f64));
    let sent_of_one = per(sent, count as f64);
    let length = counted.iter().map(|it| it.seconds.len()).max().unwrap_or(0);
    let second = |at: usize| merged(counted.iter().filter_map(|it| it.seconds.get(at)));
    Row {
        name: name.to_owned(),
        count,
        rate: per(count as f64, window_s),
        received_rate: received_of_one.map(|bytes| per(bytes * count as f64, window_s)),
        sent_rate: per(sent, window_s),
        seconds: seconds((0..length).map(second).collect(), received_of_one, sent_of_one),
        latency,
        ..Row::default()
    }
}

pub fn merged<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Histogram {
    let mut sum = Histogram::default();
    histograms.for_each(|histogram| sum.merge(histogram));
    sum
}

fn parts(latency: &Histogram, gains: &[Gain]) -> Vec<Histogram> {
    gains.iter().map(|gain| latency.part(gain)).collect()
}

/// Seconds with the bytes that their requests have on average.
fn seconds(latencies: Vec<Histogram>, received_of_one: Option<f64>, sent_of_one: f64) -> Vec<Second> {
    let second = |latency: Histogram| {
        let count = latency.count() as f64;
        let received_bytes = received_of_one.map(|bytes| bytes * count);
        Second { received_bytes, sent_bytes: sent_of_one * count, latency }
    };
    latencies.into_iter().map(second).collect()
}

/// Of keys that were looked for, one by one or several at once.
fn hits_and_misses(test: &TestResult, counted: &[Counted]) -> (u64, u64) {
    match counted.iter().any(|it| it.keys > 1) {
        false => (test.hits, test.misses),
        true => {
            let keys: u64 = counted.iter().map(|it| it.keys * it.count).sum();
            (keys.saturating_sub(test.null_elements), test.null_elements)
        }
    }
}
