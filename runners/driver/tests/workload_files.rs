//! Workload files from end to end, against the counting server.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{Manner, Server, failure_line, speedbench, written};
use serde_json::{Value, json};

const TWO_PHASES: &str = r#"
seed = 5
[[phase]]
name = "fill"
test = "set"
clients = 3
keys = { count = 10 }
requests = 100
[[phase]]
commands = [{ request = "GET key:__key__", weight = 3 }, { test = "set" }]
clients = 4
threads = 2
pipeline = 2
keys = { count = 10, distribution = "sequential" }
requests = 400
"#;

#[test]
fn phases_run_in_their_order() {
    let server = Server::tcp(Manner::Honest);
    let path = written("two.toml", TWO_PHASES);
    let document = server.document(&format!("--workload {path}"));
    assert_eq!(document["driver"]["seed"], 5);
    let tests = document["tests"].as_array().unwrap();
    assert_eq!((&tests[0]["name"], &tests[0]["requests"]), (&"fill".into(), &100.into()));
    assert_eq!((&tests[1]["name"], &tests[1]["requests"]), (&"phase-2".into(), &400.into()));
    assert_eq!(tests[1]["workload"]["commands"][0]["request"], "GET key:__key__");
    let seen = server.seen();
    assert_eq!(seen.calls("GET") + seen.calls("SET"), 500);
    assert!((80..120).contains(&(seen.calls("SET") - 100)), "{}", seen.calls("SET"));
    assert_eq!(seen.streams.len(), 7);
}

/// The result of the workload that is given on stdin.
fn measured(server: &Server, text: &str, seed: u64) -> Value {
    let mut child = Command::new(env!("CARGO_BIN_EXE_speedbench"))
        .args(["run", "--workload", "-", "--json", "--seed", &seed.to_string()])
        .args(&server.options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What each connection sent, in an order that does not depend on who came first.
fn streams(server: &Server) -> Vec<Vec<u8>> {
    let mut streams = server.seen().streams.clone();
    streams.sort_unstable();
    streams
}

/// Measure once as `options` say and once as the result says that it was; both must send the same.
fn assert_repeats(options: &str) {
    let (first, again) = (Server::tcp(Manner::Honest), Server::tcp(Manner::Honest));
    let document = first.document(options);
    let phases: Vec<&Value> =
        document["tests"].as_array().unwrap().iter().map(|test| &test["workload"]).collect();
    let text = json!({ "phase": phases }).to_string();
    let repeated = measured(&again, &text, document["driver"]["seed"].as_u64().unwrap());
    assert_eq!(repeated["driver"]["workload_digest"], document["driver"]["workload_digest"], "{options}");
    assert_eq!(repeated["tests"][0]["workload"], document["tests"][0]["workload"], "{options}");
    assert!(streams(&first) == streams(&again) && !streams(&first).is_empty(), "{options}");
}

#[test]
fn what_a_result_says_of_its_workload_can_be_measured_again() {
    assert_repeats("-t get:9+set:1,incr -c 3 -P 4 -r 1000 -d 20 -n 600 --prefill --seed 5 --threads 2");
    assert_repeats("-t set -c 2 -r 50 -n 100 --window rolling -P 3");
    assert_repeats("-t get -c 2 -n 40 --rate 4000");
    for (at, phase) in [
        r#"commands = [
            { request = "SET a:__key__ \"x y\\x00\\xff\" EX __ttl__", weight = 1500, name = "odd" },
            { request = ["SET", "b ü:__rand_1st__", "__data__"] },
            { test = "get" },
        ]
        keys = { count = 1000, distribution = "zipf", exponent = 1.2 }
        values = { weighted = [[3, 1], [30, 9]] }
        ttl_s = [60, 3600]"#,
        r#"sequence = [{ request = "SET k:__key__ __data__", times = 3 }, { request = "GET k:__key__" }]
        keys = { count = 100, distribution = "gaussian", mean = 0.25, deviation = 0.1 }
        values = { range = [1, 99] }
        prefill = true
        verify = 1.0
        pipeline = 2
        window = "rolling""#,
        r#"sequence = [
            { request = "SET a:__rand_1st__ __data__" },
            { request = "SET b:__key__ __data__" },
            { request = "GET a:__rand_1st__" },
        ]
        keys = { count = 1000000 }
        expect = { hit_rate = 1 }
        verify = 1.0"#,
        r#"test = "set"
        keys = { count = 100, distribution = "parts" }"#,
        r#"test = "set"
        keys = { count = 100, distribution = "hotspot", hot_keys = 0.1 }
        expect = { keys = 3 }"#,
        r#"test = "get"
        keys = { count = 100, distribution = "latest" }
        prefill = true
        expect = { hit_rate = [0.9, 1] }"#,
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("[[phase]]\nclients = 3\nrequests = 240\n{phase}");
        assert_repeats(&format!("--seed 7 --workload {}", written(&format!("again{at}.toml"), &text)));
    }
}

