//! One subscriber.

use crate::message_connection::MessageConnection;
use crate::pubsub::channels::{Channels, locate};
use crate::pubsub::counts::Counts;
use crate::pubsub::settings::Subscribe;
use engine::connection::SendTimes;
use engine::meter::Meter;
use machine::epoll::Epoll;
use protocol::replies::Tally;
use protocol::resp;
use text::failure::Failure;

pub struct Subscriber {
    pub connection: MessageConnection,
    /// The first of its channels.
    first: usize,
    /// Subscriptions that the server has confirmed.
    pub confirmed: usize,
    /// The number of the next message of each publisher on each of its channels.
    next: Vec<u64>,
    pub is_pinged: bool,
    pub has_ponged: bool,
}

impl Subscriber {
    /// Subscriber number `index`, which `epoll` knows as `token` and which has sent its subscription.
    pub fn open(
        channels: &Channels,
        index: usize,
        epoll: &Epoll,
        token: usize,
    ) -> Result<Subscriber, Failure> {
        let setting = channels.setting;
        let mut connection =
            MessageConnection::open(channels.target, format!("subscriber {index}"), epoll, token)?;
        connection.send(&setting.request(index), epoll)?;
        let first = match setting.subscribe {
            Subscribe::Patterns => 0,
            Subscribe::Channels | Subscribe::Shards => index % setting.channels,
        };
        let next = vec![0; setting.channels_of_subscriber() * setting.publishers];
        Ok(Subscriber { connection, first, confirmed: 0, next, is_pinged: false, has_ponged: false })
    }

    /// Ask for the PONG that comes after all messages.
    pub fn ping(&mut self, epoll: &Epoll) -> Result<(), Failure> {
        self.is_pinged = true;
        self.connection.send(&resp::command(&["PING"]), epoll)
    }

    /// Take what is there. Without a meter there are no messages yet.
    pub fn receive(
        &mut self,
        channels: &Channels,
        epoll: &Epoll,
        counts: &mut Counts,
        mut meter: Option<&mut Meter>,
    ) -> Result<(), Failure> {
        let Subscriber { connection, first, confirmed, next, has_ponged, .. } = self;
        connection.flush(epoll)?;
        connection.receive(|name, message, now| {
            let is_push = matches!(message.kind, b'*' | b'>');
            let (channel, value) = match message.word(0) {
                // RESP3 answers PING with a line.
                b"pong" | b"PONG" => {
                    *has_ponged = true;
                    return Ok(());
                }
                _ if !is_push => return Err(name.refused(message)),
                b"message" | b"smessage" => (message.word(1), message.word(2)),
                b"pmessage" => (message.word(2), message.word(3)),
                b"subscribe" | b"psubscribe" | b"ssubscribe" => {
                    *confirmed += 1;
                    return Ok(());
                }
                _ => return Err(name.refused(message)),
            };
            let (stamp, place) =
                locate(channels.setting, *first, channel, value).ok_or_else(|| name.foreign())?;
            let next = &mut next[place];
            if stamp.sequence < *next {
                counts.duplicates += 1;
                return Ok(());
            }
            *next = stamp.sequence + 1;
            counts.delivered += 1;
            let one = Tally { replies: 1, ..Tally::default() };
            meter.as_mut().map_or(Ok(()), |meter| meter.count(now, SendTimes::at(stamp.sent_at), one))
        })
    }
}
