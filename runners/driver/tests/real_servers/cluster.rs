//! A real cluster of three nodes.

use std::time::{Duration, Instant};

use crate::machine::{Redis, failure, ours, said};

fn cluster() -> Vec<Redis> {
    let nodes: Vec<Redis> = (0..3).map(|_| Redis::start(&["--cluster-enabled", "yes"])).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let mut words = vec!["--cluster", "create"];
    words.extend(addresses.iter().map(String::as_str));
    words.push("--cluster-yes");
    said("redis-cli", &words);
    let deadline = Instant::now() + Duration::from_secs(30);
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
    let told = failure(&["-p", port, "--cluster", "-n", "300", "-q", "set", "untagged", "b"], 1);
    assert!(told.contains("-MOVED") && told.contains("{tag}"), "{told}");
    let told = failure(&["-p", port, "-n", "300", "-q", "-r", "1000", "-t", "set"], 1);
    assert!(told.contains("-MOVED") && told.contains("--cluster"), "{told}");
}

#[test]
fn a_server_without_a_cluster_is_told() {
    let redis = Redis::start(&[]);
    let told = failure(&["-p", &redis.port, "--cluster", "-t", "set"], 1);
    assert!(told.contains("CLUSTER SLOTS") && told.contains("leave --cluster out"), "{told}");
}
