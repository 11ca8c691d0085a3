//! The metrics of `--prometheus`, beside a real server.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::machine::{OURS, Redis, free_port};
use crate::support::{ended_by, failure_line, speedbench};

/// What the program at `port` answers to `request`; none while nobody listens.
fn answer(port: u16, request: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(request).ok()?;
    let mut text = String::new();
    // A connection that is reset after its answer has given it.
    let _ = stream.read_to_string(&mut text);
    Some(text)
}

/// The values at `port` by name and labels, once the load has begun.
fn metrics(port: u16, least_requests: f64) -> BTreeMap<String, f64> {
    let deadline = Instant::now() + Duration::from_secs(100);
    loop {
        let text = answer(port, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap_or_default();
        let values = if text.is_empty() { BTreeMap::new() } else { parsed(&text) };
        if values
            .get("speedbench_requests_total{test=\"get:9+set:1\"}")
            .is_some_and(|it| *it > least_requests)
        {
            return values;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The samples of an answer in the text format: each family has HELP and TYPE before its samples, and no sample comes twice.
fn parsed(answer: &str) -> BTreeMap<String, f64> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    assert!(body.ends_with('\n'));
    let (mut values, mut family, mut kinds) = (BTreeMap::new(), "", BTreeMap::new());
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap();
            assert!(help.len() > family.len() + 1, "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(name == family && ["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name, kind).is_none(), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let suffixes: &[&str] =
                if kinds[family] == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.iter().any(|suffix| name == format!("{family}{suffix}")), "{line}");
            assert!(series.contains("{test=\"") && series.ends_with("\"}"), "{line}");
            assert!(values.insert(series.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    values
}

/// The buckets of `command`, which must not fall.
fn buckets(values: &BTreeMap<String, f64>, command: &str) -> Vec<f64> {
    let begin =
        format!("speedbench_latency_seconds_bucket{{test=\"get:9+set:1\",command=\"{command}\",le=\"");
    let bound =
        |series: &str| series.split("le=\"").nth(1).unwrap().trim_end_matches("\"}").parse::<f64>().unwrap();
    let mut counts: Vec<(f64, f64)> = values
        .iter()
        .filter(|(series, _)| series.starts_with(&begin))
        .map(|(series, count)| (bound(series), *count))
        .collect();
    counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(counts.last().unwrap().0, f64::INFINITY);
    let counts: Vec<f64> = counts.into_iter().map(|(_, count)| count).collect();
    assert!(counts.len() == 20 && counts.is_sorted(), "{counts:?}");
    counts
}

#[test]
fn metrics_grow_with_the_load_and_agree_with_its_result() {
    let (redis, port) = (Redis::start(&[]), free_port());
    let address = format!("127.0.0.1:{port}");
    let words =
        ["run", "-s", &redis.socket, "-t", "get:9+set:1", "-c", "8", "--threads", "2", "--warmup", "0"];
    let child = Command::new(OURS)
        .args(words)
        .args(["--duration", "500", "--json", "--prometheus", &address])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let first = metrics(port, 0.0);
    let requests = |values: &BTreeMap<String, f64>| values["speedbench_requests_total{test=\"get:9+set:1\"}"];
    let later = metrics(port, requests(&first));
    for (series, value) in &first {
        assert!(series.starts_with("speedbench_connections") || later[series] >= *value, "{series}");
    }
    assert_eq!(later["speedbench_connections{test=\"get:9+set:1\"}"], 8.0);
    assert_eq!(later["speedbench_errors_total{test=\"get:9+set:1\"}"], 0.0);
    assert_eq!(later["speedbench_reconnects_total{test=\"get:9+set:1\"}"], 0.0);
    assert!(later["speedbench_bytes_total{test=\"get:9+set:1\"}"] > 30.0 * requests(&later));
    let mut all = 0.0;
    for command in ["get", "set"] {
        let labels = format!("{{test=\"get:9+set:1\",command=\"{command}\"}}");
        let count = later[&format!("speedbench_latency_seconds_count{labels}")];
        assert_eq!(*buckets(&later, command).last().unwrap(), count);
        assert!(later[&format!("speedbench_latency_seconds_sum{labels}")] > 0.0);
        all += count;
    }
    assert!((requests(&later)..=requests(&later) + 8.0).contains(&all), "{all} {}", requests(&later));
    // Meanwhile others ask for what there is not, and the answer is short.
    let status =
        |request: &[u8]| answer(port, request).unwrap().lines().next().unwrap_or_default().to_owned();
    assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
    assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
    let endless = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 9000]].concat();
    assert!(["HTTP/1.1 431 Request Header Fields Too Large", ""].contains(&&*status(&endless)));
    let output = ended_by(libc::SIGTERM, child);
    assert_eq!(output.status.code(), Some(143));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["tests"][0]["requests"].as_f64().unwrap() >= requests(&later));
}

#[test]
fn one_that_asks_for_nothing_keeps_no_other_from_the_metrics() {
    let (redis, port) = (Redis::start(&[]), free_port());
    let port_word = port.to_string();
    let words = ["run", "-s", &redis.socket, "-t", "get:9+set:1", "--duration", "500", "--warmup", "0"];
    let mut child = Command::new(OURS)
        .args(words)
        .args(["--prometheus", &port_word])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    metrics(port, 0.0);
    let mut silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    silent.write_all(b"GET /met").unwrap();
    assert!(!metrics(port, 0.0).is_empty());
    let mut text = String::new();
    assert_eq!(silent.read_to_string(&mut text).unwrap_or(0), 0, "{text}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_port_in_use_is_said_before_the_load_begins() {
    let (redis, listener) = (Redis::start(&[]), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap().to_string();
    let run = |words: &[&str], code| {
        let words = ["run", "-s", &redis.socket, "-t", "get", "-n", "10", "--prometheus"]
            .into_iter()
            .chain(words.iter().copied());
        failure_line(speedbench(words.map(str::to_owned)), code)
    };
    let line = run(&[&address], 1);
    assert!(line.contains(&format!("cannot serve metrics at {address} (Address already in use")), "{line}");
    assert_eq!(redis.calls("get"), 0);
    for wrong in ["", "here", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", "0"] {
        let line = run(&[wrong], 2);
        assert!(line.contains(&format!("--prometheus cannot be '{wrong}'")), "{line}");
    }
}
