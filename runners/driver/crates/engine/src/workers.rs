//! The threads of one workload: connect all, then go through the stages together.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::job::Job;
use crate::outcome::{Director, Outcome};
use crate::progress::{Shared, Watcher};
use crate::record::Record;
use crate::resources::{pin, require_files};
use crate::schedule::{Arrivals, Law};
use crate::stage::{Span, Stage};
use crate::worker::Worker;
use machine::{clock, this_thread};
use protocol::replies::Proto;
use text::failure::Failure;

/// How often the watcher of a run is told how far it is.
const TOLD_EVERY: Duration = Duration::from_millis(250);
/// The series of a probe begin here.
const PROBE_SERIES: u32 = 1 << 31;
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
    this_thread::wake_punctually();
    this_thread::own_descriptors();
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
        let span = stage.span(clock::now());
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
