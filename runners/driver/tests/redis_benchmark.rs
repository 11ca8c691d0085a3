//! `speedbench redis-benchmark` against a scripted server: what goes wrong, and what the command line allows.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{Manner, Server, failure_line, on_a_terminal, speedbench};

fn words(server: &Server, options: &str) -> Vec<String> {
    let options = options.split_whitespace().map(str::to_owned);
    ["redis-benchmark".to_owned(), "-q".to_owned()]
        .into_iter()
        .chain(server.options.clone())
        .chain(options)
        .collect()
}

fn assert_says(line: &str, cause: &str, remedy: &str) {
    assert!(line.contains(cause) && line.contains(remedy), "{line}");
}

fn failure(manner: Manner, options: &str) -> String {
    let server = Server::tcp(manner);
    failure_line(speedbench(words(&server, options)), 1)
}

#[test]
fn a_server_that_misbehaves_ends_the_run() {
    let refused = failure(Manner::Refusing, "-t set -n 100");
    assert_says(&refused, "SET: Error from server: ERR no", "correct the server");
    for said in [b"$3\r\nab".as_slice(), b"$3\r\nabc\r\n", b"$"] {
        let line = failure(Manner::HangingUp(said), "-t get -n 100 -c 5 --threads 2");
        assert_says(&line, "the server closed connection", "server's log");
    }
    let garbage = failure(Manner::Saying(b"HTTP/1.1 400 Bad Request\r\n"), "-t get -n 100");
    assert_says(&garbage, "wrong answer to GET", "speaks RESP");
    let moved = failure(Manner::Saying(b"-MOVED 3999 127.0.0.1:6381\r\n"), "-t get -n 100");
    assert_says(&moved, "GET: Error from server: MOVED 3999", "--cluster");
    let silent = failure(Manner::Silent, "-t get -n 100 --timeout 0.2");
    assert_says(&silent, "the server stopped answering GET", "--timeout");
    let half = failure(Manner::Saying(b"*2\r\n:1\r\n"), "-n 100 -c 1 --timeout 0.2 lrange a 0 1");
    assert_says(&half, "the server stopped answering lrange a 0 1 on connection 0", "--timeout");
    let greeted = failure(Manner::Refusing, "-3 -t get");
    assert_says(&greeted, "HELLO 3: Error from server: ERR no", "leave it out");
}

#[test]
fn an_absent_server_is_one_line() {
    let run = |words: &str| failure_line(speedbench(words.split(' ').map(str::to_owned)), 1);
    for output in ["-q", "--csv", "-c 3"] {
        let line = run(&format!("redis-benchmark -p 1 {output}"));
        assert_says(&line, "Could not connect to Redis at 127.0.0.1:1", "start the server");
    }
    assert_says(&run("redis-benchmark -p 1 -I"), "Could not connect to Redis", "start the server");
}

#[test]
fn usage_errors_name_cause_and_remedy() {
    for (words, cause, remedy) in [
        ("-p", "Invalid option \"-p\" or option argument missing", "--help"),
        ("--fast", "Invalid option \"--fast\" or option argument missing", "--help"),
        ("-p 70000", "-p cannot be '70000'", "--help"),
        ("-c 0", "-c cannot be 0", "at least 1"),
        ("-n 0", "there is nothing to measure", "-n"),
        ("-n 10k", "-n cannot be '10k'", "--help"),
        ("-n 5 --duration 5", "Options -n and --duration are mutually exclusive", "one of them"),
        ("--duration 0", "nothing to measure", "--duration"),
        ("--rps -1", "--rps is below 0", "leave it out"),
        ("--rps nan", "--rps is below 0", "leave it out"),
        ("--sequential", "--sequential is given without a keyspace", "-r"),
        ("--precision 5", "--precision is outside of 1 to 4", "3"),
        ("-r 2000000000000", "-r is above 10^12", "twelve digits"),
        ("-d 1000000 -P 1000", "do not fit into 4 GiB", "lower"),
        ("-t set,fly", "there is no test 'fly'", "ping_inline"),
        ("--user joe", "--user is given without a password", "-a"),
        ("--timeout 0", "--timeout cannot be 0", "above 0"),
        ("-u http://:pw@h", "has a scheme that is not redis", "redis://user:password@host"),
        ("--tls --cacert /nonexistent", "cannot read /nonexistent", "PEM"),
        (
            "--tls --insecure --tls-ciphersuites X",
            "--tls-ciphersuites cannot have 'X'",
            "TLS_AES_128_GCM_SHA256",
        ),
        ("--tls --insecure --tls-groups P-521", "--tls-groups cannot have 'P-521'", "X25519:P-256:P-384"),
        ("-s /tmp/nowhere --mptcp", "--mptcp is given for a unix socket", "-h and -p"),
        ("-x", "-x is given without a command", "first words"),
        ("; ;", "no or too many commands", "1 to 65535"),
        ("0 ; ping", "a repeat count repeats nothing", "above 0"),
        ("18446744073709551615 ping ; 2 ping", "no or too many commands", "65535"),
        ("set x \"a\"b\"", "Invalid quoted string", "backslash"),
    ] {
        let server = Server::tcp(Manner::Honest);
        let output = speedbench(self::words(&server, words));
        assert_says(&failure_line(output, 2), cause, remedy);
    }
}

