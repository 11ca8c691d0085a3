//! What goes wrong in a duel is told in one line that names the server, and what was measured is kept.

use std::process::{Command, Output};

use crate::support::duel::{document, duel, number, slices};
use crate::support::ping_server::PingServer;
use crate::support::{Manner, Server, failure_line, speedbench, written};
use serde_json::Value;

#[test]
fn a_server_that_dies_leaves_what_was_measured() {
    let (base, head) = (PingServer::slow(), PingServer::until(100));
    let output = duel(&base.port, &head.port, "-t ping -c 1 --warmup 0 --duration 60 --slice-ms 5");
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8(output.stderr.clone()).unwrap();
    let place = format!("head (tcp:127.0.0.1:{})", head.port);
    assert!(line.starts_with(&format!("speedbench: {place}: the server closed connection")), "{line}");
    assert_eq!(line.lines().count(), 1);
    let document = document(&output);
    assert_eq!(format!("speedbench: {}\n", document["failure"].as_str().unwrap()), line);
    let pairs = number(&document["tests"][0]["pairs"]) as usize;
    assert!(pairs > 0 && slices(&document).len() == 2 * pairs);
}

#[test]
fn a_server_that_fails_before_the_first_pair_leaves_nothing() {
    let honest = Server::tcp(Manner::Honest);
    for (manner, cause) in [
        (Manner::Refusing, "with an error, -ERR no"),
        (Manner::HangingUp(b"+PONG\r\n"), "the server closed connection"),
        (Manner::Saying(b"HTTP/1.1 400 Bad Request\r\n"), "wrong answer to ping"),
        (Manner::Silent, "stopped answering ping"),
    ] {
        let other = Server::unix(manner);
        let output = duel(&honest.options[1], &other.options[1], "-t ping -c 3 --timeout 0.3");
        let line = failure_line(output, 1);
        assert!(
            line.contains(&format!("head (unix:{})", other.options[1])) && line.contains(cause),
            "{line}"
        );
        let output = duel(&other.options[1], &honest.options[1], "-t ping -c 3 --timeout 0.3");
        assert!(failure_line(output, 1).contains(&format!("base (unix:{})", other.options[1])));
    }
    let line = failure_line(duel("/nowhere.sock", &honest.options[1], "-t ping"), 1);
    assert!(line.contains("base (unix:/nowhere.sock): cannot connect"), "{line}");
}

/// The document of a duel that must end with exit code 1 and its failure, which is the line on stderr.
fn partial(output: &Output) -> (Value, String) {
    let (document, line) = (document(output), String::from_utf8(output.stderr.clone()).unwrap());
    assert_eq!(output.status.code(), Some(1), "{line}");
    let failure = document["failure"].as_str().unwrap().to_owned();
    assert_eq!(line, format!("speedbench: {failure}\n"));
    (document, failure)
}

#[test]
fn a_clock_that_cannot_be_read_leaves_the_rest() {
    let (base, head) = (Server::unix(Manner::Honest), Server::unix(Manner::Honest));
    let load = "-t ping -c 2 --warmup 0 --duration 0.2 --slice-ms 5 --server-events task-clock";
    let own = std::process::id();
    for (pids, sides) in [([own, 4_194_304], vec!["head"]), ([4_194_303, 4_194_304], vec!["base", "head"])] {
        let options = format!("{load} --base-pid {} --head-pid {}", pids[0], pids[1]);
        let (document, failure) = partial(&duel(&base.options[1], &head.options[1], &options));
        for side in &sides {
            let pid = pids[usize::from(*side == "head")];
            let cause = format!("cannot read the CPU clock of process {pid} (");
            assert!(
                failure.contains(&cause) && failure.contains(&format!("give --{side}-pid the id")),
                "{failure}"
            );
            assert_eq!(document["tests"][0][*side]["server_cpu"], Value::Null);
        }
        assert_eq!(document["tests"][0]["base"]["server_cpu"].is_null(), sides.contains(&"base"));
        let test = &document["tests"][0];
        let metrics: Vec<&Value> =
            test["ratios"].as_array().unwrap().iter().map(|ratio| &ratio["metric"]).collect();
        assert_eq!(metrics, ["throughput_rps", "latency_us_p99", "client_cpu_ns_per_request"]);
        assert_eq!((&test["pairs"], &test["verdict"]["metric"]), (&40.into(), &"throughput_rps".into()));
    }
}

