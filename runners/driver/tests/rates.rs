//! Schedules, probes, mixes and sequences from the command line to the document, against a counting server.

use std::time::{Duration, Instant};

use crate::support::{Manner, Server, failure_line, speedbench};
use base64::Engine;
use serde_json::Value;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// The number of values in an exported histogram.
fn exported(text: &Value) -> u64 {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap()).unwrap();
    let histogram: hdrhistogram::Histogram<u64> =
        hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    histogram.len()
}

/// Replies inside the window and after it.
fn answered(test: &Value) -> u64 {
    number(&test["requests"]) + number(&test["unfinished"])
}

/// The document of a workload file.
fn document_of(server: &Server, name: &str, workload: &str) -> Value {
    let file = std::env::temp_dir().join(format!("rates-{}-{name}.toml", std::process::id()));
    std::fs::write(&file, workload).unwrap();
    let document = server.document(&format!("--workload {}", file.to_str().unwrap()));
    std::fs::remove_file(&file).unwrap();
    document
}

#[test]
fn a_rate_for_a_time_is_an_exact_number_of_requests() {
    for (options, sent) in [
        ("--rate 2000 --warmup 0 --duration 0.25 -c 7", 500),
        ("--rate 2000 --warmup 0.1 --duration 0.25 -c 7 --threads 3 -P 4", 700),
        ("--rate 3000 -n 777 -c 50 --window rolling", 777),
    ] {
        let server = Server::unix(Manner::Honest);
        let test = &server.document(&format!("-t ping {options}"))["tests"][0];
        assert_eq!(server.seen().calls("PING"), sent, "{options}");
        assert!(answered(test) <= sent && answered(test) > 0);
        assert_eq!(test["open"]["unsent"], 0);
        assert_eq!((&test["mode"], &test["open"]["arrivals"]), (&"open".into(), &"fixed".into()));
        for histogram in ["latency_hdr_v2", "service_hdr_v2"] {
            assert_eq!(exported(&test[histogram]), answered(test));
        }
    }
}

#[test]
fn chance_sends_the_same_whatever_the_threads() {
    let sent = |options: &str| {
        let server = Server::tcp(Manner::Honest);
        let common = "-t get -r 100 --rate 2000 --arrivals poisson --warmup 0 --duration 0.2 -c 6";
        let test = &server.document(&format!("{common} {options}"))["tests"][0];
        assert_eq!(answered(test), server.seen().calls("GET"));
        let mut streams = server.seen().streams.clone();
        streams.sort();
        streams
    };
    let once = sent("");
    assert_eq!(once, sent("--threads 3"));
    assert_ne!(once, sent("--seed 2"));
}

#[test]
fn a_closed_loop_says_so() {
    let server = Server::unix(Manner::Honest);
    let test = &server.document("-t ping -n 50 -c 2")["tests"][0];
    assert_eq!(test["mode"], "closed");
    for field in ["open", "service_us", "service_hdr_v2", "probe", "search"] {
        assert_eq!(test[field], Value::Null);
    }
}

