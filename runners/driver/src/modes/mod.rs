//! What connections do besides sending requests as fast as the server answers: nothing, coming and going, listening,
//! waiting. Each mode counts with the meter of the load, so a result has the same fields and means the same.

pub mod blocking;
pub mod churn;
pub mod idle;
mod line;
pub mod pubsub;
mod stamp;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde::Serialize;

use crate::crew::{self, Outcome};
use crate::dial::Moments;
use crate::document::LatencyUs;
use crate::failure::Failure;
use crate::histogram::Histogram;
use crate::job::Job;
use crate::plan::{Mode, Phase};
use crate::proto::resp::Resp;
use crate::schedule::{Arrivals, Law, Schedule, Seat};
use crate::stage::{Span, Stage};
use crate::sys;
use crate::workload::Speech;

/// Silent servers and failed neighbours are looked for this often.
const PATROL_NS: u64 = 10_000_000;

/// What a mode found out besides the counts and latencies of its requests; none of what it does not look at.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    pub connections: Option<Connections>,
    pub fanout: Option<pubsub::Fanout>,
    pub wakeup: Option<blocking::Wakeup>,
}

/// One stage of `job` in a mode in which connections do not just send again and again.
pub fn run(phase: &Phase, speech: &Speech, job: &Job, stage: Stage) -> Result<(Outcome, Findings), Failure> {
    let value_bytes = phase.values.largest();
    match (&phase.mode, speech) {
        (Mode::Idle, Speech::Resp(script)) => idle::run(&Resp::of(script), job, stage).map(found_connections),
        (Mode::Idle, Speech::Memcached(load)) => idle::run(&load.proto, job, stage).map(found_connections),
        (Mode::PubSub(setting), _) => pubsub::run(job, setting, value_bytes, stage)
            .map(|(outcome, fanout)| (outcome, Findings { fanout: Some(fanout), ..Findings::default() })),
        (Mode::Blocking(setting), _) => blocking::run(job, setting, value_bytes, stage)
            .map(|(outcome, wakeup)| (outcome, Findings { wakeup: Some(wakeup), ..Findings::default() })),
        (_, Speech::Resp(script)) => churn::run(&Resp::of(script), job, stage).map(found_connections),
        (_, Speech::Memcached(load)) => churn::run(&load.proto, job, stage).map(found_connections),
    }
}

fn found_connections((outcome, connections): (Outcome, Connections)) -> (Outcome, Findings) {
    (outcome, Findings { connections: Some(connections), ..Findings::default() })
}

/// When taker `index` of `takers`, which do something `rate` times per second together in turn, is to do it.
fn schedule(rate: f64, index: usize, takers: usize, span: &Span) -> Schedule {
    let arrivals = Arrivals { rate, law: Law::Fixed, series: 0 };
    Schedule::new(arrivals, Seat { seed: 0, index, clients: takers, unit: 1 }, sys::now(), span.ends_at)
}

/// The next moment of `schedule` if it is not after `now`.
fn due(schedule: &mut Schedule, now: u64) -> Option<u64> {
    (schedule.due() <= now).then(|| schedule.take())
}

/// How connections were opened, and what became of them.
#[derive(Debug, Serialize)]
pub struct Connections {
    pub opened: u64,
    /// Not opened, or broken before their time.
    pub lost: u64,
    pub first_loss: Option<String>,
    pub connect_us: LatencyUs,
    pub tls_us: Option<LatencyUs>,
    pub login_us: Option<LatencyUs>,
    /// From the open connection to the first reply on it.
    pub first_reply_us: LatencyUs,
    pub server_memory: Option<idle::ServerMemory>,
}

/// The parts of opening a connection, in ns.
#[derive(Clone, Default)]
struct Openings {
    connect: Histogram,
    tls: Histogram,
    login: Histogram,
    first_reply: Histogram,
    lost: u64,
    first_loss: Option<String>,
}

impl Openings {
    fn opened(&mut self, moments: Moments) {
        self.connect.record(moments.connected - moments.began, 1);
        self.tls.record(moments.secured - moments.connected, 1);
        self.login.record(moments.open - moments.secured, 1);
    }

    /// Count a lost connection if errors are allowed and the server's.
    fn lose(&mut self, job: &Job, failure: Failure) -> Result<(), Failure> {
        if !job.allow_errors || matches!(failure, Failure::Machine(_)) {
            return Err(failure);
        }
        self.lost += 1;
        self.first_loss.get_or_insert_with(|| failure.to_string());
        Ok(())
    }

    fn merge(&mut self, other: &Openings) {
        self.connect.merge(&other.connect);
        self.tls.merge(&other.tls);
        self.login.merge(&other.login);
        self.first_reply.merge(&other.first_reply);
        self.lost += other.lost;
        self.first_loss = self.first_loss.take().or_else(|| other.first_loss.clone());
    }

    fn report(self, job: &Job, server_memory: Option<idle::ServerMemory>) -> Connections {
        let target = &job.nodes[0].target;
        Connections {
            opened: self.connect.count(),
            lost: self.lost,
            connect_us: LatencyUs::of(&self.connect),
            tls_us: target.tls.is_some().then(|| LatencyUs::of(&self.tls)),
            login_us: (!target.greeting.is_empty()).then(|| LatencyUs::of(&self.login)),
            first_reply_us: LatencyUs::of(&self.first_reply),
            first_loss: self.first_loss,
            server_memory,
        }
    }
}

/// Do each of `works` on a thread of its own, told whether another has failed: the results in their order.
fn on_threads<W: Send, T: Send>(
    job: &Job,
    works: Vec<W>,
    run: impl Fn(W, &AtomicBool) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let failed = AtomicBool::new(false);
    let one = |thread: usize, work: W| {
        let done = crew::pin(job, thread).and_then(|()| run(work, &failed));
        failed.fetch_or(done.is_err(), Ordering::Relaxed);
        done
    };
    let one = &one;
    let done: Vec<_> = thread::scope(|scope| {
        let works = works.into_iter().enumerate();
        let threads: Vec<_> = works.map(|(thread, work)| scope.spawn(move || one(thread, work))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread does not panic")).collect()
    });
    // Whoever gave up because of another says less than the other.
    let gave_up = |done: &Result<T, Failure>| done.as_ref().is_err_and(|failure| *failure == stopped());
    match done.iter().position(|done| done.is_err() && !gave_up(done)) {
        Some(at) => done.into_iter().nth(at).into_iter().collect(),
        None => done.into_iter().collect(),
    }
}

fn stopped() -> Failure {
    Failure::run("stopped because another thread failed", "see its message")
}
