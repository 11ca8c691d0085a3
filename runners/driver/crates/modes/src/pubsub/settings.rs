//! What is asked of publishers and subscribers.

use serde::{Deserialize, Serialize};

use protocol::resp;
use text::checks::require;
use text::failure::Failure;

/// The name of a channel begins so and ends with its number.
pub const CHANNEL: &str = "speedbench:";

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    pub publishers: usize,
    pub channels: usize,
    /// Channels that one subscriber subscribes to by name.
    pub channels_each: usize,
    pub subscribe: Subscribe,
    /// Messages per second of all publishers; without a rate each sends again when it was answered.
    #[serde(skip)]
    pub rate: Option<f64>,
}

impl Default for Setting {
    fn default() -> Self {
        Setting { publishers: 1, channels: 1, channels_each: 1, subscribe: Subscribe::Channels, rate: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subscribe {
    Channels,
    /// One pattern that all channels match.
    Patterns,
    Shards,
}

impl Setting {
    /// Usage failures.
    pub fn check(&self, value_bytes: usize) -> Result<(), Failure> {
        let fits = |number: usize| (1..=1_000_000).contains(&number);
        require(
            fits(self.publishers) && fits(self.channels),
            "publishers or channels are outside of 1 to 1000000",
            "1 is usual",
        )?;
        require(
            (1..=self.channels).contains(&self.channels_each),
            "channels_each is not between 1 and channels",
            "lower it, or raise channels",
        )?;
        require(
            fits(self.channels * value_bytes.max(1) / 4096 + 1),
            "a message for each channel does not fit into 4 GiB",
            "lower channels or the bytes of a value",
        )
    }

    /// Channels whose messages one subscriber gets.
    pub fn channels_of_subscriber(&self) -> usize {
        match self.subscribe {
            Subscribe::Patterns => self.channels,
            Subscribe::Channels | Subscribe::Shards => self.channels_each.min(self.channels),
        }
    }

    /// The command with which subscriber `index` subscribes.
    pub fn request(&self, index: usize) -> Vec<u8> {
        let name = match self.subscribe {
            Subscribe::Channels => "SUBSCRIBE",
            Subscribe::Patterns => return resp::command(&["PSUBSCRIBE", &format!("{CHANNEL}*")]),
            Subscribe::Shards => "SSUBSCRIBE",
        };
        let channels =
            (0..self.channels_of_subscriber()).map(|at| format!("{CHANNEL}{}", (index + at) % self.channels));
        resp::command(&[name.to_owned()].into_iter().chain(channels).collect::<Vec<_>>())
    }

    /// The messages with which the server confirms [`Setting::request`].
    pub fn confirmations(&self) -> usize {
        if self.subscribe == Subscribe::Patterns { 1 } else { self.channels_of_subscriber() }
    }

    /// The command that publishes.
    pub fn publish(&self) -> &'static str {
        if self.subscribe == Subscribe::Shards { "SPUBLISH" } else { "PUBLISH" }
    }

    /// Subscribers, of `all`, that get the messages of `channel`.
    pub fn subscribers(&self, channel: usize, all: usize) -> u64 {
        let subscribes = |index: &usize| {
            (channel + self.channels - index % self.channels) % self.channels < self.channels_of_subscriber()
        };
        (0..all).filter(subscribes).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_counted_on_their_channels() {
        let setting = Setting { publishers: 2, channels: 3, channels_each: 2, ..Setting::default() };
        // Subscribers 0 to 3 have channels 0 1, 1 2, 2 0, 0 1.
        assert_eq!([0, 1, 2].map(|channel| setting.subscribers(channel, 4)), [3, 3, 2]);
        let all = Setting { subscribe: Subscribe::Patterns, ..setting };
        assert_eq!([0, 1, 2].map(|channel| all.subscribers(channel, 4)), [4, 4, 4]);
    }
}
