//! The open loop against a server that stalls on a schedule. The driver runs in the process of the test, on the same
//! clock as the server's log, so what each request must have waited is known exactly. Noise only lengthens latencies:
//! the bounds from below are exact in every attempt, those from above are kept by the best of several.

use std::time::Duration;

use crate::support::stalling::{Log, Stalling};
use engine::histogram::Histogram;
use engine::job::Job;
use engine::job::Window;
use engine::node::Node;
use engine::outcome::Outcome;
use engine::schedule::ArrivalProcess;
use engine::schedule::Arrivals;
use engine::schedule::Participant;
use engine::schedule::Schedule;
use engine::stage::Stage;
use engine::workers;
use generator::keys::KeyOrder;
use generator::values::ValuePool;
use network::dialect::Dialect;
use network::sources::Sources;
use network::target::Address;
use network::target::Target;
use protocol::expectation::Expectation;
use protocol::resp;
use protocol::resp::Resp;
use protocol::script::Script;
use protocol::template::Placeholders;
use protocol::template::Value;

const MS: u64 = 1_000_000;
const CLIENTS: usize = 10;
/// What a machine with something else to do may add to a latency in the best of several attempts.
const NOISE_NS: u64 = 20 * MS;
const ATTEMPTS: usize = 10;

fn job(server: &Stalling, threads: usize, pipeline: usize) -> Job {
    let places = Placeholders { value: Value::Drawn(0), ..Placeholders::default() };
    let ping = resp::template(&["PING"], &places, Expectation::to(&["PING"], 0));
    let target = Target {
        sources: Sources::default(),
        address: Address::unix(server.path.to_str().unwrap()).unwrap(),
        dialect: Dialect::Resp,
        tls: None,
        greeting: Vec::new(),
        timeout: Duration::from_secs(20),
        mptcp: false,
    };
    Job {
        name: "ping".into(),
        nodes: vec![Node::of(target)],
        script: Script::of(ping).into(),
        named_commands: Vec::new(),
        clients: CLIENTS,
        own_clients: 0..CLIENTS,
        threads,
        pipeline,
        window: Window::Rolling,
        rate: None,
        stairs: None,
        items: None,
        table: None,
        jitter: None,
        alike: false,
        by_client: false,
        keepalive: true,
        reconnect_after: None,
        keyspace: 1,
        key_order: KeyOrder::Uniform,
        command_key_orders: Vec::new(),
        values: ValuePool::new(1, 0),
        seed: 1,
        probe: None,
        cpus: Vec::new(),
        server_pid: None,
        counters: None,
        slice_ns: 100 * MS,
        interval_slices: None,
        recovery: None,
        allow_errors: false,
        verify: None,
        begins_at: None,
        scoreboard: None,
    }
}

fn run(job: &Job, stage: Stage) -> Outcome {
    workers::run(&Resp::of(&job.script), job, &[stage], &mut |_| ()).unwrap()
}

/// When each request of `outcome` was due, by connection.
fn due(outcome: &Outcome, arrivals: Arrivals) -> Vec<Vec<u64>> {
    let span = outcome.span;
    let of = |index| {
        let seat = Participant { seed: 1, index, clients: CLIENTS, unit: 1 };
        let mut schedule = Schedule::new(arrivals, seat, span.begins_at, span.ends_at);
        std::iter::from_fn(|| Some(schedule.take()).filter(|due| *due < u64::MAX)).collect()
    };
    (0..CLIENTS).map(of).collect()
}

/// What a request that is due at `due` waits at least: to the end of the stall in which it falls.
fn stalled(log: &Log, due: u64) -> u64 {
    let stall = log.stalls.iter().find(|(begin, end)| (*begin..*end).contains(&due));
    stall.map_or(0, |(_, end)| end - due)
}

fn quantile(sorted: &[u64], quantile: f64) -> u64 {
    sorted[(quantile * sorted.len() as f64).ceil().max(1.0) as usize - 1]
}

fn merged(outcome: &Outcome, of: fn(&engine::record::Record) -> &Histogram) -> Histogram {
    outcome.records.iter().fold(Histogram::default(), |mut sum, record| {
        sum.merge(of(record));
        sum
    })
}

/// Measure until no excess is above its bound, at most [`ATTEMPTS`] times: the least excesses.
fn least<const N: usize>(bounds: [u64; N], mut excesses: impl FnMut() -> [u64; N]) -> [u64; N] {
    let mut least = [u64::MAX; N];
    for _ in 0..ATTEMPTS {
        let excesses = excesses();
        least = std::array::from_fn(|at| least[at].min(excesses[at]));
        if least.iter().zip(&bounds).all(|(excess, bound)| excess <= bound) {
            break;
        }
    }
    least
}

/// The open loop must see what stalls of `stall_ns` each `period_ns` do to `rate` requests per second.
fn assert_sees_stalls(stall_ns: u64, period_ns: u64, rate: f64, process: ArrivalProcess, pipeline: usize) {
    let attempt = || excesses(stall_ns, period_ns, rate, process, pipeline);
    let least = least([NOISE_NS; 3], attempt);
    assert!(least.iter().all(|excess| *excess <= NOISE_NS), "{least:?} ns too long");
}

