//! What a real server counted.

use std::time::{Duration, Instant};

use super::machine::{OURS, Redis, failure, ours, output, said};
use crate::support::{speedbench, written};

#[test]
fn exactly_n_requests_arrive() {
    let redis = Redis::start(&[]);
    for (words, command) in [
        ("-t set -n 1001 -P 16 -c 7", "set"),
        ("-t get -n 1009 -P 100 -c 50 --threads 3", "get"),
        ("-t mset -n 1 -c 50", "mset"),
        ("-t incr -n 333 -k 0 -P 5", "incr"),
        ("-n 777 -3 -r 10 --rps 20000 hset h __rand_int__ v", "hset"),
    ] {
        redis.cli(&["config", "resetstat"]);
        let words: Vec<&str> = words.split(' ').collect();
        ours(&[&["-s", &redis.socket, "-q"], words.as_slice()].concat());
        let asked = words[1 + words.iter().position(|word| *word == "-n").unwrap()];
        assert_eq!(redis.calls(command).to_string(), asked, "{words:?}");
    }
}

#[test]
fn sequences_transactions_and_placeholders_do_what_they_say() {
    let redis = Redis::start(&[]);
    let words = "-q -n 500 -r 100 -P 2 multi ; 3 incr a:__rand_1st__ ; exec";
    ours(&[&["-p", &redis.port], words.split(' ').collect::<Vec<_>>().as_slice()].concat());
    assert_eq!((redis.calls("multi"), redis.calls("incr"), redis.calls("exec")), (100, 300, 100));
    redis.cli(&["flushall"]);
    // The same number in both words, all keys once, in fresh order.
    let words = "-q -n 1000 -r 1000 -c 7 --sequential set k:__rand_1st__ __rand_1st__:__data__ -d";
    let words: Vec<&str> = words.strip_suffix(" -d").unwrap().split(' ').collect();
    ours(&[&["-p", &redis.port, "-d", "5"], words.as_slice()].concat());
    assert_eq!(redis.cli(&["dbsize"]).trim(), "1000");
    assert!(redis.cli(&["get", "k:000000000999"]).starts_with("000000000999:VXK"));
    redis.cli(&["flushall"]);
    ours(&["-p", &redis.port, "-q", "-n", "1000", "-c", "7", "sadd", "seen", "__seq__"]);
    assert_eq!(redis.cli(&["scard", "seen"]).trim(), "1000");
}

#[test]
fn the_commands_of_a_sequence_share_their_numbers() {
    let redis = Redis::start(&[]);
    for pipeline in ["1", "16"] {
        redis.cli(&["flushall"]);
        redis.cli(&["config", "resetstat"]);
        let words = "-q -n 2000 -r 1000000 -- set k__rand_1st__ v ; get k__rand_1st__";
        ours(
            &[&["-p", &redis.port, "-P", pipeline], words.split(' ').collect::<Vec<_>>().as_slice()].concat(),
        );
        assert!(redis.cli(&["info", "stats"]).contains("keyspace_hits:1000\r\nkeyspace_misses:0\r\n"));
    }
    redis.cli(&["flushall"]);
    let words = "-q -n 2000 -r 1000000 multi ; lpush a__rand_2nd__ x ; rpop a__rand_2nd__ ; exec";
    ours(&[&["-p", &redis.port], words.split(' ').collect::<Vec<_>>().as_slice()].concat());
    assert_eq!(redis.cli(&["dbsize"]).trim(), "0");
}

/// How a run of `sequence` on three connections ends; the test keeps it in a file called `name`.
fn dialogue(redis: &Redis, name: &str, sequence: &str, more: &str) -> std::process::Output {
    let text = format!("[[phase]]\nclients = 3\nrequests = 600\nsequence = [{sequence}]\n{more}\n");
    let path = written(name, &text);
    output(OURS, &["run", "-p", &redis.port, "--json", "--workload", &path])
}