#[test]
fn modes_are_told_as_they_were_asked_for() {
    let server = Server::tcp(Manner::Honest);
    for phase in [
        "test = 'get'\nmode = 'sweep'\nrates = [500.0, 1000.0]\narrivals = 'poisson'",
        "test = 'get'\nmode = 'search'\nrate = 100.0\nlimit = { percentile = 50.0, us = 0.001 }",
        "test = 'get'\nprobe = { clients = 2, rate = 50.0 }",
        "mode = 'idle'",
        "mode = 'churn'",
    ] {
        let text = format!("[[phase]]\nclients = 3\nduration_s = 0.1\nwarmup_s = 0.0\n{phase}");
        let document = server.document(&format!("--workload {}", written("modes.toml", &text)));
        let message = &document["tests"][0]["workload"];
        let asked: Value = toml::from_str(&text).unwrap();
        for (key, value) in asked["phase"][0].as_object().unwrap() {
            assert_eq!(&message[key], value, "{key} of {phase}");
        }
        let again = measured(&server, &json!({ "phase": [message] }).to_string(), 1);
        assert_eq!(&again["tests"][0]["workload"], message);
    }
}

#[test]
fn each_prefill_is_in_the_result() {
    let server = Server::tcp(Manner::Honest);
    let phase = |name, keys| json!({ "name": name, "test": "get", "keys": {"count": keys}, "prefill": true, "requests": 10, "clients": 1 });
    let plain = json!({ "test": "get", "requests": 10, "clients": 1 });
    let document =
        measured(&server, &json!({ "phase": [phase("few", 5), plain, phase("many", 9)] }).to_string(), 1);
    let keys: Vec<&Value> =
        document["tests"].as_array().unwrap().iter().map(|test| &test["prefill"]["keys"]).collect();
    assert_eq!(keys, [&json!(5), &Value::Null, &json!(9)]);
    assert_eq!(document["prefill"], document["tests"][0]["prefill"]);
}

#[test]
fn json_comes_over_stdin() {
    let server = Server::tcp(Manner::Honest);
    let text = r#"{"phase": [{"sequence": [{"request": ["SET", "a b", "x"], "times": 2}, {"request": "GET 'a b'"}],
        "clients": 1, "requests": 6}]}"#;
    let document = measured(&server, text, 9);
    assert_eq!(document["driver"]["seed"], 9);
    let seen = server.seen();
    assert_eq!((seen.calls("SET"), seen.calls("GET")), (4, 2));
    assert_eq!(seen.store[b"a b".as_slice()], b"x");
}

