//! The staircase of clients: more connections after each step of time.

use std::time::Duration;

use crate::arguments::Given;
use crate::memtier_benchmark::options::LoadOptions;
use engine::jitter::Jitter;
use engine::stairs::Stairs;
use report::result::TestResult;
use text::checks::require;
use text::failure::Failure;
use text::units::NS_PER_S;

/// How many connections were open in one second of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveClients {
    pub per_thread: usize,
    pub total: usize,
}

impl LoadOptions {
    pub fn check_stairs(&self, given: &Given) -> Result<(), Failure> {
        let Some(first) = self.clients_start else {
            let stray = given.has_id("clients_step") || given.has_id("step_duration");
            return require(
                !stray,
                "--clients-step or --step-duration is given alone",
                "give --clients-start, too",
            );
        };
        let positive = first > 0 && self.clients_step > 0 && self.step_duration > 0;
        require(positive, "--clients-start, --clients-step or --step-duration is 0", "give at least 1")?;
        require(first < self.clients, "--clients-start is not below --clients", "give a smaller one")?;
        require(self.test_time.is_some(), "--clients-start is given without --test-time", "give it, too")
    }

    pub fn stairs(&self) -> Option<Stairs> {
        let every_ns = self.step_duration.saturating_mul(NS_PER_S);
        self.clients_start.map(|first| Stairs { first, step: self.clients_step, every_ns })
    }

    /// The pauses between the connections of a thread, if there are any.
    pub fn jitter(&self) -> Option<Jitter> {
        let us = |us: u32| Duration::from_micros(us.into());
        let jitter = Jitter { least: us(self.least_jitter_us), most: us(self.most_jitter_us) };
        (self.most_jitter_us > 0).then_some(jitter)
    }

    /// Connections of each thread that the steps allow after `elapsed`.
    pub fn clients_after(&self, elapsed: Duration) -> usize {
        let steps = (elapsed.as_secs() / self.step_duration.max(1)) as usize;
        let on_stairs = |first: usize| first.saturating_add(steps.saturating_mul(self.clients_step));
        self.clients_start.map_or(self.clients, on_stairs).min(self.clients)
    }
}

/// The connections that were open at the end of each of `seconds` seconds.
pub fn active_clients(test: &TestResult, seconds: usize) -> Vec<ActiveClients> {
    let threads = test.opened_ns.len().max(1);
    let at_end = |second: usize| {
        let end = ((second as u64 + 1) * NS_PER_S).min((test.window_s * NS_PER_S as f64) as u64);
        let open = |thread: &Vec<u64>| thread.iter().filter(|at| **at < end).count();
        let total = test.opened_ns.iter().map(open).sum::<usize>();
        ActiveClients { per_thread: total.div_ceil(threads), total }
    };
    (0..seconds).map(at_end).collect()
}
