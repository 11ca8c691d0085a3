//! What Debian's memcached counted, and what is said when it refuses or goes.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;

use super::machine::{Directory, OURS, output, said};
use super::memcached_server::{Memcached, failure};

const COUNTS: [&str; 13] = [
    "cmd_get",
    "cmd_set",
    "get_hits",
    "get_misses",
    "incr_hits",
    "decr_hits",
    "touch_hits",
    "delete_hits",
    "delete_misses",
    "cas_badval",
    "cas_misses",
    "incr_misses",
    "touch_misses",
];

/// What the server counted while `run` ran, without what is 0.
fn counted(server: &Memcached, run: impl FnOnce()) -> HashMap<&'static str, u64> {
    let before = server.stats();
    run();
    let after = server.stats();
    let more = COUNTS.into_iter().map(|name| (name, after[name] - before[name]));
    more.filter(|(_, count)| *count > 0).collect()
}

/// Each test, with what 1000 requests of it and the storing of its keys (10, or one per request) do to the statistics.
const EFFECTS: [(&str, &[(&str, u64)]); 28] = [
    ("mn", &[]),
    ("version", &[]),
    ("set", &[("cmd_set", 1000)]),
    ("get", &[("cmd_set", 10), ("cmd_get", 1000), ("get_hits", 1000)]),
    ("get_miss", &[("cmd_get", 1000), ("get_misses", 1000)]),
    ("gets_10", &[("cmd_set", 10), ("cmd_get", 10_000), ("get_hits", 10_000)]),
    ("get_100", &[("cmd_set", 10), ("cmd_get", 100_000), ("get_hits", 100_000)]),
    ("add", &[("cmd_set", 1000)]),
    ("replace", &[("cmd_set", 1010)]),
    ("append", &[("cmd_set", 1010)]),
    ("cas", &[("cmd_set", 1010), ("cas_badval", 1000)]),
    ("incr", &[("cmd_set", 10), ("incr_hits", 1000)]),
    ("decr", &[("cmd_set", 10), ("decr_hits", 1000)]),
    ("touch", &[("cmd_set", 10), ("touch_hits", 1000)]),
    ("delete", &[("cmd_set", 1000), ("delete_hits", 1000)]),
    ("ms", &[("cmd_set", 1000)]),
    ("mg", &[("cmd_set", 10), ("cmd_get", 1000), ("get_hits", 1000)]),
    ("mg_quiet", &[("cmd_set", 10), ("cmd_get", 10_000), ("get_hits", 10_000)]),
    ("set_noreply", &[("cmd_set", 10_000)]),
    ("add_noreply", &[("cmd_set", 10_000)]),
    ("replace_noreply", &[("cmd_set", 10_010)]),
    ("append_noreply", &[("cmd_set", 10_010)]),
    ("prepend_noreply", &[("cmd_set", 10_010)]),
    ("cas_noreply", &[("cmd_set", 10_010), ("cas_badval", 10_000)]),
    ("incr_noreply", &[("cmd_set", 10), ("incr_hits", 10_000)]),
    ("decr_noreply", &[("cmd_set", 10), ("decr_hits", 10_000)]),
    ("touch_noreply", &[("cmd_set", 10), ("touch_hits", 10_000)]),
    ("delete_noreply", &[("cmd_set", 10_000), ("delete_hits", 10_000)]),
];

#[test]
fn exactly_what_was_asked_arrives() {
    for server in [Memcached::tcp(&[]), Memcached::unix(&[])] {
        for (test, effects) in EFFECTS {
            for options in ["-c 7 -P 16", "-c 1", "-c 5 --threads 2 -d 100 -k 0 -P 10"] {
                server.ask("flush_all\r\n");
                let counts = counted(&server, || {
                    server.ours(&format!("-q -r 10 -n 1000 -t {test} {options}"));
                });
                let expected: HashMap<&str, u64> = effects.iter().copied().collect();
                assert_eq!(counts, expected, "{test} {options}");
            }
        }
    }
}

