//! A real cluster of three nodes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::going_on;
use super::machine::{Directory, OURS, Redis, failure, ours, output, said};

fn cluster() -> Vec<Redis> {
    let nodes: Vec<Redis> = (0..3).map(|_| Redis::start(&["--cluster-enabled", "yes"])).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let mut words = vec!["--cluster", "create"];
    words.extend(addresses.iter().map(String::as_str));
    words.push("--cluster-yes");
    said("redis-cli", &words);
    let deadline = Instant::now() + Duration::from_secs(300);
    while !nodes.iter().all(|node| node.cli(&["cluster", "info"]).contains("cluster_state:ok")) {
        assert!(Instant::now() < deadline, "the cluster does not come up");
        std::thread::sleep(Duration::from_millis(100));
    }
    nodes
}

#[test]
fn the_load_is_spread_over_the_masters() {
    let nodes = cluster();
    let port = nodes[1].port.as_str();
    let text = ours(&[
        "-p",
        port,
        "--cluster",
        "-t",
        "set,mset",
        "-r",
        "100000",
        "-n",
        "3000",
        "-c",
        "9",
        "-P",
        "4",
    ]);
    assert!(text.starts_with("Cluster has 3 master nodes:\n\nMaster 0: "), "{text}");
    for line in ["  cluster mode: yes (3 masters)\n", "  node [2] configuration:\n", "  threads: 3\n"] {
        assert!(text.contains(line), "{text}");
    }
    // Nine connections, three to each node, each with its even share.
    for node in &nodes {
        assert!((996..=1004).contains(&node.calls("set")), "{}", node.calls("set"));
        let keys: u64 = node.cli(&["dbsize"]).trim().parse().unwrap();
        assert!(keys > 900, "{keys}");
    }
    assert_eq!(nodes.iter().map(|node| node.calls("set")).sum::<u64>(), 3000);
    assert_eq!(nodes.iter().map(|node| node.calls("mset")).sum::<u64>(), 3000);
    ours(&["-p", port, "--cluster", "-n", "300", "-q", "set", "a{tag}", "b"]);
    for default in ["incr,lpush,lrange_100,sadd,hset,zadd,xadd", "ping,get,spop"] {
        ours(&["-p", port, "--cluster", "-t", default, "-n", "90", "-q", "--threads", "2"]);
    }
}

#[test]
fn a_moved_key_is_told() {
    let nodes = cluster();
    let port = nodes[0].port.as_str();
    let message = failure(&["-p", port, "--cluster", "-n", "300", "-q", "set", "untagged", "b"], 1);
    assert!(message.contains("Error from server: MOVED") && message.contains("{tag}"), "{message}");
    let message = failure(&["-p", port, "-n", "300", "-q", "-r", "1000", "-t", "set"], 1);
    assert!(message.contains("Error from server: MOVED") && message.contains("--cluster"), "{message}");
}

#[test]
fn a_server_without_a_cluster_is_told() {
    let redis = Redis::start(&[]);
    let message = failure(&["-p", &redis.port, "--cluster", "-t", "set"], 1);
    assert!(message.contains("CLUSTER SLOTS") && message.contains("leave --cluster out"), "{message}");
}

