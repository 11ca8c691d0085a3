//! The front end with memtier_benchmark's options, beside real servers.

use std::path::Path;
use std::time::{Duration, Instant};

use super::going_on::wait_until;
use super::machine::{Directory, OURS, Redis};
use crate::support::{failure_line, speedbench};

/// Our program in memtier_benchmark's place, with `words` and `more`, which may have blanks.
fn run(redis: &Redis, words: &str, more: &[&str]) -> String {
    let begin = format!("memtier-benchmark -p {} {words}", redis.port);
    let words = begin.split_whitespace().chain(more.iter().copied()).map(str::to_owned);
    let output = speedbench(words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The lines of the seconds in a file of one connection, by the titles of its columns.
fn seconds(text: &str) -> Vec<Vec<(&str, &str)>> {
    let mut lines = text.lines().skip(1).take_while(|line| !line.is_empty());
    let titles: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(|line| titles.iter().copied().zip(line.split(',')).collect()).collect()
}

fn sum(lines: &[Vec<(&str, &str)>], title: &str) -> u64 {
    let cells = lines.iter().flatten().filter(|(name, _)| *name == title);
    cells.map(|(_, cell)| cell.parse::<u64>().unwrap()).sum()
}

#[test]
fn each_connection_has_a_file_of_its_own() {
    let redis = Redis::start(&[]);
    let directory = Directory::new();
    let prefix = directory.path("of");
    let words = "-c 3 -t 2 -n 500 --ratio 1:4 --pipeline 7 --key-maximum 999 -d 10 -x 2 --hide-histogram";
    run(&redis, words, &["--client-stats", &prefix]);
    let mut total = 0;
    for (run, thread, number) in (1..=2).flat_map(|run| (0..6).map(move |it| (run, it / 3, it % 3))) {
        let path = format!("{prefix}-{run}-{thread}-{number}.csv");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("Per-Second Benchmark Data\nSecond,SET Requests,SET Average Latency,"));
        let lines = seconds(&text);
        let sum = |title: &str| sum(&lines, title);
        assert_eq!((sum("SET Requests"), sum("GET Requests"), sum("WAIT Requests")), (100, 400, 0), "{path}");
        assert_eq!(sum("GET Misses") + sum("GET Hits"), 400);
        // An OK has five bytes, a miss as many, and a hit `$10`, the value and the ends of both lines.
        assert_eq!(sum("SET Total Bytes RX"), 500);
        assert_eq!(sum("GET Total Bytes RX"), 5 * sum("GET Misses") + 17 * sum("GET Hits"));
        for kind in ["SET", "GET"] {
            let of = |end: &str| sum(&format!("{kind} Total Bytes{end}"));
            assert_eq!(of(""), of(" TX") + of(" RX"));
            assert!(of(" TX") > 20 * sum(&format!("{kind} Requests")));
            let latencies = text.split(&format!("Full-Test {kind} Latency\n")).nth(1).unwrap();
            assert!(latencies.starts_with("Latency (<= msec),Percent\n"));
            assert!(latencies.split("\n\n").next().unwrap().trim_end().ends_with(",100.000"));
        }
        total += sum("SET Requests") + sum("GET Requests");
    }
    assert_eq!(total, 6000);
    assert!(!Path::new(&format!("{prefix}-1-0-3.csv")).exists());
}

#[test]
fn arbitrary_commands_have_columns_of_their_own() {
    let redis = Redis::start(&[]);
    let directory = Directory::new();
    let prefix = directory.path("of");
    let commands = ["--command", "SET __key__ __data__", "--command", "GET a b", "--command", "SET b c"];
    let more = ["--client-stats", &prefix, "--command-ratio", "2"];
    run(&redis, "-c 1 -t 1 -n 40", &[commands.as_slice(), &more].concat());
    let text = std::fs::read_to_string(format!("{prefix}-1-0-0.csv")).unwrap();
    let titles = "Second,SET Requests,SET Average Latency,SET Total Bytes,SET Total Bytes TX,SET Total Bytes RX,\
                  GET Requests,";
    assert!(text.lines().nth(1).unwrap().starts_with(titles), "{text}");
    let lines = seconds(&text);
    assert_eq!((sum(&lines, "SET Requests"), sum(&lines, "GET Requests")), (30, 10));
    let headings = text.lines().filter(|line| line.starts_with("Full-Test "));
    assert_eq!(
        headings.collect::<Vec<_>>(),
        ["Full-Test SET Latency", "Full-Test GET Latency", "Full-Test SET Latency"]
    );
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_the_load() {
    let redis = Redis::start(&[]);
    let words = format!("memtier-benchmark -p {} -n 5 --client-stats /nonexistent/of", redis.port);
    let line = failure_line(speedbench(words.split(' ').map(str::to_owned)), 1);
    assert!(line.contains("cannot write /nonexistent/of-1-0-0.csv"), "{line}");
    assert!(line.contains("give --client-stats the begin of a path to write to"), "{line}");
}

#[test]
fn threads_pause_between_their_connections() {
    let redis = Redis::start(&[]);
    let jitter = "--thread-conn-start-min-jitter-micros 20000 --thread-conn-start-max-jitter-micros 30000";
    let began = Instant::now();
    run(&redis, &format!("-c 6 -t 2 -n 10 {jitter}"), &[]);
    // A pause is never shorter than its least.
    assert!(began.elapsed() >= Duration::from_millis(100));
}

const HEAD: &str = "dumpflags, time, exptime, nbytes, nsuffix, it_flags, clsid, nkey, key, data\n";

/// A dump of `count` items, key `k N` with the value `v"N,` and a line end; `expiry` in s.
fn dump(directory: &Directory, count: usize, expiry: u64) -> String {
    let line = |number: usize| {
        let (key, data) = (format!("k {number}"), format!("v\"{number},\n"));
        let (lengths, quoted) = ((data.len() + 2, key.len()), data.replace('"', "\"\""));
        format!("0, 0, {expiry}, {}, 0, 0, 0, {}, \"{key}\", \"{quoted}\"\n", lengths.0, lengths.1)
    };
    let path = directory.path("dump.csv");
    std::fs::write(&path, HEAD.to_owned() + &(0..count).map(line).collect::<String>()).unwrap();
    path
}

#[test]
fn items_of_a_file_are_set_got_and_verified() {
    let (redis, directory) = (Redis::start(&[]), Directory::new());
    let (path, json) = (dump(&directory, 500, 0), directory.path("json"));
    let words = "-c 2 -t 2 -n 1000 --ratio 1:1 --pipeline 9 --hide-histogram --data-verify";
    let table = run(&redis, words, &["--data-import", &path, "--json-out-file", &json]);
    assert!(table.contains(
        "Data verification completed:\n500        keys verified successfuly.\n0          keys failed.\n"
    ));
    assert_eq!((redis.calls("set"), redis.cli(&["dbsize"]).trim()), (2000, "500"));
    assert_eq!(redis.cli(&["get", "k 77"]), "v\"77,\n\n");
    assert_eq!(redis.cli(&["ttl", "k 77"]).trim(), "-1");
    let json = std::fs::read_to_string(json).unwrap();
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["client verifications results"]["keys verified successfuly"], "500       ");
    assert_eq!(document["configuration"]["data_import"], path.as_str());
    // The first gets come before the last sets, and most of them after.
    let gets = &document["ALL STATS"]["Gets"];
    assert!(gets["Hits/sec"].as_f64() > gets["Misses/sec"].as_f64(), "{gets}");
    redis.cli(&["set", "k 3", "other"]);
    redis.cli(&["del", "k 4"]);
    let more = ["--data-import", &path, "--verify-only", "--ratio", "1:0"];
    let table = run(&redis, "-n 500", &more);
    assert!(table.starts_with("\n\nPerforming data verification...\n"), "{table}");
    assert!(table.contains("498        keys verified successfuly.\n2          keys failed.\n"), "{table}");
}

#[test]
fn items_end_as_the_file_or_the_options_say() {
    let (redis, directory) = (Redis::start(&[]), Directory::new());
    let path = dump(&directory, 20, 1000);
    let words = "-c 1 -t 1 -n 20 --ratio 1:0";
    let ttl = || redis.cli(&["ttl", "k 7"]).trim().parse::<i64>().unwrap();
    run(&redis, words, &["--data-import", &path]);
    assert!((900..=1000).contains(&ttl()) && redis.calls("setex") == 20);
    run(&redis, words, &["--data-import", &path, "--no-expiry"]);
    assert_eq!(ttl(), -1);
    run(&redis, words, &["--data-import", &path, "--expiry-range", "50-60"]);
    assert!((30..=60).contains(&ttl()));
}

#[test]
fn items_get_keys_with_numbers() {
    let (redis, directory) = (Redis::start(&[]), Directory::new());
    let path = dump(&directory, 40, 0);
    let words =
        "-c 2 -t 1 -n 80 --ratio 1:1 --generate-keys --key-pattern S:S --key-prefix it- --data-verify";
    let more = ["--data-import", &path, "--key-minimum", "5", "--key-maximum", "104"];
    let table = run(&redis, words, &more);
    assert!(table.contains("40         keys verified successfuly.\n0          keys failed.\n"), "{table}");
    assert_eq!((redis.cli(&["dbsize"]).trim(), redis.cli(&["get", "it-12"]).as_str()), ("40", "v\"7,\n\n"));
}

#[test]
fn files_that_are_no_dumps_are_told_before_the_load() {
    let (redis, directory) = (Redis::start(&[]), Directory::new());
    let (whole, cut) = (dump(&directory, 3, 0), directory.path("cut"));
    let bytes = std::fs::read(&whole).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 4]).unwrap();
    for (path, cause) in [
        (cut.as_str(), "line 4 is "),
        ("/proc/self/exe", "line 1 does not begin with"),
        ("/nonexistent", "cannot be read"),
    ] {
        let words = ["memtier-benchmark", "-p", &redis.port, "--data-import", path].map(str::to_owned);
        let line = failure_line(speedbench(words), 2);
        assert!(line.contains(&format!("{path}: {cause}")), "{line}");
        assert!(line.contains("give --data-import a file that begins with"), "{line}");
    }
    assert_eq!(redis.calls("set"), 0);
}

#[test]
fn a_file_that_is_cut_meanwhile_ends_the_run_with_what_was_counted() {
    let (redis, directory) = (Redis::start(&[]), Directory::new());
    let path = dump(&directory, 50_000, 0);
    let words = [
        "memtier-benchmark",
        "-p",
        &redis.port,
        "--data-import",
        &path,
        "--ratio",
        "1:0",
        "--test-time",
        "60",
    ];
    let child = std::process::Command::new(OURS)
        .args(words)
        .args(["-c", "1", "-t", "1"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("items are set", || redis.calls("set") > 500);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("the file of items has changed: "), "{message}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("CUT SHORT: the file of items has changed"));
}

#[test]
fn sizes_rise_with_the_keys() {
    let redis = Redis::start(&[]);
    let words = "-c 2 -t 1 -n allkeys --ratio 1:0 --key-pattern P:P --key-minimum 1 --key-maximum 101";
    run(&redis, words, &["--data-size-range", "100-300", "--data-size-pattern", "S"]);
    let length = |key: &str| redis.cli(&["strlen", key]).trim().parse::<u64>().unwrap();
    assert_eq!([1, 2, 51, 101].map(|number| length(&format!("memtier-{number}"))), [100, 102, 200, 300]);
}