#[test]
fn every_test_is_answered() {
    let server = Memcached::tcp(&["-m", "256"]);
    let csv = server.ours("--csv -n 300 -r 20 -P 3 -c 4");
    assert_eq!(csv.lines().count(), 1 + 20, "{csv}");
    assert!(csv.lines().nth(1).unwrap().starts_with("\"MN\",\""), "{csv}");
    let extras = "get_10,gets,prepend,gat_10,gat_100,gats,gats_10,gats_100,ms_base64,ms_quiet,mg_flags,mg_base64,\
                  mg_touch,md,ma,ma_value";
    let text = server.ours(&format!("-q -n 300 -r 20 -d 2000 -P 3 -c 4 -t {extras}"));
    assert_eq!(text.trim().lines().count(), 16, "{text}");
    assert!(!text.contains("misses="), "{text}");
    assert!(server.ours("-q -n 300 -t get_miss").contains("misses=300"));
    let report = server.ours("-n 300 -t get -d 20");
    assert!(report.contains("====== GET (hit) ======\n  300 requests completed"), "{report}");
    assert!(report.contains("  hits: 300\n  misses: 0\n"), "{report}");
}

#[test]
fn the_document_tells_hits_and_misses_as_the_server_does() {
    let server = Memcached::unix(&["-m", "256"]);
    let document =
        server.document("--prefill -r 1000 -d 32 -t get,get_miss,mg_quiet,get:9+set:1 -n 2000 -P 8");
    assert_eq!(document["schema"], "speedbench.v1");
    assert_eq!(document["target"]["protocol"], "memcached");
    assert_eq!(document["prefill"]["keys_in_server"], 1000);
    let test = |place: usize, field: &str| document["tests"][place][field].as_u64().unwrap();
    let rates: Vec<_> = (0..3).map(|place| (test(place, "hits"), test(place, "misses"))).collect();
    assert_eq!(rates, [(2000, 0), (0, 2000), (20_000, 0)]);
    assert_eq!(document["tests"][3]["name"], "get:9+set:1");
    let stats = server.stats();
    assert_eq!(stats["get_misses"], 2000);
    assert_eq!(stats["get_hits"], test(0, "hits") + test(2, "hits") + test(3, "hits"));
    assert_eq!(stats["cmd_set"], 1000 + 2000 - test(3, "hits"));
    // Half of the keys.
    let server = Memcached::unix(&[]);
    server.document("--prefill -r 500 -t version -n 1");
    let before = server.stats();
    let half = server.document("-r 1000 -t get_10 -n 500 --window rolling -P 4");
    let (hits, misses) = (&half["tests"][0]["hits"], &half["tests"][0]["misses"]);
    let after = server.stats();
    assert_eq!(hits.as_u64().unwrap(), after["get_hits"] - before["get_hits"]);
    assert_eq!(misses.as_u64().unwrap(), after["get_misses"] - before["get_misses"]);
    assert_eq!(hits.as_u64().unwrap() + misses.as_u64().unwrap(), 5000);
}

/// What a flush has ended is counted by the server for a second or two; what was stored right after it stays.
#[test]
fn a_cache_trace_hits_and_misses_as_the_server_counts() {
    let (server, directory) = (Memcached::tcp(&[]), Directory::new());
    let file = directory.path("trace.csv");
    let row = |at: u64| {
        let operation =
            ["get", "gets", "set", "delete", "add", "append", "prepend", "replace"][at as usize % 8];
        format!("{},key{},12,{},{},{operation},60\n", at / 1000, at * 7 % 50, at % 900, at % 11)
    };
    std::fs::write(&file, (0..3000).map(row).collect::<String>()).unwrap();
    let document = server.document(&format!("--replay {file} --speed fast -c 5 -P 4"));
    let (test, stats) = (&document["tests"][0], server.stats());
    assert_eq!((&test["requests"], &test["errors"]["count"]), (&3000.into(), &0.into()));
    let counted = |name: &str| test[name].as_u64().unwrap();
    assert_eq!((counted("hits"), counted("misses")), (stats["get_hits"], stats["get_misses"]));
    assert!(counted("hits") > 0 && counted("misses") > 0, "{test}");
}

#[test]
fn a_prefill_right_after_a_flush_works() {
    let server = Memcached::tcp(&["-m", "64"]);
    for keys in [1000, 300, 1, 700] {
        let document = server.document(&format!("--prefill -r {keys} -t get -n 3000 -P 10"));
        assert_eq!(document["prefill"]["keys_in_server"], keys);
        assert_eq!(
            (&document["tests"][0]["hits"], &document["tests"][0]["misses"]),
            (&3000.into(), &0.into())
        );
        let line = server.failure("run", "--protocol memcached --prefill -r 10 -t get");
        assert!(line.contains(&format!("holds {keys} keys already")), "{line}");
        assert!(line.contains("--prefill=force"), "{line}");
        server.ask("flush_all\r\n");
    }
}

