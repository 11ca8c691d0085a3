//! The records of all threads of a load added up.

use crate::histogram::Histogram;
use crate::outcome::Outcome;
use crate::record::{CommandRecord, Record, Traffic, add_commands};
use crate::recovery::Losses;
use machine::counters::Counted;
use machine::process::ProcessUsage;
use machine::this_thread::Usage;
use protocol::replies::Tally;
use text::units::per;

/// The records of all threads of the load added up.
#[derive(Default)]
pub struct Total {
    pub window_ns: u64,
    pub inside: Tally,
    pub unfinished: u64,
    pub unsent: u64,
    pub latency: Histogram,
    pub service: Histogram,
    pub slip: Histogram,
    pub nodes: Vec<u64>,
    pub commands: Vec<CommandRecord>,
    pub traffic: Traffic,
    pub slices: Vec<u64>,
    pub server_ns: Vec<u64>,
    pub server_usage: Option<ProcessUsage>,
    pub counted: Option<Vec<Counted>>,
    pub client_ns: Vec<u64>,
    pub usage: Usage,
    pub spun_ns: u64,
    pub run_delay_ns: Option<u64>,
    pub busiest_thread: f64,
    /// The largest share of the window that a thread, that of the probe too, waited for a CPU.
    pub most_delayed: f64,
    /// None without a thread.
    pub losses: Option<Losses>,
}

impl Total {
    pub fn of(outcome: &Outcome) -> Total {
        let records = &outcome.records;
        let last = records.iter().max_by_key(|record| record.closed_at);
        let ended_at = last.map_or(0, |record| record.closed_at).min(outcome.span.closes_at);
        let greatest = |share: fn(&Record) -> f64, records: &mut dyn Iterator<Item = &Record>| {
            records.map(share).fold(0.0, f64::max)
        };
        let mut total = Total {
            window_ns: ended_at.saturating_sub(outcome.span.counts_from),
            // Each thread reads the same clock; the one that ended last saw the whole window.
            server_ns: last.map_or(Vec::new(), |record| record.server_ns.clone()),
            server_usage: last.and_then(|record| record.server_usage),
            counted: last.and_then(|record| record.counted.clone()),
            busiest_thread: greatest(busy_share, &mut records.iter()),
            most_delayed: greatest(delayed_share, &mut records.iter().chain(&outcome.probe)),
            run_delay_ns: records.iter().map(|record| record.run_delay_ns).sum(),
            ..Total::default()
        };
        records.iter().for_each(|record| total.add(record));
        total
    }

    /// CPU time of the server in each slice; empty without a server pid.
    pub fn server_ns_per_slice(&self) -> Vec<u64> {
        differences(&self.server_ns)
    }

    fn add(&mut self, record: &Record) {
        self.inside.add(record.inside.clone());
        self.unfinished += record.unfinished;
        self.unsent += record.unsent;
        self.latency.merge(&record.latency);
        self.service.merge(&record.service);
        self.slip.merge(&record.slip);
        self.usage = self.usage.plus(record.usage);
        self.spun_ns += record.spun_ns;
        add_slices(&mut self.slices, &record.slices);
        add_slices(&mut self.nodes, &record.nodes);
        add_slices(&mut self.client_ns, &differences(&record.client_ns));
        self.traffic.add(&record.traffic);
        match &mut self.losses {
            Some(losses) => losses.merge(&record.losses),
            None => self.losses = Some(record.losses.clone()),
        }
        add_commands(&mut self.commands, &record.commands);
    }
}

/// The share of its core that a thread used in the window, 0 to 1, without the time for which it polled.
fn busy_share(record: &Record) -> f64 {
    let busy_ns = record.usage.cpu_ns().saturating_sub(record.spun_ns);
    per(busy_ns as f64, (record.closed_at - record.opened_at) as f64)
}

/// The share of the window that a thread was ready and had no CPU, 0 to 1.
fn delayed_share(record: &Record) -> f64 {
    per(record.run_delay_ns.unwrap_or(0) as f64, (record.closed_at - record.opened_at) as f64)
}

/// By how much a clock advanced between readings.
fn differences(readings: &[u64]) -> Vec<u64> {
    readings.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// By how much a clock advanced from its first reading to its last.
pub fn grown(readings: &[u64]) -> u64 {
    readings.last().unwrap_or(&0) - readings.first().unwrap_or(&0)
}

fn add_slices(total: &mut Vec<u64>, slices: &[u64]) {
    total.resize(total.len().max(slices.len()), 0);
    for (sum, slice) in total.iter_mut().zip(slices) {
        *sum += slice;
    }
}
