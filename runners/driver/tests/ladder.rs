//! Ladders against a counting server: what each rung sends, what the document says, and what is refused.

use crate::support::{Manner, Server, failure_line, speedbench};
use serde_json::Value;

fn ladder(server: &Server, options: &str) -> Value {
    let document = server.document(options);
    assert_eq!(document["schema"], "speedbench.ladder.v1");
    document
}

fn values(document: &Value) -> Vec<f64> {
    document["rungs"].as_array().unwrap().iter().map(|rung| rung["value"].as_f64().unwrap()).collect()
}

fn usage(options: &str) -> String {
    let words = ["run"].into_iter().chain(options.split_whitespace());
    failure_line(speedbench(words.map(str::to_owned)), 2)
}

#[test]
fn every_rung_sends_its_load_once_in_shuffled_order() {
    let server = Server::tcp(Manner::Honest);
    let document = ladder(&server, "-t ping -n 30 --ladder clients=1,2,5..20");
    assert_eq!((&document["axis"], values(&document)), (&"clients".into(), vec![1.0, 2.0, 5.0, 10.0, 20.0]));
    assert_eq!(server.seen().calls("PING"), 150);
    let rungs = document["rungs"].as_array().unwrap();
    let mut places: Vec<u64> = rungs.iter().map(|rung| rung["place"].as_u64().unwrap()).collect();
    assert_ne!(places, [1, 2, 3, 4, 5]);
    places.sort_unstable();
    assert_eq!(places, [1, 2, 3, 4, 5]);
    for rung in rungs {
        let test = &rung["tests"][0];
        assert_eq!(
            (&test["workload"]["clients"], &test["requests"]),
            (&rung["value"].as_f64().map(|it| it as u64).into(), &30.into())
        );
    }
}

#[test]
fn keys_have_the_bytes_that_are_asked_for() {
    let server = Server::unix(Manner::Honest);
    ladder(&server, "-t set -n 20 -r 1000 --ladder key-bytes=16,17,200");
    let mut lengths: Vec<usize> = server.seen().store.keys().map(Vec::len).collect();
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [16, 17, 200]);
    let counters = Server::unix(Manner::Honest);
    counters.document("-t incr -n 20 -r 1000 --key-bytes 100");
    assert!(counters.seen().store.keys().all(|key| key.len() == 100 && key.starts_with(b"counter:xxx")));
}

