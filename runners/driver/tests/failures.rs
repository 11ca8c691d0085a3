//! What goes wrong is told in one line, with the right exit code and nothing on stdout.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use crate::support::{Manner, Server, failure_line, speedbench, written};

fn assert_says(line: &str, cause: &str, remedy: &str) {
    assert!(line.contains(cause) && line.contains(remedy), "{line}");
}

#[test]
fn an_error_reply_ends_the_run() {
    let server = Server::tcp(Manner::Refusing);
    let line = server.failure("-t incr -n 100 --json");
    assert_says(&line, "the server answered incr with an error, -ERR no", "--allow-errors");
    let line = server.failure("-t get --prefill --json --allow-errors");
    assert_says(&line, "the server answered set with an error, -ERR no", "correct the server");
}

#[test]
fn a_server_that_hangs_up_ends_the_run() {
    for said in [b"$3\r\nab".as_slice(), b"$3\r\nabc\r\n", b"$"] {
        let server = Server::unix(Manner::HangingUp(said));
        let line = server.failure("-t get -n 100 -c 5 --threads 2 --json");
        assert_says(&line, "the server closed connection", "server's log");
    }
}

#[test]
fn garbage_ends_the_run() {
    let server = Server::tcp(Manner::Saying(b"HTTP/1.1 400 Bad Request\r\n"));
    let line = server.failure("-t get -n 100");
    assert_says(&line, "wrong answer to get", "speaks RESP");
    let server = Server::tcp(Manner::Saying(b":1\r\n"));
    let line = server.failure("-t ping -n 100");
    assert_says(&line, "the server answered PING with ':1' where '+PONG' should stand", "speaks RESP");
    let server = Server::tcp(Manner::Saying(b"+PONG\r\n+PONG\r\n"));
    let line = server.failure("-t ping -n 100");
    assert_says(&line, "1 replies too many", "speaks RESP");
}

#[test]
fn a_silent_server_does_not_hang_the_run() {
    let server = Server::tcp(Manner::Silent);
    for options in ["-t ping -n 10 --timeout 0.2", "-t get --duration 0.3 -c 4 --threads 2 --timeout 0.2"] {
        let line = server.failure(options);
        assert_says(&line, "the server stopped answering", "--timeout");
    }
    let half = Server::tcp(Manner::Saying(b"$3\r\na"));
    let line = half.failure("-t get -n 10 -c 1 --timeout 0.2");
    assert_says(&line, "the server stopped answering get on connection 0 for 200ms", "--timeout");
}

/// How each mode is asked for, briefly.
const MODES: [&str; 4] = [
    "--mode churn -n 20 -c 4 --threads 2",
    "--mode idle -c 4 --duration 0.1",
    "--mode pubsub -n 20 -c 4 --threads 2",
    "--mode blocking -n 20 -c 4",
];

#[test]
fn ill_mannered_servers_end_every_mode() {
    for (manner, causes) in [
        (Manner::Refusing, ["with an error, -ERR no"; 2]),
        (
            Manner::Saying(b"HTTP/1.1 400 Bad Request\r\n"),
            ["'HTTP/1.1 400 Bad Request'", "the server said 'H'"],
        ),
        (Manner::Saying(b"-MOVED 1 127.0.0.1:1\r\n"), ["-MOVED"; 2]),
        (Manner::HangingUp(b"+PO"), ["the server closed", "DEL with '+PO' where"]),
        (Manner::Silent, ["the server stopped answering", "within 300ms"]),
    ] {
        // Only for the silent one the timeout ends the run.
        let timeout_s = if manner == Manner::Silent { 0.3 } else { 60.0 };
        for mode in MODES {
            let line = Server::tcp(manner).failure(&format!("{mode} --timeout {timeout_s} --json"));
            assert!(causes.iter().any(|cause| line.contains(cause)), "{mode}: {line}");
        }
    }
}

#[test]
fn a_churn_counts_what_it_lost_if_that_is_allowed() {
    let server = Server::tcp(Manner::HangingUp(b"+PONG\r\n"));
    // Each connection is closed after its reply, which is in time.
    let document = server.document("--mode churn -n 50 -c 5 --allow-errors");
    assert_eq!(document["tests"][0]["connections"]["opened"], 50);
    let server = Server::tcp(Manner::HangingUp(b"+P"));
    let line = server.failure("--mode churn -n 50 -c 5 --allow-errors");
    assert_says(&line, "no connection was of use", "the server closed connection");
}

/// A port where each connection is given to `serve`, which may keep or drop it.
fn listening(serve: impl Fn(TcpStream) -> Option<TcpStream> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    thread::spawn(move || listener.incoming().map(|stream| serve(stream.unwrap())).collect::<Vec<_>>());
    port
}

