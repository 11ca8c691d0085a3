//! The channels that all threads publish to, and how a message is told apart from those of other programs.

use std::sync::atomic::AtomicUsize;

use crate::pubsub::settings::{CHANNEL, Setting};
use crate::stamp::{Stamp, blank};
use engine::job::Job;
use network::target::Target;
use protocol::resp;

/// What all threads read.
pub struct Channels<'a> {
    pub job: &'a Job,
    pub setting: &'a Setting,
    pub target: &'a Target,
    /// The publishing command of each channel, whose value has room for a stamp.
    pub commands: Vec<Vec<u8>>,
    pub value_bytes: usize,
    /// How many subscribers each channel has.
    pub subscribers: Vec<u64>,
    /// Threads that may still publish.
    pub publishing: AtomicUsize,
}

impl<'a> Channels<'a> {
    pub fn new(job: &'a Job, setting: &'a Setting, value_bytes: usize) -> Channels<'a> {
        let value = blank(value_bytes, job.seed);
        let command = |channel: usize| {
            let name = format!("{CHANNEL}{channel}");
            resp::command(&[setting.publish().as_bytes(), name.as_bytes(), &value])
        };
        Channels {
            job,
            setting,
            target: &job.nodes[0].target,
            commands: (0..setting.channels).map(command).collect(),
            value_bytes: value.len(),
            subscribers: (0..setting.channels).map(|at| setting.subscribers(at, job.clients)).collect(),
            publishing: AtomicUsize::new(job.threads),
        }
    }
}

/// The stamp of a message, and its place among the publishers on the channels of a subscriber; none when another
/// program has sent it.
pub fn locate(setting: &Setting, first: usize, channel: &[u8], value: &[u8]) -> Option<(Stamp, usize)> {
    let number: usize = std::str::from_utf8(channel.strip_prefix(CHANNEL.as_bytes())?).ok()?.parse().ok()?;
    let stamp = Stamp::read(value)?;
    let at = (number + setting.channels - first) % setting.channels;
    let is_ours = number < setting.channels && at < setting.channels_of_subscriber();
    let sender =
        usize::try_from(stamp.sender).ok().filter(|sender| is_ours && *sender < setting.publishers)?;
    Some((stamp, at * setting.publishers + sender))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_another_program_has_no_place() {
        let setting = Setting { publishers: 2, channels: 3, channels_each: 2, ..Setting::default() };
        let mut value = [0; 20];
        Stamp { sent_at: 1, sequence: 5, sender: 1 }.write(&mut value);
        let at = |channel: &[u8], value: &[u8]| locate(&setting, 2, channel, value).map(|(_, at)| at);
        assert_eq!((at(b"speedbench:2", &value), at(b"speedbench:0", &value)), (Some(1), Some(3)));
        assert_eq!((at(b"speedbench:1", &value), at(b"speedbench:5", &value)), (None, None));
        assert_eq!((at(b"news", &value), at(b"speedbench:2", b"hello")), (None, None));
    }
}
