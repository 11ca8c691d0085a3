//! What is asked of a memcached server beside the load.

use std::io;
use std::time::Instant;

use crate::failure::Failure;
use crate::net::{Target, tell};

const LONGEST_ANSWER: usize = 1 << 20;

/// The number of items that the server holds.
pub fn count_items(target: &Target) -> Result<u64, Failure> {
    let stats = ask(target, "stats")?;
    let number = |line: &str| line.strip_prefix("STAT curr_items ")?.trim().parse().ok();
    stats.lines().find_map(number).ok_or_else(|| {
        let told: String = stats.chars().take(80).collect();
        Failure::run(
            format!("the server answered stats without curr_items, {}", told.trim()),
            "give a memcached server",
        )
    })
}

/// Connect, send a line, and hang up: all lines of the answer up to `END`, or an error line.
fn ask(target: &Target, line: &str) -> Result<String, Failure> {
    let mut channel = target.connect()?;
    let deadline = Instant::now() + target.timeout;
    let mut answer = Vec::new();
    let mut hear = || {
        tell(&mut channel, format!("{line}\r\n").as_bytes())?;
        let mut chunk = [0; 4096];
        while !is_whole(&answer) {
            let received = channel.recv(&mut chunk)?;
            answer.extend_from_slice(&chunk[..received]);
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if Instant::now() >= deadline || answer.len() > LONGEST_ANSWER {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    };
    hear().map_err(|error: io::Error| {
        let cause = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("no answer to {line} within {:?}", target.timeout)
            }
            _ => format!("no answer to {line} ({error})"),
        };
        Failure::run(cause, format!("check that {} is memcached", target.address))
    })?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether the last line ends the answer; an answer of another protocol is one line.
fn is_whole(answer: &[u8]) -> bool {
    match answer.starts_with(b"STAT ") {
        true => answer.ends_with(b"\r\nEND\r\n"),
        false => answer.ends_with(b"\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_it_should() {
        assert!(!is_whole(b"STAT pid 1\r\n"));
        assert!(is_whole(b"STAT pid 1\r\nEND\r\n"));
        assert!(is_whole(b"ERROR\r\n"));
        assert!(!is_whole(b""));
    }
}
