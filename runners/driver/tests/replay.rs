//! Recordings that are played: what is sent, what is left out, and what is refused.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::support::{Manner, Server, failure_line, speedbench};

/// A folder of its own, gone with its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("speedbench-replay-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// A file in it with these bytes; its path.
    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `count` SETs of 10 clients, 10 ms apart.
fn monitor(count: u64) -> String {
    let line = |at: u64| {
        let us = at * 10_000;
        let (s, us, client) = (1_700_000_000 + us / 1_000_000, us % 1_000_000, at % 10);
        format!("{s}.{us:06} [0 127.0.0.1:{client}] \"SET\" \"k{client}\" \"{at}\\x00\"\n")
    };
    "OK\n".to_owned() + &(0..count).map(line).collect::<String>()
}

fn played(server: &Server, words: &str) -> Value {
    server.document(words)["tests"][0].take()
}

#[test]
fn the_command_wants_the_recording_first_and_has_help() {
    for (words, cause, remedy) in [
        ("replay", "no recording given", "speedbench replay FILE"),
        ("replay -p 7000", "no recording given", "speedbench replay FILE"),
        (
            "run --replay file --speed slow",
            "--speed cannot be 'slow'",
            "give fast, or how many times as fast",
        ),
    ] {
        let line = failure_line(speedbench(words.split(' ').map(String::from)), 2);
        assert!(line.contains(cause) && line.contains(remedy), "{words}: {line}");
    }
    let help = speedbench(["replay", "--help"].map(String::from));
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("--speed"));
}

#[test]
fn every_request_is_sent_in_the_order_of_its_client() {
    let (folder, server) = (Folder::new(), Server::tcp(Manner::Honest));
    let file = folder.file("monitor.txt", monitor(1000));
    let test = played(&server, &format!("--replay {file} --speed fast -c 3 -P 8 --threads 2"));
    assert_eq!((&test["requests"], &test["mode"]), (&1000.into(), &"replay".into()));
    let replay = &test["replay"];
    assert_eq!(
        (&replay["read"], &replay["sent"], &replay["clients"]),
        (&1000.into(), &1000.into(), &10.into())
    );
    assert_eq!((&replay["left_out"], &replay["unsent"]), (&Value::Array(Vec::new()), &0.into()));
    assert_eq!(
        (&test["commands"][0]["name"], &test["commands"][0]["requests"]),
        (&"set".into(), &1000.into())
    );
    for client in 0..10 {
        let value = server.seen().store[format!("k{client}").as_bytes()].clone();
        assert_eq!(value, format!("{}\0", 990 + client).into_bytes());
    }
}

#[test]
fn requests_are_due_by_their_times() {
    let (folder, server) = (Folder::new(), Server::tcp(Manner::Honest));
    let file = folder.file("monitor.txt", monitor(101));
    let test = played(&server, &format!("--replay {file} --speed 4 -c 10"));
    // 100 intervals of 10 ms, at four times the recorded speed.
    assert!(test["window_s"].as_f64().unwrap() >= 0.25, "{test}");
    assert_eq!((&test["replay"]["recorded_s"], &test["open"]["asked_rps"]), (&1.0.into(), &404.0.into()));
    let test = played(&server, &format!("--replay {file} --duration 0.5 -c 10"));
    assert_eq!(test["requests"], 50);
}

#[test]
fn what_is_left_out_has_its_reason_and_its_place() {
    let (folder, server) = (Folder::new(), Server::tcp(Manner::Honest));
    let lines = [
        r#"2.000000 [0 1.1.1.1:1] "SET" "a" "1""#,
        r#"1.000000 [0 1.1.1.1:1] "SET" "b" "1""#,
        r#"3.000000 [0 lua] "SET" "c" "1""#,
        r#"3.000000 [0 1.1.1.1:1] "AUTH" "(redacted)" "(redacted)""#,
        "nonsense",
        r#"3.000000 [0 1.1.1.1:1] "GET" "a""#,
        r#"3.000000 [0 1.1.1.1:1] "GET" "#,
    ];
    let file = folder.file("monitor.txt", lines.join("\n"));
    let test = played(&server, &format!("--replay {file} --speed 100"));
    let replay = &test["replay"];
    assert_eq!((&replay["read"], &replay["sent"], &test["requests"]), (&7.into(), &3.into(), &3.into()));
    assert_eq!((&test["hits"], &test["misses"]), (&1.into(), &0.into()));
    let left_out = replay["left_out"].as_array().unwrap();
    let places: Vec<&str> = left_out.iter().map(|part| part["first"].as_str().unwrap()).collect();
    assert_eq!(places, ["line 3", "line 4", "line 5", "line 7"]);
    assert!(left_out[3]["reason"].as_str().unwrap().starts_with("the file ends in the middle of it"));
    let backward = &replay["backward"];
    assert_eq!(
        (&backward["count"], &backward["first"], &backward["most_s"]),
        (&1.into(), &"line 2".into(), &1.0.into())
    );
}

#[test]
fn a_recording_that_breaks_off_leaves_what_was_measured() {
    let (folder, server) = (Folder::new(), Server::tcp(Manner::Honest));
    let set = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
    let huge = format!("*2\r\n$3\r\nGET\r\n$536870912\r\n{}", "k".repeat(100));
    let file = folder.file("cut.aof", format!("{set}{set}{huge}"));
    let test = played(&server, &format!("--replay {file} --speed fast"));
    assert_eq!((&test["requests"], &test["replay"]["left_out"][0]["first"]), (&2.into(), &"byte 54".into()));
    let file = folder.file("broken.aof", format!("{set}{set}garbage\r\n{set}"));
    let output = server.drive(&format!("--replay {file} --speed fast --json"));
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["tests"][0]["requests"], 2);
    let cause = document["cut_short"]["cause"].as_str().unwrap();
    assert!(cause.starts_with("broken.aof: at byte 54 no command begins: "), "{cause}");
}

