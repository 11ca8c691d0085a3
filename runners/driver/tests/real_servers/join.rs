//! Two processes that share the load on a real server, as two machines would.

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::machine::{Directory, OURS, Redis, said};

/// Run both parts of `words` at the same time; their files.
fn both(directory: &Directory, words: &[&str]) -> [String; 2] {
    let start = SystemTime::now() + Duration::from_secs(8);
    let start = start.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64().to_string();
    let begin = |part: &str| {
        let shared = ["run", "--json", "--start-at", &start, "--part", part];
        Command::new(OURS).args(shared).args(words).stdout(Stdio::piped()).spawn().unwrap()
    };
    let children = ["1/2", "2/2"].map(begin);
    let mut number = 0;
    children.map(|child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        number += 1;
        let file = directory.path(&format!("part{number}.json"));
        std::fs::write(&file, output.stdout).unwrap();
        file
    })
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn joined(files: &[String; 2], least: &str) -> Value {
    document(&said(OURS, &["join", "--json", "--overlap", least, &files[0], &files[1]]))
}

#[test]
fn two_processes_measure_as_one_and_the_server_agrees() {
    let (redis, directory) = (Redis::start(&[]), Directory::new());
    let load = ["-s", &redis.socket, "-t", "get", "-c", "20", "-P", "4", "-r", "1000", "--prefill"];
    let paced = ["--rate", "4000", "--duration", "2", "--warmup", "0", "--server-pid", &redis.pid()];
    let words = [load.as_slice(), &paced].concat();
    let files = both(&directory, &words);
    let document = joined(&files, "0.5");
    let test = &document["tests"][0];
    let count = |name: &str| test[name].as_u64().unwrap();
    assert_eq!((count("requests") + count("unfinished"), count("hits")), (8000, count("requests")));
    assert_eq!(redis.calls("get"), 8000);
    assert_eq!((&test["open"]["asked_rps"], &test["open"]["unsent"]), (&4000.0.into(), &0.into()));
    assert!((test["throughput_rps"].as_f64().unwrap() - 4000.0).abs() < 100.0, "{test}");
    assert_eq!(document["prefill"]["keys"], 1000);
    assert_eq!(document["joined"]["parts"].as_array().unwrap().len(), 2);
    assert!(test["server_cpu"]["ns_per_request"].as_f64() > Some(0.0));
    // It is a result like that of one machine: compared with itself as a run, nothing differs.
    let file = directory.path("joined.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let table = said(OURS, &["compare", &file, &file]);
    assert!(table.contains("  requests/s") && table.contains("+0.0%"), "{table}");
    let table = said(OURS, &["join", "--overlap", "0.5", &files[0], &files[1]]);
    assert!(table.contains("8000 latencies") && table.contains("2 machines"), "{table}");
}

#[test]
fn the_keys_of_both_parts_are_those_of_one_machine() {
    let debug = ["--enable-debug-command", "yes"];
    let (one, two, directory) = (Redis::start(&debug), Redis::start(&debug), Directory::new());
    let load = ["-t", "set", "-c", "9", "-n", "5000", "-r", "1000000000", "-d", "40", "-P", "8"];
    said(OURS, &[["run", "--json", "-s", &one.socket].as_slice(), &load].concat());
    let files = both(&directory, &[["-s", two.socket.as_str()].as_slice(), &load].concat());
    assert_eq!(two.cli(&["debug", "digest"]), one.cli(&["debug", "digest"]));
    // Parts with a number of requests end when each is done.
    assert_eq!(joined(&files, "0.000001")["tests"][0]["requests"], 5000);
}
