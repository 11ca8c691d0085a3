//! The threads of one workload: connect all, then go through the stages together.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::job::Job;
use crate::outcome::{Cut, Outcome, StageSource};
use crate::progress::{Shared, Watcher};
use crate::record::Record;
use crate::resources::{check_signals, pin, require_files};
use crate::schedule::{ArrivalProcess, Arrivals};
use crate::stage::{Span, Stage};
use crate::worker::Worker;
use machine::{clock, this_thread};
use protocol::replies::Protocol;
use text::failure::Failure;
use text::units::seconds;

/// How often the progress of a run is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// The series of a probe begin here.
const PROBE_SERIES: u32 = 1 << 31;
/// A thread says that it is connected (no record), or what it counted, or why it gave up.
type Report = Result<Option<(usize, Record)>, Failure>;

/// Run `stages` one after the other on the same connections; the outcome of the last, or of that which was cut short. A
/// failure when no reply was counted in that one.
pub fn run<P: Protocol>(
    proto: &P,
    job: &Job,
    stages: &[Stage],
    watcher: Watcher,
) -> Result<Outcome, Failure> {
    run_in_order(stages, |next_stage| run_from(proto, job, next_stage, watcher))
}

/// Let `run` go through `stages` one after the other; the outcome of the last that was run.
pub fn run_in_order(
    stages: &[Stage],
    run: impl FnOnce(StageSource) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let (mut stages, mut last) = (stages.iter().copied(), None);
    run(&mut |outcome: Option<Outcome>| {
        last = outcome;
        stages.next()
    })?;
    Ok(last.expect("there is a stage"))
}

/// Run the stages that `next_stage` names on the same connections.
pub fn run_from<P: Protocol>(
    proto: &P,
    job: &Job,
    next_stage: StageSource,
    watcher: Watcher,
) -> Result<(), Failure> {
    require_files(job.own_clients.len(), job.threads)?;
    check_signals()?;
    let threads = job.threads + usize::from(job.probe.is_some());
    let shared = Shared::new(threads, &job.nodes);
    thread::scope(|scope| {
        if job.recovery.is_some() && job.is_clustered() {
            let shared = &shared;
            scope.spawn(move || shared.topology.keep(&job.nodes));
        }
        let (report, reports) = channel();
        let mut orders = Vec::new();
        for thread in 0..threads {
            let (order, spans) = channel();
            orders.push(order);
            let (report, shared) = (report.clone(), &shared);
            scope.spawn(move || thread_main(proto, job, thread, shared, &spans, &report));
        }
        let end = coordinate(job, &shared, &orders, &reports, next_stage, &mut || {
            watcher(shared.progress(job.threads));
        });
        shared.stopped.store(end.is_err(), Ordering::Relaxed);
        job.scoreboard.iter().for_each(|board| board.end());
        shared.topology.end();
        end
    })
}

/// The main function of a thread, which ends when `spans` is closed.
fn thread_main<P: Protocol>(
    proto: &P,
    job: &Job,
    thread: usize,
    shared: &Shared,
    spans: &Receiver<Span>,
    report: &Sender<Report>,
) {
    // A report that cannot be sent has no receiver any more, so the error is ignored.
    let send = |message: Report| report.send(message).is_ok();
    this_thread::wake_punctually();
    this_thread::own_descriptors();
    let connected = pin(job, thread).and_then(|()| Worker::connect(proto, job, thread, shared));
    let mut worker = match connected {
        Ok(worker) => worker,
        Err(failure) => {
            send(Err(failure));
            return;
        }
    };
    let mut going = send(Ok(None));
    while let (true, Ok(span)) = (going, spans.recv()) {
        let record = worker.run(&span);
        let failed = record.cut.is_some();
        // The others stop before the coordinator knows why.
        shared.stopped.fetch_or(failed, Ordering::Relaxed);
        going = send(Ok(Some((thread, record)))) && !failed;
    }
}

