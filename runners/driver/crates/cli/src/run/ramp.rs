//! The options of a rate, which may change over the window.

use crate::arguments::cannot_be;
use crate::run::options::LoadOptions;
use crate::values::amount;
use engine::schedule::check_rate;
use text::checks::require;
use text::failure::Failure;
use workload::ramp::{Setting, ShapeName};

/// A rate, and what it changes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub first: f64,
    pub last: Option<f64>,
}

/// How a rate changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bend {
    shape: ShapeName,
    periods: u32,
    share: f64,
}

/// `5000`, or `1000..50000`
pub fn rate(text: &str) -> Result<Rate, Failure> {
    let of = |text: &str| check_rate(amount("--rate", text)?, "--rate");
    match text.split_once("..") {
        None => Ok(Rate { first: of(text)?, last: None }),
        Some((first, last)) => Ok(Rate { first: of(first)?, last: Some(of(last)?) }),
    }
}

/// `line`, `steps`, `sine:3` or `burst:4:0.2`
pub fn shape(text: &str) -> Result<Bend, Failure> {
    let unfit = || cannot_be("--shape", text, "give line, steps, sine:PERIODS or burst:PERIODS:SHARE");
    let mut words = text.split(':');
    let name = words.next().unwrap_or_default();
    let (shape, most) = match name {
        "line" => (ShapeName::Line, 0),
        "steps" => (ShapeName::Steps, 0),
        "sine" => (ShapeName::Sine, 1),
        "burst" => (ShapeName::Burst, 2),
        _ => return Err(unfit()),
    };
    let numbers: Vec<&str> = words.collect();
    if numbers.len() > most {
        return Err(unfit());
    }
    let periods = numbers.first().map_or(Ok(Setting::usual_periods()), |word| word.parse());
    let share = numbers.get(1).map_or(Ok(Setting::usual_share()), |word| word.parse());
    match (periods, share) {
        (Ok(periods), Ok(share)) => Ok(Bend { shape, periods, share }),
        _ => Err(unfit()),
    }
}

impl LoadOptions {
    /// The rate that changes over the window, if one does.
    pub fn ramp(&self) -> Result<Option<Setting>, Failure> {
        let Some((from, to)) = self.rate.and_then(|rate| Some((rate.first, rate.last?))) else {
            require(
                self.shape.is_none() && self.steps.is_none(),
                "--shape or --steps is given for a rate that does not change",
                "give --rate A..B",
            )?;
            return Ok(None);
        };
        let usual = Bend {
            shape: ShapeName::default(),
            periods: Setting::usual_periods(),
            share: Setting::usual_share(),
        };
        let Bend { shape, periods, share } = self.shape.unwrap_or(usual);
        let steps = self.steps.unwrap_or_else(Setting::usual_steps);
        Ok(Some(Setting { from, to, shape, steps, periods, share }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shapes_are_read_whole_or_refused() {
        assert_eq!(rate("1.5k").unwrap(), Rate { first: 1500.0, last: None });
        assert_eq!(rate("1k..50k").unwrap(), Rate { first: 1000.0, last: Some(50_000.0) });
        for text in ["", "..", "1..", "..5", "0..5", "1..2..3", "x"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert_eq!(shape("burst:4:0.2").unwrap(), Bend { shape: ShapeName::Burst, periods: 4, share: 0.2 });
        assert_eq!(shape("sine").unwrap(), Bend { shape: ShapeName::Sine, periods: 1, share: 0.1 });
        for text in ["", "ramp", "line:2", "sine:2:0.1", "burst:x", "burst:1:0.2:3", "sine:"] {
            assert!(shape(text).is_err(), "{text}");
        }
    }
}
