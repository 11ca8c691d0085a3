//! Options of memtier_benchmark that this front end has not.

use crate::suggestions::Habit;

const NOT_HERE: &str = "memtier_benchmark has it, this front end has not";
const DATA: &str =
    "data files are not imported here; values are drawn, and `speedbench run --workload` can verify them";

pub const REFUSED: [Habit; 29] = [
    ("-4", "give --host an IPv4 address"),
    ("-6", "give --host an IPv6 address"),
    ("--ipv4", "give --host an IPv4 address"),
    ("--ipv6", "give --host an IPv6 address"),
    ("--tls-protocols", "TLS 1.2 and 1.3 are spoken here; leave it out"),
    ("-D", NOT_HERE),
    ("--debug", NOT_HERE),
    ("--client-stats", NOT_HERE),
    ("--show-config", "the JSON of --json-out-file has the configuration"),
    ("--statsd-host", NOT_HERE),
    ("--statsd-port", NOT_HERE),
    ("--statsd-prefix", NOT_HERE),
    ("--statsd-run-label", NOT_HERE),
    ("--graphite-port", NOT_HERE),
    ("--clients-start", NOT_HERE),
    ("--clients-step", NOT_HERE),
    ("--step-duration", NOT_HERE),
    ("--thread-conn-start-min-jitter-micros", NOT_HERE),
    ("--thread-conn-start-max-jitter-micros", NOT_HERE),
    ("--monitor-input", NOT_HERE),
    ("--monitor-pattern", NOT_HERE),
    ("--scan-incremental-iteration", NOT_HERE),
    ("--data-offset", "write SETRANGE and GETRANGE with --command"),
    ("--data-size-pattern", "sizes are drawn here, as its R says"),
    ("--data-import", DATA),
    ("--data-verify", DATA),
    ("--verify-only", DATA),
    ("--generate-keys", DATA),
    ("--no-expiry", DATA),
];