#[test]
fn a_command_takes_what_the_reply_before_it_says() {
    let redis = Redis::start(&[]);
    let said = |sequence: &str| {
        let ended = dialogue(&redis, "taken.toml", sequence, "keys = { count = 1000 }");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        serde_json::from_slice::<serde_json::Value>(&ended.stdout).unwrap()
    };
    said("{ request = 'XADD s * f v' }, { request = 'XDEL s __reply__' }");
    assert_eq!((redis.cli(&["xlen", "s"]).trim(), redis.calls("xadd")), ("0", 300));
    // The number is the same in the whole sequence, and the reply is a number.
    said(
        "{ request = 'INCR c:__rand_1st__' }, { request = 'SET d:__rand_1st__ __reply__' }, { request = 'PING' }",
    );
    let (counter, copy) = (redis.cli(&["keys", "c:*"]), redis.cli(&["keys", "d:*"]));
    let keys =
        |text: &str| text.lines().map(|key| key[2..].to_owned()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(keys(&counter), keys(&copy));
    for key in counter.lines() {
        assert_eq!(redis.cli(&["get", key]), redis.cli(&["get", &format!("d:{}", &key[2..])]), "{key}");
    }
    // A cursor is the first text of its list; no cursor is refused.
    said("{ request = 'SCAN 0 COUNT 3' }, { request = 'SCAN __reply__ COUNT 3' }");
    assert_eq!(redis.calls("scan"), 600);
    // Nothing to take: the sequence begins again.
    let spops = said("{ request = 'SPOP empty' }, { request = 'SADD other __reply__' }");
    assert_eq!((redis.calls("spop"), redis.calls("sadd")), (600, 0));
    assert_eq!(spops["tests"][0]["commands"][1]["requests"], 0);
}

#[test]
fn a_reply_that_cannot_be_taken_ends_the_run_with_what_was_counted() {
    let redis = Redis::start(&[]);
    redis.cli(&["set", "long", &"x".repeat(513)]);
    let long = "{ request = 'PING' }, { request = 'GET long' }, { request = 'SET copy __reply__' }";
    let ended = dialogue(&redis, "refused.toml", long, "");
    let message = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{message}");
    assert!(message.contains("more than 512 bytes") && message.trim().lines().count() == 1, "{message}");
    for (sequence, more, cause) in [
        ("{ request = 'SET a __reply__' }", "", "the first command holds __reply__"),
        ("{ request = 'GET a' }, { request = 'SET a __reply__' }", "pipeline = 2", "pipeline is above 1"),
        ("{ request = 'GET a' }, { request = 'SET a __reply__' }", "verify = 1.0", "beside verify"),
    ] {
        let ended = dialogue(&redis, "refused.toml", sequence, more);
        let message = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(2) && message.contains(cause), "{message}");
    }
}

#[test]
fn each_placeholder_counts_for_itself() {
    let redis = Redis::start(&[]);
    ours(&["-p", &redis.port, "-q", "-r", "50", "-n", "50", "--sequential", "-t", "zadd"]);
    assert_eq!(redis.cli(&["zcard", "myzset"]).trim(), "50");
}

