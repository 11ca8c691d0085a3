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
fn elements_of_xml_are_rows() {
    let (redis, directory) = (Redis::start(&[]), Directory::new());
    let path = directory.path("pages.xml");
    let pages: String =
        (0..30).map(|page| format!("<page><id>{page}</id><text>a &amp; {page}</text></page>\n")).collect();
    std::fs::write(&path, format!("<corpus>\n{pages}</corpus>\n")).unwrap();
    let options = ["-n", "25", "-c", "5", "-r", "1000", "--sequential", "--maxdocs", "25"];
    let file = ["--dataset", &path, "--xml-root-element", "page", "--"];
    let command = ["HSET", "doc:__rand_int__", "id", "__field:id__", "text", "__field:text__"];
    run(&redis, &[options.as_slice(), &file, &command].concat());
    assert_eq!(redis.cli(&["dbsize"]).trim(), "25");
    let stored = |page: usize| redis.cli(&["hget", &format!("doc:{page:012}"), "text"]);
    let mut texts: Vec<String> = (0..25).map(stored).collect();
    texts.sort();
    let mut wanted: Vec<String> = (0..25).map(|page| format!("a &amp; {page}\n")).collect();
    wanted.sort();
    assert_eq!(texts, wanted);
}

#[test]
fn arrays_hold_bytes() {
    let (redis, directory) = (Redis::start(&[]), Directory::new());
    let path = directory.path("vectors.npy");
    let header = "{'descr': [('title', 'S3'), ('v', '<f4', (2,))], 'fortran_order': False, 'shape': (2,), }";
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let rows = b"a\0\0\0\0\x80\x3f\0\0\0\0abc\0\0\0\0\0\0\x80\xbf";
    let file = [b"\x93NUMPY\x01\0", length.as_slice(), header.as_bytes(), rows].concat();
    std::fs::write(&path, file).unwrap();
    let command = ["-n", "2", "--dataset", &path, "--", "SET", "doc:__field:title__", "<__field:v__>"];
    run(&redis, &command);
    let stored = |title: &str| redis.cli(&["--no-raw", "get", &format!("doc:{title}")]);
    assert_eq!(stored("a"), "\"<\\x00\\x00\\x80?\\x00\\x00\\x00\\x00>\"\n");
    assert_eq!(stored("abc"), "\"<\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\xbf>\"\n");
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
        (&["--dataset", "a.xml", "--", "SET", "k", "__field:id__"], "requires --xml-root-element parameter"),
        (&["--xml-root-element", "doc", "PING"], "--xml-root-element is given without --dataset"),
        (&["--maxdocs", "3", "PING"], "--maxdocs is given without --dataset"),
        (&["--dataset", &path, "--", "SET", "k", "__field:id__", ";", "PING"], "with a sequence of commands"),
    ] {
        let line = failure(words);
        assert!(line.contains(message), "{line}");
    }
}
