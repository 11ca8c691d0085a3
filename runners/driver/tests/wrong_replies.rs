//! A server that answers a command with a reply of another type, or with another text, ends every kind of load on it.

use crate::support::{Manner, Server, failure_line, speedbench, written};

/// An array, where a value, a status or a number should stand.
const ARRAY: &str = "*1\r\n:1\r\n";

fn assert_says(message: &str, cause: &str) {
    assert!(
        message.contains("wrong answer to") && message.contains(cause) && message.contains("speaks RESP"),
        "{message}"
    );
}

#[test]
fn a_mix_knows_the_reply_to_each_of_its_commands() {
    let usual = "-t get:9+set:1 -c 4";
    let loads = [
        "-n 1000",
        "-n 1000 -P 16",
        "-n 1000 -P 16 --window rolling",
        "-n 1000 --threads 2 --warmup 0.1",
        "-n 1000 --allow-errors",
        "-n 1000 -3",
        "-n 1000 --prefill",
        "--duration 0.3 --rate 5000",
        "--duration 0.3 --rate 5000 --arrivals poisson --window rolling -P 4",
        "--duration 0.2 --sweep 2000,4000",
        "--duration 0.2 --search p99:100000us --rate 2000",
        "--duration 0.3 --probe-rate 1000",
        "--mode churn -n 200 -P 20",
    ];
    for load in loads {
        let server = Server::tcp(Manner::Lying("GET", ARRAY));
        assert_says(
            &server.failure(&format!("{usual} {load}")),
            "answered GET with '*1' where a '$' reply should stand",
        );
    }
    for (about, lie, cause) in [
        ("SET", "+NO\r\n", "answered SET with '+NO' where '+OK' should stand"),
        ("SET", "_\r\n", "answered SET with '_' where '+OK'"),
        ("SET", "$-1\r\n", "answered SET with '$-1' where '+OK'"),
        ("SET", ":1\r\n", "answered SET with ':1' where '+OK'"),
        ("GET", "+OK\r\n", "answered GET with '+OK' where a '$' reply"),
        ("GET", ":1\r\n", "answered GET with ':1' where a '$' reply"),
    ] {
        let message = Server::tcp(Manner::Lying(about, lie)).failure(&format!("{usual} -n 1000 -P 4"));
        assert_says(&message, cause);
    }
}

#[test]
fn nulls_are_answers_to_commands_that_read() {
    for (about, lie) in [("GET", "_\r\n"), ("GET", "$-1\r\n"), ("GET", "*-1\r\n")] {
        let server = Server::tcp(Manner::Lying(about, lie));
        let document = server.document("-t get:9+set:1 -n 1000 -P 4 -3");
        assert_eq!(document["tests"][0]["hits"], 0);
        assert!(document["tests"][0]["misses"].as_u64().unwrap() > 800);
    }
    let message = Server::tcp(Manner::Lying("INCR", "_\r\n")).failure("-t incr -n 10 -3");
    assert_says(&message, "answered INCR with '_' where a ':' reply");
}

#[test]
fn the_answers_to_a_prefill_are_judged() {
    for (lie, preview) in [(ARRAY, "*1"), ("+QUEUED\r\n", "+QUEUED"), ("$-1\r\n", "$-1")] {
        let message = Server::tcp(Manner::Lying("SET", lie)).failure("-t get -n 10 --prefill -r 10");
        assert_says(&message, &format!("answered SET with '{preview}' where '+OK'"));
    }
}

#[test]
fn a_sequence_knows_the_reply_to_each_of_its_commands() {
    let phase = |text: &str| format!("[[phase]]\n{text}\nrequests = 300\nclients = 3\npipeline = 2\n");
    let known = "sequence = [{ request = 'GET a' }, { request = 'SET a b', times = 3 }]";
    let unknown = "sequence = [{ request = 'FOO a' }, { request = 'GET a' }]";
    for (name, text, about, lie, cause) in [
        ("get", phase(known), "GET", ARRAY, "answered GET with '*1' where a '$' reply"),
        ("set", phase(known), "SET", ARRAY, "answered SET with '*1' where '+OK'"),
        (
            "mix",
            phase("commands = [{ request = 'GET a' }, { request = 'INCR n', weight = 2 }]"),
            "INCR",
            ARRAY,
            "answered INCR with '*1' where a ':' reply",
        ),
        ("other", phase(unknown), "GET", ARRAY, "answered GET with '*1' where a '$' reply"),
        (
            "verified",
            phase(known).replace("requests", "verify = 0.5\nrequests"),
            "GET",
            ARRAY,
            "answered GET with '*1' where a '$' reply",
        ),
        // This server does not queue. It counts for all connections together, so there is one, which sees 1 first.
        (
            "multi",
            phase("sequence = [{ request = 'MULTI' }, { request = 'INCR n' }, { request = 'EXEC' }]")
                .replace("clients = 3", "clients = 1"),
            "EXEC",
            "*1\r\n:1\r\n",
            "answered INCR with ':1' where '+QUEUED'",
        ),
        (
            "exec",
            phase("sequence = [{ request = 'MULTI' }, { request = 'EXEC' }]"),
            "EXEC",
            ":1\r\n",
            "answered EXEC with ':1' where a '*' reply",
        ),
    ] {
        let path = written(&format!("wrong-{name}.toml"), &text);
        assert_says(&Server::tcp(Manner::Lying(about, lie)).failure(&format!("--workload {path}")), cause);
    }
}