/// Files with one error each, and what the message says of it.
const BAD_FILES: [(&str, &str); 56] = [
    ("", "there is no phase: write at least one [[phase]]"),
    ("phase = []", "there is no phase"),
    ("phase = 3", "phase: invalid type: integer `3`"),
    ("[[phase]\n", "line 1: "),
    ("sede = 3", "sede: unknown field `sede`"),
    ("protocol = 'http'", "protocol: unknown variant `http`"),
    ("[[phase]]", "phase 1: there is nothing to send"),
    ("[[phase]]\ntest='fly'", "phase 1 (fly): test: there is no test 'fly'"),
    ("[[phase]]\ntest='get:0'", "phase 1 (get:0): test: the weight '0'"),
    ("[[phase]]\ntest='get'\nsequence=[]", "phase 1 (get): more than one of test, commands and sequence"),
    ("[[phase]]\ncommands=[]", "phase 1: commands is empty"),
    ("[[phase]]\ncommands=[{request='GET a', test='get'}]", "commands[0]: a command has either"),
    ("[[phase]]\ncommands=[{test='get'},{request=''}]", "commands[1]: request: there is no command"),
    ("[[phase]]\ncommands=[{request=\"SET 'a\"}]", "commands[0]: request: quotes do not match"),
    ("[[phase]]\ncommands=[{request=3}]", "commands[0].request: expected a command"),
    ("[[phase]]\ncommands=[{test='get', times=2}]", "commands[0]: weight is for commands"),
    ("[[phase]]\nsequence=[{test='get', times=0}]", "sequence[0]: times cannot be 0"),
    ("[[phase]]\nsequence=[{test='get', times=65536}]", "sequence[0]: times cannot be 65536"),
    ("[[phase]]\ntest='get'\n[[phase]]\ntest='get'", "two tests or phases are called get"),
    ("[[phase]]\ntest='get'\nname=\"a\\nb\"", "name is empty or has control characters"),
    ("[[phase]]\ntest='get'\nname=''", "name is empty or has control characters"),
    ("[[phase]]\nname='a'\ntest='get'\nclients=0", "phase 1 (a): clients cannot be 0"),
    ("[[phase]]\ntest='get'\nclients=-1", "clients: invalid value: integer `-1`"),
    ("[[phase]]\ntest='get'\nclients=2\nthreads=3", "there are more threads than clients"),
    ("[[phase]]\ntest='get'\nwindow='open'", "window: unknown variant `open`"),
    ("[[phase]]\ntest='get'\nkeys.count=0", "keys.count is outside of 1 to 10^12"),
    ("[[phase]]\ntest='get'\nkeys.cuont=1", "keys.cuont: unknown field"),
    ("[[phase]]\ntest='get'\nkeys.exponent=1", "keys.exponent means nothing to this distribution"),
    ("[[phase]]\ntest='get'\nkeys={distribution='zipf',exponent=0}", "keys.exponent cannot be 0"),
    ("[[phase]]\ntest='get'\nkeys={distribution='zipf',exponent=nan}", "nan or inf is given"),
    ("[[phase]]\ntest='get'\nkeys={distribution='gaussian',deviation=-1}", "keys.deviation cannot be -1"),
    ("[[phase]]\ntest='get'\nkeys={distribution='hotspot',hot_keys=2}", "keys.hot_keys cannot be 2"),
    ("[[phase]]\ntest='get'\nkeys={distribution='pareto'}", "keys.distribution: unknown variant `pareto`"),
    ("[[phase]]\ntest='get'\nvalues={}", "values has not exactly one of bytes, range and weighted"),
    ("[[phase]]\ntest='get'\nvalues={range=[9,3]}", "values.range ends before it begins"),
    ("[[phase]]\ntest='get'\nvalues={weighted=[[3,0]]}", "values.weighted is not one"),
    ("[[phase]]\ntest='get'\nvalues={bytes=600000000}", "values is above 512 MiB"),
    ("[[phase]]\ntest='get'\nttl_s='a'", "ttl_s: expected a number, or two in a list"),
    ("[[phase]]\ntest='get'\nttl_s=[5,3]", "ttl_s cannot be 5 to 3"),
    ("[[phase]]\ntest='get'\nexpect.hit_rate=1.5", "expect.hit_rate is not a share"),
    ("[[phase]]\ntest='get'\nverify=2", "verify cannot be 2"),
    ("[[phase]]\ntest='get'\nwarmup_s=-1", "warmup_s cannot be -1"),
    ("[[phase]]\ntest='get'\nrequests=1\nduration_s=1", "duration_s and requests are both given"),
    ("[[phase]]\ntest='get'\nrequests=0", "the window is empty"),
    ("[[phase]]\ntest='get'\nmode='ajar'", "mode: unknown variant `ajar`"),
    ("[[phase]]\ntest='get'\nmode='pubsub'", "mode pubsub has its own commands"),
    ("[[phase]]\ntest='get'\nmode='open'", "rate is missing"),
    ("[[phase]]\ntest='get'\nrate=5", "rate means nothing in this mode"),
    ("[[phase]]\ntest='get'\nmode='sweep'\nrates=[]", "rates is empty"),
    ("[[phase]]\ntest='get'\nmode='sweep'\nrates=[10, 20, 10]", "10 is a rate of the sweep twice"),
    ("[[phase]]\ntest='get'\nmode='search'\nlimit={percentile=101,us=1}", "limit cannot be 1 us at 101%"),
    ("[[phase]]\ntest='get'\nprobe={clients=0}", "probe.clients cannot be 0"),
    ("[[phase]]\ntest='set'\nverify=0.5", "verify is given where no values are read"),
    ("[[phase]]\ntest='set'\nexpect.hit_rate=1", "expect.hit_rate is given where no keys are looked for"),
    ("[[phase]]\nsequence=[{request='SET a b EX __ttl__'}]", "__ttl__ is sent, but ttl_s is not given"),
    ("protocol='memcached'\n[[phase]]\ncommands=[{request='get a'}]", "a command of memcached is a test"),
];

