//! Ladders beside real servers, whose own counts must agree.

use serde_json::Value;

use super::machine::{Directory, OURS, Redis, output, said};

fn ladder(words: &[&str]) -> Value {
    serde_json::from_str(&said(OURS, &[&["run", "--json"], words].concat())).unwrap()
}

fn rungs(document: &Value) -> &Vec<Value> {
    document["rungs"].as_array().unwrap()
}

#[test]
fn every_rung_has_a_fresh_server_that_its_prefill_fills() {
    let command = "redis-server --port 0 --unixsocket {socket} --dir {data} --save ''";
    let document = ladder(&[
        "-t",
        "get",
        "-n",
        "500",
        "--prefill",
        "--ladder",
        "keys=10,100,1000",
        "--fresh-server",
        command,
    ]);
    assert_eq!((document["fresh"].as_bool(), rungs(&document).len()), (Some(true), 3));
    let mut processes = Vec::new();
    for rung in rungs(&document) {
        let value = rung["value"].as_f64().unwrap();
        assert_eq!(rung["prefill"]["keys_in_server"].as_f64(), Some(value), "{rung}");
        assert_eq!(rung["tests"][0]["hits"], 500);
        assert!(rung["tests"][0]["server_cpu"]["ns_per_request"].as_f64() > Some(0.0), "{rung}");
        processes.push(rung["tests"][0]["server_cpu"]["pid"].as_u64().unwrap());
    }
    processes.dedup();
    assert_eq!(processes.len(), 3);
    // All of them have ended.
    assert!(processes.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()));
}

#[test]
fn a_kept_server_is_emptied_between_prefilled_rungs() {
    let redis = Redis::start(&[]);
    redis.cli(&["config", "resetstat"]);
    let words = ["-p", &redis.port, "-t", "get", "-n", "100", "--prefill", "--ladder", "keys=1000,10,100"];
    let document = ladder(&words);
    let keys: Vec<Option<u64>> =
        rungs(&document).iter().map(|rung| rung["prefill"]["keys_in_server"].as_u64()).collect();
    assert_eq!(keys, [Some(10), Some(100), Some(1000)]);
    assert_eq!((redis.calls("get"), redis.calls("set")), (300, 1110));
}

#[test]
fn requests_without_replies_are_counted_when_replies_come_again() {
    let redis = Redis::start(&[]);
    redis.cli(&["config", "resetstat"]);
    let phase = serde_json::json!({
        "sequence": [
            {"request": "CLIENT REPLY OFF"},
            {"request": "SET key:__key__ __data__", "times": 100},
            {"request": "CLIENT REPLY ON"},
        ],
        "clients": 3,
        "keys": {"count": 1000},
        "pipeline": 2,
        "requests": 10200,
    });
    let directory = Directory::new();
    let file = directory.path("silent.json");
    std::fs::write(&file, serde_json::json!({"phase": [phase]}).to_string()).unwrap();
    let document: Value =
        serde_json::from_str(&said(OURS, &["run", "--json", "-p", &redis.port, "--workload", &file]))
            .unwrap();
    let test = &document["tests"][0];
    let commands: Vec<Option<u64>> =
        test["commands"].as_array().unwrap().iter().map(|command| command["requests"].as_u64()).collect();
    assert_eq!((&test["requests"], commands), (&10200.into(), vec![Some(100), Some(10_000), Some(100)]));
    assert_eq!(redis.calls("set"), 10_000);
}

#[test]
fn a_prefill_stores_what_its_request_says() {
    let redis = Redis::start(&[]);
    let members: Vec<String> = (1..=20).map(|member| format!("member{member}:__key__")).collect();
    let phase = serde_json::json!({
        "commands": [{"request": "SCARD set:__key__"}],
        "keys": {"count": 2000},
        "prefill": true,
        "prefill_request": format!("SADD set:__key__ {}", members.join(" ")),
        "requests": 500,
    });
    let directory = Directory::new();
    let file = directory.path("sets.json");
    std::fs::write(&file, serde_json::json!({"phase": [phase]}).to_string()).unwrap();
    let server = ["-p", &redis.port, "--server-pid", &redis.pid()];
    let document = ladder(&[server.as_slice(), &["--workload", &file, "--ladder", "keys=2000"]].concat());
    let prefill = &rungs(&document)[0]["prefill"];
    assert_eq!(prefill["keys_in_server"], 2000);
    assert!(prefill["server_memory"]["bytes_per_key"].as_f64() > Some(100.0), "{prefill}");
    assert_eq!((redis.calls("sadd"), redis.calls("set")), (2000, 0));
    assert_eq!(redis.cli(&["scard", "set:000000001999"]).trim(), "20");
}

#[test]
fn a_ladder_of_memcached_has_keys_of_each_length() {
    let command = "memcached -u nobody -t 1 -U 0 -l 127.0.0.1 -p {port}";
    let document = ladder(&[
        "--protocol",
        "memcached",
        "-t",
        "get,mg",
        "-n",
        "300",
        "-r",
        "50",
        "--prefill",
        "--ladder",
        "key-bytes=16,100,250",
        "--fresh-server",
        command,
    ]);
    for rung in rungs(&document) {
        assert_eq!(
            (&rung["tests"][0]["hits"], &rung["tests"][1]["hits"]),
            (&300.into(), &300.into()),
            "{rung}"
        );
    }
}

#[test]
fn connections_come_from_all_sources() {
    let redis = Redis::start(&["--protected-mode", "no"]);
    let words = ["run", "-p", &redis.port, "--mode", "idle", "-c", "40", "--duration", "3", "--json"];
    let sources = ["--source", "127.0.0.2-127.0.0.5"];
    let mut driver = std::process::Command::new(OURS);
    let mut driver = driver.args(words).args(sources).stdout(std::process::Stdio::null()).spawn().unwrap();
    let from_each_source = || {
        let clients = redis.cli(&["client", "list"]);
        [2, 3, 4, 5].map(|host| clients.matches(&format!("addr=127.0.0.{host}:")).count())
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let mut counts = from_each_source();
    while counts.iter().any(|count| *count < 10) && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(10));
        counts = from_each_source();
    }
    assert!(driver.wait().unwrap().success());
    assert!(counts.iter().all(|count| *count >= 10), "{counts:?}");
}

#[test]
fn a_server_in_protected_mode_says_what_to_do() {
    let redis = Redis::start(&[]);
    let options = ["run", "-p", &redis.port, "-t", "ping", "-n", "10", "--source", "127.0.0.2"];
    let message = String::from_utf8(output(OURS, &options).stderr).unwrap();
    assert!(message.contains("-DENIED") && message.contains("--protected-mode no"), "{message}");
}

#[test]
fn a_server_that_refuses_connections_spoils_its_rung_only() {
    let redis = Redis::start(&["--maxclients", "20"]);
    let words = ["run", "-p", &redis.port, "-t", "ping", "-n", "100", "--json", "--ladder", "clients=5,30"];
    let output = output(OURS, &words);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && message.contains("clients = 30: ") && message.contains("maxclients"),
        "{message}"
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [reached, refused] = rungs(&document).as_slice() else { panic!("{document}") };
    assert_eq!((&reached["tests"][0]["requests"], refused["failure"].is_string()), (&100.into(), true));
}
