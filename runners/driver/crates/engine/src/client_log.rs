//! Counters and latencies of a single connection, for results by connection.

use crate::histogram::SparseHistogram;
use crate::record::Traffic;
use text::units::NS_PER_S;

/// What one connection counted, by the commands of the script.
#[derive(Debug, Clone)]
pub struct ClientLog {
    /// When it began to send, monotonic ns.
    began_at: u64,
    pub commands: Vec<CommandLog>,
    pub traffic: Traffic,
}

/// The replies to one command.
#[derive(Debug, Clone, Default)]
pub struct CommandLog {
    pub seconds: Vec<SecondLog>,
    pub latency: SparseHistogram,
}

/// The replies to one command in one second since the connection began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SecondLog {
    pub replies: u64,
    /// Their latencies added up.
    pub latency_ns: u64,
    /// Keys that were looked for and not there.
    pub misses: u64,
}

impl ClientLog {
    pub fn new(commands: usize, began_at: u64) -> ClientLog {
        ClientLog { began_at, commands: vec![CommandLog::default(); commands], traffic: Traffic::default() }
    }

    /// Note `answered` replies to each command, received at `now` to requests that began at `due_at`, which told of `misses`.
    #[cold]
    pub fn note(&mut self, now: u64, due_at: u64, answered: &[u64], misses: u64) {
        let second = (now.saturating_sub(self.began_at) / NS_PER_S) as usize;
        for (log, replies) in self.commands.iter_mut().zip(answered).filter(|(_, replies)| **replies > 0) {
            if log.seconds.len() <= second {
                log.seconds.resize(second + 1, SecondLog::default());
            }
            let part = &mut log.seconds[second];
            part.replies += replies;
            part.latency_ns += (now - due_at) * replies;
            part.misses += misses;
            log.latency.record(now - due_at, *replies);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_belong_to_the_second_of_their_arrival() {
        let mut log = ClientLog::new(2, 5 * NS_PER_S);
        log.note(5 * NS_PER_S + 300, 5 * NS_PER_S + 100, &[2, 0], 1);
        log.note(7 * NS_PER_S, 7 * NS_PER_S - 50, &[1, 3], 0);
        let second = |replies, latency_ns, misses| SecondLog { replies, latency_ns, misses };
        assert_eq!(log.commands[0].seconds, [second(2, 400, 1), second(0, 0, 0), second(1, 50, 0)]);
        assert_eq!(log.commands[1].seconds, [second(0, 0, 0), second(0, 0, 0), second(3, 150, 0)]);
        let latency = log.commands[0].latency.histogram();
        assert_eq!((latency.count(), latency.min(), latency.max()), (3, 50, 200));
    }
}
