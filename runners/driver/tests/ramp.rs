//! Rates and numbers of connections that change over a run: what is asked of each step, and what is refused.

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
        ("-c 0..5", "a ramp of connections cannot go from 0 to 5"),
        ("-c 1..", "-c cannot be ''"),
        ("-c 1..4 -n 10", "a ramp by a number of requests"),
        ("-c 1..4 --rate 10", "-c A..B is given beside --rate"),
        ("-c 1..4 --search p99:1ms", "-c A..B is given beside --search, --sweep, --arrivals or --mode"),
        ("-c 1..4 --mode churn", "-c A..B is given beside --search, --sweep, --arrivals or --mode"),
        ("-c 1..4 --threads 5", "there are more --threads than clients"),
        ("-c 1..4 --reconnect-on-error", "--reconnect-on-error is given beside a changing number"),
        ("-c 1..4 --part 1/2", "a changing number of connections is given beside --part"),
        ("-c 1..4 --ladder clients=1,2", "a ladder of clients is asked for in mode ramp"),
    ];
    for (options, message) in cases {
        let line = failure_line(server.drive(&format!("-t ping {options}")), 2);
        assert!(line.contains(message), "{options}: {line}");
    }
}

/// The bytes that each connection of a run with `options` sent.
fn bytes_by_connection(options: &str) -> (Vec<usize>, Value) {
    let server = Server::unix(Manner::Honest);
    let mut document = server.document(&format!("-t ping --warmup 0 --duration 0.8 --steps 4 {options}"));
    let streams: Vec<usize> = server.seen().streams.iter().map(Vec::len).collect();
    (streams, document["tests"][0].take())
}

fn clients(test: &Value) -> Vec<f64> {
    let steps = test["steps"].as_array().unwrap();
    steps.iter().map(|step| step["clients"].as_f64().unwrap()).collect()
}

#[test]
fn connections_send_while_the_ramp_has_room_for_them() {
    for (options, means) in [
        ("-c 1..4 --shape steps", [1.0, 2.0, 3.0, 4.0]),
        ("-c 1..5 --shape line --threads 3", [1.5, 2.5, 3.5, 4.5]),
        ("-c 4..1 --shape steps -P 3", [4.0, 3.0, 2.0, 1.0]),
    ] {
        let (bytes, test) = bytes_by_connection(options);
        assert_eq!((clients(&test), test["mode"].as_str()), (means.to_vec(), Some("ramp")), "{options}");
        assert!(bytes.iter().all(|bytes| *bytes > 0), "{options}: {bytes:?}");
        // The first sends all the time, and the last in the last part, or in the first one, only. Threads share no turns:
        // the last connection may have one for itself.
        assert!(
            options.contains("--threads") || bytes[0] > 2 * bytes.last().unwrap(),
            "{options}: {bytes:?}"
        );
        let steps = test["steps"].as_array().unwrap();
        let requests: Vec<u64> = steps.iter().map(|step| count(step, "/requests")).collect();
        assert!(requests.iter().all(|requests| *requests > 0), "{requests:?}");
        assert_eq!(requests.iter().sum::<u64>(), count(&test, "/requests"));
        let sent = count(&test, "/requests") + count(&test, "/unfinished");
        assert_eq!(
            bytes.iter().sum::<usize>() as u64,
            sent * "*1\r\n$4\r\nPING\r\n".len() as u64,
            "{options}"
        );
        assert_eq!((&test["open"], steps[0].get("asked_rps")), (&Value::Null, None));
        assert!(!test["flags"].as_array().unwrap().contains(&json!("unsteady")), "{test}");
    }
}

#[test]
fn connections_that_wait_and_send_again_and_again_come_to_an_end() {
    for options in [
        "-c 2..6 --shape burst:8:0.5 --window rolling -P 4",
        "-c 6..1 --shape sine:4 --threads 2",
        "-c 1..2 --shape steps --threads 2 --probe-clients 1",
    ] {
        let (bytes, test) = bytes_by_connection(options);
        assert!(bytes.iter().all(|bytes| *bytes > 0), "{options}: {bytes:?}");
        assert_eq!(test["window_s"], 0.8, "{options}");
    }
}

#[test]
fn a_ramp_of_connections_is_written_so_that_it_can_be_run_again() {
    let server = Server::unix(Manner::Honest);
    let document = server.document("-t ping -c 3..1 --duration 0.4 --warmup 0.1 --steps 2");
    let workload = &document["tests"][0]["workload"];
    let ramp = json!({
        "of": "clients", "from": 3.0, "to": 1.0, "shape": "line", "steps": 2, "periods": 1, "share": 0.1
    });
    assert_eq!((&workload["mode"], &workload["ramp"]), (&json!("ramp"), &ramp));
    assert_eq!((&workload["clients"], workload.get("arrivals")), (&json!(3), None));
    let file = written("clients.json", &json!({"phase": [workload]}).to_string());
    let again = server.document(&format!("--workload {file}"));
    assert_eq!(again["driver"]["workload_digest"], document["driver"]["workload_digest"]);
    let table = String::from_utf8(server.drive(&format!("--workload {file}")).stdout).unwrap();
    assert!(table.contains("from 0.2 s with 1.5 clients: "), "{table}");
    assert!(table.contains("closed loop: from the sending"), "{table}");
    let fewer = workload.to_string().replace("\"clients\":3", "\"clients\":5");
    let file = written("fewer.json", &format!("{{\"phase\": [{fewer}]}}"));
    let line = failure_line(server.drive(&format!("--workload {file}")), 2);
    assert!(line.contains("a ramp from 3 to 1 connections has 5"), "{line}");
}