/// Measured in a phase before one that fails.
const MEASURED: &str =
    "[[phase]]\nname = 'first'\nclients = 2\nduration_s = 0.1\nwarmup_s = 0\ntest = 'ping'\n";

#[test]
fn a_set_up_that_fails_leaves_the_tests_before_it() {
    let (base, head) = (Server::unix(Manner::Honest), Server::unix(Manner::Lying("INCR", "-ERR full\r\n")));
    let setup = "[[phase]]\nclients = 1\nrequests = 9\ncommands = [{ request = 'INCR one' }]\n";
    let file = written("duel-setup.toml", &format!("{MEASURED}{setup}{}", MEASURED.replace("first", "last")));
    let options = format!("--workload {file} --slice-ms 10");
    let (document, failure) = partial(&duel(&base.options[1], &head.options[1], &options));
    let place = format!("head (unix:{})", head.options[1]);
    assert!(failure.starts_with(&place) && failure.contains("-ERR full"), "{failure}");
    assert_eq!(document["tests"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&document["tests"][0]["name"], &document["tests"][0]["pairs"]),
        (&"first".into(), &10.into())
    );
}

#[test]
fn a_server_that_fails_after_its_last_slice_leaves_what_was_measured() {
    let (base, head) = (Server::unix(Manner::Lying("INFO", "-ERR gone\r\n")), Server::unix(Manner::Honest));
    let file = written("duel-end.toml", &format!("{MEASURED}expect = {{ keys = 0 }}\n"));
    let options = format!("--workload {file} --slice-ms 10");
    let (document, failure) = partial(&duel(&base.options[1], &head.options[1], &options));
    assert!(failure.starts_with(&format!("base (unix:{})", base.options[1])), "{failure}");
    assert!(failure.contains("-ERR gone"), "{failure}");
    assert_eq!(document["tests"][0]["pairs"], 10);
}

const USAGE_ERRORS: [(&str, &str, &str); 15] = [
    ("--base 1", "--head is not given", "--base and --head"),
    ("--head 1", "--base is not given", "--base and --head"),
    ("--base a:b --head 1", "--base cannot be 'a:b'", "HOST:PORT"),
    ("--base 1 --head redis://:pw@h/x", "the URI of --head", "redis://"),
    ("--base 1 --head 2 --threads 2", "has 2 threads", "--threads"),
    ("--base 1 --head 2 -n 100", "is a number of requests", "--duration"),
    ("--base 1 --head 2 --mode churn", "mode churn", "closed loop"),
    ("--base 1 --head 2 --sweep 10,20", "mode sweep", "--rate"),
    ("--base 1 --head 2 --probe-rate 9 --duration 1", "has a probe", "leave it out"),
    ("--base 1 --head 2 --rate 50", "fewer than 10 requests in a slice of 100 ms", "--slice-ms"),
    ("--base 1 --head 2 --slice-ms 50s", "--slice-ms is outside", "20 to 100"),
    ("--base 1 --head 2 --slice-ms 0", "--slice-ms is outside", "20 to 100"),
    ("--base 1 --head 2 --base-pid 1", "--base-pid is given alone", "both"),
    ("--base 1 --head 2 --head-pid 0", "--head-pid is not a process id", "pid"),
    ("--base 1 --head 2 --cluster", "--cluster is given", "single servers"),
];

#[test]
fn usage_errors_name_cause_and_remedy() {
    for (words, cause, remedy) in USAGE_ERRORS {
        let words = format!("duel {words}");
        let line = failure_line(speedbench(words.split_whitespace().map(str::to_owned)), 2);
        assert!(line.contains(cause) && line.contains(remedy) && !line.contains("pw"), "{words}: {line}");
    }
}

#[test]
fn connections_to_both_servers_need_files() {
    let server = Server::tcp(Manner::Honest);
    let program = env!("CARGO_BIN_EXE_speedbench");
    let words = format!("duel --base {0} --head {0} -t ping -c 150", server.options[1]);
    let script = format!("ulimit -n 256; exec {program} {words}");
    let line = failure_line(Command::new("sh").args(["-c", &script]).output().unwrap(), 1);
    assert!(line.contains("300 connections") && line.contains("lower the number of clients"), "{line}");
}
