//! Recordings of a real redis-server, played to another one: both hold the same afterwards.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::machine::{Directory, OURS, Redis, ours, said};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// Traffic of several clients, in two databases, with a transaction, a script and bytes of all kinds.
fn traffic(redis: &Redis) {
    ours(&[
        "-p",
        &redis.port,
        "-n",
        "300",
        "-c",
        "5",
        "-r",
        "50",
        "-q",
        "-t",
        "set,incr,lpush,sadd,hset,zadd",
    ]);
    redis.cli(&["set", "binary", "\"\\\n\r\t\x07\x08 é"]);
    redis.cli(&["-n", "3", "set", "elsewhere", "1"]);
    redis.cli(&["eval", "redis.call('incr', KEYS[1]) return 1", "1", "by-script"]);
    let mut command = Command::new("redis-cli");
    command.args(["-p", &redis.port]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let words = b"MULTI\nINCR in-transaction\nLPUSH list a b\nEXEC\nBLPOP list 1\n";
    child.stdin.take().unwrap().write_all(words).unwrap();
    child.wait().unwrap();
}

fn played(redis: &Redis, words: &[&str]) -> Value {
    let all = [&["replay"], words, &["-p", &redis.port, "--json"]].concat();
    let mut document: Value = serde_json::from_str(&said(OURS, &all)).unwrap();
    document["tests"][0].take()
}

#[test]
fn what_monitor_has_seen_is_done_again() {
    let (recorded, directory) = (Redis::start(&DEBUG), Directory::new());
    let file = directory.path("monitor.txt");
    let mut monitor = Command::new("redis-cli")
        .args(["-p", &recorded.port, "monitor"])
        .stdout(File::create(&file).unwrap())
        .spawn()
        .unwrap();
    let holds = |text: &str| std::fs::read_to_string(&file).is_ok_and(|lines| lines.contains(text));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds("OK") {
        assert!(Instant::now() < deadline, "MONITOR says nothing");
        std::thread::sleep(Duration::from_millis(10));
    }
    traffic(&recorded);
    // A list that BLPOP has emptied is not sent again: both have it.
    recorded.cli(&["del", "list"]);
    recorded.cli(&["echo", "the end"]);
    while !holds("the end") {
        assert!(Instant::now() < deadline, "MONITOR lags");
        std::thread::sleep(Duration::from_millis(10));
    }
    monitor.kill().unwrap();
    monitor.wait().unwrap();
    let digest = recorded.cli(&["debug", "digest"]);
    for words in [["--speed", "fast", "-c", "1"], ["--speed", "20", "-c", "1"]] {
        let other = Redis::start(&DEBUG);
        let test = played(&other, &[&[file.as_str()], words.as_slice()].concat());
        assert_eq!(other.cli(&["debug", "digest"]), digest, "{test}");
        let replay = &test["replay"];
        let left_out = replay["left_out"].as_array().unwrap();
        let count: u64 = left_out.iter().map(|part| part["count"].as_u64().unwrap()).sum();
        assert_eq!(replay["read"].as_u64().unwrap(), replay["sent"].as_u64().unwrap() + count, "{replay}");
        assert_eq!(
            (replay["sent"].as_u64(), test["errors"]["count"].as_u64()),
            (test["requests"].as_u64(), Some(0))
        );
        assert_eq!((other.calls("set"), other.calls("exec"), other.calls("blpop")), (302, 1, 0));
    }
}

#[test]
fn what_an_append_only_file_holds_is_done_again() {
    let words = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--aof-timestamp-enabled", "yes"];
    let recorded = Redis::start(&[DEBUG.as_slice(), &words].concat());
    traffic(&recorded);
    // An annotation is written when the second changes.
    std::thread::sleep(Duration::from_millis(1100));
    recorded.cli(&["set", "later", "1"]);
    let folder = recorded.cli(&["config", "get", "dir"]).lines().nth(1).unwrap().to_owned();
    let file = format!("{folder}/appendonlydir/appendonly.aof.1.incr.aof");
    let digest = recorded.cli(&["debug", "digest"]);
    for words in [["--speed", "fast", "-P", "16"], ["--speed", "50", "-P", "1"]] {
        let other = Redis::start(&DEBUG);
        let test = played(&other, &[&[file.as_str()], words.as_slice()].concat());
        assert_eq!(other.cli(&["debug", "digest"]), digest, "{test}");
        assert_eq!(test["replay"]["sent"], test["requests"]);
    }
}
