//! The driver from end to end against a counting server that reads requests with a parser of its own.

use crate::support::{Manner, Server};
use serde_json::Value;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn sum(values: &Value) -> u64 {
    values.as_array().unwrap().iter().map(number).sum()
}

/// The number of values in the exported histogram.
fn exported_count(test: &Value) -> u64 {
    use base64::Engine;
    let text = test["latency_hdr_v2"].as_str().unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let histogram: hdrhistogram::Histogram<u64> =
        hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    histogram.len()
}

#[test]
fn a_count_is_exact() {
    for (name, options) in [
        ("PING", "-t ping -n 1000 -c 7 -P 16"),
        ("SET", "-t set -n 1 -c 3"),
        ("GET", "-t get -n 1009 -c 10 -P 16 --threads 3"),
        ("INCR", "-t incr -n 555 -c 1 -r 10"),
    ] {
        for server in [Server::tcp(Manner::Honest), Server::unix(Manner::Honest)] {
            let document = server.document(options);
            let test = &document["tests"][0];
            let asked = number(&test["workload"]["requests"]);
            assert_eq!(server.seen().calls(name), asked);
            assert_eq!(number(&test["requests"]), asked);
            assert_eq!(exported_count(test), asked);
            assert_eq!(sum(&test["slices"]["requests"]), asked);
            assert_eq!(test["unfinished"], 0);
        }
    }
}

