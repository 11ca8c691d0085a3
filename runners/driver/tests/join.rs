//! `--part`, `--start-at` and `join`: what machines send that share a load, and what is refused of their documents.

use std::time::{Duration, SystemTime};

use crate::support::{Manner, Server, failure_line, speedbench, written};
use serde_json::{Value, json};

fn words(command: &str, files: &[String]) -> Vec<String> {
    command.split(' ').map(str::to_owned).chain(files.iter().cloned()).collect()
}

fn refused(command: &str, files: &[String], code: i32) -> String {
    failure_line(speedbench(words(command, files)), code)
}

/// The documents of both parts of a load with `options`, and where they were written.
fn parts(server: &Server, options: &str, test: &str) -> ([Value; 2], Vec<String>) {
    let documents = ["1/2", "2/2"].map(|part| server.document(&format!("{options} --part {part}")));
    let file = |(at, document): (usize, &Value)| written(&format!("{test}{at}.json"), &document.to_string());
    let files = documents.iter().enumerate().map(file).collect();
    (documents, files)
}

/// All that the connections of a server were sent, sorted.
fn streams(server: &Server) -> Vec<Vec<u8>> {
    let mut streams: Vec<Vec<u8>> =
        server.seen().streams.iter().filter(|stream| stream.starts_with(b"*3")).cloned().collect();
    streams.sort();
    streams
}

#[test]
fn parts_send_what_one_machine_would_send() {
    let options = "-t set -c 7 -P 4 -n 703 -r 100000 -d 20 --threads 2";
    let (whole, shared) = (Server::tcp(Manner::Honest), Server::tcp(Manner::Honest));
    let one = whole.document(options);
    let (documents, _) = parts(&shared, options, "send");
    assert_eq!(documents[0]["part"], json!({"number": 1, "of": 2}));
    assert_eq!(one["part"], Value::Null);
    let requests = |document: &Value| document["tests"][0]["requests"].as_u64().unwrap();
    assert_eq!(requests(&documents[0]) + requests(&documents[1]), requests(&one));
    assert_eq!(streams(&shared), streams(&whole));
    assert_eq!(documents[0]["driver"]["workload_digest"], one["driver"]["workload_digest"]);
}

#[test]
fn the_first_part_alone_fills_the_server() {
    let server = Server::unix(Manner::Honest);
    let (documents, _) = parts(&server, "-t get -c 4 -n 100 -r 50 --prefill", "fill");
    assert_eq!((&documents[0]["prefill"]["keys"], &documents[1]["prefill"]), (&json!(50), &Value::Null));
    assert_eq!((server.seen().calls("SET"), documents[1]["tests"][0]["hits"].as_u64()), (50, Some(50)));
}

#[test]
fn parts_that_did_not_overlap_are_refused() {
    let server = Server::unix(Manner::Honest);
    let (_, files) = parts(&server, "-t ping -c 2 --duration 0.3 --warmup 0", "apart");
    let line = refused("join", &files, 1);
    assert!(line.contains("the windows have 0.000 s of 0.300 s in common"), "{line}");
    let line = refused("compare", &files, 1);
    assert!(line.contains("apart0.json is part 1 of a load that 2 machines share"), "{line}");
    let line = refused("join", &files[..1], 2);
    assert!(line.contains("there is nothing to join"), "{line}");
    let twice = [files[0].clone(), files[0].clone()];
    assert!(refused("join", &twice, 1).contains("are both part 1 of 2"));
}

#[test]
fn a_whole_run_is_no_part() {
    let server = Server::unix(Manner::Honest);
    let whole = written("whole.json", &server.document("-t ping -n 10").to_string());
    let line = refused("join", &[whole.clone(), whole.clone()], 1);
    assert!(line.contains("whole.json is no part: its load was that of one machine"), "{line}");
    let broken = written("broken.json", "{\"schema\": \"speedbench.v1\", \"tests\": [{}]}");
    let line = refused("join", &[broken, whole], 1);
    assert!(line.contains("broken.json is no result (missing field"), "{line}");
}

#[test]
fn a_load_begins_at_its_time() {
    let server = Server::unix(Manner::Honest);
    let since_1970 = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let start = since_1970(SystemTime::now() + Duration::from_secs(5));
    let options = format!("-t ping -c 2 --duration 0.2 --warmup 0 --start-at {:.6}", start.as_secs_f64());
    let document = server.document(&options);
    let began = document["tests"][0]["window_began_at"].as_str().unwrap();
    let began: jiff::Timestamp = began.parse().unwrap();
    // However busy the machine is: the window begins at the agreed moment, not when a thread woke up.
    let late = since_1970(began.into()).as_secs_f64() - start.as_secs_f64();
    assert!(late.abs() < 0.01, "{late}");
}

#[test]
fn a_time_that_is_over_and_loads_that_cannot_be_shared_are_refused() {
    let server = Server::unix(Manner::Honest);
    let cases = [
        ("--start-at 2001-01-01T00:00:00Z", "the time of --start-at is over: give one that is still to come"),
        ("--start-at 1795888800000", "the time of --start-at is more than a day ahead"),
        ("--start-at noon", "--start-at cannot be 'noon'"),
        ("--part 3/2", "--part cannot be '3/2': give its number and how many there are"),
        ("--part 1/2 -t get,set", "--part is for one test"),
        ("--part 1/2 --mode idle", "--part is for closed loops and for open loops with one rate"),
        ("--part 3/3 -t get -c 2", "part 3 of 3 has 0 of 2 connections"),
        ("--part 1/2 -t get --probe-rate 5", "a probe is given beside --part"),
        ("--part 1/2 -t get --ladder clients=2,4", "--part or --start-at is given beside --ladder"),
    ];
    for (options, message) in cases {
        let line = failure_line(server.drive(options), 2);
        assert!(line.contains(message), "{line}");
    }
}
