//! What the kernel counts of the server. Events of software stand for those of hardware, which many machines lack: the
//! way through the kernel is the same.

mod support;

use machine::counters::Counters;
use machine::counters::offered;
use serde_json::Value;
use support::{Manner, Server};

fn measured(list: &str) -> Value {
    let server = Server::unix(Manner::Honest);
    let pid = std::process::id();
    let options = "-t ping -c 4 --warmup 0.05 --duration 0.3";
    server.document(&format!("{options} --server-pid {pid} --server-events {list}"))["tests"][0].clone()
}

const ATTEMPTS: usize = 10;

#[test]
fn the_window_is_counted_with_all_threads_also_those_started_meanwhile() {
    // The driver reads its counts and the accounts one after the other: on a busy machine the server may run in between.
    let found: Vec<String> = (0..ATTEMPTS).map_while(|_| disagreement()).collect();
    assert!(found.len() < ATTEMPTS, "{found:?}");
    hardware_counts_or_says_why_not();
}

/// How what was counted differs from what the process's own accounts say.
fn disagreement() -> Option<String> {
    let test = measured("task-clock,context-switches");
    let events = &test["server_events"];
    match Counters::of(std::process::id(), &["task-clock", "context-switches"]) {
        Ok(counters) if counters.scope == "user and kernel" => {
            differs(events, &test["server"], &test["server_cpu"]["ns"])
        }
        Ok(counters) => (events["scope"] != counters.scope).then(|| events.to_string()),
        Err(cause) => (events["unavailable"] != cause).then(|| events.to_string()),
    }
}

fn differs(events: &Value, server: &Value, cpu_ns: &Value) -> Option<String> {
    let number = |value: &Value| value.as_u64().unwrap();
    let seen = number(&server["voluntary_switches"]) + number(&server["involuntary_switches"]);
    let counted = number(&events["counts"]["context-switches"]);
    // The kernel's task clock stands still while it switches threads, which these do tens of thousands of times a second.
    let (clock, cpu) = (number(&events["counts"]["task-clock"]), number(cpu_ns));
    let agrees = counted.abs_diff(seen) <= 20 + seen / 5 && clock > cpu / 4 && clock < cpu / 10 * 11;
    (!agrees).then(|| {
        format!("{counted} switches counted, {seen} seen; task clock {clock} ns, CPU clock {cpu} ns")
    })
}

/// No test of its own: the server runs in this process, whose threads no other test may start while they are attached.
fn hardware_counts_or_says_why_not() {
    let test = measured("instructions,cycles");
    let (events, said) = (&test["server_events"], offered());
    match events["unavailable"].as_str() {
        Some(cause) => {
            assert!(cause.starts_with("not available here: ") && said.starts_with("not available here: "))
        }
        None => assert!(events["counts"]["instructions"].as_u64() > Some(0) && said == events["scope"]),
    }
}

#[test]
fn a_process_that_is_not_there_is_said() {
    let cause = Counters::of(1 << 22, &["task-clock"]).unwrap_err();
    assert!(cause.starts_with("not available here: "), "{cause}");
}
