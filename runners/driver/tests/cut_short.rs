//! A run that ends early tells what it had counted, and that it is not whole.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Manner, Server, ended_by, heed, written};

const SIGINT: libc::c_int = libc::SIGINT;
const SIGTERM: libc::c_int = libc::SIGTERM;

/// Start the driver with `words`; return it once the server has received `requests` commands.
fn begun(server: &Server, words: &str, signal: libc::c_int, requests: u64) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_speedbench"));
    let mut words = words.split(' ');
    command.args(words.next()).args(&server.options).args(words);
    heed(&mut command, signal);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(100);
    while server.seen().calls.values().sum::<u64>() < requests {
        assert!(Instant::now() < deadline, "the driver does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// What comes of `words` when the program gets `signal` after the server has seen `requests` of its commands.
fn interrupted(server: &Server, words: &str, signal: libc::c_int, requests: u64) -> Output {
    ended_by(signal, begun(server, words, signal, requests))
}

fn texts(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_signal_leaves_a_document_that_says_so() {
    for (signal, name, code) in [(SIGINT, "SIGINT", 130), (SIGTERM, "SIGTERM", 143)] {
        let server = Server::tcp(Manner::Honest);
        let words = "run -t get,ping -c 4 --threads 2 --duration 500 --warmup 0 --json";
        let (status, result, message) = texts(interrupted(&server, words, signal, 1000));
        assert_eq!(status, Some(code), "{message}");
        assert!(message.contains(&format!("speedbench: {name} ended the run")), "{message}");
        let document: Value = serde_json::from_str(&result).unwrap();
        let (cut, test) = (&document["cut_short"], &document["tests"][0]);
        assert!(cut["cause"].as_str().unwrap().contains(name), "{cut}");
        assert_eq!((cut["test"].as_str(), document["tests"].as_array().unwrap().len()), (Some("get"), 1));
        assert!(test["flags"].as_array().unwrap().contains(&"cut_short".into()), "{test}");
        // The window is as long as it lasted: the rate is that of what was counted.
        let (window_s, requests) = (test["window_s"].as_f64().unwrap(), test["requests"].as_f64().unwrap());
        assert!(requests > 0.0 && (cut["after_s"].as_f64().unwrap() - window_s).abs() < 1.0, "{test}");
        assert!((test["throughput_rps"].as_f64().unwrap() * window_s / requests - 1.0).abs() < 0.01);
    }
}

#[test]
fn tables_and_rows_say_that_they_are_cut_short() {
    for (words, cause) in [
        ("run -t get -n 100000000", "  ! cut short after "),
        ("run -t get -n 100000000 --csv", "cut_short"),
        ("redis-benchmark -t get -n 100000000 -q", "GET (cut short after "),
        ("valkey-benchmark -t get -n 100000000 --csv", "\"GET (cut short after "),
        ("redis-benchmark -t get,incr -n 100000000", "====== GET (cut short after "),
    ] {
        let server = Server::tcp(Manner::Honest);
        let (status, result, message) = texts(interrupted(&server, words, SIGINT, 1000));
        assert_eq!(status, Some(130), "{words}: {message}");
        assert!(result.contains(cause), "{words}: {result}");
        assert!(!result.contains("INCR"), "{words}: {result}");
    }
}

#[test]
fn a_signal_that_comes_again_at_once_is_one() {
    // As of `timeout`, which sends it to its child and to the group that this is in; so many that two are told apart.
    for words in ["redis-benchmark -t get -n 100000000 --csv", "run -t get -n 100000000 --csv"] {
        let server = Server::tcp(Manner::Honest);
        let child = begun(&server, words, SIGINT, 1000);
        for _ in 0..1000 {
            // SAFETY: the process is our child and not yet waited for.
            unsafe { libc::kill(child.id() as i32, SIGINT) };
        }
        let (status, result, message) = texts(ended_by(SIGINT, child));
        assert_eq!(status, Some(130), "{message}");
        assert!(result.contains("cut"), "{result}");
    }
}

#[test]
fn a_signal_before_anything_was_counted_leaves_nothing() {
    let server = Server::tcp(Manner::Silent);
    let words = "run -t get -n 100 --json --timeout 100";
    let (status, result, message) = texts(interrupted(&server, words, SIGINT, 1));
    assert_eq!((status, result.as_str()), (Some(130), ""), "{message}");
}

#[test]
fn the_other_modes_end_on_a_signal_and_keep_the_phases_before() {
    let phases = r#"{"phase": [{"test": "ping", "requests": 100, "clients": 1},
        {"test": "ping", "name": "coming", "mode": "churn", "duration_s": 500.0, "clients": 2, "warmup_s": 0.0}]}"#;
    let path = written("phases.json", phases);
    let server = Server::tcp(Manner::Honest);
    let words = format!("run --workload {path} --json");
    let (status, result, message) = texts(interrupted(&server, &words, SIGTERM, 200));
    assert_eq!(status, Some(143), "{message}");
    let document: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(document["tests"][0]["requests"], 100);
    assert_eq!(
        (&document["cut_short"]["test"], &document["cut_short"]["after_s"]),
        (&"coming".into(), &Value::Null)
    );
}

#[test]
fn memtier_writes_its_file_whole_and_says_that_it_was_interrupted() {
    let path = written("memtier.json", "as it was");
    let server = Server::tcp(Manner::Honest);
    let words = format!("memtier-benchmark -t 1 -c 4 -n 100000000 --hide-histogram --json-out-file {path}");
    let (status, table, message) = texts(interrupted(&server, &words, SIGINT, 1000));
    assert_eq!(status, Some(130), "{message}");
    assert!(message.contains("[RUN #1] Interrupted by user (Ctrl+C) after "), "{message}");
    assert!(message.contains(" secs, stopping threads...\n"), "{message}");
    assert!(table.contains("ALL STATS\nCUT SHORT: SIGINT"), "{table}");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let runtime = &document["ALL STATS"]["Runtime"];
    assert_eq!(runtime["Interrupted"], "true");
    assert!(document["ALL STATS"]["Totals"]["Count"].as_u64().unwrap() > 0);
    // What was there stays until all of the new file is written.
    let silent = Server::tcp(Manner::Silent);
    let kept = written("memtier.json", "as it was");
    let words = format!("memtier-benchmark -t 1 -c 4 -n 100 --json-out-file {kept}");
    let (status, ..) = texts(interrupted(&silent, &words, SIGINT, 1));
    assert_eq!((status, std::fs::read_to_string(&kept).unwrap().as_str()), (Some(130), "as it was"));
}

#[test]
fn memtier_counts_errors_and_goes_on() {
    let server = Server::tcp(Manner::Refusing);
    let mut command = Command::new(env!("CARGO_BIN_EXE_speedbench"));
    command
        .arg("memtier-benchmark")
        .args(&server.options)
        .args("-t 1 -c 2 -n 50 --hide-histogram".split(' '));
    let (status, table, message) = texts(command.output().unwrap());
    assert_eq!(status, Some(0), "{message}");
    assert!(message.contains("handle error response: -ERR no (100 in all)"), "{message}");
    assert!(table.contains("ALL STATS"), "{table}");
}

#[test]
fn a_lost_server_leaves_what_was_counted_before() {
    let server = Server::tcp(Manner::HangingUp(b"$3\r\nabc\r\n"));
    let (status, result, message) = texts(server.drive("-t get -n 100 -c 1 --json"));
    assert_eq!(status, Some(1), "{message}");
    let document: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(document["tests"][0]["requests"], 1);
    let cause = document["cut_short"]["cause"].as_str().unwrap();
    assert!(cause.contains("the server closed connection 0 during get"), "{cause}");
    assert_eq!(message, format!("speedbench: {cause}\n"));
}

#[test]
fn results_that_are_cut_short_are_not_compared() {
    let server = Server::tcp(Manner::HangingUp(b"$3\r\nabc\r\n"));
    let (_, result, _) = texts(server.drive("-t get -n 100 -c 1 --json"));
    let path = written("half.json", &result);
    let output =
        Command::new(env!("CARGO_BIN_EXE_speedbench")).args(["compare", &path, &path]).output().unwrap();
    let (status, _, message) = texts(output);
    assert_eq!(status, Some(1));
    assert!(message.contains("it was cut short: the server closed connection"), "{message}");
}