#[test]
fn windows_mixes_and_threads_keep_their_answers_apart() {
    let server = Memcached::tcp(&["-m", "256"]);
    let mix = "mn:1+version:1+set:3+get:3+gets_10:1+mg_quiet:1+ms_quiet:1+incr:2+ma_value:1+mg_flags:1+md:1+cas:1+set_noreply:1+delete_noreply:1";
    for options in ["-P 16 -c 5", "-P 7 -c 4 --threads 2 --window rolling", "-c 3 -d 5000"] {
        let words = format!("-t {mix} -r 100 -n 5000 {options}");
        let document = server.document(&words);
        assert_eq!(document["tests"][0]["requests"], 5000, "{options}");
        assert_eq!(document["tests"][0]["errors"]["count"], 0, "{options}");
    }
    let timed =
        Memcached::tcp(&[]).document("-t get,delete -r 100 --prefill --duration 0.2 --warmup 0.1 -P 4");
    assert!(timed["tests"][0]["requests"].as_u64().unwrap() > 0);
}

#[test]
fn refusals_are_told() {
    let small = Memcached::tcp(&["-m", "256"]);
    for first in ["memcached-benchmark", "run"] {
        let protocol = if first == "run" { "--protocol memcached" } else { "" };
        let message = small.failure(first, &format!("{protocol} -t set -d 1100000 -c 2 -n 20"));
        assert!(message.contains("with an error, SERVER_ERROR object too large for cache: "), "{message}");
        assert!(message.contains("larger items (-I)"), "{message}");
    }
    let document = small.document("-t set,ms_quiet -d 1100000 -n 10 -c 2 --allow-errors");
    assert_eq!(
        (&document["tests"][0]["errors"]["count"], &document["tests"][0]["requests"]),
        (&10.into(), &10.into())
    );
    assert_eq!(document["tests"][1]["errors"]["count"], 10);
    assert_eq!(document["tests"][0]["errors"]["first"], "SERVER_ERROR object too large for cache");
    // Of a store with noreply the server says nothing: its statistics do.
    for (first, protocol) in [("memcached-benchmark", ""), ("run", "--protocol memcached")] {
        let output =
            output(OURS, &small.words(first, &format!("{protocol} -t set_noreply -d 1100000 -c 2 -n 5")));
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("refused 50 stores during set_noreply without a word"), "{message}");
        assert!(message.contains("larger items (-I)") && message.lines().count() == 1, "{message}");
    }
    let allowed = small.document("-t set_noreply -d 1100000 -n 5 -c 2 --allow-errors");
    assert_eq!(allowed["tests"][0]["requests"], 5);
    let full = Memcached::tcp(&["-m", "8"]);
    let message = full.failure("run", "--protocol memcached --prefill -r 20000 -d 2000 -t get");
    assert!(
        message.contains("keys after a prefill of 20000") && message.contains("eviction (-m)"),
        "{message}"
    );
}

#[test]
fn a_server_that_goes_or_is_another_is_told() {
    let absent = failure(&["memcached-benchmark", "-p", "1", "-t", "get"], 1);
    assert!(absent.contains("cannot connect to tcp:127.0.0.1:1"), "{absent}");
    for (said, cause, remedy) in [
        ("VALUE key:000000000000 0 3\r\nab", "the server closed connection", "server's log"),
        (
            "-ERR unknown command\r\n",
            "answered get with '-ERR unknown command' where VALUE or END",
            "of memcached",
        ),
        ("END\r\nEND\r\n", "replies too many", "of memcached"),
        ("ERROR\r\n", "the server answered", "a server that knows the command"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        std::thread::spawn(move || {
            // Keys are stored as they should be; then comes what the case is about.
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut chunk = [0; 4096];
                    while let Ok(1..) = stream.read(&mut chunk) {
                        let is_get = chunk.starts_with(b"get");
                        let _ = stream.write_all(if is_get { said.as_bytes() } else { b"STORED\r\n" });
                        if is_get {
                            return;
                        }
                    }
                });
            }
        });
        let message =
            failure(&["memcached-benchmark", "-p", &port, "-t", "get", "-n", "100", "-c", "1", "-q"], 1);
        assert!(message.contains(cause) && message.contains(remedy), "{message}");
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let message = failure(&["memcached-benchmark", "-p", &port, "-t", "mn", "--timeout", "0.2"], 1);
    assert!(message.contains("the server stopped answering MN"), "{message}");
}

