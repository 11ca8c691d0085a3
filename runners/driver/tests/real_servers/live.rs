//! The screen of `--live` on a pseudo terminal, beside a real server.

use std::os::unix::net::UnixListener;

use serde_json::Value;

use super::machine::{Directory, Redis};
use crate::support::failure_line;
use crate::support::speedbench;
use crate::support::terminal::{Ended, OnTerminal};

const LEAVE: &str = "\x1b[?1049l";

/// The number behind `name` in `row`.
fn number(row: &str, name: &str) -> f64 {
    let behind = row.split(name).nth(1).unwrap_or_default();
    let end = |letter: char| !letter.is_ascii_digit() && letter != '.';
    behind.trim_start().split(end).next().unwrap_or_default().parse().unwrap_or(0.0)
}

fn load<'a>(redis: &'a Redis, options: &'a str) -> OnTerminal {
    let words =
        ["run", "-s", &redis.socket, "-t", "get:9+set:1", "-r", "1000", "--warmup", "0", "--live", "--json"];
    let words: Vec<&str> = words.into_iter().chain(options.split(' ')).collect();
    OnTerminal::run(&words)
}

/// The document of a run after which the terminal is as before.
fn document(ended: &Ended, code: i32) -> Value {
    assert_eq!((ended.code, ended.is_as_before), (Some(code), true), "{}", ended.output);
    let left = ended.output.rfind(LEAVE).expect("the screen was left");
    assert!(ended.output[left..].contains("\x1b[?25h"), "the cursor is shown");
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn the_screen_shows_what_the_server_answers_and_goes_at_the_end() {
    let redis = Redis::start(&[]);
    let terminal = load(&redis, "-c 8 --threads 2 --duration 4");
    let rates = terminal.await_row(|row| number(row, "requests:") > 10_000.0);
    let requests = number(&rates, "requests:");
    let average = number(&rates, "now,");
    assert!(number(&rates, "requests/s:") > 0.0 && average > 0.0, "{rates}");
    assert!(terminal.is_raw());
    terminal.await_row(|row| row == "errors: 0; connections: 8; reconnects: 0");
    let times = terminal.await_row(|row| row.starts_with("get:9+set:1: ") && row.ends_with(" s left"));
    let (elapsed, left) = (number(&times, "get:9+set:1:"), number(&times, "window,"));
    assert!((elapsed + left - 4.0).abs() < 0.15, "{times}");
    for command in ["all", "get", "set"] {
        let row = terminal.await_row(|row| row.split(' ').next() == Some(command));
        let numbers: Vec<f64> = row.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect();
        assert!(numbers.len() == 8 && numbers.iter().all(|us| *us > 0.0), "{row}");
        assert!(numbers[..4].is_sorted() && numbers[4..].is_sorted(), "{row}");
        assert!(numbers[7] >= numbers[3], "{row}");
    }
    terminal.await_row(|row| row.contains("the highest") && number(row, "the highest") > 0.0);
    let ended = terminal.end();
    let document = document(&ended, 0);
    let test = &document["tests"][0];
    assert!(test["requests"].as_f64().unwrap() >= requests, "{requests} {}", test["requests"]);
    assert_eq!((&document["cut_short"], test["errors"]["count"].as_u64()), (&Value::Null, Some(0)));
    assert!(!ended.output.contains("\r\x1b[K"), "the line of progress is not written, too");
}

#[test]
fn errors_are_shown() {
    let redis = Redis::start(&[]);
    redis.cli(&["config", "set", "min-replicas-to-write", "1"]);
    let terminal = load(&redis, "-c 3 --duration 3 --allow-errors");
    let row = terminal.await_row(|row| number(row, "errors:") > 0.0);
    let document = document(&terminal.end(), 0);
    assert!(document["tests"][0]["errors"]["count"].as_f64().unwrap() >= number(&row, "errors:"));
}

#[test]
fn keys_and_signals_end_the_run_with_what_was_counted() {
    let redis = Redis::start(&[]);
    for (key, signal, name, code) in
        [("q", None, "SIGINT", 130), ("\x03", None, "SIGINT", 130), ("", Some(libc::SIGTERM), "SIGTERM", 143)]
    {
        let mut terminal = load(&redis, "-c 8 --duration 500");
        terminal.await_row(|row| number(row, "requests:") > 1000.0);
        match signal {
            Some(signal) => terminal.send(signal),
            None => terminal.press(key.as_bytes()),
        }
        let ended = terminal.end();
        let document = document(&ended, code);
        assert!(ended.output.contains(&format!("speedbench: {name} ended the run")), "{}", ended.output);
        assert!(document["cut_short"]["cause"].as_str().unwrap().contains(name), "{name}");
        assert!(document["tests"][0]["requests"].as_u64().unwrap() > 1000);
    }
}

#[test]
fn a_second_key_or_signal_ends_at_once_what_does_not_end_and_brings_the_terminal_back() {
    let directory = Directory::new();
    let path = directory.path("silent");
    // Nobody accepts: connections are open, and the login is never answered.
    let _listener = UnixListener::bind(&path).unwrap();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let words = ["run", "-s", &path, "-a", "secret", "-t", "get", "--timeout", "1000", "--live"];
        let mut terminal = OnTerminal::run(&words);
        terminal.await_row(|row| row.starts_with("no load yet"));
        for _ in 0..2 {
            match signal {
                libc::SIGINT => terminal.press(b"q"),
                _ => {
                    terminal.send(signal);
                    // Two of a kind that wait are one.
                    std::thread::sleep(std::time::Duration::from_millis(200));
                }
            }
        }
        let ended = terminal.end();
        assert_eq!((ended.signal, ended.is_as_before), (Some(signal), true), "{}", ended.output);
        assert!(ended.output.contains(LEAVE), "{}", ended.output);
    }
}

#[test]
fn a_screen_needs_a_terminal_and_a_load() {
    let refused = |words: &str| {
        let words = ["run", "-s", "/nowhere"].into_iter().chain(words.split(' ')).map(str::to_owned);
        failure_line(speedbench(words), 2)
    };
    assert!(refused("-t get --live").contains("--live is given without a terminal on stderr: leave it out"));
    assert!(
        refused("--mode idle --live").contains("--live or --prometheus is given for a mode that only opens")
    );
    assert!(
        refused("-t get --ladder clients=1,2 --live")
            .contains("--live, --prometheus or --html is given beside")
    );
}
