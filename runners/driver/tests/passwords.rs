//! A password stands in nothing that is written, however it was given: document, table, CSV, log, messages.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use crate::support::{Manner, Server, written};

/// The server takes this one.
const PASSWORD: &str = "secret";
/// Each way to say it to `run`; PORT is that of the server.
const OF_RUN: [&str; 11] = [
    "-p PORT -a secret",
    "-p PORT -asecret",
    "-p PORT -a=secret",
    "-p PORT -3a secret",
    "-p PORT -3asecret",
    "-p PORT -3a=secret",
    "-p PORT --user joe -a secret",
    "-p PORT --user=joe -3asecret",
    "-u redis://joe:secret@127.0.0.1:PORT/0",
    "-uredis://:secret@127.0.0.1:PORT",
    "-u=redis://secret@127.0.0.1:PORT",
];
const OF_MEMTIER: [&str; 8] = [
    "-p PORT -a secret",
    "-p PORT -asecret",
    "-p PORT -a=secret",
    "-p PORT --authenticate secret",
    "-p PORT --authenticate=secret",
    "-p PORT --authenticate joe:secret",
    "-p PORT --authenticate=joe:secret",
    "-p PORT -ajoe:secret",
];
const OF_REDIS_BENCHMARK: [&str; 4] = [
    "-p PORT -a secret",
    "-p PORT --user joe -a secret",
    "-u redis://joe:secret@127.0.0.1:PORT",
    "-u redis://secret@127.0.0.1:PORT/0",
];
/// What the front ends do not know, and say so.
const UNKNOWN: [&str; 13] = [
    "run --pass secret",
    "run --pass=secret",
    "run --user joe --pass=secret",
    "run --authenticate=secret",
    "redis-benchmark -asecret",
    "redis-benchmark -3a secret",
    "redis-benchmark -3asecret",
    "redis-benchmark --pass secret",
    "redis-benchmark --user joe --pass=secret",
    "redis-benchmark -uredis://:secret@h",
    "memcached-benchmark -asecret",
    "memcached-benchmark --authenticate=secret",
    "memtier-benchmark -3asecret",
];

fn speedbench(words: &str, stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_speedbench"))
        .args(words.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who fails at its options does not read.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

/// All that a run says, which must end with `code` and not name the password.
fn said(words: &str, stdin: &str, code: i32) -> String {
    let output = speedbench(words, stdin);
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert_eq!(output.status.code(), Some(code), "{words}: {said}");
    assert!(!said.contains(PASSWORD), "{words}: {said}");
    said
}

fn at(words: &str, port: &str) -> String {
    words.replace("PORT", port)
}

#[test]
fn run_does_not_tell_it() {
    let server = Server::tcp(Manner::Honest);
    let port = &server.options[1];
    let log = written("passwords.hlog", "");
    for words in OF_RUN {
        let words = at(words, port);
        for output in ["--json", "--csv", "--slice-ms 10", &format!("--json --hdr-log {log}")] {
            said(&format!("run {words} -t get,ping -n 10 -c 2 --warmup 0 {output}"), "", 0);
        }
        let document: serde_json::Value =
            serde_json::from_str(&said(&format!("run {words} -t ping -n 10 -c 2 --warmup 0 --json"), "", 0))
                .unwrap();
        let argv = document["driver"]["argv"].to_string();
        assert!(argv.contains("***"), "{argv}");
        assert!(argv.contains(r#""-c","2""#) && argv.contains(port), "{argv}");
        assert!(!std::fs::read_to_string(&log).unwrap().contains(PASSWORD));
        for mode in ["--mode churn -n 10 -c 2", "--mode idle -c 2 --duration 0.1"] {
            said(&format!("run {words} {mode} --json"), "", 0);
        }
    }
    let logins = server.seen().calls("AUTH");
    assert!(logins > 0, "{logins}");
}

#[test]
fn workload_files_do_not_tell_it() {
    let server = Server::tcp(Manner::Honest);
    let place = at("-p PORT -asecret", &server.options[1]);
    let phase = r#"{"phase": [{"name": "a", "commands": [{"request": "REQUEST"}], "requests": 10}]}"#;
    said(&format!("run {place} --workload - --json"), &phase.replace("REQUEST", "GET a"), 0);
    for (request, message) in [("AUTH secret", "AUTH ***"), ("AUTH joe secret", "AUTH *** ***")] {
        let text = phase.replace("REQUEST", request);
        assert!(said(&format!("run {place} --workload - --json"), &text, 0).contains(message));
        let path = written("passwords.json", &text);
        assert!(said(&format!("run {place} --workload {path} --json"), "", 0).contains(message));
    }
    for text in [
        r#"{"password": "secret", "phase": []}"#,
        r#"{"phase": [{"test": "get", "password": "secret"}]}"#,
        r#"{"phase": [{"test": "get", "a": "secret}]}"#,
    ] {
        said(&format!("run {place} --workload - --json"), text, 2);
    }
    let path = written("passwords.toml", "password = \"secret\"\n[[phase]]\ntest = 'get'\n");
    said(&format!("run {place} --workload {path}"), "", 2);
}

#[test]
fn the_front_ends_do_not_tell_it() {
    let server = Server::tcp(Manner::Honest);
    let port = &server.options[1];
    let path = written("passwords-memtier.json", "");
    for words in OF_MEMTIER {
        let words = at(words, port);
        said(&format!("memtier-benchmark {words} -c 1 -t 1 -n 10 --json-out-file {path}"), "", 0);
        let document = std::fs::read_to_string(&path).unwrap();
        assert!(!document.contains(PASSWORD) && document.contains("***"), "{document}");
    }
    for words in OF_REDIS_BENCHMARK {
        for output in ["-q", "--csv"] {
            said(&format!("redis-benchmark {} -t get -n 10 {output}", at(words, port)), "", 0);
        }
    }
    let title = said(&format!("redis-benchmark -p {port} -n 10 -q auth joe secret ; PING"), "", 0);
    assert!(title.contains("auth *** *** ; PING"), "{title}");
}

#[test]
fn an_option_that_is_not_known_is_told_without_its_value() {
    for words in UNKNOWN {
        said(words, "", 2);
    }
}

#[test]
fn failures_do_not_tell_it() {
    // Such a server repeats what it does not know.
    let echo = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = echo.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in echo.incoming().flatten() {
            let _ = stream.write_all(b"-ERR unknown command 'AUTH', with args beginning with: 'secret' \r\n");
            kept.push(stream);
        }
    });
    for (front_end, spellings) in [
        ("run -t ping -n 1", OF_RUN.as_slice()),
        ("memtier-benchmark -n 1", &OF_MEMTIER),
        ("redis-benchmark -t get", &OF_REDIS_BENCHMARK),
    ] {
        for words in spellings {
            let message = said(&format!("{front_end} {}", at(words, &port)), "", 1);
            assert!(message.contains("the login"), "{message}");
            said(&format!("{front_end} {}", at(words, "1")), "", 1);
        }
    }
}
