//! The threads of one workload: connect all, then go through the stages together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::failure::Failure;
use crate::job::Job;
use crate::meter::Record;
use crate::proto::Proto;
use crate::schedule::{Arrivals, Law};
use crate::stage::{Span, Stage};
use crate::sys;
use crate::worker::Worker;

/// How often the watcher of a run is told how far it is.
const TOLD_EVERY: Duration = Duration::from_millis(250);

/// Files that are no connections: those of the standard streams, of epoll, of the clock of the server and so on.
const OTHER_FILES: usize = 32;

/// The series of a probe begin here.
const PROBE_SERIES: u32 = 1 << 31;

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

    /// Of the first `threads`.
    fn progress(&self, threads: usize) -> Progress {
        let beats = &self.beats[..threads];
        let sum = |of: fn(&Beat) -> &AtomicU64| beats.iter().map(|b| of(b).load(Ordering::Relaxed)).sum();
        Progress { replies: sum(|beat| &beat.replies), latency_ns: sum(|beat| &beat.latency_ns) }
    }
}

/// The span of a stage and what each thread counted in it.
pub struct Outcome {
    pub span: Span,
    pub records: Vec<Record>,
    pub probe: Option<Record>,
}

/// Names the next stage, told the outcome of the one before; none ends the run.
pub type Director<'a> = &'a mut dyn FnMut(Option<Outcome>) -> Option<Stage>;

/// A thread says that it is connected (no record), or what it counted, or why it gave up.
type Report = Result<Option<(usize, Record)>, Failure>;

/// Run `stages` one after the other on the same connections; the outcome of the last.
pub fn run<P: Proto>(proto: &P, job: &Job, stages: &[Stage], watcher: Watcher) -> Result<Outcome, Failure> {
    in_turn(stages, |director| direct(proto, job, director, watcher))
}

/// Let `direct` run `stages` one after the other; the outcome of the last.
pub fn in_turn(
    stages: &[Stage],
    direct: impl FnOnce(Director) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let (mut stages, mut last) = (stages.iter().copied(), None);
    direct(&mut |outcome: Option<Outcome>| {
        last = outcome;
        stages.next()
    })?;
    Ok(last.expect("there is a stage"))
}

/// Run the stages that `director` names on the same connections.
pub fn direct<P: Proto>(proto: &P, job: &Job, director: Director, watcher: Watcher) -> Result<(), Failure> {
    require_files(job.clients, job.threads)?;
    let threads = job.threads + usize::from(job.probe.is_some());
    let shared = Shared::new(threads);
    thread::scope(|scope| {
        let (report, reports) = channel();
        let mut orders = Vec::new();
        for thread in 0..threads {
            let (order, spans) = channel();
            orders.push(order);
            let (report, shared) = (report.clone(), &shared);
            scope.spawn(move || work(proto, job, thread, shared, &spans, &report));
        }
        let end = command(job, &orders, &reports, director, &mut || watcher(shared.progress(job.threads)));
        shared.failed.store(end.is_err(), Ordering::Relaxed);
        end
    })
}

/// A failure when this process may not open as many files as `connections` need, of which each of `threads` with a
/// table of its own has its share.
pub fn require_files(connections: usize, threads: usize) -> Result<(), Failure> {
    let (each, limit) = (connections.div_ceil(threads), sys::raise_file_limit());
    match (each + OTHER_FILES) as u64 <= limit {
        true => Ok(()),
        false => Err(Failure::machine(
            format!("{each} connections of a thread need more files than the {limit} that it may open"),
            format!(
                "raise the hard limit (ulimit -Hn) to at least {}, or lower the number of clients",
                each + OTHER_FILES
            ),
        )),
    }
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
    sys::wake_punctually();
    sys::own_descriptors();
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
        going = tell(record.map(|record| Some((thread, record)))) && !failed;
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
    job: &Job,
    orders: &[Sender<Span>],
    reports: &Receiver<Report>,
    director: Director,
    tell: &mut dyn FnMut(),
) -> Result<(), Failure> {
    gather(reports, orders.len(), &mut || ())?;
    let mut last = None;
    while let Some(stage) = director(last) {
        let span = stage.span(sys::now());
        let (load, probe) = orders.split_at(job.threads);
        for (orders, span) in [(load, span), (probe, probing(job, span))] {
            for order in orders {
                // A thread that is gone has reported why; gather returns that.
                let _ = order.send(span);
            }
        }
        let mut records = gather(reports, orders.len(), tell)?;
        let probe = job.probe.and_then(|_| records.pop());
        last = Some(Outcome { span, records, probe });
    }
    Ok(())
}

/// What the probe does in `span`.
///
/// Its moments are of chance, so what it meets is what holds on average over time (Wolff 1982: Poisson arrivals see
/// time averages), whatever the rhythm of the load.
fn probing(job: &Job, span: Span) -> Span {
    let series = span.arrivals.map_or(0, |arrivals| arrivals.series);
    let arrivals = job.probe.map(|probe| Arrivals {
        rate: probe.rate,
        law: Law::Poisson,
        series: series + PROBE_SERIES,
    });
    Span { arrivals, ..span }
}

/// One report of each thread, in their order, or the first failure. Meanwhile `tell` is called now and then.
fn gather(
    reports: &Receiver<Report>,
    threads: usize,
    tell: &mut dyn FnMut(),
) -> Result<Vec<Record>, Failure> {
    let (mut told, mut missing) = (Vec::new(), threads);
    while missing > 0 {
        match reports.recv_timeout(TOLD_EVERY) {
            Ok(report) => {
                told.extend(report?);
                missing -= 1;
            }
            Err(RecvTimeoutError::Timeout) => tell(),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::run("a thread ended without a word", "report this as a defect"));
            }
        }
    }
    told.sort_unstable_by_key(|(thread, _)| *thread);
    Ok(told.into_iter().map(|(_, record)| record).collect())
}
