//! When a thread may send: its share of a rate as a schedule, or at once.

const NS_PER_S: f64 = 1e9;
/// A thread that has fallen behind makes up for at most this much of its schedule.
const MADE_UP_NS: f64 = 100e6;

/// The schedule of one thread.
pub struct Pace {
    ns_per_request: f64,
    /// When the next requests are due, ns on the monotonic clock.
    due: f64,
}

impl Pace {
    /// `rate` requests per second from `now` on; no limit without a rate.
    pub fn new(rate: Option<f64>, now: u64) -> Pace {
        Pace { ns_per_request: rate.map_or(0.0, |rate| NS_PER_S / rate), due: now as f64 }
    }

    /// Whether `count` requests may be sent now. If so, what comes after them is due that much later.
    #[inline]
    pub fn grants(&mut self, now: u64, count: usize) -> bool {
        if self.ns_per_request == 0.0 {
            return true;
        }
        let now = now as f64;
        if now < self.due {
            return false;
        }
        self.due = self.due.max(now - MADE_UP_NS) + self.ns_per_request * count as f64;
        true
    }

    /// The next moment at which something is granted.
    pub fn due(&self) -> u64 {
        self.due.ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_on_average() {
        let mut pace = Pace::new(Some(1e6), 1000);
        let sent = (1000..101_000).step_by(7).filter(|now| pace.grants(*now, 4)).count();
        assert_eq!(sent * 4, 100);
        assert!(pace.due() >= 101_000);
    }

    #[test]
    fn without_a_rate_everything_is_granted() {
        let mut pace = Pace::new(None, 1000);
        assert!((0..100).all(|_| pace.grants(0, 1000)));
    }

    #[test]
    fn a_long_stop_is_not_made_up_for() {
        let mut pace = Pace::new(Some(1000.0), 0);
        let after = 10_000_000_000;
        assert_eq!((0..1000).filter(|_| pace.grants(after, 1)).count(), 101);
    }
}
