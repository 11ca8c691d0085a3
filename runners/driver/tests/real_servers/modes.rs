//! The modes of `run` beside a real redis-server, whose own counts must agree.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::machine::{OURS, Redis, said};

/// The first result of `speedbench run` on `redis`.
fn test(redis: &Redis, words: &str) -> Value {
    let words: Vec<&str> = ["run", "-p", &redis.port, "--json"].into_iter().chain(words.split(' ')).collect();
    let mut document: Value = serde_json::from_str(&said(OURS, &words)).unwrap();
    document["tests"][0].take()
}

/// A number of `INFO`.
fn info(redis: &Redis, section: &str, name: &str) -> u64 {
    let message = redis.cli(&["info", section]);
    let line = message.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {message}")).trim().parse().unwrap()
}

#[test]
fn each_request_of_a_churn_has_a_connection() {
    let redis = Redis::start(&[]);
    redis.cli(&["config", "resetstat"]);
    let result = test(&redis, "--mode churn -c 7 -n 300 --threads 2");
    let connections = info(&redis, "stats", "total_connections_received");
    assert_eq!((redis.calls("ping"), result["requests"].as_u64()), (300, Some(300)));
    // One before the load, and that of redis-cli.
    assert_eq!(connections, 302);
    assert_eq!((&result["mode"], &result["connections"]["opened"]), (&"churn".into(), &300.into()));
    assert_eq!((&result["connections"]["lost"], &result["connections"]["tls_us"]), (&0.into(), &Value::Null));
    let part = |name: &str| result["connections"][name]["mean"].as_f64().unwrap();
    let whole = result["latency_us"]["mean"].as_f64().unwrap();
    // The parts do not overlap, and what lies between them is small but not nothing.
    assert!(part("connect_us") + part("first_reply_us") <= whole + 1.0, "{result}");
}

#[test]
fn a_churn_over_a_socket_sends_its_batches() {
    let redis = Redis::start(&[]);
    let words =
        ["run", "-s", &redis.socket, "--json", "--mode", "churn", "-t", "incr", "-P", "3", "-n", "301"];
    let document: Value = serde_json::from_str(&said(OURS, &words)).unwrap();
    assert_eq!((redis.calls("incr"), &document["tests"][0]["requests"]), (301, &301.into()));
}

#[test]
fn idle_connections_are_held_and_asked_once() {
    let redis = Redis::start(&[]);
    let pid = info(&redis, "server", "process_id");
    redis.cli(&["config", "resetstat"]);
    let result = test(&redis, &format!("--mode idle -c 200 --duration 0.3 --server-pid {pid}"));
    assert_eq!((redis.calls("ping"), &result["requests"]), (200, &0.into()));
    assert_eq!((&result["connections"]["opened"], &result["connections"]["lost"]), (&200.into(), &0.into()));
    assert!(result["connections"]["server_memory"]["open_bytes"].as_u64() > Some(1 << 20), "{result}");
}

#[test]
fn lost_idle_connections_end_the_run_or_are_counted() {
    let redis = Redis::start(&[]);
    for allowed in [false, true] {
        let mut driver = Command::new(OURS);
        driver.args(["run", "-p", &redis.port, "--json", "--mode", "idle", "-c", "20", "--duration", "15"]);
        driver.args(allowed.then_some("--allow-errors"));
        let driver = driver.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(100);
        // Redis-cli is a client, too.
        while info(&redis, "clients", "connected_clients") < 21 {
            assert!(Instant::now() < deadline, "the driver does not connect");
            std::thread::sleep(Duration::from_millis(20));
        }
        redis.cli(&["client", "kill", "type", "normal", "skipme", "yes"]);
        let output = driver.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        if allowed {
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(document["tests"][0]["connections"]["lost"], 20, "{document}");
        } else {
            assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
            assert!(message.contains("the server closed idle connection"), "{message}");
        }
    }
}