#[test]
fn every_test_is_refused_before_anything_is_sent() {
    let server = Server::tcp(Manner::Honest);
    speedbench(words(&server, "-t get,nosuch"));
    assert_eq!(server.seen().streams.len(), 0);
}

#[test]
fn the_name_of_the_program_chooses_its_face() {
    for (name, version) in [("redis-benchmark", "8.0 "), ("valkey-benchmark", "")] {
        let called =
            Command::new(env!("CARGO_BIN_EXE_speedbench")).arg0(name).arg("--version").output().unwrap();
        assert_eq!(
            String::from_utf8(called.stdout).unwrap(),
            format!("{name} {version}(speedbench {} in its place)\n", env!("CARGO_PKG_VERSION"))
        );
        let help = speedbench([name.to_owned(), "--help".to_owned()]);
        assert!(String::from_utf8(help.stdout).unwrap().starts_with(&format!("Usage: {name} [OPTIONS]")));
    }
}

#[test]
fn the_seed_makes_the_bytes_whatever_the_threads() {
    let streams = |options: &str| {
        let server = Server::tcp(Manner::Honest);
        let load = "-r 100000 -c 6 -P 3 -n 1000 set k:__rand_1st__ __rand_int__:__seq__";
        let output = speedbench(words(&server, &format!("{options} {load}")));
        assert!(output.status.success());
        let mut streams = server.seen().streams.clone();
        streams.sort();
        streams
    };
    let one = streams("--seed 5");
    assert_eq!(one, streams("--seed 5 --threads 3"));
    assert_ne!(one, streams("--seed 6"));
}

#[test]
fn each_placeholder_counts_for_itself() {
    for (load, keys) in [
        ("-n 100 set a:__rand_1st__ x ; set b:__rand_2nd__ x", 100),
        ("-n 100 -P 5 set a:__rand_int__ x ; set b:__rand_9th__ __rand_9th__", 100),
        ("-n 50 set a:__rand_1st__ __rand_int__:__rand_int__", 50),
        ("-n 25 -P 5 set a:__rand_int__:__rand_int__ x", 25),
        ("-n 50 set a:__rand_int__ x ; set b:__rand_int__ x", 50),
    ] {
        let server = Server::tcp(Manner::Honest);
        let output = speedbench(words(&server, &format!("-r 50 -c 5 --sequential {load}")));
        assert!(output.status.success(), "{load}");
        assert_eq!(server.seen().store.len(), keys, "{load}");
    }
}

#[test]
fn warnings_are_for_a_terminal() {
    let server = Server::tcp(Manner::Honest);
    let words = words(&server, "-e -t get --threads 501 -k 0 -n 20 PING");
    let seen = on_a_terminal(&words.join(" "));
    for warning in [
        "-e option has no effect",
        "Too many threads, limiting threads to 500",
        "Option -t is ignored",
        "Keepalive disabled.",
    ] {
        assert!(seen.contains(&format!("WARNING: {warning}")), "{seen}");
    }
    assert_eq!(server.seen().calls("PING"), 20);
    let output = speedbench(words);
    assert!(output.status.success() && output.stderr.is_empty());
    assert!(!String::from_utf8(output.stdout).unwrap().contains("WARNING"));
}

#[test]
fn a_rate_of_0_is_no_limit() {
    let server = Server::tcp(Manner::Honest);
    assert!(speedbench(words(&server, "-t ping_mbulk --rps 0 -n 20")).status.success());
    assert_eq!(server.seen().calls("PING"), 20);
}

#[test]
fn a_blank_after_a_comma_does_not_matter() {
    let server = Server::tcp(Manner::Honest);
    let list = ["-t".to_owned(), "ping_mbulk, set".to_owned()];
    assert!(speedbench(words(&server, "-n 7 -c 1").into_iter().chain(list)).status.success());
    let seen = server.seen();
    assert_eq!((seen.calls("PING"), seen.calls("SET")), (7, 7));
}

#[test]
fn the_version_says_what_it_stands_in_for() {
    for (words, begin) in [
        ("redis-benchmark", "redis-benchmark 8.0 (speedbench "),
        ("redis-benchmark --as 7.0", "redis-benchmark 7.0 (speedbench "),
        ("redis-benchmark -q --as 7.0 --as 7.2", "redis-benchmark 7.2 (speedbench "),
        ("valkey-benchmark", "valkey-benchmark (speedbench "),
        ("memtier_benchmark", "memtier_benchmark (speedbench "),
        ("memcached-benchmark", "memcached-benchmark 0"),
    ] {
        let output = speedbench(words.split(' ').chain(["--version"]).map(str::to_owned));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(begin), "{text}");
    }
    let output = speedbench(["redis-benchmark", "--version", "--as", "7.4"].map(str::to_owned));
    assert!(output.stdout.starts_with(b"redis-benchmark 7.4 "));
    let server = Server::tcp(Manner::Honest);
    let line = failure_line(speedbench(words(&server, "--as 5.0")), 2);
    assert_says(&line, "--as cannot be '5.0'", "7.0, 7.2, 7.4, 8.0");
}
