//! The front end with memtier_benchmark's options, against the counting server.

use serde_json::Value;

use crate::support::{Manner, Server, failure_line, speedbench, written};

fn run(server: &Server, words: &str) -> String {
    let first = ["memtier-benchmark".to_owned(), server.options[0].to_uppercase().replace("-P", "-p")];
    let words = words.split_whitespace().map(str::to_owned);
    let output = speedbench(first.into_iter().chain([server.options[1].clone()]).chain(words));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    String::from_utf8(output.stdout).unwrap()
}

/// The JSON of a run.
fn document(server: &Server, name: &str, words: &str) -> Value {
    let path = written(name, "");
    run(server, &format!("{words} --json-out-file {path}"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The numbers of the keys `memtier-N` in the store, sorted.
fn numbers(server: &Server) -> Vec<u64> {
    let seen = server.seen();
    let number = |key: &Vec<u8>| {
        let number = std::str::from_utf8(key).unwrap().strip_prefix("memtier-").unwrap();
        assert!(number == "0" || !number.starts_with('0'), "{number}");
        number.parse().unwrap()
    };
    let mut numbers: Vec<u64> = seen.store.keys().map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// The row of `name` in a table, without its name.
fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let line =
        table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {table}"));
    line.split_whitespace().skip(1).collect()
}

#[test]
fn sets_and_gets_keep_their_ratio_and_count() {
    let server = Server::tcp(Manner::Honest);
    let text =
        run(&server, "-c 3 -t 2 -n 500 --ratio 1:4 --pipeline=5 --key-maximum=99 -d 8 --key-pattern=G:G");
    let begin = "2         Threads\n3         Connections per thread\n500       Requests per client\n\n\nALL STATS\n====";
    assert!(text.starts_with(begin), "{text}");
    assert!(
        text.contains(
            "Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency   \
             p99.9 Latency       KB/sec \n"
        ),
        "{text}"
    );
    let number = |cell: &str| cell.parse::<f64>().unwrap();
    let (sets, gets, totals) = (row(&text, "Sets "), row(&text, "Gets "), row(&text, "Totals "));
    assert_eq!(
        (sets[1], sets[2], row(&text, "Waits ")),
        ("---", "---", vec!["0.00", "---", "---", "---", "---", "---", "---", "---"])
    );
    assert!((number(gets[1]) + number(gets[2]) - number(gets[0])).abs() < 0.02, "{text}");
    assert!((number(sets[0]) + number(gets[0]) - number(totals[0])).abs() < 0.02, "{text}");
    assert!((number(sets[7]) + number(gets[7]) - number(totals[7])).abs() < 0.5, "{text}");
    assert!(
        text.contains("\n\nRequest Latency Distribution\nType     <= msec         Percent\n-----"),
        "{text}"
    );
    let seen = server.seen();
    assert_eq!((seen.calls("SET") + seen.calls("GET"), seen.streams.len()), (3000, 6));
    // The seed is fixed, so this never flickers.
    assert!((500..700).contains(&seen.calls("SET")), "{}", seen.calls("SET"));
    assert!(seen.store.values().all(|value| value.len() == 8));
    drop(seen);
    assert!(numbers(&server).into_iter().all(|number| number < 100));
}

#[test]
fn all_keys_are_set_once() {
    let server = Server::unix(Manner::Honest);
    let words = "-c 2 -t 2 -n allkeys --ratio 1:0 --key-pattern P:P --key-minimum 1 --key-maximum 1000 \
                 --data-size-range 1-9 --expiry-range 50-60 --hide-histogram --distinct-client-seed";
    let text = run(&server, words);
    assert!(!text.contains("Latency Distribution"), "{text}");
    assert_eq!(numbers(&server), (1..=1000).collect::<Vec<_>>());
    let seen = server.seen();
    assert_eq!((seen.calls("SET"), seen.store.len()), (1000, 1000));
    assert!(seen.store.values().all(|value| (1..10).contains(&value.len())));
}

#[test]
fn sets_and_gets_have_patterns_of_their_own() {
    let server = Server::tcp(Manner::Honest);
    let words = "-c 1 -t 1 -n 200 --ratio 1:1 --key-maximum 99999";
    let document = document(&server, "memtier-patterns.json", &format!("{words} --key-pattern S:R"));
    // The sets count up by themselves, whatever the gets draw; which find none of the few.
    let sets = server.seen().calls("SET");
    assert_eq!(numbers(&server), (0..sets).collect::<Vec<_>>());
    assert_eq!(document["configuration"]["key_pattern"], "S:R");
    assert_eq!(document["ALL STATS"]["Gets"]["Hits/sec"], 0.0);
    run(&server, "-c 1 -t 1 -n 200 --ratio 1:1 --key-maximum 99999 --key-pattern S:S");
    let sets = server.seen().calls("SET") - sets;
    assert_eq!(numbers(&server).last(), Some(&(sets - 1)));
}

#[test]
fn connections_count_by_themselves() {
    let server = Server::tcp(Manner::Honest);
    run(&server, "-c 2 -t 2 -n 50 --ratio 1:0 --key-maximum 99999 --key-pattern S:S");
    assert_eq!(numbers(&server), (0..50).collect::<Vec<_>>());
    run(&server, "-c 2 -t 2 -n allkeys --ratio 1:0 --key-minimum 1 --key-maximum 60 --key-pattern S:S");
    assert_eq!(numbers(&server), (0..=60).collect::<Vec<_>>());
    assert_eq!(server.seen().calls("SET"), 200 + 240);
}

#[test]
fn connections_draw_the_same_keys_unless_they_shall_differ() {
    for (option, keys) in [("", 100), ("--distinct-client-seed", 300)] {
        let server = Server::tcp(Manner::Honest);
        run(&server, &format!("-c 3 -t 1 -n 100 --ratio 1:0 --key-maximum 99999999 {option}"));
        assert_eq!(numbers(&server).len(), keys);
    }
}

#[test]
fn the_number_of_a_key_is_its_rank() {
    let server = Server::tcp(Manner::Honest);
    run(&server, "-c 1 -t 1 -n 4000 --ratio 1:0 --key-maximum 9 --key-pattern Z:Z --key-zipf-exp 3");
    // Key 0 has no rank.
    assert_eq!(numbers(&server), (1..=9).collect::<Vec<_>>());
    let sent = String::from_utf8_lossy(&server.seen().streams[0]).into_owned();
    let count = |number: usize| sent.matches(&format!("memtier-{number}\r\n")).count();
    assert!(count(1) > 6 * count(2) && count(2) > 2 * count(3), "{} {}", count(1), count(2));
}

#[test]
fn ratios_are_dealt_in_whole_decks() {
    let server = Server::tcp(Manner::Honest);
    run(&server, "-c 3 -t 1 -n 14 --ratio 3:4 --key-maximum 9");
    // Each connection sends two decks.
    let seen = server.seen();
    assert_eq!((seen.calls("SET"), seen.calls("GET")), (18, 24));
}

#[test]
fn commands_are_mixed_and_documents_written() {
    let server = Server::tcp(Manner::Honest);
    let path = written("memtier.json", "");
    let words = ["--command", "SET __key__ \"a b\"", "--command-ratio", "3", "--command", "GET __key__"];
    let rest = ["--command-key-pattern", "Z", "-c", "1", "-t", "1", "-n", "400", "--json-out-file", &path];
    let place = ["memtier-benchmark", "-p", &server.options[1]];
    let words = place.iter().chain(&words).chain(&rest).map(|word| (*word).to_owned());
    let output = speedbench(words);
    assert!(output.status.success());
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(!table.contains("Hits/sec") && !table.contains("Waits"), "{table}");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let stats = &document["ALL STATS"];
    let count = |row: &str| stats[row]["Count"].as_u64().unwrap();
    assert_eq!((count("Sets") + count("Gets"), count("Totals")), (400, 400));
    assert!(stats["SET"].as_array().unwrap().len() > 2 && stats["GET"].is_array());
    let seen = server.seen();
    assert_eq!(seen.calls("SET"), 300);
    assert!(seen.store.values().all(|value| value == b"a b"));
    assert_eq!(count("Sets"), seen.calls("SET"));
}

#[test]
fn the_json_is_that_of_memtier() {
    let server = Server::tcp(Manner::Honest);
    let words =
        "-c 2 -t 2 -n 500 -d 10 --ratio 1:1 --key-maximum 9 --print-percentiles 50,99.9 --select-db 3";
    let document = document(&server, "memtier-shape.json", words);
    let stats = &document["ALL STATS"];
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(stats), ["GET", "Gets", "Runtime", "SET", "Sets", "Totals", "WAIT", "Waits"]);
    let information = serde_json::json!({
        "Threads": 2, "Connections per thread": 2, "Requests per client": 500, "Format version": 2,
    });
    assert_eq!(document["run information"], information);
    let configuration = &document["configuration"];
    assert_eq!((&configuration["ratio"], &configuration["select-db"]), (&"1:1".into(), &3.into()));
    assert_eq!(keys(configuration).len(), 53);
    let gets = &stats["Gets"];
    for key in [
        "Count",
        "Ops/sec",
        "Hits/sec",
        "Misses/sec",
        "Latency",
        "Average Latency",
        "Min Latency",
        "Max Latency",
    ] {
        assert!(gets[key].is_number(), "{key}");
    }
    assert_eq!(keys(&gets["Percentile Latencies"]), ["Histogram log format", "p50.000", "p99.900"]);
    assert!(
        gets["Percentile Latencies"]["Histogram log format"]["Compressed Histogram"]
            .as_str()
            .unwrap()
            .starts_with("HISTFAAA")
    );
    for row in ["Sets", "Gets", "Totals"] {
        let seconds: u64 = stats[row]["Time-Serie"]
            .as_object()
            .unwrap()
            .values()
            .map(|it| it["Count"].as_u64().unwrap())
            .sum();
        assert_eq!(stats[row]["Count"], seconds, "{row}");
    }
    // A set has 45 bytes and a reply of 5; a get has 28 and a reply of 5 or, for a hit, 17.
    let rate = |row: &str, key: &str| stats[row][key].as_f64().unwrap();
    let bytes = |row: &str, key: &str| rate(row, key) * 1024.0 / rate(row, "Ops/sec");
    assert!((bytes("Sets", "KB/sec RX") - 5.0).abs() < 0.2, "{stats}");
    assert!((bytes("Sets", "KB/sec TX") - 45.0).abs() < 0.2, "{}", bytes("Sets", "KB/sec TX"));
    assert!((bytes("Gets", "KB/sec TX") - 28.0).abs() < 0.2, "{}", bytes("Gets", "KB/sec TX"));
    let hits = rate("Gets", "Hits/sec") / rate("Gets", "Ops/sec");
    assert!((bytes("Gets", "KB/sec RX") - (hits * 17.0 + (1.0 - hits) * 5.0)).abs() < 0.2, "{stats}");
    assert_eq!(server.seen().calls("SELECT"), 4);
    assert!(document["speedbench"]["digest"].as_str().unwrap().starts_with("sha256:"));
}

#[test]
fn runs_are_repeated_and_their_best_and_worst_shown() {
    let server = Server::tcp(Manner::Honest);
    let out = written("memtier-out.txt", "");
    let prefix = written("memtier-hdr", "");
    let words = format!("-c 1 -t 1 -n 100 -x 2 --print-all-runs -o {out} --hdr-file-prefix {prefix}");
    assert_eq!(run(&server, &words), "");
    let text = std::fs::read_to_string(&out).unwrap();
    let titles: Vec<&str> = text.lines().filter(|line| line.contains(" RESULTS")).collect();
    assert_eq!(
        titles,
        [
            "RUN #1 RESULTS",
            "RUN #2 RESULTS",
            "BEST RUN RESULTS",
            "WORST RUN RESULTS",
            "AGGREGATED AVERAGE RESULTS (2 runs)"
        ]
    );
    let seen = server.seen();
    assert_eq!(seen.calls("SET") + seen.calls("GET"), 200);
    for name in ["FULL_RUN_1", "FULL_RUN_2", "SET_command_run_1", "GET_command_run_2"] {
        let text = std::fs::read_to_string(format!("{prefix}_{name}.txt")).unwrap();
        assert!(text.contains("Value   Percentile   TotalCount 1/(1-Percentile)\n\n"), "{text}");
        let log = std::fs::read_to_string(format!("{prefix}_{name}.hgrm")).unwrap();
        assert!(log.contains("#[Histogram log format version 1.2]") && log.contains(",HISTFAAA"), "{log}");
    }
    let text = std::fs::read_to_string(format!("{prefix}_FULL_RUN_1.txt")).unwrap();
    assert!(text.contains("Total count    =          100]"), "{text}");
}

#[test]
fn connections_are_replaced_after_so_many_requests() {
    for pipeline in [1, 4, 50] {
        let server = Server::tcp(Manner::Honest);
        run(&server, &format!("-c 2 -t 1 -n 100 --pipeline {pipeline} --reconnect-interval 10"));
        let seen = server.seen();
        assert_eq!((seen.calls("SET") + seen.calls("GET"), seen.streams.len()), (200, 20));
        for stream in &seen.streams {
            let requests = |begin: &[u8]| stream.windows(begin.len()).filter(|bytes| *bytes == begin).count();
            assert_eq!(requests(b"*3\r\n$3\r\nSET") + requests(b"*2\r\n$3\r\nGET"), 10);
        }
    }
}

#[test]
fn several_keys_are_got_at_once() {
    let server = Server::tcp(Manner::Honest);
    run(&server, "-c 1 -t 1 -n allkeys --ratio 1:0 --key-pattern P:P --key-maximum 49 --key-minimum 0");
    let words = "-c 2 -t 1 -n 100 --ratio 0:10 --multi-key-get 4 --key-maximum 99";
    let document = document(&server, "memtier-mget.json", words);
    assert_eq!(server.seen().calls("MGET"), 200);
    let gets = &document["ALL STATS"]["Gets"];
    let rate = |key: &str| gets[key].as_f64().unwrap() / gets["Ops/sec"].as_f64().unwrap();
    // Two of three requests get four keys, one gets two; every other key is there.
    let (hits, misses) = (rate("Hits/sec"), rate("Misses/sec"));
    assert!((hits + misses - 10.0 / 3.0).abs() < 0.4 && (hits / misses - 1.0).abs() < 0.3, "{hits} {misses}");
}

#[test]
fn waits_follow_sets() {
    let server = Server::tcp(Manner::Honest);
    let words = "-c 1 -t 1 -n 400 --ratio 1:1 --wait-ratio 2:1 --num-slaves 1-1 --wait-timeout 100-100";
    let document = document(&server, "memtier-wait.json", words);
    let seen = server.seen();
    let (sets, waits) = (seen.calls("SET"), seen.calls("WAIT"));
    assert!((60..100).contains(&waits) && (130..190).contains(&sets), "{sets} {waits}");
    assert_eq!(document["ALL STATS"]["Waits"]["Count"], waits);
    assert!(String::from_utf8_lossy(&seen.streams[0]).contains("WAIT\r\n$1\r\n1\r\n$3\r\n100\r\n"));
}

#[test]
fn a_uri_says_where_the_server_is() {
    let server = Server::tcp(Manner::Honest);
    let uri = format!("redis://joe:secret@127.0.0.1:{}/2", server.options[1]);
    let path = written("memtier-uri.json", "");
    let words =
        ["memtier_benchmark", "--uri", &uri, "-c", "1", "-t", "1", "-n", "10", "--json-out-file", &path];
    assert!(speedbench(words.map(str::to_owned)).status.success());
    let seen = server.seen();
    assert_eq!((seen.calls("AUTH"), seen.calls("SELECT")), (1, 1));
    let text = std::fs::read_to_string(path).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let configuration = &serde_json::from_str::<Value>(&text).unwrap()["configuration"];
    let port: u64 = server.options[1].parse().unwrap();
    assert_eq!((&configuration["server"], &configuration["port"]), (&"127.0.0.1".into(), &port.into()));
    assert_eq!((&configuration["authenticate"], &configuration["select-db"]), (&"***".into(), &2.into()));
}

#[test]
fn files_that_cannot_be_written_are_told_before_anything_is_sent() {
    let server = Server::tcp(Manner::Honest);
    for option in ["--out-file", "--json-out-file", "--hdr-file-prefix"] {
        let words = ["memtier-benchmark", "-p", &server.options[1], "-n", "10", option, "/nonexistent/x"];
        let line = failure_line(speedbench(words.map(str::to_owned)), 1);
        assert!(line.contains("cannot write /nonexistent/x") && line.contains(option), "{line}");
    }
    assert!(server.seen().streams.is_empty());
}

#[test]
fn a_rate_makes_an_open_loop() {
    let server = Server::tcp(Manner::Honest);
    let document = document(&server, "memtier-rate.json", "-c 2 -t 1 -n 50 --rate-limiting 1000");
    // The window of a schedule has its length: 100 requests at 2000 per second.
    assert_eq!(document["ALL STATS"]["Runtime"]["Total duration"], 50);
    assert_eq!(document["configuration"]["rate_limit"], 1000);
}

#[test]
fn connections_are_replaced_in_an_open_loop_too() {
    let server = Server::tcp(Manner::Honest);
    run(&server, "-c 2 -t 1 -n 50 --rate-limiting 500 --reconnect-interval 10");
    let seen = server.seen();
    assert_eq!((seen.calls("SET") + seen.calls("GET"), seen.streams.len()), (100, 10));
}

#[test]
fn connections_are_opened_step_by_step() {
    let server = Server::tcp(Manner::Honest);
    let words = "-t 2 -c 5 --clients-start 1 --clients-step 3 --step-duration 1 --test-time 3";
    let document = document(&server, "memtier-stairs.json", words);
    let (stats, configuration) = (&document["ALL STATS"], &document["configuration"]);
    let active = stats["Active Clients"].as_object().unwrap();
    let of = |key: &str| active.values().map(|it| it[key].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((of("Clients per thread"), of("Total clients")), (vec![1, 4, 5], vec![2, 8, 10]));
    assert_eq!((&configuration["clients_start"], &configuration["clients_step"]), (&1.into(), &3.into()));
    let seconds = stats["Totals"]["Time-Serie"].as_object().unwrap();
    assert!(seconds.keys().eq(active.keys()) && seconds.values().all(|it| it["Count"].as_u64().unwrap() > 0));
    assert_eq!(server.seen().streams.len(), 10);
}

#[test]
fn lines_of_a_monitor_take_the_places_of_commands() {
    let server = Server::tcp(Manner::Honest);
    let lines = ["SET\" \"memtier-1\" \"a", "GET\" \"memtier-1", "DEL\" \"memtier-2"];
    let text: String = lines.map(|line| format!("1.5 [0 127.0.0.1:9] \"{line}\"\n")).concat();
    let path = written("memtier-monitor.txt", &(text + "1.6 [0 127.0.0.1:9] \"unclosed\n"));
    let words = format!("-c 1 -t 1 -n 90 --monitor-input {path} --command __monitor_line@__");
    let table = run(&server, &words);
    let calls = ["SET", "GET", "DEL"].map(|name| server.seen().calls(name));
    assert_eq!(calls, [30; 3], "{table}");
    run(&server, &format!("{words} --monitor-pattern R --command-ratio 1 --command __monitor_line2__"));
    assert!(server.seen().calls("GET") > 80);
}

#[test]
fn each_line_may_have_a_row() {
    let server = Server::tcp(Manner::Honest);
    let path = written("memtier-line.json", "");
    let words =
        ["memtier-benchmark", "-p", &server.options[1], "-c", "1", "-t", "1", "-n", "30", "--command"];
    let more = ["GET a", "--command", "GET b", "--command-ratio", "2", "--command-stats-breakdown", "line"];
    let files = ["--json-out-file", &path];
    let output = speedbench(words.into_iter().chain(more).chain(files).map(str::to_owned));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(table.lines().filter(|line| line.starts_with("Gets ")).count(), 2, "{table}");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let count = |title: &str| document["ALL STATS"][title]["Count"].as_u64().unwrap();
    assert_eq!((count("Gets"), count("Gets #2")), (10, 20));
}

#[test]
fn metrics_go_to_statsd() {
    let (server, statsd) = (Server::tcp(Manner::Honest), std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    statsd.set_nonblocking(true).unwrap();
    let port = statsd.local_addr().unwrap().port();
    let place = format!("--statsd-host 127.0.0.1 --statsd-port {port} --statsd-run-label nightly");
    run(&server, &format!("-c 1 -t 1 -n 100 {place}"));
    let mut buffer = [0; 200];
    let metrics: Vec<String> =
        std::iter::from_fn(|| statsd.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec()))
            .map(|bytes| String::from_utf8(bytes).unwrap())
            .collect();
    let has = |begin: &str| metrics.iter().any(|metric| metric.starts_with(begin));
    assert!(has("memtier.nightly.connections:1|g") && has("memtier.nightly.latency_ms:"), "{metrics:?}");
    assert_eq!(metrics.last().unwrap(), "memtier.nightly.progress_pct:0|g");
}

#[test]
fn wrong_options_are_usage_errors() {
    for (words, message) in [
        ("--cluster-mode --client-stats f", "--client-stats is given with --cluster-mode"),
        (
            "--thread-conn-start-min-jitter-micros 2 --thread-conn-start-max-jitter-micros 1",
            "--thread-conn-start-min-jitter-micros is above --thread-conn-start-max-jitter-micros",
        ),
        ("--data-offset 3", "write SETRANGE and GETRANGE with --command"),
        ("-y 3", "invalid option '-y'"),
        ("-n many", "--requests cannot be 'many'"),
        ("-n", "--requests lacks its value"),
        ("-c 0", "--clients cannot be 0"),
        ("-x 0", "--run-count cannot be 0"),
        ("--ratio 1", "--ratio cannot be '1'"),
        ("--ratio 0:0", "the ratios add up to 0"),
        ("--ratio 1:1 --command PING", "--ratio is given beside --command"),
        ("-P memcache_binary", "--protocol cannot be 'memcache_binary'"),
        ("-P memcache_text --multi-key-get 3", "--multi-key-get is given for memcache_text"),
        ("-n 5 --test-time 5", "--requests and --test-time are both given"),
        ("--key-pattern P:S", "--key-pattern has P for sets or gets only"),
        ("--key-pattern Q:Q", "--key-pattern cannot be 'Q:Q'"),
        ("--key-minimum 9 --key-maximum 3", "--key-maximum is below --key-minimum"),
        ("--key-stddev 0", "--key-stddev"),
        ("--data-size-range 9-3", "--data-size-range cannot be '9-3'"),
        ("--data-size-list 32:0", "weight of 0"),
        ("--expiry-range 0-9", "--expiry-range begins with 0"),
        ("--rate-limiting nan", "--rate-limiting"),
        ("--clients-step 3", "--clients-step or --step-duration is given alone"),
        ("--clients-start 50 --test-time 5", "--clients-start is not below --clients"),
        ("--clients-start 5", "--clients-start is given without --test-time"),
        ("--scan-incremental-iteration", "without one --command"),
        ("--scan-incremental-iteration --command GET", "with another command"),
        ("--scan-incremental-iteration --pipeline 2 --command SCAN", "with a pipeline"),
        ("--monitor-input /nonexistent/x --command PING", "cannot read /nonexistent/x"),
        ("--monitor-input /dev/null --command PING", "/dev/null has no command"),
        ("--monitor-pattern X", "--monitor-pattern cannot be 'X'"),
        ("--data-size-pattern P", "--data-size-pattern cannot be 'P'"),
        ("--data-size-pattern S --command PING", "--data-size-pattern S is given beside --command"),
        ("--data-verify", "--data-verify or --verify-only is given without --data-import"),
        ("--no-expiry", "--no-expiry is given without --data-import"),
        ("--data-import f -d 5", "--data-import is given beside the size of values"),
        ("--data-import f --key-maximum 5", "is given without --generate-keys"),
        ("--data-import f --generate-keys --data-verify", "without --key-pattern S:S"),
        ("--data-import f --cluster-mode", "--data-import is given with --cluster-mode"),
        ("--tls --tls-protocols TLSv1", "only TLSv1.2 and TLSv1.3 are spoken here"),
        ("-4 -6", "-4 and -6 are both given"),
        ("--cluster-mode --reconnect-interval 5", "--reconnect-interval is given with --cluster-mode"),
        ("--wait-ratio 1:1 --num-slaves 1-2", "--num-slaves cannot be '1-2'"),
        ("--num-slaves 1-1", "given without --wait-ratio"),
        ("--print-percentiles 50,101", "--print-percentiles cannot be '50,101'"),
        ("--command-stats-breakdown lines", "give command or line"),
        ("--tls-skip-verify", "options of TLS are given without it"),
        ("--command-ratio 3", "--command-ratio cannot be '3'"),
        ("--test-time 0", "the window is empty"),
        ("-P memcache_text --command get", "--command is given for memcache_text"),
    ] {
        let words = ["memtier-benchmark"].into_iter().chain(words.split(' ')).map(str::to_owned);
        let line = failure_line(speedbench(words), 2);
        assert!(line.contains(message), "{line}");
    }
}
