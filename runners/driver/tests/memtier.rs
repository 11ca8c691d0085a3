//! The front end with memtier_benchmark's options, against the counting server.

mod support;

use support::{Manner, Server, failure_line, speedbench};

fn run(server: &Server, words: &str) -> String {
    let first = ["memtier-benchmark".to_owned(), server.options[0].to_uppercase().replace("-P", "-p")];
    let words = words.split_whitespace().map(str::to_owned);
    let output = speedbench(first.into_iter().chain([server.options[1].clone()]).chain(words));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn sets_and_gets_keep_their_ratio_and_count() {
    let server = Server::tcp(Manner::Honest);
    let text =
        run(&server, "-c 3 -t 2 -n 500 --ratio 1:4 --pipeline=5 --key-maximum=99 -d 8 --key-pattern=G:G");
    assert!(text.contains("requests/s"), "{text}");
    let seen = server.seen();
    assert_eq!((seen.calls("SET") + seen.calls("GET"), seen.streams.len()), (3000, 6));
    // The seed is fixed, so this never flickers.
    assert!((500..700).contains(&seen.calls("SET")), "{}", seen.calls("SET"));
    assert!(seen.store.iter().all(|(key, value)| key.starts_with(b"memtier-") && value.len() == 8));
}

#[test]
fn all_keys_are_set_once() {
    let server = Server::unix(Manner::Honest);
    let words = "-c 2 -t 2 -n allkeys --ratio 1:0 --key-pattern P:P --key-minimum 1 --key-maximum 1000 \
                 --key-prefix k: --data-size-range 1-9 --expiry-range 50-60 --hide-histogram --distinct-client-seed";
    let text = run(&server, words);
    assert!(!text.contains("percentile"), "{text}");
    let seen = server.seen();
    assert_eq!((seen.calls("SET"), seen.store.len()), (1000, 1000));
    assert!(seen.store.iter().all(|(key, value)| key.starts_with(b"k:") && (1..10).contains(&value.len())));
}

#[test]
fn commands_are_mixed_and_documents_written() {
    let server = Server::tcp(Manner::Honest);
    let path = support::written("memtier.json", "");
    let words = ["--command", "SET __key__ \"a b\"", "--command-ratio", "3", "--command", "GET __key__"];
    let rest = ["-c", "1", "-t", "1", "-n", "400", "--key-pattern", "Z:Z", "--json-out-file", &path];
    let place = ["memtier-benchmark", "-p", &server.options[1]];
    let words = place.iter().chain(&words).chain(&rest).map(|word| (*word).to_owned());
    assert!(speedbench(words).status.success());
    let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(document["tests"][0]["requests"], 400);
    let seen = server.seen();
    assert!((250..350).contains(&seen.calls("SET")) && seen.store.values().all(|value| value == b"a b"));
}

#[test]
fn a_rate_makes_an_open_loop() {
    let server = Server::tcp(Manner::Honest);
    let path = support::written("memtier-rate.json", "");
    run(&server, &format!("-c 2 -t 1 -n 50 --rate-limiting 1000 --json-out-file {path}"));
    let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(document["tests"][0]["mode"], "open");
    assert_eq!(document["tests"][0]["open"]["asked_rps"], 2000.0);
}

#[test]
fn wrong_options_are_usage_errors() {
    for (words, message) in [
        ("--cluster-mode", "cluster-mode"),
        ("-x 3", "invalid option '-x'"),
        ("-n many", "--requests cannot be 'many'"),
        ("-n", "--requests lacks its value"),
        ("-c 0", "--clients cannot be 0"),
        ("--ratio 1", "--ratio cannot be '1'"),
        ("--ratio 0:0", "the ratios add up to 0"),
        ("-P memcache_binary", "--protocol cannot be 'memcache_binary'"),
        ("--key-pattern R:S", "--key-pattern R:S has two patterns"),
        ("--key-pattern Q:Q", "--key-pattern cannot be 'Q:Q'"),
        ("--key-minimum 9 --key-maximum 3", "--key-maximum is below --key-minimum"),
        ("--key-stddev 0", "--key-stddev"),
        ("--data-size-range 9-3", "--data-size-range cannot be '9-3'"),
        ("--data-size-list 32:0", "weight of 0"),
        ("--expiry-range 0-9", "--expiry-range begins with 0"),
        ("--rate-limiting nan", "--rate-limiting"),
        ("--command-ratio 3", "--command-ratio cannot be '3'"),
        ("--test-time 0", "the window is empty"),
        ("-P memcache_text --command get", "--command is given for memcache_text"),
    ] {
        let words = ["memtier-benchmark"].into_iter().chain(words.split(' ')).map(str::to_owned);
        let line = failure_line(speedbench(words), 2);
        assert!(line.contains(message), "{line}");
    }
}
