//! What a run is asked to do, checked: a server, and phases of load on it.

use std::time::Duration;

use crate::mode::Mode;
use crate::phase::Phase;
use crate::protocol_name::ProtocolName;
use engine::recovery::Recovery;
use engine::steadiness::FEWEST_SLICES;
use network::target::Target;
use text::checks::require;
use text::failure::Failure;

#[derive(Debug, Clone)]
pub struct Plan {
    /// The command line as it may be published: without passwords.
    pub argv: Vec<String>,
    pub protocol: ProtocolName,
    pub target: Target,
    /// The database whose keys are counted.
    pub database: u32,
    /// Whether the target is one node of a cluster, all of whose masters take a part of the load.
    pub cluster: bool,
    pub seed: u64,
    /// Whether prefills may overwrite what the server holds.
    pub overwrites: bool,
    /// CPU of each thread; empty when they are not pinned.
    pub cpus: Vec<usize>,
    pub server_pid: Option<u32>,
    /// What the kernel is to count of the server.
    pub server_events: Vec<&'static str>,
    pub slice_ms: u64,
    pub allow_errors: bool,
    /// How the load goes on when connections are lost; none: that ends the run.
    pub recovery: Option<Recovery>,
    pub output: Output,
    /// Whether results keep the latencies of each second.
    pub intervals: bool,
    /// The file that gets the latencies of each second.
    pub hdr_log: Option<String>,
    /// Run in this order; at least one.
    pub phases: Vec<Phase>,
}

/// How the result is written to stdout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    #[default]
    Table,
    Json,
    Csv,
}

impl Plan {
    /// Slices per interval of the results or line of the log, about a second of them.
    pub fn interval_slices(&self) -> Option<usize> {
        (self.intervals || self.hdr_log.is_some()).then(|| (1000 / self.slice_ms).max(1) as usize)
    }

    /// Usage failures that no single phase has.
    pub fn check(&self) -> Result<(), Failure> {
        let threads = self.most_threads();
        require(
            !self.cluster || self.phases.iter().all(|phase| !phase.mode.has_own_commands()),
            "modes pubsub, blocking and replay are for one server",
            "leave --cluster out",
        )?;
        require(
            !self.cluster || self.phases.iter().all(|phase| !phase.prefill && phase.expect.keys.is_none()),
            "keys of a cluster can be neither prefilled nor counted",
            "leave --prefill or --cluster out",
        )?;
        require(
            !self.cluster || self.phases.iter().all(|phase| phase.keys.bytes.is_none()),
            "keys of a cluster have tags, so their length cannot be chosen",
            "leave the bytes of keys or --cluster out",
        )?;
        require(
            self.recovery.is_none() || self.phases.iter().all(|phase| phase.mode.sends()),
            "--reconnect-on-error is given for a mode that only opens connections or waits",
            "give it in a closed or open loop",
        )?;
        require(
            self.recovery.is_none() || self.phases.iter().all(|phase| phase.verify == 0.0),
            "--reconnect-on-error is given beside verify, which must see every reply",
            "leave one of them out",
        )?;
        require(
            self.database == 0 || self.phases.iter().all(|phase| !matches!(phase.mode, Mode::Replay(_))),
            "--dbnum is given beside a recording, whose requests have databases of their own",
            "leave it out",
        )?;
        require(
            self.cpus.is_empty() || self.cpus.len() >= threads,
            "--cpus names fewer CPUs than there are threads",
            "name one CPU per thread",
        )?;
        require(
            (1..=3_600_000).contains(&self.slice_ms),
            "--slice-ms is outside of 1 to 3600000",
            "100 is usual",
        )?;
        let shortest = Duration::from_millis(FEWEST_SLICES * self.slice_ms);
        require(
            self.phases.iter().all(|phase| phase.warmup_most.is_none_or(|most| most >= shortest)),
            &format!("a warm-up until the load is steady cannot end within {shortest:?}"),
            "allow more time, or narrower slices",
        )?;
        let pid_ok = self.server_pid.is_none_or(|pid| (1..=1 << 22).contains(&pid));
        require(
            self.server_events.is_empty() || self.server_pid.is_some(),
            "--server-events needs the process",
            "give its id with --server-pid",
        )?;
        require(pid_ok, "--server-pid is not a process id", "give the pid of the server")
    }

    pub fn most_threads(&self) -> usize {
        self.phases.iter().map(|phase| phase.threads).max().unwrap_or(1)
    }
}

/// A usage failure when two phases have the same name, as results are identified by it.
pub fn check_names(phases: &[Phase]) -> Result<(), Failure> {
    let twice = |(at, phase): &(usize, &Phase)| phases[..*at].iter().any(|other| other.name == phase.name);
    match phases.iter().enumerate().find(twice) {
        None => Ok(()),
        Some((_, phase)) => Err(Failure::usage(
            format!("two tests or phases are called {}", phase.name),
            "leave one out, or give it a name of its own in a workload file",
        )),
    }
}