#[test]
fn quoted_words_are_binary() {
    let redis = Redis::start(&[]);
    ours(&["-p", &redis.port, "-q", "-n", "10", "set", "x", r#""a\x00\xff\n""#]);
    assert_eq!(redis.cli(&["--no-raw", "get", "x"]).trim(), r#""a\x00\xff\n""#);
}

#[test]
fn the_word_from_stdin_is_sent_but_not_shown() {
    let redis = Redis::start(&[]);
    // Stdin is empty in these tests.
    let text = ours(&["-p", &redis.port, "--csv", "-n", "10", "-x", "append", "x:__data__"]);
    assert!(text.contains("\n\"append x:__data__\",\""), "{text}");
    assert_eq!(redis.cli(&["exists", "x:VXK"]).trim(), "1");
}

#[test]
fn users_databases_and_uris_are_obeyed() {
    let redis = Redis::start(&["--requirepass", "top", "--user", "joe", "on", ">secret", "~*", "+@all"]);
    let (uri, port) = (format!("redis://joe:secret@localhost:{}/3", redis.port), redis.port.as_str());
    ours(&["-u", &uri, "-q", "-n", "50", "-t", "set"]);
    ours(&["-p", port, "-a", "secret", "--user", "joe", "--dbnum", "4", "-3", "-n", "50", "-t", "set", "-q"]);
    let keyspace = redis.cli(&["-a", "top", "--no-auth-warning", "info", "keyspace"]);
    assert!(keyspace.contains("db3:keys=1") && keyspace.contains("db4:keys=1"), "{keyspace}");
    let message = failure(&["-p", port, "-a", "wrong", "--user", "joe", "-t", "set"], 1);
    assert!(
        message.contains("the login: Error from server: WRONGPASS") && message.contains("-a and --user"),
        "{message}"
    );
    let message = failure(&["-p", port, "-t", "set"], 1);
    assert!(message.contains("NOAUTH") && message.contains("-a"), "{message}");
    let message = failure(&["-p", port, "-a", "top", "--dbnum", "99", "-t", "set"], 1);
    assert!(message.contains("SELECT 99: Error from server: ERR DB index"), "{message}");
}

#[test]
fn push_frames_between_replies_are_not_counted() {
    let redis = Redis::start(&[]);
    let words = "-q -n 2000 -c 4 -P 4 -3 --enable-tracking -r 20 get k:__rand_int__ ; set k:__rand_int__ v";
    ours(&[&["-p", &redis.port], words.split(' ').collect::<Vec<_>>().as_slice()].concat());
    assert_eq!((redis.calls("get"), redis.calls("set")), (1000, 1000));
}

#[test]
fn a_rate_is_kept_and_a_duration_is_whole() {
    let redis = Redis::start(&[]);
    let text = ours(&[
        "-p",
        &redis.port,
        "--csv",
        "--duration",
        "0.5",
        "--warmup",
        "0.1",
        "--rps",
        "1000",
        "-t",
        "get",
    ]);
    assert_eq!(text.lines().count(), 2);
    // 0.6 s at 1000 per second and nothing beyond, however fast the machine is.
    assert!((1..=651).contains(&redis.calls("get")), "{}", redis.calls("get"));
}

#[test]
fn functions_are_loaded_and_called() {
    let redis = Redis::start(&[]);
    let text = ours(&["-p", &redis.port, "-q", "-n", "20", "-t", "function_load,fcall,mget"]);
    assert_eq!(text.matches("requests per second").count(), 3);
    assert_eq!((redis.calls("fcall"), redis.calls("mget")), (20, 20));
}

#[test]
fn a_full_server_is_told() {
    let redis = Redis::start(&["--maxclients", "20", "--user", "joe", "on", ">top", "~*", "&*", "+@all"]);
    for words in [
        "run -t get -c 40 -n 1000",
        "run -t get -c 40 -n 1000 --user joe -a top",
        "run -t get:9+set:1 -c 40 -n 10000 -P 16 -3",
        "run --mode idle -c 40 --duration 0.2",
        "run --mode pubsub -c 40 -n 100 --user joe -a top",
        "run --mode churn -c 40 -n 4000 --user joe -a top",
        "redis-benchmark -q -t get -c 40",
    ] {
        for place in [["-p", &redis.port], ["-s", &redis.socket]] {
            let (program, rest) = words.split_once(' ').unwrap();
            let output =
                output(OURS, &[&[program], &place[..], &rest.split(' ').collect::<Vec<_>>()].concat());
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{words}: {message}");
            assert!(
                message.contains("max number of clients reached") && message.contains("limit of clients"),
                "{words}: {message}"
            );
        }
    }
}

#[test]
fn memory_that_does_not_grow_is_not_told_as_negative() {
    let redis = Redis::start(&[]);
    // The server gives the memory of this value back while the connections are held.
    redis.cli(&["eval", "redis.call('set', 'big', string.rep('x', 100000000))", "0"]);
    let pid = redis.cli(&["info", "server"]);
    let pid = pid.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().to_owned();
    let words =
        ["run", "-s", &redis.socket, "--mode", "idle", "-c", "3", "--duration", "2", "--server-pid", &pid];
    let run = |more: &'static str| {
        let words: Vec<String> =
            words.iter().map(|word| (*word).to_owned()).chain([more.to_owned()]).collect();
        std::thread::spawn(move || said(OURS, &words))
    };
    let idle = run("--json");
    let connected = || redis.cli(&["info", "clients"]).contains("connected_clients:4"); // redis-cli is one of them
    let deadline = Instant::now() + Duration::from_secs(100);
    while !connected() {
        assert!(Instant::now() < deadline, "the driver does not connect");
        std::thread::sleep(Duration::from_millis(20));
    }
    redis.cli(&["flushall"]);
    let document: serde_json::Value = serde_json::from_str(&idle.join().unwrap()).unwrap();
    let memory = &document["tests"][0]["connections"]["server_memory"];
    assert!(memory["open_bytes"].as_u64() < memory["before_bytes"].as_u64(), "{memory}");
    assert_eq!(memory["bytes_per_connection"], 0.0);
}

#[test]
fn a_scan_sees_each_key_and_begins_again() {
    let redis = Redis::start(&[]);
    redis.cli(&["eval", "for i = 1, 1000 do redis.call('set', i, i) end", "0"]);
    let path = written("memtier-scan.json", "");
    let words = "--scan-incremental-iteration -c 2 -t 1 -n 220 --json-out-file";
    let words = ["memtier-benchmark", "-p", &redis.port].into_iter().chain(words.split(' '));
    let output = speedbench(words.chain([path.as_str(), "--command", "SCAN 0 COUNT 10"]).map(str::to_owned));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let count = |title: &str| document["ALL STATS"][title]["Count"].as_u64().unwrap();
    // A scan of 1000 keys in steps of about 10 takes fewer than 110 requests.
    assert!((4..=20).contains(&count("Scan 0s")), "{document}");
    assert_eq!(count("Scan 0s") + count("Scan <cursor>s"), 440);
    assert_eq!(
        (redis.calls("scan"), redis.cli(&["info", "errorstats"]).contains("errorstat_")),
        (440, false)
    );
}
