//! One publisher.

use crate::message_connection::MessageConnection;
use crate::pubsub::channels::Channels;
use crate::stamp::Stamp;
use crate::timing::{due, schedule};
use engine::schedule::Schedule;
use engine::stage::Span;
use machine::clock;
use machine::epoll::Epoll;
use text::failure::Failure;

pub struct Publisher {
    pub connection: MessageConnection,
    index: usize,
    quota: u64,
    schedule: Option<Schedule>,
    /// The next channel, and the number of the next message on each.
    pub channel: usize,
    next: Vec<u64>,
    pub unanswered: usize,
}

impl Publisher {
    /// Publisher number `index`, which `epoll` knows as `token`.
    pub fn open(
        channels: &Channels,
        index: usize,
        epoll: &Epoll,
        token: usize,
    ) -> Result<Publisher, Failure> {
        let count = channels.setting.channels;
        Ok(Publisher {
            connection: MessageConnection::open(channels.target, format!("publisher {index}"), epoll, token)?,
            index,
            quota: 0,
            schedule: None,
            channel: index % count,
            next: vec![0; count],
            unanswered: 0,
        })
    }

    /// Take the share of this publisher of what is sent in `span`.
    pub fn begin(&mut self, channels: &Channels, span: &Span) {
        let publishers = channels.setting.publishers;
        self.quota = span.quota(self.index, publishers, 1);
        self.schedule = channels.setting.rate.map(|rate| schedule(rate, self.index, publishers, span));
    }

    /// Whether it may still send at `now`.
    pub fn may_send(&self, now: u64, span: &Span) -> bool {
        span.allowance(now, self.quota, 1) > 0
    }

    /// When its schedule has it send next; `u64::MAX` when nothing is left or there is no schedule.
    pub fn next_due(&self, now: u64, span: &Span) -> u64 {
        self.schedule.as_ref().filter(|_| self.may_send(now, span)).map_or(u64::MAX, Schedule::due)
    }

    /// The time to stamp if it may send now: when it was due, or the present.
    pub fn send_time(&mut self, now: u64, span: &Span, pipeline: usize) -> Option<u64> {
        if !self.may_send(now, span) {
            return None;
        }
        match &mut self.schedule {
            Some(schedule) => due(schedule, now),
            None => (self.unanswered < pipeline).then(clock::now),
        }
    }

    pub fn send(&mut self, sent_at: u64, channels: &Channels, epoll: &Epoll) -> Result<(), Failure> {
        let mut command = channels.commands[self.channel].clone();
        let value = command.len() - 2 - channels.value_bytes;
        let sequence = self.next[self.channel];
        Stamp { sent_at, sequence, sender: self.index as u32 }.write(&mut command[value..]);
        self.next[self.channel] += 1;
        self.channel = (self.channel + 1) % self.next.len();
        self.quota -= 1;
        self.unanswered += 1;
        self.connection.send(&command, epoll)
    }

    /// Take the answers that are there.
    pub fn receive(&mut self, epoll: &Epoll) -> Result<(), Failure> {
        let Publisher { connection, unanswered, .. } = self;
        connection.flush(epoll)?;
        connection.receive(|name, message, _| {
            if message.kind != b':' || *unanswered == 0 {
                return Err(name.refused(message));
            }
            *unanswered -= 1;
            Ok(())
        })
    }
}