#[test]
fn every_subscriber_hears_every_message_once() {
    let redis = Redis::start(&[]);
    for (options, command, deliveries) in [
        ("", "publish", 6 * 500),
        ("-3 --publishers 3 --threads 2 -P 4 -d 2000", "publish", 6 * 500),
        ("--channels 3 --subscribe patterns", "publish", 6 * 500),
        ("--channels 3", "publish", 2 * 500),
        ("--channels 2 --subscribe shards", "spublish", 3 * 500),
        ("--rate 5000", "publish", 6 * 500),
    ] {
        redis.cli(&["config", "resetstat"]);
        let result = test(&redis, format!("--mode pubsub -c 6 -n 500 {options}").trim());
        let fanout = &result["fanout"];
        assert_eq!((redis.calls(command), fanout["published"].as_u64()), (500, Some(500)), "{options}");
        assert_eq!((&fanout["lost"], &fanout["duplicates"]), (&0.into(), &0.into()), "{options}");
        let heard = result["requests"].as_u64().unwrap() + result["unfinished"].as_u64().unwrap();
        assert_eq!(heard, deliveries, "{options}");
    }
}

#[test]
fn every_value_wakes_one_client() {
    let redis = Redis::start(&[]);
    for (pop, push) in [("blpop", "rpush"), ("bzpopmin", "zadd"), ("xreadgroup", "xadd")] {
        for options in ["", " -3 -r 4", " -P 5 -d 500", " --rate 2000"] {
            redis.cli(&["config", "resetstat"]);
            let result = test(&redis, &format!("--mode blocking -c 8 -n 200 --pop {pop}{options}"));
            assert_eq!((redis.calls(push), result["requests"].as_u64()), (200, Some(200)), "{pop}{options}");
            assert_eq!(result["wakeup"]["pushed"], 200);
        }
    }
    assert_eq!(redis.cli(&["dbsize"]).trim(), "0");
}

#[test]
fn waits_without_a_value_are_counted() {
    let redis = Redis::start(&[]);
    let path = std::env::temp_dir().join(format!("speedbench-waits-{}.toml", std::process::id()));
    let text =
        "[[phase]]\nmode='blocking'\nclients=5\nrate=10\nwarmup_s=0\nduration_s=1\nblocking={block_s=0.1}";
    std::fs::write(&path, text).unwrap();
    let result = test(&redis, &format!("--workload {}", path.to_str().unwrap()));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(result["wakeup"]["pushed"], 10);
    assert!(result["wakeup"]["timeouts"].as_u64() > Some(0), "{result}");
}

#[test]
fn invalidations_are_counted_apart() {
    let redis = Redis::start(&[]);
    let set = test(&redis, "-t set -n 500 -c 2");
    assert_eq!(set["pushes"], 0);
    let mut driver = Command::new(OURS);
    driver.args([
        "run",
        "-p",
        &redis.port,
        "--json",
        "-3",
        "--tracking",
        "-t",
        "get",
        "-c",
        "2",
        "--duration",
        "2",
    ]);
    let mut driver = driver.stdout(Stdio::piped()).spawn().unwrap();
    // Another client changes the one key that is read.
    while driver.try_wait().unwrap().is_none() {
        redis.cli(&["set", "key:000000000000", "new"]);
    }
    let document: Value = serde_json::from_slice(&driver.wait_with_output().unwrap().stdout).unwrap();
    let result = &document["tests"][0];
    assert!(result["pushes"].as_u64() > Some(0), "{result}");
    assert_eq!(result["hits"], result["requests"]);
}

#[test]
fn a_uri_leads_to_its_database() {
    let redis = Redis::start(&["--user", "joe", "on", ">secret", "~*", "+@all", "--requirepass", "top"]);
    let uri = format!("redis://joe:secret@localhost:{}/3", redis.port);
    let words = ["run", "-u", &uri, "--json", "--prefill", "-r", "50", "-t", "get", "-n", "100"];
    let text = said(OURS, &words);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&document["prefill"]["keys_in_server"], &document["tests"][0]["hits"]),
        (&50.into(), &100.into())
    );
    assert!(!text.contains("secret"), "{text}");
    let keyspace = redis.cli(&["-a", "top", "--no-auth-warning", "info", "keyspace"]);
    assert!(keyspace.contains("db3:keys=50"), "{keyspace}");
}
