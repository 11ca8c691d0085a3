//! What all slices of one side counted.

use serde_json::Value;

use crate::contest::Measured;
use engine::histogram::Histogram;
use engine::job::Job;
use engine::outcome::Outcome;
use engine::record::Record;
use engine::schedule::Arrivals;
use engine::stage::Span;
use report::result::TestResult;

/// The latencies of one side are also kept in so many groups of consecutive slices: their percentiles are compared.
pub const GROUPS: u64 = 20;

/// What all slices of one side counted: one record, as if they had followed each other without a gap.
pub struct Tally {
    record: Record,
    /// Whether the server's CPU clock could not be read at the edges of some slice: then its sum is unknown.
    lacks_clock: bool,
    pub groups: Vec<Histogram>,
}

impl Default for Tally {
    fn default() -> Tally {
        let groups = (0..GROUPS).map(|_| Histogram::default()).collect();
        Tally { record: Record::default(), lacks_clock: false, groups }
    }
}

impl Tally {
    /// Add a slice, whose latencies belong to group number `group`.
    pub fn add(&mut self, measured: &Measured, group: usize) {
        self.record.append(&measured.record);
        self.groups[group].merge(&measured.record.latency);
        self.lacks_clock |= measured.slice.server_cpu_ns.is_none();
        if let Some(cpu_ns) = measured.slice.server_cpu_ns {
            let clock = &mut self.record.server_ns;
            let before = clock.last().copied().unwrap_or(0);
            if clock.is_empty() {
                clock.push(0);
            }
            clock.push(before + cpu_ns);
        }
    }

    pub fn record_mut(&mut self) -> &mut Record {
        &mut self.record
    }

    /// The result of `job`, as `run` reports it of its window.
    pub fn result(
        mut self,
        mut job: Job,
        workload: Value,
        mode: &'static str,
        arrivals: Option<Arrivals>,
    ) -> TestResult {
        if self.lacks_clock {
            job.server_pid = None;
            self.record.server_ns.clear();
            self.record.server_usage = None;
        }
        let begins_at = self.record.opened_at;
        let (closes_at, ends_at) = (u64::MAX, u64::MAX);
        let (counts_from, requests, clients) = (begins_at, None, None);
        let span = Span { begins_at, counts_from, closes_at, ends_at, requests, arrivals, clients };
        TestResult::new(
            &job,
            workload,
            mode,
            &Outcome { span, records: vec![self.record], probe: None, cut: None },
        )
    }
}
