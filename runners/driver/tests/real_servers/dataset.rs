//! valkey-benchmark's rows of a file in commands, beside real servers.

use super::machine::{Directory, OURS, Redis, output, said};

/// Our valkey-benchmark on `redis` with these words.
fn run(redis: &Redis, words: &[&str]) -> String {
    said(OURS, &[&["valkey-benchmark", "-p", &redis.port, "-q"], words].concat())
}

/// The last line of a run that must fail with 2.
fn failure(words: &[&str]) -> String {
    let output = output(OURS, &[&["valkey-benchmark", "-n", "1"], words].concat());
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap().lines().last().unwrap_or_default().to_owned()
}

#[test]
fn each_command_holds_a_row() {
    let (redis, directory) = (Redis::start(&[]), Directory::new());
    let path = directory.path("rows.csv");
    let rows: String = (0..60).map(|row| format!("k{row},\"value {row}, whole\",AAE{row:02}A==\n")).collect();
    std::fs::write(&path, format!("id,text,bytes\n{rows}")).unwrap();
    let command = ["SET", "doc:__field:id__", "<__field:text__>__field:id__"];
    let options = ["-n", "60", "-c", "7", "-P", "3", "--threads", "2", "--dataset", &path, "--"];
    run(&redis, &[options.as_slice(), &command].concat());
    assert_eq!(redis.cli(&["dbsize"]).trim(), "60");
    for row in 0..60 {
        assert_eq!(redis.cli(&["get", &format!("doc:k{row}")]).trim(), format!("<value {row}, whole>k{row}"));
    }
    let few = ["-n", "50", "-r", "9", "--maxdocs", "5", "--dataset", &path, "--"];
    let command = ["SADD", "few:__rand_1st__", "__field:bytes:base64__"];
    redis.cli(&["flushall"]);
    run(&redis, &[few.as_slice(), &command].concat());
    let members: u64 = (0..9)
        .map(|key| redis.cli(&["scard", &format!("few:{key:012}")]).trim().parse::<u64>().unwrap())
        .sum();
    assert!((5..=45).contains(&members), "{members}");
}

#[test]
fn rows_of_tabs_come_again() {
    let (redis, directory) = (Redis::start(&[]), Directory::new());
    let path = directory.path("rows.tsv");
    std::fs::write(&path, "name\tscore\na,1\t3\nb\t7\n").unwrap();
    run(
        &redis,
        &[
            "-n",
            "10",
            "-c",
            "1",
            "--dataset",
            &path,
            "--",
            "ZINCRBY",
            "z",
            "__field:score__",
            "__field:name__",
        ],
    );
    assert_eq!(redis.cli(&["zrange", "z", "0", "-1", "withscores"]), "a,1\n15\nb\n35\n");
}

#[test]
fn what_does_not_fit_is_told_before_the_load() {
    let directory = Directory::new();
    let path = directory.path("rows.csv");
    std::fs::write(&path, "id,text\n1,2\n").unwrap();
    let set = |field: &'static str| ["--dataset", &path, "--", "SET", "k", field];
    for (words, message) in [
        (set("__field:txt__").as_slice(), "has no field 'txt', only id, text"),
        (&set("v"), "--dataset is given without a command that names a field"),
        (&["--dataset", &path], "--dataset is given without a command that names a field"),
        (&set("__field:id__ __data__"), "__data__ placeholders cannot be used with --dataset option"),
        (&["--dataset", "/nonexistent", "--", "SET", "k", "__field:id__"], "/nonexistent: cannot be read"),
        (&["--maxdocs", "3", "PING"], "--maxdocs is given without --dataset"),
        (&["--dataset", &path, "--", "SET", "k", "__field:id__", ";", "PING"], "with a sequence of commands"),
    ] {
        let line = failure(words);
        assert!(line.contains(message), "{line}");
    }
}
