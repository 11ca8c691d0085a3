//! Keys spread over several of Debian's memcached servers.

use std::collections::HashMap;
use std::process::Stdio;

use serde_json::Value;

use super::going_on::wait_until;
use super::machine::{OURS, Redis, output, said};
use super::memcached_server::{Memcached, failure};

/// What `run` says of a load on `servers`.
fn document(servers: &[Memcached], words: &str) -> Value {
    serde_json::from_str(&said(OURS, &spread(servers, words))).unwrap()
}

fn spread(servers: &[Memcached], words: &str) -> Vec<String> {
    let places: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.place[1])).collect();
    let protocol = if words.contains("--workload") { "" } else { "--protocol memcached" };
    let words = format!("run {protocol} --servers {} --json {words}", places.join(","));
    words.split_whitespace().map(str::to_owned).collect()
}

fn started(count: usize) -> Vec<Memcached> {
    (0..count).map(|_| Memcached::tcp(&["-m", "64"])).collect()
}

fn counts(result: &Value, field: &str) -> Vec<u64> {
    result["servers"].as_array().unwrap().iter().map(|server| server[field].as_u64().unwrap()).collect()
}

fn statistics(servers: &[Memcached], name: &str) -> Vec<u64> {
    servers.iter().map(|server| server.stats()[name]).collect()
}

#[test]
fn each_server_gets_its_keys_and_no_others() {
    for servers in [started(3), started(10)] {
        let load = "--prefill -r 5000 -c 20 -P 4";
        let whole = document(&servers, &format!("{load} -t get,set -n 10000"));
        let get = &whole["tests"][0];
        // A key that is asked for elsewhere is a miss there.
        assert_eq!(
            (&get["hits"], &get["misses"], &get["errors"]["count"]),
            (&10_000.into(), &0.into(), &0.into())
        );
        assert_eq!(whole["prefill"]["keys_in_server"], 5000);
        assert_eq!(whole["target"]["address"].as_str().unwrap().split(',').count(), servers.len());
        let (keys, requests) = (counts(get, "keys"), counts(get, "requests"));
        assert_eq!(statistics(&servers, "get_hits"), requests);
        assert_eq!((keys.iter().sum::<u64>(), requests.iter().sum::<u64>()), (5000, 10_000));
        // No set made a new key.
        assert_eq!(statistics(&servers, "curr_items"), keys);
        let sets: Vec<u64> =
            keys.iter().zip(counts(&whole["tests"][1], "requests")).map(|(keys, sets)| keys + sets).collect();
        assert_eq!(statistics(&servers, "cmd_set"), sets);
        assert_eq!(counts(get, "connections").iter().sum::<u64>(), 20);
    }
}

#[test]
fn many_keys_counters_mixes_and_skews_are_spread() {
    let servers = started(3);
    let load = "-r 3000 -c 6 -P 3 -n 3000";
    let several = "get:9+set:1,gets_10,mg_quiet,set_noreply,touch,incr,decr,ma_value,mn,get_miss";
    let whole = document(&servers, &format!("--prefill {load} -t {several} --threads 2 --window rolling"));
    for test in whole["tests"].as_array().unwrap() {
        assert_eq!(test["errors"]["count"], 0, "{}", test["name"]);
        let absent = test["name"] == "get_miss";
        assert_eq!(test["misses"].as_u64().unwrap() > 0, absent, "{}", test["name"]);
        assert_eq!(counts(test, "requests").iter().sum::<u64>(), 3000);
    }
    let keys = super::machine::Directory::new();
    let path = keys.path("skew.toml");
    let file = "protocol = 'memcached'\n[[phase]]\ntest = 'get'\nverify = 1.0\nprefill = true\nclients = 6\n\
                keys = { count = 2000, distribution = 'zipf', bytes = 40 }\nrequests = 5000\n\
                [[phase]]\nname = 'each'\ntest = 'get'\nverify = 1.0\nclients = 6\n\
                keys = { count = 2000, distribution = 'sequential', bytes = 40 }\nrequests = 5000\n";
    std::fs::write(&path, file).unwrap();
    let servers = started(3);
    let skewed = document(&servers, &format!("--workload {path}"));
    assert_eq!(skewed["tests"][0]["hits"], 5000);
    assert_eq!(skewed["tests"][1]["hits"], 5000);
    // What a flush has ended is counted by the servers for a second or two.
    servers.iter().for_each(|server| drop(server.ask("flush_all\r\n")));
    let again = document(&servers, "--prefill -r 900 -t get -c 6 -n 900");
    assert_eq!((&again["prefill"]["keys_in_server"], &again["tests"][0]["hits"]), (&900.into(), &900.into()));
    let open = document(&servers, "--prefill=force -r 2000 -t get -c 6 --rate 5000 --duration 0.4");
    assert_eq!(open["tests"][0]["misses"], 0);
}