#[test]
fn run_reaches_every_master() {
    let nodes = cluster();
    let port = nodes[2].port.as_str();
    let load = "--cluster -t set -r 1000 -n 600 -c 6 -P 4 --json";
    let words: Vec<&str> = ["run", "-p", port].into_iter().chain(load.split(' ')).collect();
    let document: serde_json::Value = serde_json::from_str(&said(OURS, &words)).unwrap();
    let servers = document["tests"][0]["servers"].as_array().unwrap();
    for server in servers {
        assert_eq!((&server["requests"], &server["connections"]), (&200.into(), &2.into()), "{server}");
        assert!(server["keys"].is_null(), "{server}");
    }
    assert_eq!(servers.len(), 3);
    assert_eq!(nodes.iter().map(|node| node.calls("set")).collect::<Vec<_>>(), [200; 3]);
    said(OURS, &["run", "-p", port, "--cluster", "--mode", "churn", "-t", "incr", "-n", "90", "-c", "6"]);
    assert_eq!(nodes.iter().map(|node| node.calls("incr")).collect::<Vec<_>>(), [30; 3]);
    nodes.iter().for_each(|node| drop(node.cli(&["config", "resetstat"])));
    let memtier = "--cluster-mode -c 3 -t 2 -n 100 --ratio 1:0 --key-maximum 9999";
    let words: Vec<&str> = ["memtier-benchmark", "-p", port].into_iter().chain(memtier.split(' ')).collect();
    said(OURS, &words);
    assert_eq!(nodes.iter().map(|node| node.calls("set")).collect::<Vec<_>>(), [200; 3]);
    let message = output(OURS, &["run", "-p", port, "-t", "set", "-r", "1000", "-n", "600"]);
    let message = String::from_utf8(message.stderr).unwrap();
    assert!(message.contains("-MOVED") && message.contains("--cluster"), "{message}");
}

/// What `run` says of a load on the cluster of `nodes`.
fn document(nodes: &[Redis], load: &str) -> serde_json::Value {
    let words: Vec<&str> =
        ["run", "--cluster", "--json", "-p", &nodes[0].port].into_iter().chain(load.split(' ')).collect();
    serde_json::from_str(&said(OURS, &words)).unwrap()
}

fn sizes(nodes: &[Redis]) -> Vec<u64> {
    nodes.iter().map(|node| node.cli(&["dbsize"]).trim().parse().unwrap()).collect()
}

#[test]
fn keys_of_a_cluster_are_prefilled_and_counted() {
    let nodes = cluster();
    let load = "-r 5000 -c 9 -P 4 -n 9000";
    let whole = document(&nodes, &format!("--prefill -t get,set {load}"));
    let get = &whole["tests"][0];
    // A key that is asked for elsewhere is redirected.
    assert_eq!((&get["hits"], &get["misses"]), (&9000.into(), &0.into()));
    assert_eq!(whole["prefill"]["keys_in_server"], 5000);
    let keys: Vec<u64> =
        get["servers"].as_array().unwrap().iter().map(|server| server["keys"].as_u64().unwrap()).collect();
    // No set made a new key.
    assert_eq!((sizes(&nodes), sizes(&nodes).iter().sum::<u64>()), (keys, 5000));
    assert!(nodes[1].cli(&["randomkey"]).starts_with("key:00000000"));
    for (load, code, cause) in [
        (format!("--prefill -t get {load}"), 1, "holds 5000 keys"),
        ("--prefill=force -t get -r 5000 -c 2 -n 90".to_owned(), 2, "fewer connections than the 3 servers"),
        ("--prefill=force -t get -r 2 -c 9 -n 90".to_owned(), 2, "belongs to"),
    ] {
        let words: Vec<&str> =
            ["run", "--cluster", "-p", &nodes[0].port].into_iter().chain(load.split(' ')).collect();
        let ended = output(OURS, &words);
        let message = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(code) && message.contains(cause), "{message}");
    }
    let counted = document(&nodes, &format!("--prefill=force -t get {load}"));
    assert_eq!(
        (&counted["prefill"]["keys_in_server"], sizes(&nodes).iter().sum::<u64>()),
        (&5000.into(), 5000)
    );
}