#[test]
fn bad_files_are_usage_errors_that_name_the_place() {
    for (text, cause) in BAD_FILES {
        let path = written("bad.toml", text);
        let line = failure_line(speedbench(["run", "--workload", &path].map(str::to_owned)), 2);
        assert!(line.contains(cause) && line.contains("bad.toml: "), "{text:?}: {line}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_usage_error() {
    let line = failure_line(speedbench(["run", "--workload", "/nonexistent.toml"].map(str::to_owned)), 2);
    assert!(line.contains("cannot read /nonexistent.toml"), "{line}");
    let path = written("list.json", "[1");
    let line = failure_line(speedbench(["run", "--workload", &path].map(str::to_owned)), 2);
    assert!(line.contains("list.json: EOF while parsing"), "{line}");
}

#[test]
fn replies_that_stay_off_are_refused() {
    let off = r#"{ request = "CLIENT REPLY OFF" }"#;
    let on = r#"{ request = "client reply on" }"#;
    for (workload, cause) in [
        (format!("commands = [{off}, {{ test = \"set\" }}]"), "nothing says when"),
        (format!("sequence = [{on}, {off}, {{ test = \"set\" }}]"), "nothing says when"),
        (
            r#"sequence = [{ request = "CLIENT REPLY SKIP" }, { test = "set" }]"#.to_owned(),
            "CLIENT REPLY SKIP is sent",
        ),
        (
            format!("verify = 0.5\nsequence = [{{ test = \"get\" }}, {off}, {on}]"),
            "where each reply is needed",
        ),
    ] {
        let path = written("off.toml", &format!("[[phase]]\n{workload}\n"));
        let output = speedbench(["run", "--workload", &path].map(str::to_owned));
        let message = failure_line(output, 2);
        assert!(message.contains(cause), "{message}");
    }
}

#[test]
fn options_of_the_workload_are_refused_beside_a_file() {
    let path = written("good.toml", TWO_PHASES);
    for option in
        ["-t get", "-c 1", "-P 1", "-r 1", "-d 1", "-n 1", "--duration 1", "--prefill", "--threads 1"]
    {
        let words = format!("run --workload {path} {option}");
        let line = failure_line(speedbench(words.split(' ').map(str::to_owned)), 2);
        let name = option.split(' ').next().unwrap();
        assert!(line.contains(&format!("{name} is given beside --workload")), "{line}");
    }
}

#[test]
fn the_examples_are_workload_files() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let file = workload::file::read(path.to_str().unwrap(), None).unwrap();
        assert!(!file.phases.is_empty());
        names.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    assert!(names.len() >= 7, "{names:?}");
    let readme = include_str!("../README.md");
    assert!(names.iter().all(|name| readme.contains(&format!("`{name}`"))), "README.md names {names:?}");
}

/// Reads and writes in a phase that sets all keys before; every value read is compared.
fn verified(name: &str, rest: &str) -> String {
    let phase = format!(
        "[[phase]]\nname = 'v'\nprefill = true\nverify = 1.0\nkeys.count = 100\nrequests = 2000\nclients = 3\n{rest}"
    );
    written(name, &phase)
}

#[test]
fn values_that_are_read_are_those_that_were_set() {
    for (at, rest) in [
        "test = 'get'\nvalues.bytes = 20\npipeline = 16\nthreads = 2",
        "test = 'get:2+set:1'\nvalues.range = [5, 900]\nwindow = 'rolling'\npipeline = 5",
        "sequence = [{ request = 'SET key:__key__ __data__' }, { test = 'get', times = 3 }]\nvalues.weighted = [[9, 1], [9000, 1]]",
        "commands = [{ request = 'GET a:__key__' }, { request = 'GET b:__key__' }]\nkeys.distribution = 'zipf'\nvalues.bytes = 200000",
    ]
    .into_iter()
    .enumerate()
    {
        let path = verified(&format!("verified-{at}.toml"), rest);
        let honest = Server::unix(Manner::Honest);
        let document = honest.document(&format!("--workload {path}"));
        assert_eq!(document["tests"][0]["requests"], 2000);
        let key: &[u8] = if at == 3 { b"b:000000000031" } else { b"key:000000000031" };
        let corrupting = Server::unix(Manner::Corrupting(key));
        let line = corrupting.failure(&format!("--workload {path}"));
        assert!(line.contains("key number 31 does not hold its value of "), "{line}");
        assert!(line.contains("who else writes its keys"), "{line}");
    }
}

#[test]
fn a_sample_is_a_part_of_the_values() {
    // One wrong value in a hundred, one read in a thousand compared: 200 reads are all but never caught, 2000000 always.
    let server = Server::unix(Manner::Corrupting(b"key:000000000031"));
    let path = |requests: u32| {
        let phase = format!(
            "[[phase]]\ntest = 'get'\nprefill = true\nverify = 0.001\nkeys.count = 100\npipeline = 100\nrequests = {requests}"
        );
        written(&format!("sample-{requests}.toml"), &phase)
    };
    server.document(&format!("--workload {}", path(200)));
    let words = format!("--prefill=force --workload {}", path(2_000_000));
    assert!(server.failure(&words).contains("key number 31"));
}

#[test]
fn a_prefill_sets_the_keys_that_the_phase_names() {
    let server = Server::tcp(Manner::Honest);
    let path = written(
        "prefill.toml",
        "[[phase]]\nname = 'a'\nprefill = true\nkeys.count = 50\nttl_s = 90\nrequests = 10\n\
         commands = [{ request = 'GET user:__key__:x' }, { request = ['GET', '__rand_int__'] }]\n\
         expect = { hit_rate = 1.0, keys = 100 }\n\
         [[phase]]\nname = 'b'\nprefill = true\nkeys.count = 70\nrequests = 10\ntest = 'get'\n\
         expect = { hit_rate = [0.0, 0.5], keys = 171 }\n\
         [[phase]]\nname = 'c'\nkeys.count = 100\nrequests = 700\ntest = 'get+incr'\n\
         expect = { hit_rate = [0.5, 0.9] }",
    );
    let document = server.document(&format!("--workload {path}"));
    assert_eq!(document["prefill"]["keys"], 100);
    let flags = |test: usize| {
        let raised = document["tests"][test]["flags"].as_array().unwrap().iter();
        let mut raised: Vec<&str> = raised.map(|flag| flag.as_str().unwrap()).collect();
        raised.retain(|flag| ["hit_rate", "key_count"].contains(flag));
        raised
    };
    assert_eq!((flags(0), flags(1)), (vec![], vec!["hit_rate", "key_count"]));
    // 70 of 100 keys are there.
    assert_eq!(flags(2), [""; 0]);
    let mut seen = server.seen();
    seen.store.retain(|key, _| !key.starts_with(b"counter:"));
    assert_eq!(seen.store.len(), 170);
    assert!(seen.store.contains_key(b"user:000000000049:x".as_slice()));
    assert!(seen.store.contains_key(b"000000000000".as_slice()));
    let sent = String::from_utf8_lossy(&seen.streams.concat()).into_owned();
    let ends = sent.matches("EX\r\n$2\r\n90\r\n").count();
    assert_eq!(ends, 100);
}
