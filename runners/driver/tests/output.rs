//! What `run` writes besides the document: a table, CSV, the log of intervals, and progress for a terminal.

use crate::support::{Manner, Server, failure_line, on_a_terminal, speedbench};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

fn stdout(server: &Server, options: &str) -> String {
    let output = server.drive(options);
    // The tests have no terminal.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn decoded(base64: &str) -> Histogram<u64> {
    Deserializer::new().deserialize(&mut STANDARD.decode(base64).unwrap().as_slice()).unwrap()
}

/// What is said of a pipeline that a connection's share of the requests cannot fill.
#[test]
fn a_pipeline_that_cannot_be_filled_is_told() {
    let server = Server::tcp(Manner::Honest);
    let note = "a connection's share of the requests is 10, which -P cannot exceed";
    assert!(stdout(&server, "-t get -P 1000 -n 100 -c 10").contains(note));
    assert!(!stdout(&server, "-t get -P 10 -n 100 -c 10").contains("share"));
    assert!(!stdout(&server, "-t get -P 1000 --duration 0.1 -c 10").contains("share"));
    let run =
        |words: &str| on_a_terminal(&format!("redis-benchmark -q -t get -p {} {words}", server.options[1]));
    let message = run("-P 1000 -n 100 -c 10");
    assert!(
        message.starts_with("WARNING: a connection's share of -n is 10, so 10 are in flight, not the 1000"),
        "{message}"
    );
    assert_eq!(run("-P 10 -n 100 -c 10"), "");
}

