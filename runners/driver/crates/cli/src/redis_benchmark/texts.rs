//! Failures in the words of redis-benchmark and valkey-benchmark, which scripts match.

use text::failure::Failure;

const FROM_SERVER: &str = "Error from server: ";

/// How a failure begins, what stands behind the name of what failed, and how the peers say both. The name goes in front.
const TEXTS: [(&str, &str, &str); 6] = [
    ("cannot connect to tcp:", "", "Could not connect to SERVER at "),
    ("cannot connect to unix:", "", "Could not connect to SERVER at "),
    ("the server answered ", " with an error, -", FROM_SERVER),
    ("the server said to ", ": -", FROM_SERVER),
    ("the server refused ", ": -", FROM_SERVER),
    ("the TLS handshake", "", "Could not negotiate a TLS connection: the TLS handshake"),
];

/// `failure` of a run as the program `name` says it.
pub fn said_by(name: &str, failure: Failure) -> Failure {
    let server = if name == "redis-benchmark" { "Redis" } else { "server" };
    match failure {
        Failure::Usage(_) | Failure::Signal(..) => failure,
        _ => failure.with(|line| said(&line).replacen("SERVER", server, 1)),
    }
}

fn said(line: &str) -> String {
    let theirs = TEXTS.iter().find_map(|(begin, end, theirs)| {
        let (failed, rest) = line.strip_prefix(begin)?.split_once(end)?;
        let failed = if failed.is_empty() { String::new() } else { format!("{failed}: ") };
        Some(format!("{failed}{theirs}{rest}"))
    });
    theirs.unwrap_or_else(|| format!("Error: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_that_scripts_match() {
        for (ours, theirs) in [
            ("cannot connect to tcp:::1:1 (no)", "Could not connect to Redis at ::1:1 (no)"),
            ("cannot connect to unix:/s (no)", "Could not connect to Redis at /s (no)"),
            ("the server answered GET with an error, -NOPERM no", "GET: Error from server: NOPERM no"),
            (
                "the server said to idle connection 5: -ERR max number of clients reached",
                "idle connection 5: Error from server: ERR max number of clients reached",
            ),
            ("the server refused HELLO 3: -ERR no", "HELLO 3: Error from server: ERR no"),
            ("the server closed connection 1", "Error: the server closed connection 1"),
        ] {
            let failure = Failure::Run(ours.to_owned());
            assert_eq!(said_by("redis-benchmark", failure), Failure::Run(theirs.to_owned()));
        }
        let usage = Failure::usage("-c cannot be 0", "give at least 1 client");
        assert_eq!(said_by("valkey-benchmark", usage.clone()), usage);
    }
}
