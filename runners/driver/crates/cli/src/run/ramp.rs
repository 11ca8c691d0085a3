//! The options of what may change over the window: the rate, or the number of connections.

use crate::arguments::cannot_be;
use crate::run::options::LoadOptions;
use crate::values::{amount, count};
use engine::schedule::check_rate;
use text::checks::require;
use text::failure::Failure;
use workload::ramp::{Quantity, Setting, ShapeName};

/// A number, and what it changes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Swing<T> {
    pub first: T,
    pub last: Option<T>,
}

/// How a number changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bend {
    shape: ShapeName,
    periods: u32,
    share: f64,
}

/// `5000`, or `1000..50000`
pub fn rate(text: &str) -> Result<Swing<f64>, Failure> {
    swing(text, |text| check_rate(amount("--rate", text)?, "--rate"))
}

/// `50`, or `1..50`
pub fn clients(text: &str) -> Result<Swing<usize>, Failure> {
    swing(text, |text| count("-c", text))
}

fn swing<T>(text: &str, number: impl Fn(&str) -> Result<T, Failure>) -> Result<Swing<T>, Failure> {
    match text.split_once("..") {
        None => Ok(Swing { first: number(text)?, last: None }),
        Some((first, last)) => Ok(Swing { first: number(first)?, last: Some(number(last)?) }),
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
    /// The rate or the number of connections that changes over the window, if one does.
    pub fn ramp(&self) -> Result<Option<Setting>, Failure> {
        let rates = self.rate.and_then(|rate| Some((Quantity::Rate, rate.first, rate.last?)));
        let clients = self
            .clients
            .and_then(|clients| Some((Quantity::Clients, clients.first as f64, clients.last? as f64)));
        require(
            clients.is_none() || self.rate.is_none(),
            "-c A..B is given beside --rate",
            "give one of them: connections change in number in a closed loop",
        )?;
        let Some((of, from, to)) = rates.or(clients) else {
            require(
                self.shape.is_none() && self.steps.is_none(),
                "--shape or --steps is given for a rate that does not change",
                "give --rate A..B or -c A..B",
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
        Ok(Some(Setting { of, from, to, shape, steps, periods, share }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shapes_are_read_whole_or_refused() {
        assert_eq!(rate("1.5k").unwrap(), Swing { first: 1500.0, last: None });
        assert_eq!(rate("1k..50k").unwrap(), Swing { first: 1000.0, last: Some(50_000.0) });
        assert_eq!(clients("1..2k").unwrap(), Swing { first: 1, last: Some(2000) });
        assert!(clients("1.5..2").is_err() && clients("1..").is_err());
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