#[test]
fn what_is_no_recording_is_refused_in_one_sentence() {
    let (folder, server) = (Folder::new(), Server::tcp(Manner::Honest));
    for (bytes, words, cause) in [
        ("REDIS0011", "", "it begins with a snapshot (RDB)"),
        ("hello\n", "", "line 1 is of no known recording: 'hello'"),
        ("*1\r\n$4\r\nPING\r\n", "", "has no times, so it has no pace of its own"),
        ("*1\r\n$4\r\nPING\r\n", "--speed 0", "--speed cannot be 0"),
        ("*1\r\n$4\r\nPING\r\n", "--rate 5", "--rate is given beside --replay"),
        ("*1\r\n$4\r\nPING\r\n", "--speed fast --protocol memcached", "a server that speaks RESP"),
    ] {
        let file = folder.file("recording", bytes);
        let line = failure_line(server.drive(&format!("--replay {file} {words}")), 2);
        assert!(line.contains(cause), "{line}");
    }
    let line = failure_line(server.drive("--replay /nowhere/at-all"), 2);
    assert!(line.contains("cannot read the recording at-all"), "{line}");
}

#[test]
fn a_workload_file_names_a_recording_beside_it() {
    let (folder, server) = (Folder::new(), Server::tcp(Manner::Honest));
    folder.file("monitor.txt", monitor(20));
    let workload = |replay: &str| {
        folder
            .file("suite.toml", format!("[[phase]]\nname = 'mix'\nmode = 'replay'\nreplay = {{ {replay} }}"))
    };
    let document =
        server.document(&format!("--workload {}", workload("file = 'monitor.txt', speed = 'fast'")));
    let digest = document["tests"][0]["workload"]["replay"]["digest"].as_str().unwrap().to_owned();
    let of_all = document["driver"]["workload_digest"].clone();
    let named = format!("file = 'monitor.txt', speed = 'fast', digest = '{digest}'");
    let again = server.document(&format!("--workload {}", workload(&named)));
    assert_eq!(again["driver"]["workload_digest"], of_all);
    folder.file("monitor.txt", monitor(21));
    let line = failure_line(server.drive(&format!("--workload {}", workload(&named))), 2);
    assert!(line.contains("the recording monitor.txt is another than the workload file says"), "{line}");
    let other = server.document(&format!("--workload {}", workload("file = 'monitor.txt', speed = 'fast'")));
    assert_ne!(other["driver"]["workload_digest"], of_all);
    std::os::unix::fs::symlink("/etc/hostname", folder.0.join("link")).unwrap();
    for file in ["../monitor.txt", "/etc/hostname", "link"] {
        let line =
            failure_line(server.drive(&format!("--workload {}", workload(&format!("file = '{file}'")))), 2);
        assert!(line.contains("is not below the folder of recordings"), "{line}");
    }
}

#[test]
fn recordings_may_be_in_a_folder_of_their_own() {
    let (folder, elsewhere, server) = (Folder::new(), Folder::new(), Server::tcp(Manner::Honest));
    elsewhere.file("monitor.txt", monitor(20));
    let replay = "replay = { file = 'monitor.txt', speed = 'fast' }";
    let workload = folder.file("suite.toml", format!("[[phase]]\nname = 'mix'\nmode = 'replay'\n{replay}"));
    let place = elsewhere.0.display();
    let document = server.document(&format!("--workload {workload} --recordings {place}"));
    assert_eq!(document["tests"][0]["replay"]["read"], 20);
    let line = failure_line(server.drive(&format!("--workload {workload}")), 2);
    assert!(line.contains("cannot read the recording monitor.txt"), "{line}");
    let line = failure_line(server.drive(&format!("--recordings {place}")), 2);
    assert!(line.contains("--recordings is given without --workload"), "{line}");
}

#[test]
fn a_lost_server_leaves_what_was_measured() {
    let folder = Folder::new();
    let server = Server::tcp(Manner::HangingUp(b"+OK\r\n"));
    let file = folder.file("monitor.txt", monitor(100));
    let output = server.drive(&format!("--replay {file} --speed fast -c 1 --json"));
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let replay = &document["tests"][0]["replay"];
    let number = |name: &str| replay[name].as_u64().unwrap();
    assert_eq!(number("read"), number("sent") + number("unsent"));
    assert!(document["cut_short"]["cause"].as_str().unwrap().contains("closed connection 0"), "{document}");
}

#[test]
fn replay_is_a_command_of_its_own() {
    let (folder, server) = (Folder::new(), Server::tcp(Manner::Honest));
    let file =
        folder.file("trace.csv", "0,k,3,5,1,set,60\n0,k,3,5,1,get,0\n1,l,3,5,2,get,0\n1,l,3,5,2,prepend,0\n");
    let words = ["replay", &file, "--speed", "10", "--json", "-p", &server.options[1]].map(str::to_owned);
    let document: Value = serde_json::from_slice(&speedbench(words).stdout).unwrap();
    let test = &document["tests"][0];
    assert_eq!((&test["requests"], &test["hits"], &test["misses"]), (&3.into(), &1.into(), &1.into()));
    assert_eq!(
        (&test["replay"]["format"], &test["replay"]["left_out"][0]["first"]),
        (&"twitter".into(), &"line 4".into())
    );
}
