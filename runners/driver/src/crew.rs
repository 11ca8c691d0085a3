//! The threads of one workload: connect all, then go through the stages together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::batch::{Batch, Keys, ValuePool};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::meter::Record;
use crate::net::Target;
use crate::proto::{Proto, Test};
use crate::rng::Rng;
use crate::stage::{Span, Stage, share};
use crate::sys;
use crate::worker::Worker;

/// In which order the keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrder {
    Uniform,
    EachOnce,
}

/// One workload against one server.
pub struct Job {
    pub target: Target,
    pub test: Test,
    pub clients: usize,
    pub threads: usize,
    pub pipeline: usize,
    pub keyspace: u64,
    pub key_order: KeyOrder,
    pub value_bytes: usize,
    pub values: ValuePool,
    pub seed: u64,
    /// CPU of each thread; empty when they are not pinned.
    pub cpus: Vec<usize>,
    pub server_pid: Option<u32>,
    pub slice_ns: u64,
    pub allow_errors: bool,
}

impl Job {
    pub fn timeout_ns(&self) -> u64 {
        self.target.timeout.as_nanos() as u64
    }

    /// Open connection number `index`. Its requests depend on the seed and on `index`, not on the thread.
    pub fn connect<P: Proto>(&self, proto: &P, index: usize) -> Result<Connection<P::Replies>, Failure> {
        let batch = Batch::new(
            proto.template(self.test, self.value_bytes),
            self.pipeline,
            self.keys(index),
            self.values.clone(),
            Rng::stream(self.seed, index as u64),
        );
        let replies = proto.replies(self.test, self.value_bytes);
        Ok(Connection::new(self.target.connect()?, batch, replies))
    }

    fn keys(&self, index: usize) -> Keys {
        match self.key_order {
            KeyOrder::Uniform => Keys::Uniform { keyspace: self.keyspace },
            KeyOrder::EachOnce => {
                let part = share(self.keyspace, index, self.clients);
                Keys::Each(part.first..part.first + part.count)
            }
        }
    }
}

/// The span of the last stage and what each thread counted in it.
pub struct Outcome {
    pub span: Span,
    pub records: Vec<Record>,
}

/// A thread says that it is connected (no record), or what it counted, or why it gave up.
type Report = Result<Option<Record>, Failure>;

/// Run `stages` one after the other on the same connections.
pub fn run<P: Proto>(proto: &P, job: &Job, stages: &[Stage]) -> Result<Outcome, Failure> {
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let (report, reports) = channel();
        let mut orders = Vec::new();
        for thread in 0..job.threads {
            let (order, spans) = channel();
            orders.push(order);
            let (report, failed) = (report.clone(), &failed);
            scope.spawn(move || work(proto, job, thread, failed, &spans, &report));
        }
        let outcome = command(&orders, &reports, stages);
        failed.store(outcome.is_err(), Ordering::Relaxed);
        outcome
    })
}

/// The life of a thread: its return ends the thread, and so does the end of `spans`.
fn work<P: Proto>(
    proto: &P,
    job: &Job,
    thread: usize,
    failed: &AtomicBool,
    spans: &Receiver<Span>,
    report: &Sender<Report>,
) {
    // The crew has gone when a report cannot be sent, and nobody is left to tell.
    let tell = |told: Report| report.send(told).is_ok();
    let connected = pin(job, thread).and_then(|()| Worker::connect(proto, job, thread, failed));
    let mut worker = match connected {
        Ok(worker) => worker,
        Err(failure) => {
            tell(Err(failure));
            return;
        }
    };
    let mut going = tell(Ok(None));
    while let (true, Ok(span)) = (going, spans.recv()) {
        let record = worker.run(&span);
        let failed = record.is_err();
        going = tell(record.map(Some)) && !failed;
    }
}

fn pin(job: &Job, thread: usize) -> Result<(), Failure> {
    match job.cpus.get(thread) {
        None => Ok(()),
        Some(&cpu) => pin_to(&[cpu]),
    }
}

/// Pin the calling thread to `cpus`.
pub fn pin_to(cpus: &[usize]) -> Result<(), Failure> {
    sys::pin(cpus).map_err(|error| {
        Failure::run(
            format!("cannot pin a thread to CPU {cpus:?} ({error})"),
            "give --cpus CPUs that exist and that this process may use (taskset -p)",
        )
    })
}

fn command(
    orders: &[Sender<Span>],
    reports: &Receiver<Report>,
    stages: &[Stage],
) -> Result<Outcome, Failure> {
    gather(reports, orders.len())?;
    let mut outcome = Outcome { span: Stage::WarmUp { ns: 0 }.span(0), records: Vec::new() };
    for stage in stages {
        let span = stage.span(sys::now());
        for order in orders {
            // A thread that is gone has reported why; gather returns that.
            let _ = order.send(span);
        }
        outcome = Outcome { span, records: gather(reports, orders.len())? };
    }
    Ok(outcome)
}

/// One report of each thread, or the first failure.
fn gather(reports: &Receiver<Report>, threads: usize) -> Result<Vec<Record>, Failure> {
    let mut records = Vec::new();
    for report in reports.iter().take(threads) {
        records.extend(report?);
    }
    Ok(records)
}
