//! The text of --help.

use workload::memcached::suite::{self, TESTS};

const OPTIONS: &str = "\
Usage: memcached-benchmark [OPTIONS]

Server
  -h HOST              host name or address (127.0.0.1)
  -p PORT              port (11211)
  -s SOCKET            path of a unix socket; replaces -h and -p
  --timeout S          give up when the server is silent for S seconds (10)

Load
  -c CLIENTS           connections (50)
  -n REQUESTS          exactly so many requests (100000)
  -P PIPELINE          requests per batch of a connection (1)
  -d BYTES             bytes of a value (3)
  -r KEYSPACE          keys (1)
  -k 0|1               0: a new connection for each batch (1)
  --threads N          threads
  --seed N             the same seed sends the same requests (1)

Tests
  -t TESTS             names separated by commas
  -l                   again and again

Output
  -q                   one line per test
  --csv                comma separated values
  --precision N        significant digits of the percentile table, 1 to 4 (3)
  --help, --version

Keys that a test needs are stored before it, not counted.

";

/// The options, and the names of all tests.
pub fn text() -> String {
    let usual: Vec<&str> = suite::usual().map(|test| test.name).collect();
    let extra: Vec<&str> = TESTS.iter().filter(|test| test.extra).map(|test| test.name).collect();
    format!(
        "{OPTIONS}Tests that run without -t, in this order:\n{}And when -t names them:\n{}",
        wrapped(&usual),
        wrapped(&extra)
    )
}

/// Indented lines of at most 80 letters.
fn wrapped(names: &[&str]) -> String {
    let mut lines = vec![String::from(" ")];
    for name in names {
        if lines.last().is_some_and(|line| line.len() + name.len() >= 80) {
            lines.push(String::from(" "));
        }
        let line = lines.last_mut().expect("one line at least");
        *line += " ";
        *line += name;
    }
    lines.join("\n") + "\n"
}