#[test]
fn a_session_that_does_not_begin_ends_the_run() {
    let keeps = listening(Some);
    let drops = listening(|_| None);
    let says = listening(|mut stream| stream.write_all(b"-ERR no TLS here\r\n").map(|()| stream).ok());
    for (port, options, causes) in [
        (&keeps, "-a secret", ["no answer to AUTH within 300ms"; 2]),
        (&keeps, "-3", ["no answer to HELLO within 300ms"; 2]),
        (&keeps, "--tls --insecure", ["TLS handshake"; 2]),
        (&drops, "--tls --insecure", ["TLS handshake"; 2]),
        (&drops, "-a secret", ["no answer to AUTH", "the server closed"]),
        (&says, "--tls --insecure", ["TLS handshake"; 2]),
        (&says, "-a secret", ["the server refused the login: -ERR no TLS here"; 2]),
        (&says, "-3 --tracking", ["the server refused HELLO 3"; 2]),
        (&keeps, "--cluster", ["no answer to CLUSTER within 300ms"; 2]),
    ] {
        for mode in MODES.into_iter().chain(["-t get -n 10"]) {
            let cluster = options == "--cluster" && !(mode.contains("churn") || mode.contains("get"));
            if cluster {
                continue;
            }
            // Only a server that keeps still is waited for until the timeout.
            let timeout_s = if port == &keeps { 0.3 } else { 60.0 };
            let words = format!("run -p {port} {options} {mode} --timeout {timeout_s}");
            let line = failure_line(speedbench(words.split(' ').map(str::to_owned)), 1);
            assert!(causes.iter().any(|cause| line.contains(cause)), "{words}: {line}");
        }
    }
}

#[test]
fn a_wrong_key_count_ends_the_run() {
    // Says OK to SET, and stores nothing.
    let server = Server::tcp(Manner::Lying("SET", "+OK\r\n"));
    let line = server.failure("--prefill -r 10 -t get -n 10 --json");
    assert_says(&line, "the server holds 0 keys in db0 after a prefill of 10", "empty server");
}

#[test]
fn a_prefill_looks_before_it_writes() {
    let phases = r#"{"phase": [{"test": "ping", "requests": 1, "clients": 1},
        {"test": "get", "prefill": true, "keys": {"count": 10}, "requests": 10, "clients": 1}]}"#;
    let path = written("looks.json", phases);
    let file = format!("--workload {path}");
    for (key, load) in
        [("key:000000000003", "-r 10 -t get -n 10"), ("foreign", "-r 10 -t get -n 10"), ("a", &file)]
    {
        let server = Server::tcp(Manner::Honest);
        server.seen().store.insert(key.into(), b"theirs".to_vec());
        let words = if load == file { load.to_owned() } else { format!("--prefill {load}") };
        let line = server.failure(&format!("{words} --json"));
        assert_says(&line, "the server holds 1 keys in db0 already", "--prefill=force");
        let calls = server.seen().calls.clone();
        assert!(!calls.contains_key("SET") && !calls.contains_key("PING"), "{calls:?}");
        let document = server.document(&format!("--prefill=force {load}"));
        let keys = if key.starts_with("key:") { 10 } else { 11 };
        assert_eq!(
            (&document["prefill"]["keys"], &document["prefill"]["keys_in_server"]),
            (&10.into(), &keys.into())
        );
        assert_eq!(server.seen().calls("SET"), 10);
    }
}

#[test]
fn a_refused_login_ends_the_run() {
    let server = Server::tcp(Manner::Honest);
    let line = server.failure("-a wrong -t ping -n 10");
    assert_says(&line, "the server refused the login: -WRONGPASS", "-a and --user");
    assert!(!line.contains("wrong\r"));
}

#[test]
fn an_absent_server_ends_the_run() {
    let run = |words: &str| failure_line(speedbench(words.split(' ').map(str::to_owned)), 1);
    let line = run("run -p 1 -t ping -n 1");
    assert_says(&line, "cannot connect to tcp:127.0.0.1:1", "start the server");
    let line = run("run -s /nonexistent/socket -t ping -n 1");
    assert_says(&line, "cannot connect to unix:/nonexistent/socket", "start the server");
}

#[test]
fn an_unreadable_server_clock_ends_the_run() {
    let server = Server::tcp(Manner::Honest);
    let line = server.failure("-t ping -n 10 --server-pid 4194304");
    assert_says(&line, "cannot read the CPU clock of process 4194304", "--server-pid");
}

#[test]
fn a_cpu_that_is_not_there_ends_the_run() {
    let server = Server::tcp(Manner::Honest);
    for cpu in ["1023", "99999"] {
        let line = server.failure(&format!("-t ping -n 10 --cpus {cpu}"));
        assert_says(&line, "cannot pin a thread to CPU", "--cpus");
    }
}

