//! Pauses between the connections that a thread opens before the load.

use std::thread;
use std::time::Duration;

use crate::resources::check_signals;
use generator::rng::Rng;
use text::failure::Failure;

/// Signals are looked for this often.
const NAP: Duration = Duration::from_millis(100);

/// Any pause from the least to the most, each microsecond equally likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter {
    pub least: Duration,
    pub most: Duration,
}

impl Jitter {
    /// The next pause.
    pub fn draw(self, rng: &mut Rng) -> Duration {
        let choices = (self.most - self.least).as_micros() as u64 + 1;
        self.least + Duration::from_micros(rng.below(choices))
    }

    /// Pause once. A failure when the program was asked to end.
    pub fn pause(self, rng: &mut Rng) -> Result<(), Failure> {
        let mut left = self.draw(rng);
        while !left.is_zero() {
            check_signals()?;
            let nap = left.min(NAP);
            thread::sleep(nap);
            left -= nap;
        }
        check_signals()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_lie_between_their_bounds() {
        let us = Duration::from_micros;
        let jitter = Jitter { least: us(20), most: us(22) };
        let mut rng = Rng::stream(1, 1);
        let mut pauses: Vec<Duration> = (0..100).map(|_| jitter.draw(&mut rng)).collect();
        pauses.sort_unstable();
        pauses.dedup();
        assert_eq!(pauses, [us(20), us(21), us(22)]);
        assert_eq!(Jitter { least: us(7), most: us(7) }.draw(&mut rng), us(7));
    }
}