/// By how much p99, p99.9 and max are longer than what requests must have waited.
fn excesses(stall_ns: u64, period_ns: u64, rate: f64, process: ArrivalProcess, pipeline: usize) -> [u64; 3] {
    let server = Stalling::start(stall_ns, period_ns);
    let arrivals = Arrivals { rate, process, series: 0, ramp: None };
    let stage = Stage::Open { warmup_ns: 0, window_ns: 1000 * MS, arrivals };
    let outcome = run(&job(&server, 1, pipeline), stage);
    let log = server.end();
    let due = due(&outcome, arrivals);
    let all: Vec<u64> = due.concat();
    let (latency, service) = (merged(&outcome, |r| &r.latency), merged(&outcome, |r| &r.service));

    // Every request of the schedule was sent on its connection, answered and recorded.
    for (due, answered) in due.iter().zip(&log.answered) {
        assert_eq!(due.len(), answered.len());
        assert!(due.iter().zip(answered).all(|(due, answered)| due <= answered));
    }
    assert_eq!((latency.count(), service.count()), (all.len() as u64, all.len() as u64));
    assert_eq!(merged(&outcome, |r| &r.slip).count(), all.len() as u64);
    assert!(log.stalls.iter().all(|(begin, end)| end - begin >= stall_ns));

    // From below: the ramps of the stalls, and closer, the server's own word on when it answered.
    let mut ramps: Vec<u64> = all.iter().map(|due| stalled(&log, *due)).collect();
    let waits = due.iter().flatten().zip(log.answered.iter().flatten());
    let mut waits: Vec<u64> = waits.map(|(due, answered)| answered - due).collect();
    ramps.sort_unstable();
    waits.sort_unstable();
    assert!(latency.sum() >= service.sum());
    [0.99, 0.999, 1.0].map(|at| {
        let (measured, ramp, wait) = (latency.quantile(at), quantile(&ramps, at), quantile(&waits, at));
        assert!(ramp > stall_ns / 2 && wait >= ramp, "{at}: the stalls are too rare for this test");
        let resolution = wait / 500 + 1;
        assert!(measured + resolution >= wait, "{at}: {measured} ns, not {wait}");
        measured.saturating_sub(wait + resolution)
    })
}

#[test]
fn a_stall_of_100_ms_is_seen_by_all_that_fell_due_in_it() {
    assert_sees_stalls(100 * MS, 300 * MS, 2000.0, ArrivalProcess::Fixed, 1);
}

#[test]
fn so_it_is_with_a_deep_window_and_gaps_of_chance() {
    assert_sees_stalls(100 * MS, 300 * MS, 2000.0, ArrivalProcess::Poisson, 64);
}

#[test]
fn a_stall_of_1_ms_is_seen_by_all_that_fell_due_in_it() {
    assert_sees_stalls(MS, 20 * MS, 10_000.0, ArrivalProcess::Fixed, 1);
}

#[test]
fn each_connection_keeps_its_schedule_whatever_its_thread() {
    for threads in [1, 3] {
        let server = Stalling::start(MS, 20 * MS);
        let arrivals = Arrivals { rate: 5000.0, process: ArrivalProcess::Poisson, series: 7, ramp: None };
        let stage = Stage::Open { warmup_ns: 50 * MS, window_ns: 150 * MS, arrivals };
        let outcome = run(&job(&server, threads, 2), stage);
        // The server knows connections by the order in which they came.
        let counts = |moments: &[Vec<u64>]| {
            let mut counts: Vec<usize> = moments.iter().map(Vec::len).collect();
            counts.sort_unstable();
            counts
        };
        assert_eq!(counts(&server.end().answered), counts(&due(&outcome, arrivals)));
    }
}

#[test]
fn a_closed_loop_sees_one_request_per_connection_and_stall() {
    // A machine that is busy elsewhere may add slow requests of its own.
    let more_than_stalls = || {
        let server = Stalling::start(100 * MS, 300 * MS);
        let outcome = run(&job(&server, 1, 1), Stage::Timed { warmup_ns: 0, window_ns: 1000 * MS });
        let log = server.end();
        let latency = merged(&outcome, |record| &record.latency);
        let slow = latency.count() - latency.count_up_to(95 * MS);
        assert!(slow > 0 && !log.stalls.is_empty());
        assert_eq!(merged(&outcome, |record| &record.service).count(), 0);
        [slow.saturating_sub((log.stalls.len() * CLIENTS) as u64)]
    };
    assert_eq!(least([0], more_than_stalls), [0]);
}

#[test]
fn what_cannot_be_sent_in_time_is_told() {
    // On a busy machine the stall may begin after the window.
    assert!((0..ATTEMPTS).any(|_| unsent_beside_a_long_stall() > 0));
}

/// The stall outlasts the window and the time for what is left.
fn unsent_beside_a_long_stall() -> u64 {
    let server = Stalling::start(600 * MS, 100 * MS);
    let mut job = job(&server, 2, 3);
    job.nodes[0].target.timeout = Duration::from_millis(1600);
    let arrivals = Arrivals { rate: 1000.0, process: ArrivalProcess::Fixed, series: 0, ramp: None };
    let outcome = run(&job, Stage::Open { warmup_ns: 0, window_ns: 200 * MS, arrivals });
    let answered: usize = server.end().answered.iter().map(Vec::len).sum();
    let unsent: u64 = outcome.records.iter().map(|record| record.unsent).sum();
    assert_eq!(answered as u64 + unsent, 200);
    assert_eq!(merged(&outcome, |record| &record.latency).count(), answered as u64);
    unsent
}

#[test]
fn the_window_lasts_as_long_as_asked_after_the_last_reply() {
    // Due at 0, 100 and 200 ms: the last reply comes long before the end.
    let server = Stalling::start(0, 1000 * MS);
    let arrivals = Arrivals { rate: 10.0, process: ArrivalProcess::Fixed, series: 0, ramp: None };
    let outcome = run(&job(&server, 1, 1), Stage::Open { warmup_ns: 0, window_ns: 300 * MS, arrivals });
    assert_eq!(server.end().answered.concat().len(), 3);
    assert!(outcome.records.iter().all(|record| record.closed_at >= outcome.span.ends_at));
}
