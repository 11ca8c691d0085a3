//! `compare`: what it says of results whose differences are known, and what it refuses.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Manner, Server, failure_line, speedbench};
use engine::histogram::Histogram;
use generator::rng::Rng;
use serde_json::{Value, json};

const GOLDEN: &str = include_str!("golden/speedbench.v1.json");

/// Documents on disk that end with the test.
struct Files(PathBuf);

impl Files {
    fn new() -> Files {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("speedbench-compare-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Files(path)
    }

    fn put(&self, name: &str, document: &Value) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, document.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn golden() -> Value {
    serde_json::from_str(GOLDEN).unwrap()
}

/// A run of one test: 100 slices with noise, and latencies, all `factor` times those of the base.
fn made(seed: u64, factor: f64) -> Value {
    let mut rng = Rng::seeded(seed);
    let mut noise = move || 1.0 + 0.02 * (rng.below(1 << 20) as f64 / f64::from(1 << 19) - 1.0);
    let run = noise();
    let requests: Vec<u64> = (0..100).map(|_| (10_000.0 * factor * run * noise()) as u64).collect();
    let cpu: Vec<u64> =
        requests.iter().map(|requests| (*requests as f64 / factor * 7000.0 * noise()) as u64).collect();
    let sum: u64 = requests.iter().sum();
    let per_request = cpu.iter().sum::<u64>() as f64 / sum as f64;
    let mut latency = Histogram::default();
    (0..sum).for_each(|i| latency.record((200_000.0 / factor * noise()) as u64 + i % 7, 1));
    let mut document = golden();
    let test = &mut document["tests"][0];
    test["window_s"] = json!(10.0);
    test["requests"] = json!(sum);
    test["throughput_rps"] = json!(sum as f64 / 10.0);
    test["server_cpu"]["ns_per_request"] = json!(per_request);
    test["client_cpu"]["ns_per_request"] = json!(per_request);
    test["slices"] =
        json!({"width_ms": 100, "requests": requests, "server_cpu_ns": cpu, "client_cpu_ns": cpu});
    test["latency_hdr_v2"] = json!(latency.to_hdr_base64());
    document["tests"].as_array_mut().unwrap().truncate(1);
    document
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    ["compare"].into_iter().chain(words).map(str::to_owned).collect()
}

fn compared(files: &[&str]) -> Value {
    let output = speedbench(words(["--json"].into_iter().chain(files.iter().copied())));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn metric<'a>(document: &'a Value, name: &str) -> &'a Value {
    let metrics = document["comparisons"][0]["tests"][0]["metrics"].as_array().unwrap();
    metrics.iter().find(|metric| metric["metric"] == name).unwrap()
}

fn holds(metric: &Value, ratio: f64) -> bool {
    metric["low"].as_f64().unwrap() <= ratio && ratio <= metric["high"].as_f64().unwrap()
}

#[test]
fn a_change_within_slices_is_seen_with_its_direction() {
    let files = Files::new();
    let base = files.put("a.json", &made(1, 1.0));
    let document = compared(&[&base, &files.put("b.json", &made(2, 1.1))]);
    assert_eq!(document["schema"], "speedbench-compare.v1");
    assert_eq!(document["comparisons"][0]["method"], "slices");
    for (name, ratio, verdict) in [
        ("throughput_rps", 1.1, "faster"),
        ("server_cpu_ns_per_request", 1.0 / 1.1, "cheaper"),
        ("latency_us_p99", 1.0 / 1.1, "faster"),
    ] {
        let metric = metric(&document, name);
        assert_eq!(metric["verdict"], verdict, "{metric}");
        // A run differs from another by up to 2% here, of which its slices know nothing.
        assert!((metric["ratio"].as_f64().unwrap() / ratio - 1.0).abs() < 0.05, "{metric}");
    }
    let back = compared(&[&files.put("b.json", &made(2, 1.1)), &base]);
    assert_eq!(metric(&back, "throughput_rps")["verdict"], "slower");
    assert_eq!(metric(&back, "client_cpu_ns_per_request")["verdict"], "dearer");
    assert_eq!(metric(&back, "latency_us_p50")["verdict"], "slower");
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let files = Files::new();
    let base = files.put("a.json", &made(1, 1.0));
    let document = compared(&[&base, &base]);
    let metrics = document["comparisons"][0]["tests"][0]["metrics"].as_array().unwrap();
    assert_eq!(metrics.len(), 7);
    for metric in metrics {
        assert_eq!(metric["verdict"], "no difference seen", "{metric}");
        assert!(metric["ratio"] == 1.0 && holds(metric, 1.0), "{metric}");
        assert!(metric["detectable"].as_f64().unwrap() > 0.0, "{metric}");
    }
}

#[test]
fn with_several_runs_the_runs_are_the_samples() {
    let files = Files::new();
    let side = |name: &str, seeds: std::ops::Range<u64>, factor: f64| -> Vec<String> {
        seeds.map(|seed| files.put(&format!("{name}{seed}.json"), &made(seed, factor))).collect()
    };
    let all = |base: &[String], new: &[String]| {
        let (base, new) = (base.iter().map(String::as_str), new.iter().map(String::as_str));
        let words: Vec<&str> = ["--base"].into_iter().chain(base).chain(["--new"]).chain(new).collect();
        compared(&words)
    };
    let base = side("a", 10..15, 1.0);
    let document = all(&base, &side("b", 20..25, 1.1));
    assert_eq!(document["comparisons"][0]["method"], "runs");
    for name in ["throughput_rps", "latency_us_p50"] {
        assert_eq!(metric(&document, name)["verdict"], "faster");
    }
    assert!(holds(metric(&document, "throughput_rps"), 1.1));
    let same = all(&base, &side("c", 30..35, 1.0));
    let throughput = metric(&same, "throughput_rps");
    assert_eq!(throughput["verdict"], "no difference seen");
    // The runs of each side differ by more than the slices of one of them tell.
    let one = compared(&[&base[0], &base[1]]);
    let width = |metric: &Value| metric["high"].as_f64().unwrap() - metric["low"].as_f64().unwrap();
    assert!(width(throughput) > width(metric(&one, "throughput_rps")));
}

#[test]
fn a_person_gets_80_columns_and_the_warnings() {
    let files = Files::new();
    let mut other = made(2, 1.1);
    other["environment"]["kernel"] = json!("5.4.0");
    other["tests"][0]["flags"] = json!(["client_bound"]);
    let paths =
        [files.put("a.json", &made(1, 1.0)), files.put("b.json", &other), files.put("c.json", &made(3, 1.0))];
    let output = speedbench(words(paths.iter().map(String::as_str)));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("! kernel is \"6.12.48\" in "), "{text}");
    assert!(text.contains("! get of ") && text.contains("has flags: client_bound"), "{text}");
    assert_eq!(text.matches("\nget\n").count(), 2, "{text}");
    assert!(text.contains("Runs differ by more") && text.contains("  (faster)\n"), "{text}");
    let is_path =
        |line: &&str| line.starts_with("base:") || line.starts_with("new:") || line.starts_with('!');
    assert!(text.lines().filter(|line| !is_path(line)).all(|line| line.len() <= 80), "{text}");
}

