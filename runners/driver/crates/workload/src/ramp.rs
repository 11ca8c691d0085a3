//! Rates and numbers of connections that change over a window, as they are asked for.

use serde::{Deserialize, Serialize};

use engine::ramp::{Ramp, Shape};
use engine::schedule::check_rate;
use text::checks::require;
use text::failure::Failure;

/// Most steps of a result, and periods of a shape.
const MOST: u32 = 1000;

/// A rate, or a number of connections, that changes over a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    #[serde(default, skip_serializing_if = "Quantity::is_rate")]
    pub of: Quantity,
    /// Requests per second, or connections, at first and at last.
    pub from: f64,
    pub to: f64,
    #[serde(default)]
    pub shape: ShapeName,
    /// Equal parts of the window that have results of their own; the shape `steps` keeps one number in each.
    #[serde(default = "Setting::usual_steps")]
    pub steps: u32,
    /// How often the window has the shape `sine` or `burst`.
    #[serde(default = "Setting::usual_periods")]
    pub periods: u32,
    /// The share of a period that a burst takes.
    #[serde(default = "Setting::usual_share")]
    pub share: f64,
}

/// What a ramp changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// Requests per second of an open loop.
    #[default]
    Rate,
    /// Connections of a closed loop that send.
    Clients,
}

impl Quantity {
    fn is_rate(&self) -> bool {
        *self == Quantity::Rate
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShapeName {
    #[default]
    Line,
    Steps,
    Sine,
    Burst,
}

impl Setting {
    pub fn usual_steps() -> u32 {
        10
    }

    pub fn usual_periods() -> u32 {
        1
    }

    pub fn usual_share() -> f64 {
        0.1
    }

    /// A usage failure unless all of it can be done with so many `clients`.
    pub fn check(&self, clients: usize) -> Result<(), Failure> {
        match self.of {
            Quantity::Rate => {
                check_rate(self.from, "the first rate of a ramp")?;
                check_rate(self.to, "the last rate of a ramp")?;
            }
            Quantity::Clients => self.check_clients(clients)?,
        }
        let remedy = format!("give 2 to {MOST}");
        require((2..=MOST).contains(&self.steps), &format!("a ramp has {} steps", self.steps), &remedy)?;
        let remedy = format!("give 1 to {MOST}");
        require(
            (1..=MOST).contains(&self.periods),
            &format!("a ramp has {} periods", self.periods),
            &remedy,
        )?;
        require(
            self.share > 0.0 && self.share < 1.0,
            &format!("a burst takes {} of its period", self.share),
            "give a share between 0 and 1",
        )
    }

    fn check_clients(&self, clients: usize) -> Result<(), Failure> {
        let (from, to) = (self.from, self.to);
        require(
            [from, to].iter().all(|count| *count >= 1.0 && count.fract() == 0.0),
            &format!("a ramp of connections cannot go from {from} to {to}"),
            "give whole numbers, at least 1",
        )?;
        require(
            from.max(to) == clients as f64,
            &format!("a ramp from {from} to {to} connections has {clients}"),
            "let clients be the greater of both",
        )
    }

    /// The same over a window of `window_s`, after `before_s` at the first rate.
    pub fn ramp(&self, before_s: f64, window_s: f64) -> Ramp {
        let shape = match self.shape {
            ShapeName::Line => Shape::Line,
            ShapeName::Steps => Shape::Steps(self.steps),
            ShapeName::Sine => Shape::Sine(self.periods),
            ShapeName::Burst => Shape::Burst { periods: self.periods, share: self.share },
        };
        Ramp { from: self.from, to: self.to, shape, before_s, window_s }
    }
}
