//! The threads of one workload: connect all, then go through the stages together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::failure::Failure;
use crate::job::Job;
use crate::meter::Record;
use crate::proto::Proto;
use crate::stage::{Span, Stage};
use crate::sys;
use crate::worker::Worker;

/// How often the watcher of a run is told how far it is.
const TOLD_EVERY: Duration = Duration::from_millis(250);

/// How far a run is: replies counted in the window, and the sum of their latencies in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub replies: u64,
    pub latency_ns: u64,
}

/// Is told of the progress now and then while a stage lasts.
pub type Watcher<'a> = &'a mut dyn FnMut(Progress);

/// The progress of one thread, on a cache line of its own; written a few times per second.
#[derive(Default)]
#[repr(align(128))]
struct Beat {
    replies: AtomicU64,
    latency_ns: AtomicU64,
}

/// All that threads tell each other.
pub struct Shared {
    /// Another thread gave up.
    pub failed: AtomicBool,
    beats: Vec<Beat>,
}

impl Shared {
    fn new(threads: usize) -> Shared {
        Shared { failed: AtomicBool::new(false), beats: (0..threads).map(|_| Beat::default()).collect() }
    }

    pub fn beat(&self, thread: usize, (replies, latency_ns): (u64, u64)) {
        self.beats[thread].replies.store(replies, Ordering::Relaxed);
        self.beats[thread].latency_ns.store(latency_ns, Ordering::Relaxed);
    }

    fn progress(&self) -> Progress {
        let sum =
            |of: fn(&Beat) -> &AtomicU64| self.beats.iter().map(|b| of(b).load(Ordering::Relaxed)).sum();
        Progress { replies: sum(|beat| &beat.replies), latency_ns: sum(|beat| &beat.latency_ns) }
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
pub fn run<P: Proto>(proto: &P, job: &Job, stages: &[Stage], watcher: Watcher) -> Result<Outcome, Failure> {
    sys::raise_file_limit();
    let shared = Shared::new(job.threads);
    thread::scope(|scope| {
        let (report, reports) = channel();
        let mut orders = Vec::new();
        for thread in 0..job.threads {
            let (order, spans) = channel();
            orders.push(order);
            let (report, shared) = (report.clone(), &shared);
            scope.spawn(move || work(proto, job, thread, shared, &spans, &report));
        }
        let outcome = command(&orders, &reports, stages, &mut || watcher(shared.progress()));
        shared.failed.store(outcome.is_err(), Ordering::Relaxed);
        outcome
    })
}

/// The life of a thread: its return ends the thread, and so does the end of `spans`.
fn work<P: Proto>(
    proto: &P,
    job: &Job,
    thread: usize,
    shared: &Shared,
    spans: &Receiver<Span>,
    report: &Sender<Report>,
) {
    // The crew has gone when a report cannot be sent, and nobody is left to tell.
    let tell = |told: Report| report.send(told).is_ok();
    let connected = pin(job, thread).and_then(|()| Worker::connect(proto, job, thread, shared));
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

/// Pin the calling thread, number `thread` of the job, as the job wants it.
pub fn pin(job: &Job, thread: usize) -> Result<(), Failure> {
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
    tell: &mut dyn FnMut(),
) -> Result<Outcome, Failure> {
    gather(reports, orders.len(), &mut || ())?;
    let mut outcome = Outcome { span: Stage::WarmUp { ns: 0 }.span(0), records: Vec::new() };
    for stage in stages {
        let span = stage.span(sys::now());
        for order in orders {
            // A thread that is gone has reported why; gather returns that.
            let _ = order.send(span);
        }
        outcome = Outcome { span, records: gather(reports, orders.len(), tell)? };
    }
    Ok(outcome)
}

/// One report of each thread, or the first failure. Meanwhile `tell` is called now and then.
fn gather(
    reports: &Receiver<Report>,
    threads: usize,
    tell: &mut dyn FnMut(),
) -> Result<Vec<Record>, Failure> {
    let (mut records, mut missing) = (Vec::new(), threads);
    while missing > 0 {
        match reports.recv_timeout(TOLD_EVERY) {
            Ok(report) => {
                records.extend(report?);
                missing -= 1;
            }
            Err(RecvTimeoutError::Timeout) => tell(),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::run("a thread ended without a word", "report this as a defect"));
            }
        }
    }
    Ok(records)
}
