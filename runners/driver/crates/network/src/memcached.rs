//! What is asked of a memcached server beside the load.

use std::time::{Duration, Instant};
use std::{io, thread};

use crate::dialogue::send_all;
use crate::target::Target;
use text::failure::Failure;

/// How a server with logins answers what comes before one.
pub const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated";
const LONGEST_ANSWER: usize = 1 << 20;
/// What a server does not answer for, besides being another.
const WITHOUT: &str =
    ", with TLS if --tls is given, and not with SASL (-S), which is part of the binary protocol";
/// After a flush the server is asked for its number of items this often and this long, until it is as expected.
const ASKED_EVERY: Duration = Duration::from_millis(50);
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

/// The number of items that the servers hold together and have not flushed.
///
/// `flush_all` only marks items as expired: `curr_items` counts them until the server removes them, a second or two
/// later. So if one was ever flushed, and they do not hold `expected` items, this starts their LRU crawlers and asks again.
pub fn count_living<'a>(
    servers: impl Iterator<Item = &'a Target> + Clone,
    expected: u64,
) -> Result<u64, Failure> {
    let deadline = Instant::now() + SETTLED_WITHIN;
    let mut is_crawling = false;
    loop {
        let (mut items, mut flushes) = (0, 0);
        for server in servers.clone() {
            let stats = ask(server, "stats")?;
            items += stat(&stats, "curr_items")?;
            flushes += stat(&stats, "cmd_flush")?;
        }
        if items <= expected || flushes == 0 || Instant::now() >= deadline {
            return Ok(items);
        }
        if !is_crawling {
            // A server without a crawler answers with an error, and removes the items in its own time.
            servers.clone().try_for_each(|server| ask(server, "lru_crawler crawl all").map(drop))?;
            is_crawling = true;
        }
        thread::sleep(ASKED_EVERY);
    }
}

/// Expire all items of the server.
pub fn flush(target: &Target) -> Result<(), Failure> {
    let answer = ask(target, "flush_all")?;
    match answer.trim_end() {
        "OK" => Ok(()),
        other => Err(Failure::run(
            format!("the server answered flush_all with {other}"),
            "start it without -F, or give --fresh-server",
        )),
    }
}

/// A failure unless the server of `target`, into which a session logs in, refuses what comes before a login: one without logins
/// would store the password as a value, and one that is not memcached shall not get it.
pub fn require_logins(target: &Target) -> Result<(), Failure> {
    if target.greeting.is_empty() {
        return Ok(());
    }
    let answer = ask(&Target { greeting: Vec::new(), ..target.clone() }, "version")?;
    if answer.starts_with("VERSION ") {
        return Err(Failure::run(
            format!("{} has no logins: it would store the password as a value", target.address),
            "leave -a and --user out, or start it with -Y",
        ));
    }
    match answer.starts_with(UNAUTHENTICATED) {
        true => Ok(()),
        false => Err(not_memcached("version", &answer)),
    }
}

/// The stores that servers have refused so far, by their statistics. To a store with `noreply` memcached says nothing of it.
pub struct Refusals(Vec<u64>);

impl Refusals {
    /// Those of `targets` before a load.
    pub fn before<'a>(targets: impl Iterator<Item = &'a Target>) -> Result<Refusals, Failure> {
        targets.map(refused).collect::<Result<_, _>>().map(Refusals)
    }

    /// A failure when the servers, in the same order, have refused stores since, during `test`.
    pub fn check<'a>(&self, targets: impl Iterator<Item = &'a Target>, test: &str) -> Result<(), Failure> {
        for (target, before) in targets.zip(&self.0) {
            let more = refused(target)?.saturating_sub(*before);
            if more > 0 {
                return Err(Failure::run(
                    format!("{} refused {more} stores during {test} without a word", target.address),
                    "give it more memory (-m) or larger items (-I), or lower -d",
                ));
            }
        }
        Ok(())
    }
}

/// The stores that the server has refused; 0 when it does not count them.
fn refused(target: &Target) -> Result<u64, Failure> {
    let stats = ask(target, "stats")?;
    stat(&stats, "curr_items")?;
    Ok(["store_too_large", "store_no_memory"].iter().filter_map(|name| stat(&stats, name).ok()).sum())
}

/// The statistic of that name.
fn stat(stats: &str, name: &str) -> Result<u64, Failure> {
    let number = |line: &str| line.strip_prefix("STAT ")?.strip_prefix(name)?.trim().parse().ok();
    stats.lines().find_map(number).ok_or_else(|| not_memcached("stats", stats))
}

/// The failure of a server that answers `line` as no memcached does, or not without a login.
fn not_memcached(line: &str, answer: &str) -> Failure {
    let begin: String = answer.chars().take(80).collect();
    let remedy = match answer.starts_with(UNAUTHENTICATED) {
        true => "log in with -a and --user",
        false => "give a memcached server",
    };
    Failure::run(format!("the server answered {line} with {}", begin.trim()), remedy)
}

/// Connect, send a line, and disconnect: all lines of the answer up to `END`, or an error line.
fn ask(target: &Target, line: &str) -> Result<String, Failure> {
    let mut channel = target.connect()?;
    let deadline = Instant::now() + target.timeout;
    let mut answer = Vec::new();
    let mut hear = || {
        send_all(&mut channel, format!("{line}\r\n").as_bytes())?;
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
        Failure::run(cause, format!("check that {} is memcached{WITHOUT}", target.address))
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
