//! What goes wrong in a duel is told in one line that names the server, and what was measured is kept.

#[path = "support/ping_server.rs"]
#[allow(dead_code, reason = "when it answered is of no interest here")]
mod ping_server;
mod support;

use std::process::Command;

use ping_server::PingServer;
use support::duel::{document, duel, number, slices};
use support::{Manner, Server, failure_line, speedbench};

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
    let pids = format!("-t ping --base-pid {} --head-pid 4194304", std::process::id());
    let line = failure_line(duel(&honest.options[1], &honest.options[1], &pids), 1);
    assert!(
        line.contains("cannot read the CPU clock of process 4194304") && line.contains("--head-pid"),
        "{line}"
    );
}

const USAGE_ERRORS: [(&str, &str, &str); 14] = [
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