#[test]
fn real_results_can_be_compared() {
    let server = Server::unix(Manner::Honest);
    let files = Files::new();
    let options = "-t ping,get -c 4 --warmup 0.1 --duration 0.4 --slice-ms 20";
    let paths = ["a.json", "b.json"].map(|name| files.put(name, &server.document(options)));
    let document = compared(&[&paths[0], &paths[1]]);
    let tests = document["comparisons"][0]["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 2);
    for metric in tests.iter().flat_map(|test| test["metrics"].as_array().unwrap()) {
        let ratio = metric["new"].as_f64().unwrap() / metric["base"].as_f64().unwrap();
        assert!((metric["ratio"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9, "{metric}");
        // How many latencies and slices there are depends on the machine. Where they do not reach, that is told.
        let (low, high) = (metric["low"].as_f64(), metric["high"].as_f64());
        assert!(low.is_none_or(|low| low <= ratio * (1.0 + 1e-9)), "{metric}");
        assert!(high.is_none_or(|high| high >= ratio * (1.0 - 1e-9)), "{metric}");
        assert_eq!(metric["reason"].is_string(), low.is_none() || high.is_none(), "{metric}");
    }
}

#[test]
fn what_is_not_known_has_a_reason() {
    let files = Files::new();
    let base = files.put("a.json", &made(1, 1.0));
    let mut poor = made(2, 1.0);
    let mut latency = Histogram::default();
    (1..=1000).for_each(|i| latency.record(200_000 + i, 1));
    poor["tests"][0]["latency_hdr_v2"] = json!(latency.to_hdr_base64());
    poor["tests"][0]["slices"]["width_ms"] = json!(2000);
    poor["tests"][0]["client_cpu"]["ns_per_request"] = json!(0.0);
    poor["tests"][0]["server_cpu"] = Value::Null;
    let document = compared(&[&base, &files.put("b.json", &poor)]);
    for (name, reason) in [("throughput_rps", "fewer than 10"), ("latency_us_p99_9", "too few latencies")] {
        let metric = metric(&document, name);
        assert!(metric["reason"].as_str().unwrap().contains(reason), "{metric}");
        assert!(metric["high"].is_null(), "{metric}");
    }
    assert_eq!(metric(&document, "latency_us_p50")["reason"], Value::Null);
    let message = document["comparisons"][0]["warnings"].to_string();
    for name in ["client_cpu_ns_per_request", "server_cpu_ns_per_request"] {
        assert!(
            message.contains(&format!("get: {name} is not above 0 in all files and is left out")),
            "{message}"
        );
    }
    // Nobody asked for the server's CPU time: nothing is missing.
    let alone = files.put("c.json", &poor);
    let warnings = compared(&[&alone, &alone])["comparisons"][0]["warnings"].to_string();
    assert!(warnings.contains("client_cpu") && !warnings.contains("server_cpu"), "{warnings}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let files = Files::new();
    let base = files.put("a.json", &made(1, 1.0));
    let changed = |name: &str, change: fn(&mut Value)| {
        let mut document = made(2, 1.0);
        change(&mut document);
        files.put(name, &document)
    };
    for (name, change, cause) in [
        (
            "digest",
            (|it| it["driver"]["digest"] = json!("sha256:1")) as fn(&mut Value),
            "different driver binaries",
        ),
        ("pipeline", |it| it["tests"][0]["workload"]["pipeline"] = json!(16), "its pipeline is 16, not 1"),
        ("more", |it| it["tests"][0]["workload"]["limit"] = json!([1]), "its limit is [1], not nothing"),
        ("threads", |it| it["tests"][0]["workload"]["threads"] = json!(2), "its threads is 2, not 1"),
        ("phases", |it| it["driver"]["workload_digest"] = json!("sha256:1"), "has other phases than"),
        ("protocol", |it| it["target"]["protocol"] = json!("memcached"), "its protocol is"),
        ("rate", |it| it["tests"][0]["open"] = json!({"asked_rps": 5.0}), "its asked_rps is 5.0, not null"),
        ("name", |it| it["tests"][0]["name"] = json!("set"), "no test in common"),
        ("schema", |it| it["schema"] = json!("speedbench.v9"), "its schema is 'speedbench.v9'"),
        ("tests", |it| it["tests"] = json!([]), "it has no tests"),
        (
            "hdr",
            |it| it["tests"][0]["latency_hdr_v2"] = json!("HISTFAAA"),
            "the latencies of get cannot be read",
        ),
        ("shape", |it| *it = json!([]), "is no result"),
    ] {
        let message = failure_line(speedbench(words([base.as_str(), &changed(name, change)])), 1);
        assert!(message.contains(cause), "{message}");
    }
    let digest = changed("digest", |it| it["driver"]["digest"] = json!("sha256:1"));
    let output = speedbench(words(["--any-driver", &base, &digest]));
    assert!(String::from_utf8(output.stdout).unwrap().contains("are of different driver binaries"));
    let absent = failure_line(speedbench(words([base.as_str(), "/nonexistent.json"])), 1);
    assert!(absent.contains("cannot read /nonexistent.json"), "{absent}");
}

#[test]
fn wrong_words_are_told() {
    for (wrong, cause) in [
        ("", "there is nothing to compare"),
        ("a.json", "there is one file to compare"),
        ("--base a.json --new b.json c.json", "a side has fewer than two files"),
        ("--base a.json b.json", "a side has fewer than two files"),
        ("x.json --base a.json b.json --new c.json d.json", "files stand before"),
        ("--csv a.json b.json", "--csv"),
    ] {
        let message = failure_line(speedbench(words(wrong.split_whitespace())), 2);
        assert!(message.contains(cause), "{message}");
    }
    let help = speedbench(words(["--help"]));
    assert!(String::from_utf8(help.stdout).unwrap().contains("--any-driver"));
}
