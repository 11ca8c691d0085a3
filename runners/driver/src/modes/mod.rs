//! What connections do besides sending requests as fast as the server answers: nothing, coming and going, listening,
//! waiting. Each mode counts with the meter of the load, so a result has the same fields and means the same.

pub mod churn;
pub mod idle;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde::Serialize;

use crate::crew::{self, Outcome};
use crate::dial::Moments;
use crate::document::LatencyUs;
use crate::failure::Failure;
use crate::histogram::Histogram;
use crate::job::Job;
use crate::plan::Mode;
use crate::proto::resp::Resp;
use crate::stage::Stage;
use crate::workload::Speech;

/// Silent servers and failed neighbours are looked for this often.
const PATROL_NS: u64 = 10_000_000;

/// What a mode found out besides the counts and latencies of its requests; none of what it does not look at.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    pub connections: Option<Connections>,
}

/// One stage of `job` in a mode in which connections do not just send again and again.
pub fn run(mode: &Mode, speech: &Speech, job: &Job, stage: Stage) -> Result<(Outcome, Findings), Failure> {
    let (outcome, connections) = match (mode, speech) {
        (Mode::Idle, Speech::Resp(_)) => idle::run(&Resp, job, stage),
        (Mode::Idle, Speech::Memcached(load)) => idle::run(&load.proto, job, stage),
        (_, Speech::Resp(_)) => churn::run(&Resp, job, stage),
        (_, Speech::Memcached(load)) => churn::run(&load.proto, job, stage),
    }?;
    Ok((outcome, Findings { connections: Some(connections) }))
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

/// Do `work` on each thread of `job`, given its number and whether another has failed: the results in their order.
fn on_threads<T: Send>(
    job: &Job,
    work: impl Fn(usize, &AtomicBool) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let failed = AtomicBool::new(false);
    let one = |thread: usize| {
        let done = crew::pin(job, thread).and_then(|()| work(thread, &failed));
        failed.fetch_or(done.is_err(), Ordering::Relaxed);
        done
    };
    let done: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..job.threads).map(|thread| scope.spawn(move || one(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread does not panic")).collect()
    });
    // Whoever gave up because of another says less than the other.
    let (stopped, told): (Vec<_>, Vec<_>) = done
        .into_iter()
        .partition(|done: &Result<T, Failure>| done.as_ref().is_err_and(|it| *it == stopped()));
    told.into_iter().chain(stopped).collect()
}

fn stopped() -> Failure {
    Failure::run("stopped because another thread failed", "see its message")
}
