//! Two real servers beside each other.

use serde_json::Value;

use super::machine::{OURS, Redis, said};

fn document(words: &[&str]) -> Value {
    serde_json::from_str(&said(OURS, &[&["duel", "--json"], words].concat())).unwrap()
}

#[test]
fn what_the_document_counts_is_what_both_servers_did() {
    let (base, head) = (Redis::start(&[]), Redis::start(&[]));
    let (base_pid, head_pid) = (base.pid(), head.pid());
    let words =
        ["--base", &base.socket, "--head", &head.port, "--base-pid", &base_pid, "--head-pid", &head_pid];
    // Two seconds: an interval needs several slices, and a busy machine makes each of them long.
    let load = "--prefill -r 1000 -t get -P 16 --warmup 0.1 --duration 2";
    let document = document(&[words.as_slice(), &load.split(' ').collect::<Vec<_>>()].concat());
    let test = &document["tests"][0];
    for (side, redis) in [("base", &base), ("head", &head)] {
        assert_eq!(redis.calls("set"), 1000);
        let requests = test[side]["requests"].as_u64().unwrap();
        assert_eq!(
            (test[side]["hits"].as_u64(), test[side]["unfinished"].as_u64()),
            (Some(requests), Some(0))
        );
        assert!(requests > 0 && redis.calls("get") > requests, "the warm-up is not counted");
        assert!(test[side]["prefill"]["server_memory"]["after_bytes"].as_u64().unwrap() > 0);
    }
    let ratios = test["ratios"].as_array().unwrap();
    assert_eq!(ratios[0]["metric"], "server_cpu_ns_per_request");
    // TCP costs the server more than a unix socket, by how much depends on the machine.
    let [low, ratio, high] = ["low", "ratio", "high"].map(|name| ratios[0][name].as_f64().unwrap());
    assert!(0.0 < low && low <= ratio && ratio <= high, "{}", ratios[0]);
}

#[test]
fn sequences_alternate_too() {
    let (base, head) = (Redis::start(&[]), Redis::start(&[]));
    let file = std::env::temp_dir().join(format!("speedbench-duel-{}.toml", std::process::id()));
    let sequence =
        "sequence = [{ request = 'MULTI' }, { request = 'INCR a:__key__', times = 3 }, { request = 'EXEC' }]";
    std::fs::write(&file, format!("[[phase]]\nclients = 3\nduration_s = 0.3\n{sequence}\n")).unwrap();
    let path = file.to_str().unwrap();
    let document = document(&["--base", &base.socket, "--head", &head.socket, "--workload", path]);
    std::fs::remove_file(&file).unwrap();
    for (side, redis) in [("base", &base), ("head", &head)] {
        assert_eq!(
            (redis.calls("multi"), 3 * redis.calls("exec")),
            (redis.calls("exec"), redis.calls("incr"))
        );
        let requests = document["tests"][0][side]["requests"].as_u64().unwrap();
        assert!(requests > 0 && requests.is_multiple_of(5), "{requests}");
    }
}
