//! A warm-up that goes on until the load is steady.

use crate::support::{Manner, Server};
use serde_json::Value;

/// The test of a run in which a look is at ten slices.
fn measured(manner: Manner, slice_ms: u64, options: &str) -> Value {
    let document = Server::unix(manner).document(&format!("-t ping -c 4 --slice-ms {slice_ms} {options}"));
    document["tests"][0].clone()
}

// A server that is slow for a while gives five slow slices and then five fast ones, each of which is above all before it:
// a step, however much a busy machine disturbs the fast ones.

#[test]
fn a_load_that_climbs_is_waited_for() {
    let test = measured(Manner::Warming(1080), 200, "--warmup 0 --warmup-most 40 --duration 0.1");
    let warmup = &test["warmup"];
    assert!(warmup["slices"].as_u64().unwrap() >= 15, "{warmup}");
    assert_eq!(warmup["steady"], true, "{warmup}");
    assert_eq!(test["window_s"], 0.1);
    assert_eq!(test["workload"]["warmup_most_s"], 40.0);
}

#[test]
fn a_load_that_does_not_rest_in_time_is_flagged() {
    let test = measured(Manner::Warming(1280), 200, "--warmup 1 --warmup-most 2.5 --duration 0.1");
    let warmup = &test["warmup"];
    assert_eq!((&warmup["seconds"], &warmup["slices"]), (&2.4.into(), &11.into()), "{warmup}");
    assert_eq!(warmup["steady"], false);
    assert!(warmup["rate_change"].as_f64().unwrap() > 0.0);
    assert!(test["flags"].as_array().unwrap().contains(&"no_steady_state".into()));
}

#[test]
fn an_open_loop_is_waited_for_and_keeps_its_count() {
    let options = "--rate 1000 --warmup 0.3 --warmup-most 0.6 --duration 0.2";
    let test = measured(Manner::Honest, 20, options);
    // Requests that were due before the window, a ms apart, and were answered within it are counted with their latency.
    let late = (test["latency_us"]["max"].as_f64().unwrap() / 1000.0).ceil() as u64;
    let answered = test["requests"].as_u64().unwrap() + test["unfinished"].as_u64().unwrap();
    assert!((200..=200 + late).contains(&answered), "{test}");
    assert!(test["warmup"]["slices"].as_u64().unwrap() >= 14);
}

#[test]
fn a_count_stays_exact_after_it() {
    let test = measured(Manner::Honest, 20, "-n 300 --warmup-most 0.5");
    assert_eq!((&test["requests"], &test["unfinished"]), (&300.into(), &0.into()));
    assert!(test["warmup"]["slices"].as_u64().unwrap() >= 10);
}

#[test]
fn a_fixed_time_is_told_as_such() {
    let test = measured(Manner::Honest, 20, "--warmup 0.05 --duration 0.1");
    assert_eq!((&test["warmup"]["seconds"], &test["warmup"]["slices"]), (&0.05.into(), &0.into()));
    assert_eq!(test["warmup"]["steady"], Value::Null);
    assert!(test["workload"].get("warmup_most_s").is_none());
}
