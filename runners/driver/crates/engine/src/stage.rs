//! Pacing as a value: when connections may send, and when replies count. The loop asks it and has no modes of its own.

use crate::ramp::Ramp;
use crate::schedule::Arrivals;
use generator::share::share;

/// The delay between the start order and the begin of an open loop: by then all threads are awake.
const LEAD_NS: u64 = 1_000_000;

/// One uninterrupted period of load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stage {
    /// Load that is not counted, brought to an end before the next stage.
    WarmUp { ns: u64 },
    /// Load that goes on from `warmup_ns` of warm-up into a window of `window_ns`, in which replies count.
    Timed { warmup_ns: u64, window_ns: u64 },
    /// Exactly so many requests, all counted; the window ends with the last reply.
    Exactly { requests: u64 },
    /// As [`Stage::Timed`], but requests are due by a schedule, whether or not those before were answered.
    Open { warmup_ns: u64, window_ns: u64, arrivals: Arrivals },
    /// As [`Stage::Timed`], but only so many connections send as `clients` says; the others are open and wait.
    Ramped { warmup_ns: u64, window_ns: u64, clients: Ramp },
    /// Load for `ns`, closed or by a schedule; what is then in flight is awaited and counts, too: the window ends with
    /// the last reply.
    Slice { ns: u64, arrivals: Option<Arrivals> },
}

/// A stage that has begun: moments on the monotonic clock, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub begins_at: u64,
    /// Replies count from here ...
    pub counts_from: u64,
    /// ... to here; `u64::MAX` when they count to the last one.
    pub closes_at: u64,
    /// Sending ends here; in an open loop, nothing more falls due.
    pub ends_at: u64,
    /// Requests of all connections together.
    pub requests: Option<u64>,
    /// The schedule of an open loop.
    pub arrivals: Option<Arrivals>,
    /// How many connections send, of a closed loop; none: all.
    pub clients: Option<Ramp>,
}

impl Stage {
    pub fn span(self, now: u64) -> Span {
        let timed = |begins_at: u64, warmup_ns: u64, window_ns: u64| Span {
            begins_at,
            counts_from: begins_at + warmup_ns,
            closes_at: begins_at + warmup_ns + window_ns,
            ends_at: begins_at + warmup_ns + window_ns,
            requests: None,
            arrivals: None,
            clients: None,
        };
        match self {
            Stage::WarmUp { ns } => Span { counts_from: u64::MAX, ..timed(now, 0, ns) },
            Stage::Timed { warmup_ns, window_ns } => timed(now, warmup_ns, window_ns),
            Stage::Ramped { warmup_ns, window_ns, clients } => {
                Span { clients: Some(clients), ..timed(now, warmup_ns, window_ns) }
            }
            Stage::Exactly { requests } => {
                let (closes_at, ends_at) = (u64::MAX, u64::MAX);
                Span { closes_at, ends_at, requests: Some(requests), ..timed(now, 0, 0) }
            }
            Stage::Open { warmup_ns, window_ns, arrivals } => {
                Span { arrivals: Some(arrivals), ..timed(now + LEAD_NS, warmup_ns, window_ns) }
            }
            Stage::Slice { ns, arrivals } => {
                let lead_ns = arrivals.map_or(0, |_| LEAD_NS);
                Span { closes_at: u64::MAX, arrivals, ..timed(now + lead_ns, 0, ns) }
            }
        }
    }
}

impl Span {
    /// The requests that connection `index` of `clients` sends in this span: whole units of `unit` requests.
    ///
    /// What remains of an incomplete unit is sent by the last connection, so that the sum is exact.
    pub fn quota(&self, index: usize, clients: usize, unit: usize) -> u64 {
        let Some(all) = self.requests else { return u64::MAX };
        let unit = unit as u64;
        let rest = if index + 1 == clients { all % unit } else { 0 };
        share(all / unit, index, clients).count * unit + rest
    }

    /// The moment before which the span is not over, even if nothing is in flight: a schedule has gaps, and of a changing
    /// number of connections a thread may have none that sends.
    #[inline]
    pub fn lasts_until(&self) -> u64 {
        if self.arrivals.is_some() || self.clients.is_some() { self.ends_at } else { 0 }
    }

    /// How many requests a connection with `quota` left may send now, at most `pipeline`.
    #[inline]
    pub fn allowance(&self, now: u64, quota: u64, pipeline: usize) -> usize {
        if now < self.ends_at { quota.min(pipeline as u64) as usize } else { 0 }
    }
}

/// The units of `unit` requests that a connection can have in flight at most, if these are fewer than `pipeline`: its
/// share of all `requests` of `clients` has no more.
pub fn depth_below_pipeline(pipeline: usize, requests: u64, clients: usize, unit: usize) -> Option<u64> {
    let depth = requests.div_ceil(unit as u64).div_ceil(clients as u64);
    (depth < pipeline as u64).then_some(depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_each_other_and_leave_nothing() {
        for (all, takers) in [(0, 3), (2, 3), (10, 3), (1008, 50)] {
            let mut next = 0;
            for index in 0..takers {
                let part = share(all, index, takers);
                assert_eq!(part.first, next);
                next += part.count;
            }
            assert_eq!(next, all);
        }
    }

    #[test]
    fn a_share_below_the_pipeline_bounds_it() {
        assert_eq!(depth_below_pipeline(1000, 100, 10, 1), Some(10));
        assert_eq!(depth_below_pipeline(10, 100, 10, 1), None);
        assert_eq!(depth_below_pipeline(4, 31, 3, 5), Some(3));
    }

    #[test]
    fn nothing_is_sent_after_the_end_or_beyond_the_quota() {
        let span = Stage::Timed { warmup_ns: 10, window_ns: 20 }.span(100);
        assert_eq!((span.counts_from, span.ends_at), (110, 130));
        assert_eq!(span.allowance(129, u64::MAX, 16), 16);
        assert_eq!(span.allowance(130, u64::MAX, 16), 0);
        let span = Stage::Slice { ns: 20, arrivals: None }.span(100);
        assert_eq!((span.counts_from, span.ends_at, span.closes_at), (100, 120, u64::MAX));
        assert_eq!((span.allowance(119, u64::MAX, 16), span.allowance(120, u64::MAX, 16)), (16, 0));
        let span = Stage::Exactly { requests: 21 }.span(100);
        assert_eq!((span.quota(0, 2, 1), span.quota(1, 2, 1)), (11, 10));
        assert_eq!((span.quota(0, 2, 4), span.quota(1, 2, 4)), (12, 9));
        assert_eq!(span.allowance(u64::MAX - 1, 3, 16), 3);
    }
}
