//! One parser reads what redis-benchmark prints and what ours prints.

use super::machine::{Redis, ours, output};

fn theirs(words: &[&str]) -> String {
    let output = output("redis-benchmark", words);
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The lines as a terminal leaves them.
fn lines(text: &str) -> Vec<String> {
    text.split('\n').map(|line| line.rsplit('\r').next().unwrap_or_default().to_owned()).collect()
}

/// Every number but those in titles becomes `#` with its decimals counted.
fn shape(line: &str) -> String {
    let words: Vec<String> = line.split(' ').map(number_shape).collect();
    words.join(" ")
}

fn number_shape(word: &str) -> String {
    let (before, rest) = word.split_once('=').map_or(("", word), |(name, rest)| (name, rest));
    let bare = rest.trim_matches(|c: char| "\",%)".contains(c));
    match (bare.parse::<f64>(), bare.split_once('.')) {
        // The clock of redis-benchmark counts ms, and a short test may take none of them.
        (Ok(rate), None) if rate.is_infinite() => format!("{before}#.2"),
        (Ok(_), Some((_, decimals))) => format!("{before}#.{}", decimals.len()),
        _ => word.to_owned(),
    }
}

/// The shapes of all lines but those of the distributions, whose number depends on the measurement.
fn report(text: &str) -> Vec<String> {
    let is_step = |line: &str| line.contains("% <= ");
    let shaped = lines(text).into_iter().filter(|line| !is_step(line)).map(|line| shape(line.trim_end()));
    // Columns are as wide as their numbers are long.
    shaped.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn steps(text: &str) -> Vec<(f64, f64, u64)> {
    let step = |line: String| {
        let (percent, rest) = line.split_once("% <= ")?;
        let (ms, rest) = rest.split_once(" milliseconds (cumulative count ")?;
        assert!(percent.split_once('.')?.1.len() == 3 && ms.split_once('.')?.1.len() == 3, "{line}");
        Some((percent.parse().ok()?, ms.parse().ok()?, rest.strip_suffix(')')?.parse().ok()?))
    };
    lines(text).into_iter().filter_map(step).collect()
}

/// Title and numbers of each row behind the header.
fn csv(text: &str) -> (String, Vec<(String, Vec<f64>)>) {
    let mut lines = text.lines();
    let header = lines.next().unwrap().to_owned();
    let row = |line: &str| {
        let cells: Vec<&str> =
            line.strip_prefix('"').unwrap().strip_suffix('"').unwrap().split("\",\"").collect();
        assert!(cells[1] == "inf" || cells[1].split_once('.').unwrap().1.len() == 2, "{line}");
        assert!(cells[2..].iter().all(|cell| cell.split_once('.').unwrap().1.len() == 3), "{line}");
        (cells[0].to_owned(), cells[1..].iter().map(|cell| cell.parse().unwrap()).collect())
    };
    (header, lines.map(row).collect())
}

const VARIANTS: [&[&str]; 10] = [
    &["-t", "set,get"],
    &["-t", "ping", "-P", "8"],
    &["-t", "lpush,lrange_100", "--threads", "2"],
    &["-t", "set", "-r", "1000", "-d", "100"],
    &["-t", "get", "--precision", "1"],
    &["-t", "get", "--precision", "4"],
    &["-t", "get", "-k", "0"],
    &["-t", "mset", "-c", "3"],
    &["-t", "spop", "-3", "--dbnum", "3"],
    &["-r", "10", "set", "a:__rand_int__", "b"],
];

#[test]
fn reports_are_alike() {
    let redis = Redis::start(&[]);
    for words in VARIANTS {
        let words = [&["-p", &redis.port, "-n", "600"], words].concat();
        let (mine, real) = (ours(&words), theirs(&words));
        assert_eq!(report(&mine), report(&real), "{words:?}\n{mine}\n{real}");
        for text in [&mine, &real] {
            let steps = steps(text);
            assert_eq!(steps[0].0, 0.0);
            assert_eq!((steps.last().unwrap().0, steps.last().unwrap().2), (100.0, 600));
        }
    }
}

#[test]
fn one_line_per_test_is_alike() {
    let redis = Redis::start(&[]);
    for words in VARIANTS {
        let words = [&["-s", &redis.socket, "-n", "600", "-q"], words].concat();
        assert_eq!(report(&ours(&words)), report(&theirs(&words)), "{words:?}");
    }
}

#[test]
fn tables_are_alike() {
    let redis = Redis::start(&[]);
    for words in VARIANTS {
        let words = [&["-p", &redis.port, "-n", "600", "--csv"], words].concat();
        let ((header, rows), (their_header, their_rows)) = (csv(&ours(&words)), csv(&theirs(&words)));
        assert_eq!(header, their_header);
        let titles = |rows: &[(String, Vec<f64>)]| rows.iter().map(|row| row.0.clone()).collect::<Vec<_>>();
        assert_eq!(titles(&rows), titles(&their_rows));
        for (title, numbers) in rows {
            let [rate, mean, min, p50, p95, p99, max] = numbers[..] else { panic!("{title}") };
            assert!(rate > 0.0 && min <= mean && mean <= max, "{title} {numbers:?}");
            assert!([min, p50, p95, p99, max].is_sorted(), "{title} {numbers:?}");
        }
    }
}

#[test]
fn all_default_tests_come_in_order() {
    let redis = Redis::start(&[]);
    let words = ["-p", &redis.port, "-n", "60", "--csv"];
    let titles = |text: &str| csv(text).1.into_iter().map(|row| row.0).collect::<Vec<_>>();
    let (version, real) = (theirs(&["--version"]), titles(&theirs(&words)));
    let version = version.trim().rsplit(' ').next().unwrap();
    let minor = version.rmatch_indices('.').next().map_or(version, |(end, _)| &version[..end]);
    assert_eq!(titles(&ours(&[&words[..], &["--as", minor]].concat())), real);
    // The newest has one test more than 7.0.
    let newest = titles(&ours(&words));
    assert_eq!(newest.last().unwrap(), "XADD");
    let old = titles(&ours(&[&words[..], &["--as", "7.0"]].concat()));
    assert_eq!(old, newest[..newest.len() - 1]);
}