fn coordinate(
    job: &Job,
    shared: &Shared,
    orders: &[Sender<Span>],
    reports: &Receiver<Report>,
    next_stage: StageSource,
    watch: &mut dyn FnMut(),
) -> Result<(), Failure> {
    collect_reports(reports, orders.len(), &mut || ())?;
    let mut begins_at = job.begins_at.map(|moment| wait_until(moment, &job.name)).transpose()?;
    let mut last = None;
    while let Some(stage) = next_stage(last) {
        let span = stage.span(begins_at.take().unwrap_or_else(clock::now));
        job.scoreboard.iter().for_each(|board| board.begin(span));
        let (load, probe) = orders.split_at(job.threads);
        for (orders, span) in [(load, span), (probe, probe_span(job, span))] {
            for order in orders {
                // A thread that is gone has reported why; `collect_reports` returns that.
                let _ = order.send(span);
            }
        }
        let mut records = collect_reports(reports, orders.len(), watch)?;
        let cut = first_cut(&mut records);
        let probe = job.probe.and_then(|_| records.pop());
        let outcome = Outcome { span, records, probe, cut };
        if outcome.cut.is_some() {
            shared.stopped.store(true, Ordering::Relaxed);
            return end_early(outcome, next_stage);
        }
        last = Some(outcome);
    }
    Ok(())
}

/// Wait for the agreed `moment`, monotonic ns, at which the load called `name` begins.
fn wait_until(moment: u64, name: &str) -> Result<u64, Failure> {
    let late = clock::now().saturating_sub(moment);
    if late > 0 {
        return Err(Failure::run(
            format!("{name} was ready {:.3} s after the time of --start-at", seconds(late)),
            "give a later one",
        ));
    }
    while let Some(left) = moment.checked_sub(clock::now()).filter(|left| *left > 0) {
        check_signals()?;
        thread::sleep(Duration::from_nanos(left).min(PROGRESS_EVERY));
    }
    check_signals().map(|()| moment)
}

/// Why the first of the threads gave up, if one did.
fn first_cut(records: &mut [Record]) -> Option<Cut> {
    records.iter_mut().filter_map(|record| record.cut.take()).min_by_key(|cut| cut.at)
}

/// Hand over what was counted until the cut; its failure when that is nothing.
fn end_early(outcome: Outcome, next_stage: StageSource) -> Result<(), Failure> {
    if !outcome.is_counted() {
        return outcome.whole().map(drop);
    }
    next_stage(Some(outcome));
    Ok(())
}

/// What the probe does in `span`.
///
/// Its send times are random, so it sees time averages (Wolff 1982: Poisson arrivals see time averages), whatever the
/// rhythm of the load.
fn probe_span(job: &Job, span: Span) -> Span {
    let series = span.arrivals.map_or(0, |arrivals| arrivals.series);
    let arrivals = job.probe.map(|probe| Arrivals {
        rate: probe.rate,
        process: ArrivalProcess::Poisson,
        series: series + PROBE_SERIES,
        ramp: None,
    });
    Span { arrivals, clients: None, ..span }
}

/// One report of each thread, in their order, or the first failure. Meanwhile `watch` is called now and then.
fn collect_reports(
    reports: &Receiver<Report>,
    threads: usize,
    watch: &mut dyn FnMut(),
) -> Result<Vec<Record>, Failure> {
    let (mut reports_of_threads, mut missing) = (Vec::new(), threads);
    while missing > 0 {
        match reports.recv_timeout(PROGRESS_EVERY) {
            Ok(report) => {
                reports_of_threads.extend(report?);
                missing -= 1;
            }
            Err(RecvTimeoutError::Timeout) => watch(),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::run("a thread ended without a word", "report this as a defect"));
            }
        }
    }
    reports_of_threads.sort_unstable_by_key(|(thread, _)| *thread);
    Ok(reports_of_threads.into_iter().map(|(_, record)| record).collect())
}