#[test]
fn a_server_that_stops_answering_ends_an_open_loop_in_time() {
    let server = Server::tcp(Manner::Silent);
    let began = Instant::now();
    let line = server.failure("-t ping --rate 500 -P 1000 -c 3 --duration 60 --timeout 0.3");
    assert!(line.contains("the server stopped answering ping"), "{line}");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_sweep_has_a_result_per_rate_in_their_order() {
    let server = Server::unix(Manner::Honest);
    let options = "-t ping --sweep 3000,500,1000 --warmup 0 --duration 0.2 -c 4";
    let tests = server.document(options)["tests"].as_array().unwrap().clone();
    let names: Vec<&str> = tests.iter().map(|test| test["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ping@500", "ping@1000", "ping@3000"]);
    assert_eq!(tests.iter().map(answered).collect::<Vec<_>>(), [100, 200, 600]);
    assert!(tests.iter().all(|test| test["mode"] == "sweep"));
    // All on the same connections.
    let seen = server.seen();
    assert_eq!((seen.calls("PING"), seen.streams.len()), (900, 4));
}

#[test]
fn a_search_tells_its_steps_and_ends_with_the_rate_that_it_found() {
    let server = Server::unix(Manner::Honest);
    for start in ["", "--rate 3000"] {
        let options = format!("-t ping --search p50:500us {start} --warmup 0 --duration 0.1 -c 4");
        let document = server.document(&options);
        let (tests, test) = (document["tests"].as_array().unwrap(), &document["tests"][0]);
        assert_eq!((tests.len(), &test["name"], &test["mode"]), (1, &"ping".into(), &"search".into()));
        let (search, steps) = (&test["search"], test["search"]["steps"].as_array().unwrap());
        assert_eq!((&search["percentile"], &search["limit_us"]), (&50.0.into(), &500.0.into()));
        let last = steps.last().unwrap();
        assert_eq!(test["open"]["asked_rps"], last["asked_rps"]);
        for step in steps {
            let kept = step["latency_us"].as_f64().unwrap() <= 500.0 && step["unsent"] == 0;
            assert_eq!(step["held"], kept);
        }
        if search["highest_rps"] != Value::Null {
            assert_eq!((&search["highest_rps"], &last["held"]), (&last["asked_rps"], &true.into()));
        }
    }
}

#[test]
fn a_probe_asks_beside_the_load_and_counts_apart() {
    for load in ["", "--rate 1000"] {
        let server = Server::tcp(Manner::Honest);
        let options =
            format!("-t ping {load} -c 2 --warmup 0 --duration 0.4 --probe-clients 3 --probe-rate 400");
        let test = &server.document(&options)["tests"][0];
        let probe = &test["probe"];
        assert_eq!((&probe["clients"], &probe["asked_rps"]), (&3.into(), &400.0.into()));
        // The schedule has 160 moments on average; six standard deviations of a Poisson count.
        let probed = exported(&probe["latency_hdr_v2"]);
        assert!(probed.abs_diff(160) < 76, "{probed}");
        assert!(number(&probe["requests"]) <= probed);
        let seen = server.seen();
        assert_eq!((seen.streams.len(), seen.calls("PING")), (5, answered(test) + probed));
    }
}

#[test]
fn a_mix_tells_its_commands_and_its_hits() {
    for mode in ["", "--rate 20000", "--window rolling"] {
        let server = Server::unix(Manner::Honest);
        let options = format!("-t get:7+set:3 --prefill -r 50 -n 3000 -c 5 -P 3 {mode}");
        let test = &server.document(&options)["tests"][0];
        let commands = test["commands"].as_array().unwrap();
        let names: Vec<&str> = commands.iter().map(|command| command["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["get", "set"]);
        let seen = server.seen();
        let seen = (seen.calls("GET"), seen.calls("SET") - 50);
        let latencies = |at: usize| exported(&commands[at]["latency_hdr_v2"]);
        assert_eq!((latencies(0), latencies(1)), seen, "{mode}");
        let counted: u64 = commands.iter().map(|command| number(&command["requests"])).sum();
        assert_eq!(counted, number(&test["requests"]));
        assert_eq!((&test["hits"], number(&test["misses"])), (&commands[0]["requests"], 0));
    }
}

#[test]
fn misses_of_a_mix_are_of_its_reads() {
    let server = Server::tcp(Manner::Honest);
    let test = &server.document("-t get+incr:4 -n 1000 -c 3")["tests"][0];
    let asked = server.seen().calls("GET");
    assert_eq!((number(&test["hits"]), number(&test["misses"])), (0, asked));
    assert!(asked > 100);
}

#[test]
fn a_sequence_tells_its_commands_also_when_it_is_cut() {
    let phase =
        "sequence = [{test='set'}, {request='GET key:000000000000', name='read', times=3}, {test='incr'}]";
    for (name, rest, counts) in [
        ("closed", "requests=1002\npipeline=2\nwindow='batch'", [201, 601, 200]),
        ("rolling", "requests=1002\npipeline=2\nwindow='rolling'", [201, 601, 200]),
        ("open", "requests=1000\nmode='open'\nrate=20000", [200, 600, 200]),
    ] {
        let server = Server::unix(Manner::Honest);
        let document = document_of(&server, name, &format!("[[phase]]\n{phase}\nclients=3\n{rest}"));
        let commands = document["tests"][0]["commands"].as_array().unwrap().clone();
        let names: Vec<&str> = commands.iter().map(|command| command["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["set", "read", "incr"]);
        let message = commands.iter().map(|command| exported(&command["latency_hdr_v2"]));
        assert_eq!(message.collect::<Vec<_>>(), counts, "{name}");
        let seen = server.seen();
        let seen = ["SET", "GET", "INCR"].map(|command| seen.calls(command));
        assert_eq!(seen, counts, "{name}");
    }
}

#[test]
fn wrong_schedules_are_usage_errors() {
    for (words, cause, remedy) in [
        ("--rate 0", "--rate cannot be 0", "above 0"),
        ("--rate nan", "--rate cannot be NaN", "above 0"),
        ("--rate 1e9", "--rate cannot be 1000000000", "10^8"),
        ("--arrivals weekly", "--arrivals cannot be 'weekly'", "poisson"),
        ("--arrivals poisson", "--arrivals is given without a rate", "--rate"),
        ("--sweep 10,x", "--sweep cannot be '10,x'", "10000,20000"),
        ("--sweep 10,10", "10 is a rate of the sweep twice", "once"),
        ("--sweep 10,0", "--sweep cannot be 0", "above 0"),
        ("--sweep 10 --rate 5", "--sweep is given beside", "one of them"),
        ("--search p99", "--search cannot be 'p99'", "p99:1000us"),
        ("--search p101:5us", "--search cannot be 5 us at 101%", "at most 100"),
        ("--search p99:0us", "--search cannot be 0 us at 99%", "above 0"),
        ("--mode churn --rate 5", "--mode is given beside --rate", "leave it out"),
        ("--mode churn --probe-rate 5", "a probe in mode churn", "leave it out"),
        ("--rate 5 --arrivals poisson -n 10", "Poisson arrivals are no exact count", "--duration"),
        ("--rate 0.01 -n 1000000", "take more than a day", "raise the rate"),
        ("--probe-rate 5 -n 10", "a probe beside a number of requests", "--duration"),
        ("--search p99:5us -n 10", "a search by a number of requests", "--duration"),
        ("--probe-clients 0", "--probe-clients cannot be 0", "at least 1"),
    ] {
        let words = format!("run {words}");
        let line = failure_line(speedbench(words.split_whitespace().map(str::to_owned)), 2);
        assert!(line.contains(cause) && line.contains(remedy), "{words}: {line}");
    }
}
