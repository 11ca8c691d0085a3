//! Numbers that change over a window: rates, with the moments at which requests are due by them, and numbers of connections.

use std::f64::consts::TAU;

/// A rate that changes from `from` to `to` requests per second, both above 0, while a window of `window_s` lasts; or a number of
/// connections. Before it, for `before_s`, it is `from`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    pub from: f64,
    pub to: f64,
    pub shape: Shape,
    pub before_s: f64,
    pub window_s: f64,
}

/// How a number gets from its first value to its last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Evenly.
    Line,
    /// In so many steps of equal length and height, the first at the first value; at least two.
    Steps(u32),
    /// Up and down again, so many times.
    Sine(u32),
    /// At the first value but for the last `share` of each of so many periods, which has the last.
    Burst { periods: u32, share: f64 },
}

impl Ramp {
    /// Requests due before `moment`, s after the begin of all: the integral of the rate.
    pub fn due_before(&self, moment: f64) -> f64 {
        let at = moment - self.before_s;
        match at {
            ..=0.0 => moment.max(0.0) * self.from,
            _ => self.before_s * self.from + self.due_in_window(at.min(self.window_s)),
        }
    }

    /// The moment, s after the begin of all, before which exactly `count` requests are due; what is beyond the window is due
    /// at the last rate.
    pub fn moment(&self, count: f64) -> f64 {
        let before = self.before_s * self.from;
        if count <= before {
            return count / self.from;
        }
        let (count, all) = (count - before, self.due_in_window(self.window_s));
        let at = match count < all {
            true => self.moment_in_window(count),
            false => self.window_s + (count - all) / self.to,
        };
        self.before_s + at
    }

    /// The number itself at `moment`, s after the begin of all.
    pub fn at(&self, moment: f64) -> f64 {
        let (rise, length) = (self.to - self.from, self.window_s);
        let at = (moment - self.before_s).clamp(0.0, length);
        let in_period = |periods: u32| {
            let period = length / f64::from(periods);
            (at % period) / period
        };
        match self.shape {
            Shape::Line => self.from + rise * at / length,
            Shape::Steps(steps) => {
                let step = (at * f64::from(steps) / length).floor().min(f64::from(steps - 1));
                self.step_rate(step, steps)
            }
            Shape::Sine(periods) => self.from + rise / 2.0 * (1.0 - libm::cos(TAU * in_period(periods))),
            Shape::Burst { periods, share } => {
                if in_period(periods) < 1.0 - share {
                    self.from
                } else {
                    self.to
                }
            }
        }
    }

    /// The mean of the `seconds` that begin `after_s` in the window.
    pub fn mean_of(&self, after_s: f64, seconds: f64) -> f64 {
        let due_before = |moment: f64| self.due_before(self.before_s + moment);
        (due_before(after_s + seconds) - due_before(after_s)) / seconds
    }

    /// The mean rate of the window.
    pub fn mean(&self) -> f64 {
        self.due_in_window(self.window_s) / self.window_s
    }

    fn due_in_window(&self, at: f64) -> f64 {
        let (rise, length) = (self.to - self.from, self.window_s);
        match self.shape {
            Shape::Line => at * (self.from + rise * at / (2.0 * length)),
            Shape::Steps(steps) => {
                let each = length / f64::from(steps);
                let step = (at / each).floor().min(f64::from(steps - 1));
                self.due_before_step(step, steps) + (at - step * each) * self.step_rate(step, steps)
            }
            Shape::Sine(periods) => self.by_periods(periods, at, |at, length| self.due_in_wave(at, length)),
            Shape::Burst { periods, share } => self.by_periods(periods, at, |at, length| {
                at * self.from + (at - (1.0 - share) * length).max(0.0) * rise
            }),
        }
    }

