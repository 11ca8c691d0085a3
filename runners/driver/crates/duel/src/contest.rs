//! The alternation: pairs of slices, one of each side, in an order that is drawn for each pair.

use std::io;

use serde::Serialize;

use crate::plan::DuelPlan;
use crate::sides::{Side, Sides};
use engine::connected::Connected;
use engine::job::Job;
use engine::progress::Shared;
use engine::record::Record;
use engine::stage::Stage;
use generator::rng::Rng;
use machine::{clock, process};
use text::failure::Failure;
use text::units::round;
use workload::traffic::Traffic;

/// The orders of pairs have this stream; those below 2^32 are of the requests.
const ORDERS: u64 = u64::MAX - 2;

/// One slice, as the document has it. Nothing is in flight at its edges, on either side.
#[derive(Debug, Clone, Serialize)]
pub struct Slice {
    pub side: Side,
    /// Begin on CLOCK_MONOTONIC, and the time to the last reply.
    pub began_ns: u64,
    pub ns: u64,
    pub requests: u64,
    pub errors: u64,
    /// How many latencies were taken, and their percentiles; 0 of none.
    pub latencies: u64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    /// CPU time of the server that was asked, and of the other one meanwhile; null without their pids.
    pub server_cpu_ns: Option<u64>,
    pub resting_cpu_ns: Option<u64>,
    pub client_cpu_ns: u64,
}

/// A slice with all that was counted in it.
pub struct Measured {
    pub slice: Slice,
    pub record: Record,
}

impl Sides<Measured> {
    /// The two slices of a pair in the order of time.
    pub fn in_order(self) -> [Measured; 2] {
        match self.base.slice.began_ns <= self.head.slice.began_ns {
            true => [self.base, self.head],
            false => [self.head, self.base],
        }
    }
}

/// One server, with its connections.
struct Contender<'a> {
    connections: Box<dyn Connected + 'a>,
    address: String,
    pid: Option<u32>,
}

/// Two servers, whose connections are open at once and take turns.
pub struct Contest<'a> {
    contenders: Sides<Contender<'a>>,
    /// Why the CPU clock of a side is not read any more.
    pub unreadable: Sides<Option<Failure>>,
    orders: Rng,
}

impl<'a> Contest<'a> {
    /// Open the connections of both loads. `number` tells this contest from others of the plan.
    pub fn open(
        plan: &DuelPlan,
        number: u64,
        loads: Sides<(&'a Traffic, &'a Job)>,
        shared: &'a Shared,
    ) -> Result<Contest<'a>, Failure> {
        let contenders = Sides::try_each(|side| {
            let (traffic, job) = *loads.of(side);
            let server = plan.sides.of(side);
            let address = server.target.address.to_string();
            let connections =
                traffic.connect(job, shared).map_err(|failure| placed(failure, side, &address))?;
            Ok(Contender { connections, address, pid: server.server_pid })
        })?;
        let orders = Rng::stream(plan.common().seed, ORDERS - number);
        Ok(Contest { contenders, unreadable: Sides::default(), orders })
    }

    /// A slice of each side, the first one by lot.
    pub fn pair(&mut self, stage: Stage) -> Result<Sides<Measured>, Failure> {
        match self.orders.below(2) {
            0 => {
                let base = self.slice(Side::Base, stage)?;
                Ok(Sides { base, head: self.slice(Side::Head, stage)? })
            }
            _ => {
                let head = self.slice(Side::Head, stage)?;
                Ok(Sides { base: self.slice(Side::Base, stage)?, head })
            }
        }
    }

    fn slice(&mut self, side: Side, stage: Stage) -> Result<Measured, Failure> {
        let before = self.server_clocks();
        let contender = self.contenders.of_mut(side);
        let driven = contender.connections.drive(&stage.span(clock::now()));
        let record = driven.map_err(|failure| placed(failure, side, &contender.address))?;
        let after = self.server_clocks();
        let used = |side: Side| after.of(side).zip(*before.of(side)).map(|(after, before)| after - before);
        let slice = Slice {
            side,
            began_ns: record.opened_at,
            ns: record.closed_at - record.opened_at,
            requests: record.inside.replies,
            errors: record.inside.errors,
            latencies: record.latency.count(),
            latency_us_p50: us(record.latency.quantile(0.5)),
            latency_us_p99: us(record.latency.quantile(0.99)),
            server_cpu_ns: used(side),
            resting_cpu_ns: used(side.other()),
            client_cpu_ns: record.usage.cpu_ns(),
        };
        Ok(Measured { slice, record })
    }

    /// The CPU clocks as far as they can be read. One that cannot is not tried again.
    fn server_clocks(&mut self) -> Sides<Option<u64>> {
        Sides::each(|side| {
            let pid = &mut self.contenders.of_mut(side).pid;
            let clock = server_clock(side, (*pid)?);
            clock
                .inspect_err(|failure| {
                    *pid = None;
                    *self.unreadable.of_mut(side) = Some(failure.clone());
                })
                .ok()
        })
    }
}

fn us(ns: u64) -> f64 {
    round(ns as f64 / 1000.0, 3)
}

/// The CPU time that the server of `side` has used.
pub fn server_clock(side: Side, pid: u32) -> Result<u64, Failure> {
    process::process_cpu_ns(pid).map_err(|error| unreadable(side, pid, "CPU clock", &error))
}

/// That the `what` of process `pid`, which should be the server of `side`, cannot be read.
pub fn unreadable(side: Side, pid: u32, what: &str, error: &io::Error) -> Failure {
    let side = side.name();
    Failure::run(
        format!("cannot read the {what} of process {pid} ({error}), so {side} is measured without"),
        format!("give --{side}-pid the id of the running server, in this pid namespace"),
    )
}

/// `failure`, with the server that it is of.
pub fn placed(failure: Failure, side: Side, address: &str) -> Failure {
    failure.within(format!("{} ({address})", side.name()))
}
