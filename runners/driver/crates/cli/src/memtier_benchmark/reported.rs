//! What is reported of all runs, in any output.

use crate::memtier_benchmark::import::Verification;
use crate::memtier_benchmark::options::Options;
use crate::memtier_benchmark::stats::RunStats;
use report::document::Driver;
use workload::phase::Length;
use workload::plan::Plan;

/// What is reported of all runs.
pub struct Reported<'a> {
    pub options: &'a Options,
    /// That of the first run.
    pub driver: Option<Driver>,
    pub runs: Vec<RunStats>,
    /// Requests of each connection; 0 when the time says when a run ends.
    pub requests: u64,
    /// The items of a file beside those that the server holds.
    pub verification: Option<Verification>,
}

/// A run, or the average of all, with its title.
pub struct Section {
    pub title: String,
    pub stats: RunStats,
}

impl<'a> Reported<'a> {
    /// Of `plan`, for which `options` stand, before its first run.
    pub fn new(options: &'a Options, plan: &Plan) -> Reported<'a> {
        let phase = &plan.phases[0];
        let requests = match phase.length {
            Length::Requests(all) => all.div_ceil(phase.clients as u64),
            Length::Lasting(_) => 0,
        };
        Reported { options, driver: None, runs: Vec::new(), requests, verification: None }
    }

    /// How long the load is, as a number and what it counts.
    pub fn length(&self) -> (u64, &'static str) {
        let load = &self.options.load;
        match load.test_time {
            Some(time) => (time.as_secs(), "Seconds"),
            None => (self.requests, "Requests per client"),
        }
    }

    /// The longest name of a row of arbitrary commands, in bytes; 0: the usual rows, which have a fixed width.
    pub fn longest_name(&self, stats: &RunStats) -> usize {
        let names = stats.rows.iter().map(|row| row.name.len());
        if stats.usual { 0 } else { names.max().unwrap_or(0) }
    }

    pub fn sections(&self) -> Vec<Section> {
        let section =
            |title: &str, stats: &RunStats| Section { title: title.to_owned(), stats: stats.clone() };
        let [first, rest @ ..] = self.runs.as_slice() else { return Vec::new() };
        if rest.is_empty() {
            return vec![section("ALL STATS", first)];
        }
        let numbered = self.runs.iter().zip(1..);
        let mut sections: Vec<Section> = match self.options.result.print_all_runs {
            true => numbered.map(|(run, number)| section(&format!("RUN #{number} RESULTS"), run)).collect(),
            false => Vec::new(),
        };
        let best =
            rest.iter().fold(first, |best, run| if run.totals.rate > best.totals.rate { run } else { best });
        let worst = rest
            .iter()
            .fold(first, |worst, run| if run.totals.rate < worst.totals.rate { run } else { worst });
        let average = format!("AGGREGATED AVERAGE RESULTS ({} runs)", self.runs.len());
        sections.extend([
            section("BEST RUN RESULTS", best),
            section("WORST RUN RESULTS", worst),
            section(&average, &RunStats::average(&self.runs)),
        ]);
        sections
    }
}
