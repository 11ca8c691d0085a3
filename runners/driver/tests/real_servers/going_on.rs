//! Loads that go on: through lost connections, a restart, and in a cluster through resharding, failover and death.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::machine::{OURS, Redis, output, said};
use crate::support::heed;

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Our program, which the test goes on beside; it ends with the test.
struct Driver(Option<Child>);

impl Driver {
    fn start(words: &str) -> Driver {
        let mut command = Command::new(OURS);
        command.args(words.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        heed(&mut command, libc::SIGINT);
        Driver(Some(command.spawn().unwrap()))
    }

    /// Ask it to end: what it says on stdout, its status, and what it says on stderr.
    fn interrupt(mut self) -> (Value, Option<i32>, String) {
        let child = self.0.take().unwrap();
        // SAFETY: the process is our child and not yet waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        let document =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {message}"));
        (document, output.status.code(), message)
    }

    fn end(mut self) -> (String, Option<i32>, String) {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), output.status.code(), text(output.stderr))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn errors(recovery: &Value) -> u64 {
    recovery["errors_per_s"].as_array().unwrap().iter().map(|errors| errors.as_u64().unwrap()).sum()
}

#[test]
fn a_restarted_server_is_found_again() {
    let redis = Redis::start(&[]);
    let port = redis.port.clone();
    let words = "run -t get -c 6 --threads 2 -P 4 --duration 300 --warmup 0 --json --reconnect-on-error";
    let driver = Driver::start(&format!("{words} -p {port} --server-pid {}", redis.pid()));
    wait_until("the driver does not begin", || redis.calls("get") > 1000);
    drop(redis);
    std::thread::sleep(Duration::from_millis(500));
    let redis = Redis::start(&["--port", &port]);
    wait_until("the driver does not go on", || redis.calls("get") > 1000);
    let (document, status, message) = driver.interrupt();
    assert_eq!(status, Some(130), "{message}");
    let test = &document["tests"][0];
    let recovery = &test["recovery"];
    assert_eq!(
        (recovery["broken"].as_u64(), recovery["reconnects"].as_u64()),
        (Some(6), Some(6)),
        "{recovery}"
    );
    // Whoever is answered again only after half a second was in trouble as long, and so was everybody.
    let seconds = |name: &str| recovery[name].as_f64().unwrap();
    assert!(seconds("recovery_s") > 0.4 && seconds("longest_gap_s") > 0.4, "{recovery}");
    assert_eq!(errors(recovery), recovery["lost"].as_u64().unwrap());
    assert_eq!((recovery["outages"].as_array().unwrap().len(), &test["server_cpu"]), (1, &Value::Null));
}

#[test]
fn each_request_is_answered_though_connections_are_killed() {
    let redis = Redis::start(&[]);
    let words = "memtier-benchmark -c 4 -t 1 -n 20000 --ratio 1:0 --hide-histogram --reconnect-on-error";
    let driver = Driver::start(&format!("{words} -p {}", redis.port));
    wait_until("the driver does not begin", || redis.calls("set") > 1000);
    redis.cli(&["client", "kill", "type", "normal"]);
    let (table, status, message) = driver.end();
    assert_eq!(status, Some(0), "{message}");
    assert!(table.contains("ALL STATS"), "{table}");
    assert!((80_000..=80_010).contains(&redis.calls("set")), "{}", redis.calls("set"));
}

#[test]
fn attempts_have_a_limit() {
    let redis = Redis::start(&[]);
    let words = "run -t get -c 2 --duration 300 --warmup 0 --reconnect-on-error --max-reconnect-attempts 3";
    let driver = Driver::start(&format!("{words} -p {}", redis.port));
    wait_until("the driver does not begin", || redis.calls("get") > 100);
    drop(redis);
    let (table, status, message) = driver.end();
    assert_eq!(status, Some(1), "{message}");
    assert!(
        message.contains("a connection was lost, and not opened again (attempts: 3): cannot connect to tcp:"),
        "{message}"
    );
    assert!(table.contains("! cut short after ") && table.contains("not recovered"), "{table}");
}

/// Three masters with a replica each.
pub fn cluster() -> Vec<Redis> {
    let words = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let nodes: Vec<Redis> = (0..6).map(|_| Redis::start(&words)).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let mut words = vec!["--cluster", "create"];
    words.extend(addresses.iter().map(String::as_str));
    words.extend(["--cluster-replicas", "1", "--cluster-yes"]);
    said("redis-cli", &words);
    wait_until("the cluster does not come up", || {
        let linked = |node: &Redis| node.cli(&["info", "replication"]).contains("master_link_status:up");
        let is_up = |node: &Redis| node.cli(&["cluster", "info"]).contains("cluster_state:ok");
        nodes.iter().all(is_up) && nodes.iter().filter(|node| linked(node)).count() == 3
    });
    nodes
}

fn is_master(node: &Redis) -> bool {
    node.cli(&["info", "replication"]).contains("role:master")
}

/// The replica of `master` among `nodes`.
fn replica_of(nodes: &[Redis], master: &Redis) -> usize {
    let port = format!("master_port:{}\r", master.port);
    nodes.iter().position(|node| node.cli(&["info", "replication"]).contains(&port)).unwrap()
}

fn id(node: &Redis) -> String {
    node.cli(&["cluster", "myid"]).trim().to_owned()
}

/// Migrate the keys of a slot that has some, and leave the slot itself where it is.
fn begin_migration(from: &Redis, to: &Redis) -> String {
    let slot = from.cli(&["cluster", "keyslot", from.cli(&["randomkey"]).trim()]).trim().to_owned();
    to.cli(&["cluster", "setslot", &slot, "importing", &id(from)]);
    from.cli(&["cluster", "setslot", &slot, "migrating", &id(to)]);
    let keys = from.cli(&["cluster", "getkeysinslot", &slot, "1000"]);
    let words = ["migrate", "127.0.0.1", &to.port, "", "0", "60000", "keys"];
    from.cli(&words.into_iter().chain(keys.split_whitespace()).collect::<Vec<_>>());
    slot
}

#[test]
fn the_front_end_follows_slots_that_move() {
    let nodes = cluster();
    let driver = Driver::start(&format!(
        "redis-benchmark --cluster -t set -r 100000 -n 400000 --rps 20000 -c 6 -q -p {}",
        nodes[0].port
    ));
    wait_until("the driver does not begin", || nodes[..3].iter().all(|node| node.calls("set") > 100));
    let slot = begin_migration(&nodes[0], &nodes[1]);
    wait_until("nothing is asked for behind ASKING", || nodes[1].calls("asking") > 0);
    for node in [&nodes[1], &nodes[0]] {
        node.cli(&["cluster", "setslot", &slot, "node", &id(&nodes[1])]);
    }
    let (table, status, message) = driver.end();
    assert_eq!((status, message.as_str()), (Some(0), ""));
    assert!(table.contains("SET: ") && !table.contains("cut short"), "{table}");
}

#[test]
fn a_cluster_changes_under_load() {
    let mut nodes = cluster();
    let words = "run -t set -c 6 --threads 2 -P 2 --duration 600 --warmup 0 --json --cluster";
    let driver = Driver::start(&format!("{words} --reconnect-on-error -p {}", nodes[0].port));
    wait_until("the driver does not begin", || nodes[..3].iter().all(|node| node.calls("set") > 1000));

    // A slot migrates: its keys are asked for behind ASKING until it has moved. Then more slots do.
    let slot = begin_migration(&nodes[0], &nodes[1]);
    wait_until("nothing is asked for behind ASKING", || nodes[1].calls("asking") > 0);
    for node in [&nodes[1], &nodes[0]] {
        node.cli(&["cluster", "setslot", &slot, "node", &id(&nodes[1])]);
    }
    let (from, to) = (id(&nodes[0]), id(&nodes[1]));
    let address = format!("127.0.0.1:{}", nodes[0].port);
    wait_until("the nodes do not agree", || {
        output("redis-cli", &["--cluster", "check", &address]).status.success()
    });
    let reshard = ["--cluster", "reshard", &address, "--cluster-from", &from, "--cluster-to", &to];
    said("redis-cli", &[reshard.as_slice(), &["--cluster-slots", "200", "--cluster-yes"]].concat());

    // A replica is promoted.
    let promoted = replica_of(&nodes, &nodes[2]);
    wait_until("the replica is not promoted", || {
        // It gives up when its master is too far ahead.
        nodes[promoted].cli(&["cluster", "failover"]);
        std::thread::sleep(Duration::from_secs(1));
        is_master(&nodes[promoted])
    });
    let before = nodes[promoted].calls("set");
    wait_until("the promoted replica is not loaded", || nodes[promoted].calls("set") > before + 500);

    // A master is killed.
    let heir = replica_of(&nodes, &nodes[1]);
    let heir_port = nodes[heir].port.clone();
    drop(nodes.remove(1));
    let heir = nodes.iter().position(|node| node.port == heir_port).unwrap();
    wait_until("no replica takes over", || is_master(&nodes[heir]));
    let before = nodes[heir].calls("set");
    wait_until("the heir is not loaded", || nodes[heir].calls("set") > before + 500);
    std::thread::sleep(Duration::from_secs(2));

    let (document, status, message) = driver.interrupt();
    assert_eq!(status, Some(130), "{message}");
    let recovery = &document["tests"][0]["recovery"];
    let number = |name: &str| recovery[name].as_f64().unwrap_or(-1.0);
    assert!(number("redirected") > 0.0 && number("reconnects") > 0.0 && number("broken") > 0.0, "{recovery}");
    // The cluster needs its node timeout to see that a master is gone.
    assert!(number("recovery_s") > 1.0 && errors(recovery) > 0, "{recovery}");
}

#[test]
fn prefilled_keys_are_found_on_the_nodes_that_they_move_to() {
    let nodes = cluster();
    let words = "run -t get -c 6 -r 3000 --prefill --duration 600 --warmup 0 --json --cluster";
    let driver = Driver::start(&format!("{words} --reconnect-on-error -p {}", nodes[0].port));
    wait_until("the driver does not begin", || nodes[..3].iter().all(|node| node.calls("get") > 1000));
    let (from, to) = (id(&nodes[0]), id(&nodes[1]));
    let address = format!("127.0.0.1:{}", nodes[0].port);
    let reshard = ["--cluster", "reshard", &address, "--cluster-from", &from, "--cluster-to", &to];
    said("redis-cli", &[reshard.as_slice(), &["--cluster-slots", "200", "--cluster-yes"]].concat());
    let before = nodes[1].calls("get");
    wait_until("the node is not asked any more", || nodes[1].calls("get") > before + 1000);
    let (document, status, message) = driver.interrupt();
    assert_eq!(status, Some(130), "{message}");
    let test = &document["tests"][0];
    assert!(test["recovery"]["redirected"].as_u64().unwrap() > 0, "{}", test["recovery"]);
    assert_eq!((&test["misses"], &test["hits"]), (&0.into(), &test["requests"]));
}

#[test]
fn an_heir_is_loaded_at_once_however_long_the_pause_before_an_attempt_is() {
    let mut nodes = cluster();
    let words = "memtier-benchmark --cluster-mode -c 6 -t 1 --test-time 300 --ratio 1:0 --hide-histogram \
                 --reconnect-on-error --reconnect-backoff-factor 60";
    let driver = Driver::start(&format!("{words} -p {}", nodes[0].port));
    wait_until("the driver does not begin", || nodes[..3].iter().all(|node| node.calls("set") > 100));
    let heir_port = nodes[replica_of(&nodes, &nodes[1])].port.clone();
    drop(nodes.remove(1));
    let heir = nodes.iter().position(|node| node.port == heir_port).unwrap();
    wait_until("no replica takes over", || is_master(&nodes[heir]));
    let (since, before) = (Instant::now(), nodes[heir].calls("set"));
    wait_until("the heir is not loaded", || nodes[heir].calls("set") > before + 100);
    // A pause lasts a minute.
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    drop(driver);
}