#[test]
fn a_workload_file_fills_verifies_and_counts_a_cluster() {
    let nodes = cluster();
    let folder = Directory::new();
    let path = folder.path("cluster.toml");
    let file = "[[phase]]\nname = 'skewed'\ntest = 'get:9+set:1'\nverify = 1.0\nprefill = true\nclients = 6\n\
                keys = { count = 2000, distribution = 'zipf' }\nexpect = { keys = 2000, hit_rate = 1.0 }\n\
                requests = 5000\n[[phase]]\nname = 'sets'\nclients = 6\nrequests = 2000\n\
                commands = [{ request = 'SCARD set:__key__' }]\nprefill = true\nkeys = { count = 1000 }\n\
                prefill_request = 'SADD set:__key__ a b c'\nexpect = { keys = 3000 }\n";
    std::fs::write(&path, file).unwrap();
    let whole = document(&nodes, &format!("--workload {path}"));
    for test in whole["tests"].as_array().unwrap() {
        assert_eq!((&test["errors"]["count"], &test["misses"]), (&0.into(), &0.into()), "{test}");
        let flags = test["flags"].to_string();
        assert!(!flags.contains("hit_rate") && !flags.contains("key_count"), "{flags}");
    }
    assert_eq!(sizes(&nodes).iter().sum::<u64>(), 3000);
    nodes.iter().for_each(|node| drop(node.cli(&["flushall"])));
    let load = "--ladder pipeline=1,4 --prefill -t get -r 900 -c 6 -n 900";
    let ladder = document(&nodes, load);
    assert_eq!(ladder["rungs"].as_array().unwrap().len(), 2, "{ladder}");
    assert_eq!(sizes(&nodes).iter().sum::<u64>(), 900);
}

#[test]
fn slots_that_move_end_the_run() {
    let nodes = cluster();
    let other = nodes[1].cli(&["cluster", "myid"]);
    // Without a warm-up: of a run that ends in it there is no table.
    let words = ["-p", &nodes[0].port, "--cluster", "-t", "get", "-c", "6", "--warmup", "0"];
    let driver = Command::new(OURS)
        .args([["run", "--duration", "200"].as_slice(), &words].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(100);
    while nodes[0].calls("get") == 0 {
        assert!(Instant::now() < deadline, "the driver does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    for slot in 0..50 {
        nodes[0].cli(&["cluster", "setslot", &slot.to_string(), "node", other.trim()]);
    }
    let output = driver.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(table.contains("cut short"), "{table}");
    assert!(message.contains("-MOVED") && message.contains("while no slots are being moved"), "{message}");
}

#[test]
fn reads_come_from_replicas() {
    let nodes = going_on::cluster();
    going_on::wait_until("the cluster does not know its replicas", || {
        let slots = nodes[1].cli(&["cluster", "slots"]);
        nodes.iter().all(|node| slots.contains(&node.port))
    });
    let load = ["-p", &nodes[1].port, "--cluster", "-r", "1000", "-n", "600", "-c", "6", "-t"];
    let asked = |words: &[&str]| ours(&[&load, words].concat());
    let calls = || nodes.iter().map(|node| node.calls("get")).collect::<Vec<u64>>();
    asked(&["set", "-q"]);
    let text = asked(&["get", "--rfr", "yes"]);
    assert!(text.starts_with("Cluster has 3 replica nodes:\n\nNode 0(Replica): "), "{text}");
    assert!(text.contains("  cluster mode: yes (3 nodes)\n"), "{text}");
    assert_eq!(calls(), [0, 0, 0, 200, 200, 200]);
    let text = asked(&["get", "--rfr", "all", "-q"]);
    assert!(text.starts_with("Cluster has 6 cluster nodes:\n\nNode 0(Primary): "), "{text}");
    assert_eq!(calls(), [100, 100, 100, 300, 300, 300]);
    asked(&["get", "--rfr", "no", "-q"]);
    assert_eq!(calls()[..3], [300, 300, 300]);
    let message = failure(&[&load, ["set", "--rfr", "yes"].as_slice()].concat(), 1);
    assert!(message.contains("MOVED") && message.contains("only read with --rfr"), "{message}");
}

#[test]
fn a_cluster_without_replicas_is_told() {
    let nodes = cluster();
    let message = failure(&["-p", &nodes[0].port, "--cluster", "--rfr", "yes", "-t", "get"], 1);
    assert!(message.contains("the cluster has no replicas"), "{message}");
}