#[test]
fn commands_of_redis_benchmark_and_memtier_are_judged() {
    for (words, about, cause) in [
        ("redis-benchmark -q -n 100 get a ; set a b", "GET", "answered GET with '*1' where a '$' reply"),
        ("redis-benchmark -q -n 1000 -P 4 get a ; 3 set a b", "SET", "answered SET with '*1' where '+OK'"),
        ("redis-benchmark -q -n 100 -k 0 get a ; set a b", "SET", "answered SET with '*1' where '+OK'"),
        ("redis-benchmark -q -n 100 set a b ex 10", "SET", "answered SET with '*1' where '+OK'"),
        ("redis-benchmark -q -n 100 -t set", "SET", "answered SET with '*1' where '+OK'"),
        ("memtier-benchmark -c 2 -t 1 -n 100", "GET", "answered GET with '*1' where a '$' reply"),
        (
            "memtier-benchmark -c 2 -t 1 -n 100 --expiry-range 5-9",
            "SET",
            "answered SET with '*1' where '+OK'",
        ),
    ] {
        let server = Server::tcp(Manner::Lying(about, ARRAY));
        let (program, rest) = words.split_once(' ').unwrap();
        let words =
            [program].into_iter().chain(["-p", &server.options[1]]).chain(rest.split(' ')).map(str::to_owned);
        assert_says(&failure_line(speedbench(words), 1), cause);
    }
}

/// What answers a command whose reply is not known is what answered it first.
#[test]
fn an_unknown_command_keeps_the_type_of_its_first_reply() {
    let server = Server::tcp(Manner::Honest);
    let output = |words: &str| {
        let place = ["redis-benchmark", "-p", &server.options[1], "-q"];
        speedbench(place.into_iter().chain(words.split(' ')).map(str::to_owned))
    };
    assert!(output("-n 100 FOO a ; get b").status.success());
    // The same bytes answer both: whichever was first, the other is refused.
    let message = Server::tcp(Manner::Saying(b"+OK\r\n:1\r\n"));
    let place = ["redis-benchmark", "-p", &message.options[1], "-q", "-c", "1", "-P", "2", "-n", "2", "foo"];
    let line = failure_line(speedbench(place.map(str::to_owned)), 1);
    assert_says(&line, "answered FOO with ':1' where a '+' reply, as the first one was,");
}

/// These hold to what each of their own commands is answered with.
#[test]
fn modes_with_commands_of_their_own_judge_the_answers() {
    let pubsub = "--mode pubsub -n 50 -c 2 --timeout 1";
    let blocking = "--mode blocking -n 50 -c 2 --timeout 1";
    for (mode, about, lie, cause) in [
        (pubsub, "SUBSCRIBE", "+subscribe\r\n", "wrong answer to subscriber"),
        (pubsub, "PUBLISH", ARRAY, "wrong answer to publisher 0, the server said '*1'"),
        (pubsub, "PUBLISH", "+OK\r\n", "wrong answer to publisher 0, the server said '+OK'"),
        (blocking, "BLPOP", ":1\r\n", "wrong answer to waiting client"),
        (blocking, "BLPOP", "*0\r\n", "wrong answer to waiting client"),
        (blocking, "RPUSH", ARRAY, "wrong answer to RPUSH, the server said '*1'"),
        (blocking, "RPUSH", "$-1\r\n", "wrong answer to RPUSH, the server said '$'"),
        (blocking, "DEL", ARRAY, "the server answered DEL with '*1' where a ':' reply should stand"),
    ] {
        let message = Server::tcp(Manner::Lying(about, lie)).failure(mode);
        assert!(message.contains(cause), "{mode}: {message}");
    }
    let message = Server::tcp(Manner::Lying("SELECT", ARRAY)).failure("-t ping -n 1 --dbnum 3");
    assert!(message.contains("the server answered SELECT with '*1' where '+OK' should stand"), "{message}");
}