#[test]
fn a_full_server_is_told() {
    let server = Memcached::tcp(&["-c", "20", "-o", "maxconns_fast"]);
    for first in ["memcached-benchmark", "run"] {
        let protocol = if first == "run" { "--protocol memcached" } else { "" };
        let message = server.failure(first, &format!("{protocol} -t get_miss -c 60 -n 1000"));
        assert!(
            message.contains("Too many open connections") && message.contains("limit of clients"),
            "{message}"
        );
    }
}

#[test]
fn wrong_words_are_told() {
    for (words, cause) in [
        ("memcached-benchmark -a secret", "without a user"),
        ("memcached-benchmark --cluster", "Invalid option \"--cluster\""),
        ("memcached-benchmark get key", "Invalid option \"get\""),
        ("memcached-benchmark -t get,lpush", "there is no test 'lpush'"),
        ("memcached-benchmark -n 0", "there is nothing to measure"),
        ("memcached-benchmark -d 20000000", "-d is above 16 MiB"),
        ("run --protocol binary", "--protocol cannot be 'binary'"),
        ("run --protocol memcached -t lpush", "there is no test 'lpush'"),
        ("run --protocol memcached -a secret", "without a user"),
        ("run --protocol memcached --user a%20b -a secret", "--user has a blank"),
        ("run --protocol memcached --dbnum 1", "--dbnum is given for memcached"),
        ("run --protocol memcache_binary", "the binary one, and SASL, which is part of it, is not"),
        ("run --protocol memcached --sasl", "SASL is part of memcached's binary protocol"),
        (
            "memtier-benchmark --protocol memcache_binary",
            "the binary one, and SASL, which is part of it, is not",
        ),
        ("run -t gets", "there is no test 'gets'"),
    ] {
        let message = failure(
            &words.split(' ').map(|word| if word == "a%20b" { "a b" } else { word }).collect::<Vec<_>>(),
            2,
        );
        assert!(message.contains(cause), "{message}");
    }
}

#[test]
fn values_are_verified() {
    let server = Memcached::tcp(&[]);
    let directory = Directory::new();
    let path = directory.path("verify.toml");
    let file = "protocol = 'memcached'\n[[phase]]\ntest = 'get:5+gat+mg+mg_flags+gets+set+ms'\nprefill = true\nverify = 1.0\n\
        keys = { count = 500, distribution = 'zipf' }\nvalues.range = [1, 5000]\nttl_s = [1000, 2000]\n\
        expect = { hit_rate = 1.0, keys = 500 }\npipeline = 4\nrequests = 20000\n";
    std::fs::write(&path, file).unwrap();
    let run = |words: &str| output(OURS, &server.words("run", &format!("--workload {path} --json {words}")));
    let first = run("");
    let document: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(document["tests"][0]["misses"], 0);
    // Another seed has other values: those of the first run are wrong then.
    std::fs::write(&path, file.replace("prefill = true", "").replace("+set+ms", "")).unwrap();
    let second = String::from_utf8(run("--seed 2").stderr).unwrap();
    assert!(second.contains("does not hold its value"), "{second}");
}

#[test]
fn a_duel_prefills_both_and_counts_their_hits() {
    let (base, head) = (Memcached::unix(&[]), Memcached::tcp(&[]));
    let places = ["duel", "--base", &base.place[1], "--head", &head.place[1]];
    let load = "--protocol memcached --prefill -r 1000 -t get:9+incr:1 -P 4 --duration 0.3 --json";
    let words: Vec<&str> = places.into_iter().chain(load.split(' ')).collect();
    let document: serde_json::Value = serde_json::from_str(&said(OURS, &words)).unwrap();
    for (side, server) in [("base", &base), ("head", &head)] {
        let result = &document["tests"][0][side];
        assert_eq!((&result["misses"], &result["errors"]["count"]), (&0.into(), &0.into()));
        assert!(server.stats()["get_hits"] > result["requests"].as_u64().unwrap() / 2);
    }
}
