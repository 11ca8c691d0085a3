//! Connections that are opened step by step while the load lasts.

/// How many connections each thread has: `first`, and `step` more after each `every_ns` until it has its share of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stairs {
    pub first: usize,
    pub step: usize,
    pub every_ns: u64,
}

/// The connections of one thread that are still to be opened: the number of each among all, with what skips its replies.
pub struct Climb<R> {
    stairs: Option<Stairs>,
    left: std::vec::IntoIter<(usize, R)>,
    /// The next step; `u64::MAX` when there is none.
    pub at: u64,
}

impl<R> Climb<R> {
    /// Of those in `left`, which come after the first ones.
    pub fn new(stairs: Option<Stairs>, left: Vec<(usize, R)>) -> Climb<R> {
        Climb { stairs, left: left.into_iter(), at: u64::MAX }
    }

    /// The load begins at `begins_at`.
    pub fn begin(&mut self, begins_at: u64) {
        self.at = u64::MAX;
        if let Some(stairs) = self.stairs.filter(|_| self.left.len() > 0) {
            self.at = begins_at + stairs.every_ns;
        }
    }

    /// Those of the next step.
    pub fn take_step(&mut self) -> Vec<(usize, R)> {
        let Some(stairs) = self.stairs else { return Vec::new() };
        let step: Vec<(usize, R)> = self.left.by_ref().take(stairs.step).collect();
        self.at = if self.left.len() > 0 { self.at + stairs.every_ns } else { u64::MAX };
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_at_their_times_and_the_last_has_what_is_left() {
        let stairs = Stairs { first: 3, step: 4, every_ns: 10 };
        let mut climb = Climb::new(Some(stairs), (3..10).map(|index| (index, ())).collect());
        climb.begin(100);
        assert_eq!((climb.at, climb.take_step().len(), climb.at), (110, 4, 120));
        assert_eq!((climb.take_step().len(), climb.at), (3, u64::MAX));
    }

    #[test]
    fn without_stairs_there_is_no_step() {
        let mut climb: Climb<()> = Climb::new(None, Vec::new());
        climb.begin(100);
        assert_eq!(climb.at, u64::MAX);
    }
}