    fn moment_in_window(&self, count: f64) -> f64 {
        let (rise, length) = (self.to - self.from, self.window_s);
        match self.shape {
            // The root of the integral, in the form that loses no digits when the rise is small.
            Shape::Line => {
                2.0 * count / (self.from + (self.from * self.from + 2.0 * rise * count / length).sqrt())
            }
            Shape::Steps(steps) => {
                let (mut step, mut above) = (0, steps);
                while step + 1 < above {
                    let middle = step.midpoint(above);
                    let is_before = self.due_before_step(f64::from(middle), steps) <= count;
                    (step, above) = if is_before { (middle, above) } else { (step, middle) };
                }
                let step = f64::from(step);
                let left = count - self.due_before_step(step, steps);
                step * length / f64::from(steps) + left / self.step_rate(step, steps)
            }
            Shape::Sine(periods) => {
                self.in_periods(periods, count, |count, length| self.moment_in_wave(count, length))
            }
            Shape::Burst { periods, share } => self.in_periods(periods, count, |count, length| {
                let quiet = (1.0 - share) * length;
                match count <= quiet * self.from {
                    true => count / self.from,
                    false => quiet + (count - quiet * self.from) / self.to,
                }
            }),
        }
    }

    fn step_rate(&self, step: f64, steps: u32) -> f64 {
        self.from + (self.to - self.from) * step / f64::from(steps - 1)
    }

    fn due_before_step(&self, step: f64, steps: u32) -> f64 {
        let each = self.window_s / f64::from(steps);
        let rise = (self.to - self.from) / f64::from(steps - 1);
        each * (step * self.from + rise * step * (step - 1.0) / 2.0)
    }

    /// What is due before `at`, when a period of some length has what `due` says of its moments.
    fn by_periods(&self, periods: u32, at: f64, due: impl Fn(f64, f64) -> f64) -> f64 {
        let length = self.window_s / f64::from(periods);
        let over = (at / length).floor().min(f64::from(periods - 1));
        over * due(length, length) + due(at - over * length, length)
    }

    /// The moment before which `count` are due, when `moment` says it of one period.
    fn in_periods(&self, periods: u32, count: f64, moment: impl Fn(f64, f64) -> f64) -> f64 {
        let length = self.window_s / f64::from(periods);
        let each = self.due_in_window(length);
        let over = (count / each).floor().min(f64::from(periods - 1));
        over * length + moment(count - over * each, length)
    }

    /// Of one wave of the sine, which begins at the first rate.
    fn due_in_wave(&self, at: f64, length: f64) -> f64 {
        let (middle, height) = (self.from.midpoint(self.to), (self.to - self.from) / 2.0);
        middle * at - height * length / TAU * libm::sin(TAU * at / length)
    }

    /// The inverse of [`Ramp::due_in_wave`], by Newton's steps within a bracket.
    fn moment_in_wave(&self, count: f64, length: f64) -> f64 {
        let (middle, height) = (self.from.midpoint(self.to), (self.to - self.from) / 2.0);
        let (mut low, mut high) = (0.0, length);
        let mut at = (count / middle).min(length);
        for _ in 0..MOST_ROUNDS {
            let error = self.due_in_wave(at, length) - count;
            if error > 0.0 {
                high = at
            } else {
                low = at
            }
            let step = error / (middle - height * libm::cos(TAU * at / length));
            let next = if (low..=high).contains(&(at - step)) { at - step } else { low.midpoint(high) };
            if (next - at).abs() < SAME_S {
                return next;
            }
            at = next;
        }
        at
    }
}

/// Moments that are nearer to each other are the same: a tenth of a ns.
const SAME_S: f64 = 1e-10;
/// Bisection alone would have found a moment of a day by then.
const MOST_ROUNDS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_at_a_moment_is_what_the_integral_grows_by() {
        for shape in [Shape::Line, Shape::Steps(4), Shape::Sine(2), Shape::Burst { periods: 3, share: 0.25 }]
        {
            for (from, to) in [(3.0, 40.0), (40.0, 3.0)] {
                let ramp = Ramp { from, to, shape, before_s: 0.5, window_s: 10.0 };
                for part in 0..1000 {
                    let (moment, short) = (0.005 + f64::from(part) / 100.0, 1e-6);
                    let grown = ramp.mean_of(moment, short);
                    assert!((ramp.at(0.5 + moment) - grown).abs() < 1e-3, "{shape:?} {moment}: {grown}");
                }
                assert_eq!((ramp.at(0.0), ramp.at(0.2)), (from, from));
            }
        }
    }
}
