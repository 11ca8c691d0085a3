//! What memtier_benchmark says on stderr while it runs, and sends to StatsD: what was counted so far.

use std::time::{Duration, Instant};

use crate::memtier_benchmark::json;
use crate::memtier_benchmark::options::{LoadOptions, Options};
use crate::memtier_benchmark::stats::RunStats;
use crate::memtier_benchmark::statsd::Statsd;
use crate::memtier_benchmark::values::Requests;
use engine::progress::Progress;
use text::units::per;

const EVERY: Duration = Duration::from_secs(1);
const NS_PER_MS: f64 = 1e6;

/// The progress of run number `run`.
pub struct RunProgress<'a> {
    options: &'a Options,
    run: u32,
    began: Instant,
    last: Progress,
    last_at: Instant,
    /// Whether the line on the terminal is not yet ended.
    is_open: bool,
    statsd: Option<&'a Statsd>,
}

/// What was counted in some time.
struct Pace {
    rate: f64,
    bytes_rate: f64,
    latency_ms: f64,
}

impl Pace {
    fn of(later: Progress, earlier: Progress, time: Duration) -> Pace {
        let replies = later.replies.saturating_sub(earlier.replies) as f64;
        let latency_ns = later.latency_ns.saturating_sub(earlier.latency_ns) as f64;
        Pace {
            rate: per(replies, time.as_secs_f64()),
            bytes_rate: per(later.bytes.saturating_sub(earlier.bytes) as f64, time.as_secs_f64()),
            latency_ms: per(latency_ns, replies) / NS_PER_MS,
        }
    }
}

impl<'a> RunProgress<'a> {
    pub fn begin(options: &'a Options, run: u32, statsd: Option<&'a Statsd>) -> RunProgress<'a> {
        eprintln!("[RUN #{run}] Preparing benchmark client...\n[RUN #{run}] Launching threads now...");
        let began = Instant::now();
        RunProgress { options, run, began, last: Progress::default(), last_at: began, is_open: false, statsd }
    }

    /// Say how far the run is, once per second.
    pub fn update(&mut self, progress: Progress) {
        if self.last_at.elapsed() >= EVERY {
            let elapsed = self.began.elapsed();
            let current = Pace::of(progress, self.last, self.last_at.elapsed());
            self.say(progress, elapsed, &current, '\r');
            self.is_open = true;
            (self.last, self.last_at) = (progress, Instant::now());
        }
    }

    /// Say what the whole run has counted.
    pub fn end(mut self, stats: &RunStats) {
        self.is_open = false;
        let totals = &stats.totals;
        let bytes = (totals.received_rate.unwrap_or(0.0) + totals.sent_rate) * stats.lasted.as_secs_f64();
        let progress =
            Progress { replies: totals.count, latency_ns: totals.latency.sum(), bytes: bytes as u64 };
        let current = Pace::of(progress, Progress::default(), stats.lasted);
        self.say(progress, stats.lasted, &current, '\n');
        if let Some(statsd) = self.statsd {
            ["ops_sec", "ops_sec_avg", "bytes_sec", "bytes_sec_avg", "progress_pct"]
                .iter()
                .for_each(|name| statsd.gauge(name, 0.0));
        }
        eprintln!();
    }

    fn say(&self, progress: Progress, elapsed: Duration, current: &Pace, end: char) {
        let load = &self.options.load;
        let average = Pace::of(progress, Progress::default(), elapsed);
        let (done, clients) = (share_done(load, progress, elapsed) * 100.0, load.clients_after(elapsed));
        eprint!(
            "[RUN #{} {done:.0}%, {:3} secs] {:2} threads {clients:2} conns: {:11} ops, {:7.0} (avg: {:7.0}) ops/sec, \
             {}/sec (avg: {}/sec), {:5.2} (avg: {:5.2}) msec latency{end}",
            self.run,
            elapsed.as_secs(),
            load.threads,
            progress.replies,
            current.rate,
            average.rate,
            size(current.bytes_rate),
            size(average.bytes_rate),
            current.latency_ms,
            average.latency_ms,
        );
        if let Some(statsd) = self.statsd {
            statsd.gauge("ops_sec", current.rate.trunc());
            statsd.gauge("ops_sec_avg", average.rate.trunc());
            statsd.gauge("bytes_sec", current.bytes_rate.trunc());
            statsd.gauge("bytes_sec_avg", average.bytes_rate.trunc());
            statsd.timing("latency_ms", current.latency_ms);
            statsd.timing("latency_avg_ms", average.latency_ms);
            statsd.gauge("connections", (clients * load.threads) as f64);
            statsd.gauge("progress_pct", done);
        }
    }
}

impl Drop for RunProgress<'_> {
    fn drop(&mut self) {
        if self.is_open {
            eprintln!();
        }
    }
}

/// 0 to 1.
fn share_done(load: &LoadOptions, progress: Progress, elapsed: Duration) -> f64 {
    let connections = (load.clients * load.threads) as f64;
    let share = match (load.test_time, load.requests) {
        (Some(time), _) => per(elapsed.as_secs_f64(), time.as_secs_f64()),
        (None, Requests::OfEachConnection(each)) => per(progress.replies as f64, each as f64 * connections),
        (None, Requests::AllKeys) => 0.0,
    };
    share.min(1.0)
}

fn size(bytes: f64) -> String {
    const KIB: f64 = 1024.0;
    match bytes {
        _ if bytes >= KIB.powi(3) => format!("{:.2}GB", bytes / KIB.powi(3)),
        _ if bytes >= KIB.powi(2) => format!("{:.2}MB", bytes / KIB.powi(2)),
        _ => format!("{:.2}KB", bytes / KIB),
    }
}

impl Options {
    /// Say where the results go, and on request what they are results of.
    pub fn announce(&self) {
        match &self.result.out_file {
            Some(path) => eprintln!("Writing results to {path}..."),
            None => eprintln!("Writing results to stdout"),
        }
        if self.result.show_config {
            let rule = "=".repeat(14);
            eprintln!("{rule} Configuration values: {rule}\n{}", json::render_configuration(self));
        }
    }
}
