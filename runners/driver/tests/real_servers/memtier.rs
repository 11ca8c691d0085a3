//! The front end with memtier_benchmark's options, beside real servers.

use std::path::Path;
use std::time::{Duration, Instant};

use super::machine::{Directory, Redis};
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
