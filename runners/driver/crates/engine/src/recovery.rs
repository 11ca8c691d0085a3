//! How a load goes on through failover, restart and resharding: what may pass, when a connection is opened again, and what
//! is counted of it.

use std::time::Duration;

use network::target::Address;

/// How a load goes on when connections are lost, or when a server refuses for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recovery {
    /// Attempts to open a connection again before the run ends; none: any number.
    pub attempts: Option<u32>,
    /// The pause before the first attempt; each later one is `factor` times as long, up to `longest`.
    pub pause: Duration,
    pub factor: f64,
    pub longest: Duration,
    /// An attempt fails after this time.
    pub connect_timeout: Duration,
}

impl Recovery {
    /// The pause before attempt number `attempt`, from 0, in ns.
    pub fn pause_ns(&self, attempt: u32) -> u64 {
        let pause = self.pause.as_secs_f64() * self.factor.max(1.0).powi(attempt.min(1000) as i32);
        (pause.min(self.longest.as_secs_f64()) * 1e9) as u64
    }
}

/// Whether the error `text` of a server passes by itself: during failover, restart and resharding.
pub fn is_passing(text: &str) -> bool {
    const PASSING: [&str; 8] =
        ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS"];
    PASSING.contains(&text.split(' ').next().unwrap_or_default())
}

/// Where another node is to be asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Redirection {
    /// Whether only this request goes there, behind ASKING.
    pub asking: bool,
    pub address: Address,
}

impl Redirection {
    /// The redirection `text` (`MOVED 3999 127.0.0.1:6381`) of the node at `from`.
    pub fn parse(text: &str, from: &Address) -> Option<Redirection> {
        let mut words = text.split(' ');
        let asking = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let (host, port) = words.nth(1)?.rsplit_once(':')?;
        let host = match (host, from) {
            ("" | "?", Address::Tcp { host, .. }) => host.clone(),
            ("" | "?", Address::Unix { .. }) => "127.0.0.1".to_owned(),
            _ => host.to_owned(),
        };
        Some(Redirection { asking, address: Address::Tcp { host, port: port.parse().ok()? } })
    }
}

/// What was counted of losses and refusals, from the begin of the window on.
#[derive(Debug, Clone, Default)]
pub struct Losses {
    /// Connections that were lost.
    pub broken: u64,
    /// Connections that were opened again.
    pub reconnects: u64,
    /// Requests whose reply never came.
    pub lost: u64,
    /// Requests that another node answered after MOVED or ASK.
    pub redirected: u64,
    /// Lost requests and refusals by second of the window.
    pub errors_per_s: Vec<u64>,
    /// For each trouble of a connection: from its first error to its next good reply; without one, `u64::MAX`.
    pub outages: Vec<(u64, u64)>,
    /// Times of more than [`LEAST_GAP_NS`] in which no request was answered, in order.
    pub gaps: Vec<(u64, u64)>,
}

/// Shorter times without an answer are not noted.
pub const LEAST_GAP_NS: u64 = 1_000_000;

impl Losses {
    /// Count `errors` that came `after_ns` in the window.
    pub fn count_errors(&mut self, after_ns: u64, errors: u64) {
        let second = (after_ns / 1_000_000_000) as usize;
        self.errors_per_s.resize(self.errors_per_s.len().max(second + 1), 0);
        self.errors_per_s[second] += errors;
    }

    /// Add what another thread counted at the same time.
    pub fn merge(&mut self, other: &Losses) {
        self.broken += other.broken;
        self.reconnects += other.reconnects;
        self.lost += other.lost;
        self.redirected += other.redirected;
        let seconds = self.errors_per_s.len().max(other.errors_per_s.len());
        self.errors_per_s.resize(seconds, 0);
        self.errors_per_s.iter_mut().zip(&other.errors_per_s).for_each(|(sum, more)| *sum += more);
        self.outages.extend_from_slice(&other.outages);
        self.gaps = overlaps(&self.gaps, &other.gaps);
    }

    /// The longest time in which no request was answered, ns; 0 when all were short.
    pub fn longest_gap_ns(&self) -> u64 {
        self.gaps.iter().map(|(from, to)| to - from).max().unwrap_or(0)
    }

    /// The times in which some connection was in trouble, in order and apart from each other.
    pub fn merged_outages(&self) -> Vec<(u64, u64)> {
        let mut sorted = self.outages.clone();
        sorted.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, to) in sorted {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        merged
    }
}

/// Where spans of both lists overlap; each list is in order and its spans are apart.
fn overlaps(left: &[(u64, u64)], right: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut l, mut r, mut both) = (0, 0, Vec::new());
    while let (Some(a), Some(b)) = (left.get(l), right.get(r)) {
        let (from, to) = (a.0.max(b.0), a.1.min(b.1));
        if from < to {
            both.push((from, to));
        }
        if a.1 < b.1 { l += 1 } else { r += 1 }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest() {
        let ms = Duration::from_millis;
        let recovery = Recovery {
            attempts: None,
            pause: ms(10),
            factor: 2.0,
            longest: ms(50),
            connect_timeout: ms(1000),
        };
        assert_eq!([0, 1, 2, 3, 4000].map(|at| recovery.pause_ns(at) / 1_000_000), [10, 20, 40, 50, 50]);
        let constant = Recovery { factor: 0.0, ..recovery };
        assert_eq!([0, 9].map(|at| constant.pause_ns(at) / 1_000_000), [10, 10]);
    }

    #[test]
    fn redirections_name_a_node() {
        let from = Address::Tcp { host: "::1".to_owned(), port: 1 };
        let to = |host: &str, asking| {
            Some(Redirection { asking, address: Address::Tcp { host: host.to_owned(), port: 7001 } })
        };
        assert_eq!(Redirection::parse("MOVED 3999 127.0.0.1:7001", &from), to("127.0.0.1", false));
        assert_eq!(Redirection::parse("ASK 3999 fe80::1:7001", &from), to("fe80::1", true));
        assert_eq!(Redirection::parse("MOVED 3999 :7001", &from), to("::1", false));
        for text in ["MOVED", "MOVED 1", "MOVED 1 nowhere", "ERR 1 a:7001"] {
            assert_eq!(Redirection::parse(text, &from), None, "{text}");
        }
        assert!(is_passing("CLUSTERDOWN Hash slot not served") && !is_passing("ERR MOVED"));
    }

    #[test]
    fn what_threads_counted_is_added_up() {
        let mut all = Losses { gaps: vec![(10, 20), (30, 60)], outages: vec![(5, 9)], ..Losses::default() };
        all.count_errors(2_500_000_000, 3);
        let other =
            Losses { gaps: vec![(15, 35), (50, 70)], outages: vec![(8, 12), (20, 21)], ..Losses::default() };
        all.merge(&other);
        assert_eq!(all.gaps, [(15, 20), (30, 35), (50, 60)]);
        assert_eq!((all.longest_gap_ns(), all.errors_per_s.as_slice()), (10, [0, 0, 3].as_slice()));
        assert_eq!(all.merged_outages(), [(5, 12), (20, 21)]);
    }
}
