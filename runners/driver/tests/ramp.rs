//! Rates that change over a run: what is asked of each step, and what is refused.

use crate::support::{Manner, Server, failure_line, written};
use serde_json::{Value, json};

fn asked(document: &Value) -> Vec<f64> {
    let steps = document["tests"][0]["steps"].as_array().unwrap();
    steps.iter().map(|step| step["asked_rps"].as_f64().unwrap()).collect()
}

fn count(test: &Value, path: &str) -> u64 {
    test.pointer(path).unwrap().as_u64().unwrap()
}

#[test]
fn every_request_of_a_ramp_is_sent_and_each_step_has_its_share() {
    let server = Server::unix(Manner::Honest);
    let line = "-t ping -c 3 -P 50 --rate 100..500 --duration 1 --warmup 0 --steps 5";
    let shapes = [
        ("line", [140.0, 220.0, 300.0, 380.0, 460.0], 300),
        ("steps", [100.0, 200.0, 300.0, 400.0, 500.0], 300),
        ("burst:1:0.2", [100.0, 100.0, 100.0, 100.0, 500.0], 180),
    ];
    for (shape, rates, due) in shapes {
        let document = server.document(&format!("{line} --shape {shape}"));
        let test = &document["tests"][0];
        assert_eq!(asked(&document), rates, "{shape}");
        let sent = count(test, "/requests") + count(test, "/unfinished") + count(test, "/open/unsent");
        assert_eq!((sent, test["open"]["asked_rps"].as_f64()), (due, Some(due as f64)), "{shape}");
        let steps = test["steps"].as_array().unwrap();
        assert_eq!(steps.iter().map(|step| count(step, "/requests")).sum::<u64>(), count(test, "/requests"));
        assert!(!test["flags"].as_array().unwrap().contains(&json!("unsteady")), "{test}");
    }
    let wave = server.document(&format!("{line} --shape sine"));
    let rates = asked(&wave);
    assert!((rates[0] - rates[4]).abs() < 0.2 && rates[2] > 480.0 && rates[0] < 150.0, "{rates:?}");
}

#[test]
fn a_ramp_is_written_so_that_it_can_be_run_again() {
    let server = Server::unix(Manner::Honest);
    let document = server.document("-t ping -c 2 -P 50 --rate 50..200 --duration 0.4 --warmup 0 --steps 2");
    let workload = &document["tests"][0]["workload"];
    let ramp = json!({"from": 50.0, "to": 200.0, "shape": "line", "steps": 2, "periods": 1, "share": 0.1});
    assert_eq!((&workload["mode"], &workload["ramp"]), (&json!("ramp"), &ramp));
    let file = written("again.json", &json!({"phase": [workload]}).to_string());
    let again = server.document(&format!("--workload {file}"));
    assert_eq!(again["driver"]["workload_digest"], document["driver"]["workload_digest"]);
    let table = String::from_utf8(server.drive(&format!("--workload {file}")).stdout).unwrap();
    assert!(table.contains("from 0.2 s at 162/s: ") || table.contains("from 0.2 s at 163/s: "), "{table}");
}

#[test]
fn a_ramp_without_a_window_of_whole_steps_is_refused() {
    let server = Server::unix(Manner::Honest);
    let cases = [
        ("--rate 0..5", "--rate cannot be 0"),
        ("--rate 5..", "--rate cannot be ''"),
        ("--rate 5..9 -n 10", "a ramp by a number of requests"),
        ("--rate 5..9 --steps 7 --duration 1", "1s have no 7 steps of whole slices of 100 ms"),
        ("--rate 5..9 --steps 1", "a ramp has 1 steps"),
        ("--rate 5..9 --shape wave", "--shape cannot be 'wave'"),
        ("--rate 5 --shape sine", "--shape or --steps is given for a rate that does not change"),
        ("--rate 5..9 --search p99:1ms", "a rate A..B is given beside --search, --sweep or --mode"),
        ("--rate 5..9 --shape burst:2:1.5", "a burst takes 1.5 of its period"),
    ];
    for (options, message) in cases {
        let line = failure_line(server.drive(&format!("-t ping {options}")), 2);
        assert!(line.contains(message), "{options}: {line}");
    }
}