#[test]
fn sizes_and_rates_are_those_of_the_rung() {
    let server = Server::unix(Manner::Honest);
    let document = ladder(&server, "-t set -n 5 -r 100 --ladder value-bytes=10,1_000");
    let sizes: Vec<&Value> = document["rungs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rung| &rung["tests"][0]["workload"]["values"]["bytes"])
        .collect();
    assert_eq!(sizes, [&Value::from(10), &Value::from(1000)]);
    let rates = ladder(&server, "-t ping --duration 0.2 --warmup 0 --ladder rate=500,1000");
    let asked: Vec<Option<f64>> = rates["rungs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rung| rung["tests"][0]["open"]["asked_rps"].as_f64())
        .collect();
    assert_eq!(asked, [Some(500.0), Some(1000.0)]);
    assert_eq!(server.seen().calls("PING"), 300);
}

#[test]
fn a_rung_that_cannot_be_reached_leaves_the_others() {
    let server = Server::tcp(Manner::Honest);
    let output = server.drive("-t ping -n 10 --ladder clients=2,100000000,1 --json");
    assert!(output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with("speedbench: clients = 100000000: 100000000 connections"), "{message}");
    assert!(message.contains("ulimit -Hn") && message.lines().count() == 1, "{message}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failures: Vec<bool> =
        document["rungs"].as_array().unwrap().iter().map(|rung| rung["failure"].is_string()).collect();
    assert_eq!(failures, [false, false, true]);
    assert_eq!(document["rungs"][2]["tests"], Value::Array(vec![]));
}

#[test]
fn rows_and_bars_show_every_rung() {
    let server = Server::tcp(Manner::Honest);
    let options = "-t ping -n 10 --ladder clients=2,100000000,1";
    let rows = String::from_utf8(server.drive(&format!("{options} --csv")).stdout).unwrap();
    let lines: Vec<&str> = rows.split_terminator("\r\n").collect();
    assert!(lines[0].starts_with("axis,value,place,failure,test,mode,clients,pipeline,window_s"), "{rows}");
    assert_eq!((lines.len(), &lines[1][..10], &lines[2][..10]), (4, "clients,1,", "clients,2,"));
    assert!(lines[3].starts_with("clients,100000000,") && lines[3].contains("ulimit -Hn"), "{rows}");
    let commas = |line: &str| line.matches(',').count();
    assert_eq!(commas(lines[1]), commas(lines[0]));
    let table = String::from_utf8(server.drive(options).stdout).unwrap();
    assert!(table.contains("ladder of clients, one server for all rungs"), "{table}");
    assert!(table.lines().any(|line| line.ends_with(&"#".repeat(20))), "{table}");
    let last = table.lines().last().unwrap();
    assert!(last.starts_with("! clients = 100000000: ") && last.contains("ulimit -Hn"), "{table}");
    assert!(table.lines().filter(|line| !line.starts_with("! ")).all(|line| line.len() <= 80), "{table}");
}

#[test]
fn a_flag_is_said_once_with_the_rungs_that_have_it() {
    let server = Server::tcp(Manner::Refusing);
    let output = server.drive("-t ping -n 10 --allow-errors --ladder clients=1,2,5");
    let table = String::from_utf8(output.stdout).unwrap();
    let errors: Vec<&str> = table.lines().filter(|line| line.contains("errors")).collect();
    assert_eq!(errors, ["! errors at clients = 1, 2, 5"], "{table}");
}

#[test]
fn what_a_ladder_cannot_be_is_refused_before_anything_is_sent() {
    for (options, cause) in [
        ("--ladder clients=0,1", "clients = 0: -c cannot be 0"),
        ("--ladder key-bytes=15", "key-bytes = 15: keys cannot have 15 bytes"),
        ("--protocol memcached --ladder key-bytes=251", "keys cannot have 251 bytes"),
        ("--sweep 10,20 --ladder clients=1", "a ladder of clients is asked for in mode sweep"),
        ("--mode idle --ladder rate=10", "a ladder of rate is asked for in mode idle"),
        ("--ladder clients=1 --hdr-log /tmp/none", "--hdr-log is given beside --ladder"),
        ("--fresh-server true", "--fresh-server is given without --ladder"),
        ("--ladder clients=1 --fresh-server true", "not the command of a server"),
        ("-p 1 --ladder clients=1 --fresh-server x-{port}", "-p is given beside --fresh-server"),
    ] {
        let message = usage(options);
        assert!(message.contains(cause), "{options}: {message}");
    }
}

#[test]
fn a_server_that_holds_keys_is_not_emptied() {
    let server = Server::tcp(Manner::Honest);
    server.document("-t set -n 10 -r 10");
    let message = server.failure("-t get -n 10 -r 10 --prefill --ladder clients=1,2");
    assert!(message.contains("keys in db0 already"), "{message}");
    assert_eq!(server.seen().calls("FLUSHDB"), 0);
}

#[test]
fn a_fresh_server_that_does_not_start_says_so() {
    for (command, cause) in [
        ("/no/such/server {port}", "cannot start /no/such/server"),
        ("true {port}", "ended at its start (exit status: 0)"),
    ] {
        let words = ["run", "--ladder", "clients=1", "--fresh-server", command].map(str::to_owned);
        let output = speedbench(words);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            message.contains(cause) && message.contains("no rung of the ladder was measured"),
            "{message}"
        );
    }
}

#[test]
fn a_source_that_is_not_of_this_machine_is_named() {
    let server = Server::tcp(Manner::Honest);
    let message = server.failure("-t ping -n 10 --source 192.0.2.1");
    assert!(message.contains("give addresses of this machine as --source"), "{message}");
}
