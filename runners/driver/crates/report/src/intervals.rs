//! What the intervals of a window added to its latencies.

use engine::histogram::Gain;

/// What each interval of a window added to the latencies. The last one has those that ended after the window, too.
#[derive(Debug, Default)]
pub struct Intervals {
    /// Begin of the first, monotonic ns, and the width of all but the last.
    pub begun_at: u64,
    pub width_ns: u64,
    /// End of the last, monotonic ns.
    pub ended_at: u64,
    pub gains: Vec<Gain>,
}

impl Intervals {
    /// Begin and length of interval number `index` in ns.
    pub fn span(&self, index: usize) -> (u64, u64) {
        let begin = self.begun_at + index as u64 * self.width_ns;
        let end = if index + 1 == self.gains.len() { self.ended_at } else { begin + self.width_ns };
        (begin, end.saturating_sub(begin))
    }
}