#[test]
fn more_connections_than_files_are_refused_at_once() {
    let server = Server::tcp(Manner::Honest);
    let program = env!("CARGO_BIN_EXE_speedbench");
    let place = server.options.join(" ");
    for words in [
        "run -t get -c 500",
        "run -t get -c 999 --threads 2",
        "run -t get -c 500 --prefill -r 10000",
        "run -t get -c 500 --prefill -r 10",
        "run --mode idle -c 500 --duration 0.1",
        "run --mode churn -c 500",
        "run --mode pubsub -c 500",
        "run --mode blocking -c 500",
        "redis-benchmark -t get -q -c 500",
        "redis-benchmark -I -c 500",
        "memcached-benchmark -t mn -q -c 500",
    ] {
        let script = format!("ulimit -n 256; exec {program} {words} {place}");
        let line = failure_line(Command::new("sh").args(["-c", &script]).output().unwrap(), 1);
        assert_says(&line, "need more files than the 256 that", "lower the number of clients");
    }
    // Threads have tables of their own.
    let script = format!("ulimit -n 256; exec {program} run -t get -c 300 --threads 2 -n 300 {place}");
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let streams = server.seen().streams.iter().filter(|stream| !stream.is_empty()).count();
    assert_eq!(streams, 300);
}

/// Words, and what the message says of cause and remedy.
const USAGE_ERRORS: [(&str, &str, &str); 53] = [
    ("", "no command given", "speedbench run"),
    ("walk", "walk", "--help"),
    ("run --fast", "--fast", "--help"),
    ("run extra", "extra", "-t get"),
    ("run -p", "-p", "--help"),
    ("run -p 70000", "-p cannot be '70000'", "--help"),
    ("run -c x", "-c cannot be 'x'", "5k"),
    ("run -c 0", "-c cannot be 0", "at least 1"),
    ("run -P 0", "-P cannot be 0", "at least 1"),
    ("run -n 0", "the window is empty", "-n"),
    ("run -n 5 --duration 5", "both given", "one of them"),
    ("run --duration -1", "--duration cannot be -1", "seconds"),
    ("run --duration nan", "--duration cannot be NaN", "seconds"),
    ("run --warmup 2 --warmup-most 1.5", "at least 2s cannot end within 1.5s", "raise the most"),
    ("run --warmup-most 1", "cannot end within 1.1s", "allow more time"),
    ("run --warmup-most 9 --sweep 1,2", "asked for in mode sweep", "fixed time"),
    ("run --warmup 1e9", "--warmup cannot be 1000000000", "86400"),
    ("run --timeout 0", "--timeout cannot be 0", "above 0"),
    ("run -r 0", "-r is outside", "twelve digits"),
    ("run -r 1000000000001", "-r is outside", "twelve digits"),
    ("run -d 600000000", "-d is above 512 MiB", "smaller"),
    ("run -d 1000000 -P 1000", "do not fit into 4 GiB", "lower"),
    ("run -t set,fly", "no test 'fly'", "ping, set, get, incr"),
    ("run -t get,set,get", "two tests or phases are called get", "leave one out"),
    ("run --threads 0", "--threads cannot be 0", "at least 1"),
    ("run --threads 4000 -c 4000", "--threads is above", "CPUs"),
    ("run --insecure", "options of TLS are given without it", "--tls"),
    ("run --threads 9 -c 8", "more --threads than clients", "raise -c"),
    ("run --threads 2 --cpus 1", "fewer CPUs than", "one CPU per thread"),
    ("run --cpus a", "--cpus cannot be 'a'", "1,3"),
    ("run --slice-ms 0", "--slice-ms is outside", "100"),
    ("run --server-pid 0", "--server-pid is not a process id", "pid"),
    ("run --mode fly", "--mode cannot be 'fly'", "churn, pubsub or blocking"),
    ("run --mode churn --rate 5", "--mode is given beside --rate", "leave it out"),
    ("run --mode idle -n 5", "mode idle is given with", "for a time"),
    ("run --mode idle --threads 2", "mode idle is given with --threads", "one thread"),
    ("run --mode blocking --threads 2", "mode blocking is given with --threads", "one thread"),
    ("run --mode blocking --pop lpop", "--pop cannot be 'lpop'", "bzpopmin"),
    ("run --mode pubsub --subscribe all", "--subscribe cannot be 'all'", "patterns"),
    ("run --mode pubsub --channels 0", "channels are outside", "1 is usual"),
    ("run --mode pubsub -t get", "-t is given for a mode", "leave it out"),
    ("run --mode pubsub --cluster", "are for one server", "--cluster"),
    ("run --publishers 2", "--publishers is given without its mode", "--mode pubsub"),
    ("run --protocol memcached --mode blocking", "mode blocking is given for memcached", "RESP"),
    ("run --protocol memcached --dbnum 1", "--dbnum is given for memcached", "leave it out"),
    ("run --protocol memcached -3", "-3 is given for memcached", "leave it out"),
    ("run --tracking", "--tracking is given without -3", "both"),
    ("run --prefill=yes", "--prefill cannot be 'yes'", "--prefill=force"),
    ("run --cluster --prefill -t get:1+incr:1", "has keys of several kinds", "one after the other"),
    ("run -u http://h", "has a scheme that is not redis", "redis://"),
    ("run --tls --cert a.pem", "--cert and --key belong together", "both"),
    ("run --tls --cacert /nonexistent.pem", "cannot read /nonexistent.pem", "PEM"),
    ("run --user joe", "--user is given without a password", "-a"),
];