#[test]
fn a_person_gets_a_table_and_curves() {
    let server = Server::tcp(Manner::Honest);
    let text = stdout(&server, "--prefill -r 10 -t get,get:9+set:1,incr -n 50 -c 2");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("prefilled 10 keys in "), "{text}");
    assert!(lines[3].starts_with("test ") && lines[3].contains("requests/s"), "{text}");
    // Between them stand notes, and flags as the machine will have it.
    let tests = lines[4..].iter().filter(|line| !line.starts_with("  ")).take(3);
    let names: Vec<&str> = tests.map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["get", "get:9+set:1", "incr"], "{text}");
    for title in ["get: 50 latencies, mean ", "get:9+set:1: 50 latencies, mean "] {
        let at = lines.iter().position(|line| line.starts_with(title)).unwrap();
        let last: Vec<&str> = lines[at + 10].split_whitespace().collect();
        assert_eq!((last[0], last[2]), ("100", "0"), "{text}");
    }
    assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn notes_say_what_a_line_has_no_room_for() {
    let server = Server::tcp(Manner::Honest);
    let text = stdout(&server, "-t get:9+set:1 --rate 500 --probe-rate 50 -c 2 --duration 0.4 --warmup 0");
    for expected in ["500/s asked, fixed arrivals", "service time", "  get: ", "  set: ", "  probe at 50/s: "]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(text.contains("\nopen loop: from the intended start\n"), "{text}");
    let text = stdout(&server, "-t get -n 50 -c 2");
    assert!(text.contains("\nclosed loop: from the sending"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn a_row_of_csv_has_what_the_document_has() {
    let server = Server::unix(Manner::Honest);
    let pid = std::process::id();
    let text = stdout(&server, &format!("--csv -t get,ping -n 60 -c 3 -P 2 --server-pid {pid}"));
    let rows: Vec<Vec<&str>> = text.split_terminator("\r\n").map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 3);
    let cell = |row: usize, name: &str| {
        let at = rows[0].iter().position(|column| *column == name).unwrap();
        rows[row][at]
    };
    assert_eq!((cell(1, "test"), cell(2, "test")), ("get", "ping"));
    assert_eq!((cell(1, "clients"), cell(1, "pipeline"), cell(1, "requests")), ("3", "2", "60"));
    assert_eq!((cell(1, "hits"), cell(1, "misses"), cell(1, "errors")), ("0", "60", "0"));
    let number = |name: &str| cell(1, name).parse::<f64>().unwrap();
    assert!((number("throughput_rps") * number("window_s") / 60.0 - 1.0).abs() < 0.01, "{text}");
    let latencies = ["min", "p50", "p90", "p95", "p99", "p99_9", "max"];
    assert!(latencies.map(|name| number(&format!("latency_us_{name}"))).is_sorted(), "{text}");
    assert!(number("server_ns_per_request") >= 0.0 && number("client_ns_per_request") >= 0.0);
    // What was not asked for is empty, not 0.
    let without = stdout(&server, "--csv -t ping -n 10 -c 1");
    let place = rows[0].iter().position(|column| *column == "server_ns_per_request").unwrap();
    assert_eq!(without.lines().nth(1).unwrap().split(',').nth(place), Some(""));
}

#[test]
fn the_intervals_of_the_log_add_up_to_the_document() {
    let server = Server::unix(Manner::Honest);
    let path = std::env::temp_dir().join(format!("speedbench-{}.hlog", std::process::id()));
    let message = path.to_str().unwrap();
    let options = "-t get,get:9+set:1 -c 4 --threads 2 -P 4 --warmup 0.1 --duration 2.5 --slice-ms 250";
    let document = server.document(&format!("{options} --hdr-log {message}"));
    let log = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let header = String::from_utf8_lossy(&log);
    assert!(header.contains("#[Histogram log format version 1.3]\n"), "{header}");
    let entries: Vec<LogEntry> = IntervalLogIterator::new(&log).map(Result::unwrap).collect();
    assert!(matches!(entries[..2], [LogEntry::BaseTime(base), LogEntry::StartTime(start)] if base == start));
    let mut last_end = 0.0;
    for test in document["tests"].as_array().unwrap() {
        let mut sum = Histogram::<u64>::new_from(&decoded(test["latency_hdr_v2"].as_str().unwrap()));
        let mut lengths = Vec::new();
        for entry in &entries {
            let LogEntry::Interval(interval) = entry else { continue };
            if interval.tag().unwrap().as_str() != test["name"].as_str().unwrap() {
                continue;
            }
            let part = decoded(interval.encoded_histogram());
            // The maximum is told in ms; both round.
            assert!((part.max() as f64 / 1e6 - interval.max()).abs() <= 0.001 + part.max() as f64 / 1e9);
            assert!(interval.start_timestamp().as_secs_f64() >= last_end - 0.002);
            last_end = (interval.start_timestamp() + interval.duration()).as_secs_f64();
            lengths.push(interval.duration().as_secs_f64());
            sum.add(part).unwrap();
        }
        assert_eq!(lengths[..2], [1.0, 1.0]);
        assert!(lengths.len() == 3 && lengths[2] >= 0.499, "{lengths:?}");
        let whole = decoded(test["latency_hdr_v2"].as_str().unwrap());
        let asked = test["requests"].as_u64().unwrap() + test["unfinished"].as_u64().unwrap();
        assert_eq!((whole.len(), sum.len()), (asked, asked));
        assert_eq!(sum, whole);
    }
}

#[test]
fn a_log_that_cannot_be_written_is_told_before_anything_is_sent() {
    let server = Server::tcp(Manner::Honest);
    let message = server.failure("-t ping -n 10 -c 1 --hdr-log /nonexistent/x");
    assert!(message.contains("cannot write --hdr-log /nonexistent/x"), "{message}");
    assert_eq!(server.seen().calls("PING"), 0);
    let words = ["run", "--json", "--csv"].map(str::to_owned);
    let message = failure_line(speedbench(words), 2);
    assert!(message.contains("--json and --csv are both given"), "{message}");
}

#[test]
fn progress_is_for_terminals_and_leaves_nothing() {
    let server = Server::unix(Manner::Honest);
    let seen = on_a_terminal(&format!("run -s {} -t ping -c 2 --warmup 0 --duration 1.2", server.options[1]));
    let lines: Vec<&str> = seen.split("\r\x1b[K").collect();
    let (first, last) = (lines.first().unwrap(), lines.last().unwrap());
    assert!(first.is_empty() && last.is_empty(), "{seen:?}");
    assert!(lines.iter().any(|line| line.starts_with("ping: ") && line.ends_with(" requests/s")), "{seen:?}");
    assert!(!seen.contains('\n'));
}
