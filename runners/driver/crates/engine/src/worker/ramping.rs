//! Connections that send or wait, when the number of those that send changes over the window.

use crate::ramp::Ramp;
use crate::stage::Span;
use crate::worker::Worker;
use protocol::replies::Protocol;
use text::failure::Failure;
use text::units::seconds;

/// The number is looked up this often.
const EVERY_NS: u64 = 10_000_000;

impl<P: Protocol> Worker<'_, P> {
    /// Let those connections begin that send at first.
    #[cold]
    pub(super) fn begin_ramp(&mut self, ramp: &Ramp, span: &Span, now: u64) -> Result<(), Failure> {
        self.connections.iter_mut().for_each(|(_, connection)| connection.quota = 0);
        self.follow_ramp(ramp, span, now)
    }

    /// Let as many connections of all threads send as `ramp` says of `now`: the first ones. Those beyond get their replies, and
    /// then wait; what they may send is 0 meanwhile, so that the loop need not know of them.
    #[cold]
    pub(super) fn follow_ramp(&mut self, ramp: &Ramp, span: &Span, now: u64) -> Result<(), Failure> {
        let senders = ramp.at(seconds(now.saturating_sub(span.begins_at))).round() as usize;
        for token in 0..self.connections.len() {
            let (index, connection) = &mut self.connections[token];
            let (may_send, sends) = (*index < senders, connection.quota > 0);
            match may_send {
                // One that still awaits replies never stopped to be one that the loop waits for.
                true if !sends && !connection.is_idle() => connection.quota = u64::MAX,
                true if !sends => self.begin_on(token, span, (now, now))?,
                true => {}
                false => connection.quota = 0,
            }
        }
        self.climb.at = next_look(span, now);
        Ok(())
    }
}

/// The next of the looks that begin with the window; `u64::MAX` at its end.
fn next_look(span: &Span, now: u64) -> u64 {
    let next = match now.checked_sub(span.counts_from) {
        None => span.counts_from,
        Some(since) => now + EVERY_NS - since % EVERY_NS,
    };
    if next < span.ends_at { next } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ramp::Shape;
    use crate::stage::Stage;

    #[test]
    fn looks_are_even_and_end_with_the_window() {
        let clients = Ramp { from: 1.0, to: 5.0, shape: Shape::Line, before_s: 0.0, window_s: 0.025 };
        let span = Stage::Ramped { warmup_ns: 3, window_ns: 25_000_000, clients }.span(100);
        assert_eq!(next_look(&span, 100), 103);
        assert_eq!(next_look(&span, 103), 10_000_103);
        assert_eq!(next_look(&span, 10_000_999), 20_000_103);
        assert_eq!(next_look(&span, 20_000_103), u64::MAX);
    }
}
