//! The subscribers and publishers of one thread.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::parallel::{CHECK_EVERY_NS, stopped};
use crate::pubsub::channels::Channels;
use crate::pubsub::counts::Counts;
use crate::pubsub::publisher::Publisher;
use crate::pubsub::subscriber::Subscriber;
use engine::meter::Meter;
use engine::record::Record;
use engine::resources;
use engine::stage::Span;
use machine::clock;
use machine::epoll::Epoll;
use text::failure::{Failure, machine_failure};
use text::units::NS_PER_MS;

pub struct ThreadClients<'a> {
    channels: &'a Channels<'a>,
    epoll: Epoll,
    subscribers: Vec<Subscriber>,
    publishers: Vec<Publisher>,
    counts: Counts,
    /// Whether its publishers have nothing more to send.
    has_published: bool,
}

impl<'a> ThreadClients<'a> {
    pub fn open(channels: &'a Channels<'a>, thread: usize) -> Result<ThreadClients<'a>, Failure> {
        let Channels { job, setting, .. } = channels;
        let epoll = Epoll::new(1024).map_err(machine_failure)?;
        let mut subscribers = Vec::new();
        for index in (thread..job.clients).step_by(job.threads) {
            subscribers.push(Subscriber::open(channels, index, &epoll, subscribers.len())?);
        }
        let mut publishers = Vec::new();
        for index in (thread..setting.publishers).step_by(job.threads) {
            let token = subscribers.len() + publishers.len();
            publishers.push(Publisher::open(channels, index, &epoll, token)?);
        }
        let counts = Counts::default();
        Ok(ThreadClients { channels, epoll, subscribers, publishers, counts, has_published: false })
    }

    /// Wait until all subscriptions are confirmed.
    pub fn await_confirmations(&mut self) -> Result<(), Failure> {
        let deadline = clock::now() + self.channels.job.timeout_ns();
        let expected = self.channels.setting.confirmations();
        while let Some(missing) = self.subscribers.iter().find(|it| it.confirmed < expected) {
            let left = deadline.saturating_sub(clock::now());
            if left == 0 {
                return Err(missing.connection.silent(self.channels.target));
            }
            let ready = self.epoll.wait(left.div_ceil(NS_PER_MS) as libc::c_int).map_err(machine_failure)?;
            for event in 0..ready {
                self.handle_ready(self.epoll.ready(event).token, None)?;
            }
        }
        Ok(())
    }

    pub fn run(mut self, span: &Span, failed: &AtomicBool) -> Result<(Record, Counts), Failure> {
        let job = self.channels.job;
        let mut meter = Meter::new(*span, job.slice_ns, job.server_pid);
        let mut check_at = clock::now() + CHECK_EVERY_NS;
        self.publishers.iter_mut().for_each(|publisher| publisher.begin(self.channels, span));
        while self.subscribers.iter().any(|subscriber| !subscriber.has_ponged) || !self.has_published {
            let now = clock::now();
            meter.advance(now)?;
            self.publish(now, span)?;
            if now >= check_at {
                check_at = now + CHECK_EVERY_NS;
                self.check_progress(now, failed)?;
            }
            let due = self.publishers.iter().map(|it| it.next_due(now, span)).min().unwrap_or(u64::MAX);
            let until = meter.edge().min(check_at).min(due).saturating_sub(now);
            for event in 0..self.epoll.wait_ns(until).map_err(machine_failure)? {
                self.handle_ready(self.epoll.ready(event).token, Some(&mut meter))?;
            }
        }
        Ok((meter.finish(clock::now())?, self.counts))
    }

    /// Send what may be sent now; once no thread has more to send, ping the subscribers.
    fn publish(&mut self, now: u64, span: &Span) -> Result<(), Failure> {
        if self.has_published {
            return self.ping_subscribers();
        }
        let mut has_published = true;
        for publisher in &mut self.publishers {
            while let Some(sent_at) = publisher.send_time(now, span, self.channels.job.pipeline) {
                self.counts.expected += self.channels.subscribers[publisher.channel];
                self.counts.published += u64::from((span.counts_from..span.ends_at).contains(&now));
                publisher.send(sent_at, self.channels, &self.epoll)?;
            }
            has_published &= publisher.unanswered == 0 && !publisher.may_send(now, span);
        }
        if has_published {
            self.has_published = true;
            self.channels.publishing.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(())
    }

    fn ping_subscribers(&mut self) -> Result<(), Failure> {
        if self.channels.publishing.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        let epoll = &self.epoll;
        self.subscribers.iter_mut().filter(|it| !it.is_pinged).try_for_each(|it| it.ping(epoll))
    }

    /// The socket `token` is ready. Without a meter there are no messages yet.
    fn handle_ready(&mut self, token: usize, meter: Option<&mut Meter>) -> Result<(), Failure> {
        match token.checked_sub(self.subscribers.len()) {
            None => self.subscribers[token].receive(self.channels, &self.epoll, &mut self.counts, meter),
            Some(publisher) => self.publishers[publisher].receive(&self.epoll),
        }
    }

    /// Give up when another thread has failed, or when an awaited answer does not come.
    fn check_progress(&mut self, now: u64, failed: &AtomicBool) -> Result<(), Failure> {
        resources::check_signals()?;
        if failed.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        let target = self.channels.target;
        let publishers = self.publishers.iter_mut().filter(|it| it.unanswered > 0);
        let subscribers = self.subscribers.iter_mut().filter(|it| it.is_pinged && !it.has_ponged);
        let awaited = publishers.map(|it| &mut it.connection).chain(subscribers.map(|it| &mut it.connection));
        match awaited.into_iter().find_map(|it| it.is_silent(now, target).then_some(it)) {
            Some(connection) => Err(connection.silent(target)),
            None => Ok(()),
        }
    }
}
