//! What a duel is asked to do, checked: one load for two servers.

use std::time::Duration;

use crate::sides::{Side, Sides};
use text::checks::require;
use text::failure::Failure;
use workload::mode::Mode;
use workload::phase::{Length, Phase};
use workload::plan::Plan;

/// The width of the slices of a warm-up, ms.
pub const WARMUP_SLICE_MS: u64 = 50;
/// No slice is wider, ms ...
const WIDEST_MS: u64 = 10_000;
/// ... and none is that is chosen here.
pub const WIDEST_CHOSEN_MS: u64 = 100;
/// Each slice begins a schedule anew, so that one with few requests would change the rate.
const FEWEST_DUE: f64 = 10.0;
const LARGEST_PID: u32 = 1 << 22;

#[derive(Debug, Clone)]
pub struct DuelPlan {
    /// The same load for both. Their slices are those of the warm-up.
    pub sides: Sides<Plan>,
    /// The width of the measured slices; chosen after the warm-up if it is not given.
    pub slice_ms: Option<u64>,
}

impl DuelPlan {
    /// The plan of either side, for what is the same on both.
    pub fn common(&self) -> &Plan {
        &self.sides.base
    }

    /// Whether both sides are one server, as far as address and process tell.
    pub fn is_one_server(&self) -> bool {
        let Sides { base, head } = &self.sides;
        let is_one_process = base.server_pid.is_some() && base.server_pid == head.server_pid;
        base.target.address == head.target.address || is_one_process
    }

    /// Usage failures.
    pub fn check(&self) -> Result<(), Failure> {
        self.check_pids()?;
        require(
            self.slice_ms.is_none_or(|ms| (1..=WIDEST_MS).contains(&ms)),
            "--slice-ms is outside of 1 to 10000",
            "20 to 100 is usual",
        )?;
        let widest_ms = self.slice_ms.unwrap_or(WIDEST_CHOSEN_MS);
        let phases = &self.common().phases;
        let (last, earlier) = phases.split_last().expect("a plan has a phase");
        let measured = earlier.iter().filter(|phase| counted(phase).is_none()).chain([last]);
        measured.into_iter().try_for_each(|phase| check_phase(phase, widest_ms))?;
        self.common().check()
    }

    fn check_pids(&self) -> Result<(), Failure> {
        for side in Side::BOTH {
            let pid = self.sides.of(side).server_pid;
            require(
                pid.is_none_or(|pid| (1..=LARGEST_PID).contains(&pid)),
                &format!("--{}-pid is not a process id", side.name()),
                "give the pid of the server",
            )?;
            require(
                pid.is_none() || self.sides.of(side.other()).server_pid.is_some(),
                &format!("--{}-pid is given alone", side.name()),
                "give the pids of both servers, or none",
            )?;
        }
        Ok(())
    }
}

fn check_phase(phase: &Phase, widest_ms: u64) -> Result<(), Failure> {
    let name = &phase.name;
    require(
        matches!(phase.mode, Mode::Closed | Mode::Open { .. }),
        &format!("{name} has mode {}, which has no slices", phase.mode.name()),
        "a duel is a closed loop, or an open one with one rate (--rate)",
    )?;
    if let Mode::Open { rate, .. } = phase.mode {
        require(
            rate * widest_ms as f64 / 1000.0 >= FEWEST_DUE,
            &format!("{name} has fewer than 10 requests in a slice of {widest_ms} ms"),
            "raise --rate or --slice-ms",
        )?;
    }
    require(
        phase.threads == 1,
        &format!("{name} has {} threads", phase.threads),
        "the slices of a duel are driven by one thread, so leave --threads out",
    )?;
    require(
        phase.probe.is_none(),
        &format!("{name} has a probe, which would load one server while the other is measured"),
        "leave it out",
    )?;
    require(
        matches!(phase.length, Length::Lasting(_)),
        &format!("{name} is a number of requests"),
        "a duel alternates by time, so give the seconds of each side (--duration)",
    )
}

/// The requests of a phase that has a number of them. Before another phase it prepares both servers.
pub fn counted(phase: &Phase) -> Option<u64> {
    match phase.length {
        Length::Requests(requests) => Some(requests),
        Length::Lasting(_) => None,
    }
}

/// The length of the window of each side.
pub fn window(phase: &Phase) -> Duration {
    match phase.length {
        Length::Lasting(window) => window,
        Length::Requests(_) => Duration::ZERO,
    }
}