#[test]
fn what_is_wrong_with_several_servers_is_told() {
    let servers = started(2);
    let place = |at: usize| format!("127.0.0.1:{}", servers[at].place[1]);
    let run = |words: &str, code: i32| failure(&words.split_whitespace().collect::<Vec<_>>(), code);
    let both = format!("{},{}", place(0), place(1));
    let twice = format!("{},{}", place(0), place(0));
    for (words, cause) in [
        (format!("--servers {twice} -t get -r 100"), "twice"),
        (format!("--servers {both} -t add -r 100"), "the keys of add cannot be spread"),
        (format!("--servers {both} -t delete -r 100"), "the keys of delete cannot be spread"),
        (format!("--servers {both} -t mg_base64 -r 100"), "the keys of mg_base64 cannot be spread"),
        (format!("--servers {both} -t get+incr -r 100"), "keys of several kinds"),
        (format!("--servers {both} -t get"), "none of the 1 keys of get belongs to"),
        (format!("--servers {both} -t get -r 100 -c 1"), "fewer connections than the 2 servers"),
        (format!("--servers {both} -t get -r 100 -p 11211"), "beside -h, -p, -s or -u"),
        (format!("--servers {both} -t get -r 1000000000"), "too many to spread"),
        ("--servers redis://a,b -t get".to_owned(), "takes no URIs"),
        ("--servers a:b,c -t get".to_owned(), "--servers cannot be 'a:b'"),
        ("--servers ,a -t get".to_owned(), "--servers cannot be ''"),
    ] {
        let message = run(&format!("run --protocol memcached {words}"), 2);
        assert!(message.contains(cause), "{words}: {message}");
    }
    let resp = run(&format!("run --servers {both} -t get"), 2);
    assert!(resp.contains("--servers is given for RESP") && resp.contains("--cluster"), "{resp}");
    let redis = Redis::start(&["--port", "PORT"]);
    let mixed =
        format!("run --protocol memcached --servers {},127.0.0.1:{} -t get -r 100", place(0), redis.port);
    let message = run(&format!("{mixed} --prefill"), 1);
    assert!(message.contains("answered stats with -ERR"), "{message}");
    let gone = run(&format!("run --protocol memcached --servers {},127.0.0.1:1 -t get -r 100", place(0)), 1);
    assert!(gone.contains("cannot connect to tcp:127.0.0.1:1"), "{gone}");
}

#[test]
fn a_lost_server_ends_the_run_or_is_waited_for() {
    let mut servers = started(3);
    let words = spread(&servers, "--prefill -r 1000 -t get -c 6 --warmup 0 --duration 3 --timeout 2");
    let child = std::process::Command::new(OURS)
        .args(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the load does not begin", || servers[1].stats()["cmd_get"] > 0);
    servers[1].kill();
    let ended = child.wait_with_output().unwrap();
    let message = String::from_utf8(ended.stderr).unwrap();
    let lost = format!("tcp:127.0.0.1:{} closed connection", servers[1].place[1]);
    assert!(ended.status.code() == Some(1) && message.contains(&lost), "{message}");
    let cut: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(counts(&cut["tests"][0], "requests").len(), 3);

    let mut servers = started(3);
    document(&servers, "--prefill -r 1000 -t get -c 6 -n 100");
    let words = spread(&servers, "-r 1000 -t get -c 6 --warmup 0 --duration 2 --reconnect-on-error");
    let before = servers[2].stats()["cmd_get"];
    let child = std::process::Command::new(OURS).args(&words).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the load does not begin", || servers[2].stats()["cmd_get"] > before);
    servers[2].kill();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    let whole: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let recovery = &whole["tests"][0]["recovery"];
    assert_eq!((&recovery["broken"], &recovery["recovery_s"]), (&2.into(), &Value::Null), "{recovery}");
    let requests = counts(&whole["tests"][0], "requests");
    assert!(requests[2] > 0 && requests[2] < requests[0] && requests[2] < requests[1], "{requests:?}");
}

#[test]
fn servers_may_be_named_by_ipv6_and_socket() {
    let server = Memcached::unix(&[]);
    let other = Memcached::tcp(&["-l", "::1"]);
    let names = format!("[::1]:{},{}", other.place[1], server.place[1]);
    let words =
        format!("run --protocol memcached --servers {names} --prefill -r 500 -t get -n 1000 -c 4 --json");
    let result = output(OURS, &words.split(' ').collect::<Vec<_>>());
    let message = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{message}");
    let document: Value = serde_json::from_slice(&result.stdout).unwrap();
    let by_address: HashMap<String, u64> = document["tests"][0]["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| (server["address"].as_str().unwrap().to_owned(), server["requests"].as_u64().unwrap()))
        .collect();
    assert_eq!(by_address.values().sum::<u64>(), 1000);
    assert_eq!(by_address[&format!("unix:{}", server.place[1])], server.stats()["get_hits"]);
}