/// What newcomers write, and what the message says of cause and remedy.
const HABITS: [(&str, &str, &str); 28] = [
    ("-p 6379", "no command given before -p", "speedbench run -p ..."),
    ("--port=6379", "no command given before --port", "speedbench run --port ..."),
    ("-asecret -p 6379", "no command given before -a", "speedbench run -a ..."),
    ("rnu -p 6379", "invalid command 'rnu'", "--help"),
    ("redis-bench -q", "invalid command 'redis-bench'", "`speedbench redis-benchmark`"),
    ("compar a.json", "invalid command 'compar'", "`speedbench compare`"),
    ("get:9+set:1", "invalid command 'get:9+set:1'", "speedbench run -t get:9+set:1"),
    ("help walk", "invalid command 'walk'", "--help"),
    ("run -q", "invalid option '-q'", "--csv"),
    ("run --requests=5", "invalid option '--requests'", "give -n"),
    ("run --clients 5", "invalid option '--clients'", "give -c"),
    ("run --ratio 1:10", "invalid option '--ratio'", "-t get:10+set:1"),
    ("run --test-time 5", "invalid option '--test-time'", "--duration"),
    ("run --duraton 5", "invalid option '--duraton'", "did you mean --duration?"),
    ("run --serverpid 5", "invalid option '--serverpid'", "did you mean --server-pid?"),
    ("memtier-benchmark --data-sizes 5", "invalid option '--data-sizes'", "did you mean --data-size?"),
    ("run lpush mylist", "invalid option 'lpush'", "speedbench redis-benchmark"),
    ("run -t lpush", "no test 'lpush'", "speedbench redis-benchmark -t lpush"),
    ("run -t get:9,set:1", "-t get:9,set:1 names 2 tests", "get:9+set:1"),
    ("run -t get:1,set:1", "-t get:1,set:1 names 2 tests", "get:1+set:1"),
    ("run -t get:9,set", "get:9 alone", "get:9+set"),
    ("run --rate 10x", "--rate cannot be '10x'", "5k"),
    ("run -n 1.0001k", "-n cannot be '1.0001k'", "5k"),
    ("run -d 4x", "-d cannot be '4x'", "4kb"),
    ("run --duration 5x", "--duration cannot be '5x'", "500ms"),
    ("run --sweep 10k,x", "--sweep cannot be '10k,x'", "10k,20k"),
    ("run --search p99:1", "--search cannot be 'p99:1'", "p99:1ms"),
    ("run -c 5 -h", "-h lacks its value", "--help"),
];

#[test]
fn words_of_newcomers_lead_to_the_right_place() {
    for (words, cause, remedy) in HABITS {
        let line = failure_line(speedbench(words.split_whitespace().map(str::to_owned)), 2);
        assert_says(&line, cause, remedy);
        assert!(!line.contains("secret"), "{line}");
    }
}

#[test]
fn usage_errors_name_cause_and_remedy() {
    let long = format!("run -s /{}", "x".repeat(107));
    let too_long = (long.as_str(), "too long for a socket", "107");
    for (words, cause, remedy) in USAGE_ERRORS.into_iter().chain([too_long]) {
        let line = failure_line(speedbench(words.split_whitespace().map(str::to_owned)), 2);
        assert_says(&line, cause, remedy);
    }
}

#[test]
fn help_and_version_are_not_errors() {
    for (words, expected) in [
        ("--help", "Usage: speedbench run"),
        ("-h", "Usage: speedbench run"),
        ("help", "Usage: speedbench run"),
        ("help run", "Usage: speedbench run"),
        ("help memtier-benchmark", "--json-out-file"),
        ("run --help", "Usage: "),
        ("run -h", "--server-pid"),
        ("redis-benchmark -h", "Usage: redis-benchmark"),
        ("memcached-benchmark -h", "Usage: memcached-benchmark"),
        ("memtier-benchmark -h", "--json-out-file"),
        ("--version", "speedbench 0"),
        ("version", "speedbench 0"),
    ] {
        let output = speedbench(words.split_whitespace().map(str::to_owned));
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains(expected));
    }
}

#[test]
fn the_exit_code_remains_when_stderr_takes_nothing() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_speedbench")).arg("walk").stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
}
