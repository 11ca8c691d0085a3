//! Options that other load drivers have, and what `speedbench run` has for them.

use crate::suggestions::Habit;

const NOT_BINARY_LOGINS: &str = "SASL is part of memcached's binary protocol, which is not spoken; logins of its text protocol (-Y) are -a and --user";

pub const HABITS: [Habit; 50] = [
    ("-q", "leave it out; --csv prints one row per test, and `speedbench redis-benchmark` has -q"),
    ("--quiet", "leave it out; --csv prints one row per test"),
    ("-l", "give --duration for as long as it shall last"),
    ("-k", "--mode churn opens a connection for each batch"),
    ("-I", "give --mode idle"),
    ("-e", "leave it out: an error reply ends the run and is shown"),
    ("-x", "write the command into a file for --workload"),
    ("-f", "give --workload with the file"),
    ("-o", "the result is on stdout: redirect it, with --json or --csv"),
    ("-T", "give --threads"),
    ("-v", "give --version"),
    ("-V", "give --version"),
    ("-H", "give -h with the host"),
    ("-S", "give -s with the path of the socket"),
    ("-b", "give -d with the bytes of a value"),
    ("--host", "give -h"),
    ("--server", "give -h"),
    ("--port", "give -p"),
    ("--socket", "give -s"),
    ("--unix-socket", "give -s"),
    ("--uri", "give -u"),
    ("--url", "give -u"),
    ("--password", "give -a"),
    ("--pass", "give -a"),
    ("--authenticate", "give -a, and --user"),
    ("--username", "give --user, and -a"),
    ("--sasl", NOT_BINARY_LOGINS),
    ("--db", "give --dbnum"),
    ("--select-db", "give --dbnum"),
    ("--cluster-mode", "give --cluster"),
    ("--clients", "give -c"),
    ("--connections", "give -c"),
    ("--requests", "give -n"),
    ("--pipeline", "give -P"),
    ("--depth", "give -P"),
    ("--keys", "give -r"),
    ("--keyspace", "give -r"),
    ("--key-maximum", "give -r"),
    ("--data-size", "give -d"),
    ("--size", "give -d"),
    ("--value-bytes", "give -d"),
    ("--test", "give -t"),
    ("--tests", "give -t"),
    ("--ratio", "give a mix, as in -t get:10+set:1"),
    ("--command", "write it into a file for --workload, or give it to `speedbench redis-benchmark`"),
    ("--test-time", "give --duration"),
    ("--time", "give --duration"),
    ("--rps", "give --rate"),
    ("--qps", "give --rate"),
    ("--resp3", "give -3"),
];

/// The remedy of a word that is no option.
pub const WORD: &str = "name a test with -t, as in -t get, and the server with -h and -p; \
                        a command of your own goes behind `speedbench redis-benchmark`";