#[test]
fn tests_are_measured_in_the_order_given() {
    let server = Server::tcp(Manner::Honest);
    let document = server.document("-t incr,ping,incr:1 -n 10 -c 2");
    let names: Vec<&str> =
        document["tests"].as_array().unwrap().iter().map(|test| test["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["incr", "ping", "incr:1"]);
    assert_eq!(server.seen().store[b"counter:000000000000".as_slice()], b"20");
}

#[test]
fn a_warm_up_comes_before_the_count() {
    let server = Server::unix(Manner::Honest);
    let document = server.document("-t ping -n 100 -c 4 --threads 2 --warmup 0.1");
    assert_eq!(document["tests"][0]["requests"], 100);
    assert!(server.seen().calls("PING") > 100);
}

#[test]
fn every_request_of_a_timed_run_is_counted_or_unfinished() {
    let server = Server::unix(Manner::Honest);
    let document = server.document("-t set -r 100 -c 8 -P 4 --threads 2 --warmup 0 --duration 0.35");
    let test = &document["tests"][0];
    let (requests, unfinished) = (number(&test["requests"]), number(&test["unfinished"]));
    assert_eq!(requests + unfinished, server.seen().calls("SET"));
    assert_eq!(exported_count(test), requests + unfinished);
    assert!(unfinished <= 8 * 4);
    assert_eq!(sum(&test["slices"]["requests"]), requests);
    assert_eq!(test["slices"]["requests"].as_array().unwrap().len(), 4);
    assert_eq!(test["window_s"], 0.35);
    let throughput = test["throughput_rps"].as_f64().unwrap();
    assert!((throughput - requests as f64 / 0.35).abs() <= 0.1);
}

#[test]
fn warm_up_requests_are_not_counted() {
    let server = Server::unix(Manner::Honest);
    let document = server.document("-t ping -c 2 --warmup 0.2 --duration 0.2");
    let test = &document["tests"][0];
    let counted = number(&test["requests"]) + number(&test["unfinished"]);
    assert!(counted < server.seen().calls("PING"));
    assert_eq!(exported_count(test), counted);
}

#[test]
fn prefilled_keys_are_all_hit() {
    let server = Server::tcp(Manner::Honest);
    let document = server.document("--prefill -t get -r 1003 -d 40 -c 7 -P 8 --threads 2 -n 5000");
    assert_eq!(document["prefill"]["keys"], 1003);
    assert_eq!(document["prefill"]["keys_in_server"], 1003);
    let test = &document["tests"][0];
    assert_eq!((number(&test["hits"]), number(&test["misses"])), (5000, 0));
    let seen = server.seen();
    assert_eq!((seen.calls("SET"), seen.store.len()), (1003, 1003));
    for index in 0..1003 {
        assert_eq!(seen.store[format!("key:{index:012}").as_bytes()].len(), 40);
    }
    let values: std::collections::HashSet<_> = seen.store.values().collect();
    assert!(values.len() > 900, "values differ from each other");
}

#[test]
fn fewer_keys_than_clients_are_prefilled_too() {
    let server = Server::tcp(Manner::Honest);
    let document = server.document("--prefill -t get -r 3 -c 7 --threads 5 -n 70");
    assert_eq!(document["tests"][0]["hits"], 70);
}

#[test]
fn missing_keys_are_misses() {
    let server = Server::tcp(Manner::Honest);
    let document = server.document("-t get -r 100 -c 3 -P 5 -n 300");
    let test = &document["tests"][0];
    assert_eq!((number(&test["hits"]), number(&test["misses"])), (0, 300));
}

#[test]
fn the_seed_makes_the_bytes_whatever_the_threads() {
    let streams = |options: &str| {
        let server = Server::tcp(Manner::Honest);
        server.document(&format!("-t set -r 100000 -d 20 -c 6 -P 3 -n 1000 {options}"));
        let mut streams = server.seen().streams.clone();
        streams.sort();
        streams
    };
    let one = streams("--seed 5 --threads 1");
    assert_eq!(one.len(), 6);
    assert_eq!(one, streams("--seed 5 --threads 3"));
    assert_ne!(one, streams("--seed 6 --threads 1"));
    let distinct: std::collections::HashSet<_> = one.iter().collect();
    assert_eq!(distinct.len(), 6, "no two connections send the same");
}

#[test]
fn batches_larger_than_socket_and_buffer_go_through() {
    let server = Server::unix(Manner::Honest);
    let document = server.document("--prefill -t set,get -r 8 -d 300000 -c 2 -P 8 -n 64");
    assert_eq!(document["tests"][0]["requests"], 64);
    assert_eq!(document["tests"][1]["hits"], 64);
    assert!(server.seen().store.values().all(|value| value.len() == 300_000));
}

#[test]
fn empty_values_are_values() {
    let server = Server::tcp(Manner::Honest);
    let document = server.document("--prefill -t get -r 20 -d 0 -c 2 -P 8 -n 64");
    assert_eq!(document["tests"][0]["hits"], 64);
}

#[test]
fn the_cpu_time_of_the_server_is_read() {
    let server = Server::unix(Manner::Honest);
    let pid = std::process::id();
    let document =
        server.document(&format!("-t ping -c 4 --threads 2 --duration 0.3 --slice-ms 50 --server-pid {pid}"));
    let test = &document["tests"][0];
    assert_eq!(test["server_cpu"]["pid"], pid);
    assert!(number(&test["server_cpu"]["ns"]) > 0);
    let slices = &test["slices"];
    assert_eq!(slices["server_cpu_ns"].as_array().unwrap().len(), 6);
    assert_eq!(sum(&slices["server_cpu_ns"]), number(&test["server_cpu"]["ns"]));
    let client = number(&test["client_cpu"]["user_ns"]) + number(&test["client_cpu"]["system_ns"]);
    assert!(client > 0);
    assert_eq!(sum(&slices["client_cpu_ns"]), client);
}

#[test]
fn the_driver_logs_in_and_hides_the_password() {
    let server = Server::tcp(Manner::Honest);
    let document = server.document("-a secret --user tester -t ping -n 10 -c 3");
    assert_eq!(server.seen().calls("AUTH"), 3);
    assert!(!document.to_string().contains("secret"));
    let document = server.document("-asecret -t ping -n 10 -c 3");
    assert!(!document.to_string().contains("secret"));
}

#[test]
fn allowed_errors_are_counted() {
    let server = Server::tcp(Manner::Refusing);
    let document = server.document("-t get -n 100 -c 3 -P 4 --allow-errors");
    let test = &document["tests"][0];
    assert_eq!(test["errors"], serde_json::json!({"count": 100, "first": "ERR no"}));
    assert_eq!((number(&test["hits"]), number(&test["misses"])), (0, 0));
}

#[test]
fn a_rolling_window_counts_exactly_too() {
    for options in ["-t get -n 1009 -c 10 -P 16 --threads 3", "-t set -n 64 -c 2 -P 8 -d 300000"] {
        let server = Server::unix(Manner::Honest);
        let document = server.document(&format!("{options} --window rolling"));
        let test = &document["tests"][0];
        let asked = number(&test["workload"]["requests"]);
        let seen = server.seen();
        assert_eq!(seen.calls("GET") + seen.calls("SET"), asked);
        assert_eq!((number(&test["requests"]), exported_count(test)), (asked, asked));
    }
}

#[test]
fn a_mix_is_sent_in_its_proportions() {
    for window in ["batch", "rolling"] {
        let server = Server::tcp(Manner::Honest);
        let options = format!("-t get:9+set:1 -r 1000 -n 5000 -c 5 -P 7 --window {window}");
        let document = server.document(&options);
        assert_eq!(document["tests"][0]["name"], "get:9+set:1");
        let seen = server.seen();
        let (gets, sets) = (seen.calls("GET"), seen.calls("SET"));
        assert_eq!(gets + sets, 5000);
        // The seed is fixed, so this never flickers.
        assert!((400..600).contains(&sets), "{sets}");
    }
}

#[test]
fn numbers_may_have_units() {
    let server = Server::tcp(Manner::Honest);
    let options = "-t set -n 1k -c 2 -P 10 -r 2k -d 0.5kb --slice-ms 50ms --warmup 10ms";
    let document = server.document(options);
    let test = &document["tests"][0];
    let workload = &test["workload"];
    assert_eq!(test["requests"], 1000);
    assert_eq!((&workload["keys"]["count"], &workload["values"]["bytes"]), (&2000.into(), &512.into()));
    assert_eq!((&workload["warmup_s"], &test["slices"]["width_ms"]), (&0.01.into(), &50.into()));
    let document = server.document("-t ping -c 2 --duration 100ms --warmup 0 --rate 1.5k");
    let test = &document["tests"][0];
    assert_eq!((&test["open"]["asked_rps"], &test["window_s"]), (&1500.0.into(), &0.1.into()));
}
