//! The order in which the commands of a script come, again and again.

use std::sync::Arc;

/// The order in which the commands of a script come, again and again: their numbers, and how often each follows itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOrder {
    places: Arc<[Place]>,
}

/// A command, and how many places from this one on hold it. Both are read together, by many connections at many places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    command: u16,
    run: u16,
}

impl CommandOrder {
    /// The order of these numbers, of which there is at least one.
    pub fn new(commands: &[u16]) -> CommandOrder {
        let mut places: Vec<Place> = commands.iter().map(|&command| Place { command, run: 1 }).collect();
        for at in (1..places.len()).rev() {
            if places[at - 1].command == places[at].command {
                places[at - 1].run = places[at].run.saturating_add(1);
            }
        }
        CommandOrder { places: places.into() }
    }

    /// The number of the command at each place.
    pub fn commands(&self) -> Vec<u16> {
        self.places.iter().map(|place| place.command).collect()
    }

    /// How many places there are.
    #[inline(always)]
    pub fn length(&self) -> usize {
        self.places.len()
    }

    /// The number of the command at `place`.
    #[inline(always)]
    pub fn command(&self, place: usize) -> usize {
        usize::from(self.places[place].command)
    }

    /// How many places, from `place` on, hold the same command; a longer run may be told in parts.
    #[inline(always)]
    pub fn run(&self, place: usize) -> usize {
        usize::from(self.places[place].run)
    }

    /// The place after `places` more, which do not pass the end.
    #[inline(always)]
    pub fn after(&self, place: usize, places: usize) -> usize {
        if place + places == self.places.len() { 0 } else { place + places }
    }

    /// Add the `steps` places from `place` on to `counts`, which has a number for each command; the place after them.
    pub fn count(&self, place: usize, steps: u64, counts: &mut [u64]) -> usize {
        let (mut at, mut left) = (place, steps as usize);
        while left > 0 {
            let run = self.run(at).min(left);
            counts[self.command(at)] += run as u64;
            left -= run;
            at = self.after(at, run);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_with_another_command_or_with_the_order() {
        let order = CommandOrder::new(&[0, 0, 1, 0, 0, 0]);
        let runs: Vec<usize> = (0..order.length()).map(|place| order.run(place)).collect();
        assert_eq!(runs, [2, 1, 1, 3, 2, 1]);
        assert_eq!((order.after(3, 2), order.after(3, 3)), (5, 0));
    }

    #[test]
    fn a_run_is_no_longer_than_its_number_can_say() {
        let order = CommandOrder::new(&[0; 70_000]);
        let mut counts = [0];
        assert_eq!((order.run(0), order.run(69_999)), (65_535, 1));
        assert_eq!((order.count(69_999, 70_002, &mut counts), counts), (1, [70_002]));
    }

    #[test]
    fn counts_are_those_of_single_steps() {
        let order = CommandOrder::new(&[0, 0, 1, 2, 2, 0]);
        for (place, steps) in [(0, 0), (1, 1), (0, 6), (5, 2), (3, 40)] {
            let mut counts = [0; 3];
            let after = order.count(place, steps, &mut counts);
            let mut expected = [0; 3];
            (0..steps as usize).for_each(|step| expected[order.command((place + step) % 6)] += 1);
            assert_eq!((after, counts), ((place + steps as usize) % 6, expected), "{place} {steps}");
        }
    }
}
