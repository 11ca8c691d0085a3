//! Going on when a connection is lost or refused: it pauses, is opened again where its node is now, and is on trial until
//! its first good reply. All of this is beside the hot path: events of troubled connections have tokens of their own.

use std::time::Duration;

use crate::connection::ConnectionError;
use crate::meter::Meter;
use crate::node::Node;
use crate::recovery::{Losses, Recovery, is_passing};
use crate::stage::Span;
use crate::topology::LOOK_EVERY;
use crate::worker::counting::count;
use crate::worker::trouble::{State, TROUBLED, Trouble};
use crate::worker::{DRAIN_PART, Worker};
use machine::clock;
use machine::epoll::Ready;
use machine::socket::Interest;
use protocol::replies::{Protocol, Tally};
use text::failure::{Failure, machine_failure};

impl<P: Protocol> Worker<'_, P> {
    /// The connection cannot be used any more: the run ends, or it is opened again after a pause.
    #[cold]
    pub(super) fn lose(&mut self, token: usize, broken: ConnectionError) -> Result<(), Failure> {
        let Some(recovery) = self.job.recovery else { return Err(self.failure_of(token, broken)) };
        if let ConnectionError::ProtocolError(_) = broken {
            return Err(self.failure_of(token, broken));
        }
        let now = clock::now();
        let (_, connection) = &mut self.connections[token];
        let is_busy = !connection.is_idle() || connection.has_turn || self.queue.contains(&token);
        let lost = connection.lose();
        if now >= self.troubles.counts_from {
            self.troubles.losses.lost += lost;
            self.troubles.losses.broken += 1;
        }
        self.troubles.count_errors(now, lost);
        self.queue.retain(|queued| *queued != token);
        self.pause(token, now, recovery);
        let trouble = self.trouble(token, now)?;
        trouble.is_open = false;
        trouble.is_busy |= is_busy;
        self.shared.topology.want();
        Ok(())
    }

    /// The trouble of a connection, which begins now if there was none.
    pub(super) fn trouble(&mut self, token: usize, now: u64) -> Result<&mut Trouble, Failure> {
        if !self.troubles.by_token.contains_key(&token) {
            self.epoll
                .change(self.connections[token].1.socket(), token + TROUBLED, Interest::Replies)
                .map_err(machine_failure)?;
        }
        Ok(self.troubles.by_token.entry(token).or_insert(Trouble {
            since: now,
            pauses: 0,
            failed: 0,
            at: 0,
            is_busy: false,
            is_open: true,
            state: State::OnTrial,
        }))
    }

    /// Send nothing more on the connection for a while.
    pub(super) fn pause(&mut self, token: usize, now: u64, recovery: Recovery) {
        // An event of the socket cannot be asked for twice: what is wrong with it shows when it is used again.
        let Ok(trouble) = self.trouble(token, now) else { return };
        trouble.at = now + recovery.pause_ns(trouble.pauses);
        trouble.pauses += 1;
        trouble.state = State::Pausing;
        let at = trouble.at;
        self.connections[token].1.suspend();
        self.schedule(at, token);
    }

    pub(super) fn schedule(&mut self, at: u64, token: usize) {
        self.troubles.retries.put(at, token);
        self.check_at = self.check_at.min(at);
    }

    /// Error replies: they end the run, or are counted, or pass.
    #[cold]
    pub(super) fn take_errors(
        &mut self,
        token: usize,
        span: &Span,
        meter: &mut Meter,
        mut tally: Tally,
    ) -> Result<(), Failure> {
        let text = tally.first_error.as_deref().unwrap_or_default();
        let Some(recovery) = self.job.recovery.filter(|_| is_passing(text)) else {
            self.job.check_errors(&tally, P::ERROR_MARK)?;
            let now = clock::now();
            count(meter, &mut self.connections[token].1, now, tally)?;
            return self.send_next(token, span, now);
        };
        self.follow(token, &mut tally);
        let now = clock::now();
        let is_refused = tally.replies > 0 && tally.errors == tally.replies;
        if tally.errors > 0 {
            self.troubles.count_errors(now, tally.errors);
            self.shared.topology.want();
            self.trouble(token, now)?;
        }
        let (_, connection) = &mut self.connections[token];
        match is_refused {
            true => meter.while_refused(now, |meter| count(meter, connection, now, tally))?,
            false => count(meter, connection, now, tally)?,
        }
        if !is_refused {
            return self.send_next(token, span, now);
        }
        if connection.is_idle() {
            self.pause(token, now, recovery);
            self.trouble(token, now)?.is_busy = true;
        }
        Ok(())
    }

    /// An event of a connection in trouble.
    #[cold]
    pub(super) fn handle_troubled(
        &mut self,
        ready: Ready,
        span: &Span,
        meter: &mut Meter,
    ) -> Result<(), Failure> {
        let token = ready.token - TROUBLED;
        let ready = Ready { token, ..ready };
        match self.troubles.by_token.get(&token).map(|trouble| &trouble.state) {
            Some(State::Opening(_)) => self.advance_opening(token, span),
            Some(State::OnTrial) => {
                if ready.room {
                    self.flush(token, span)?;
                }
                self.receive::<true>(ready, span, meter)
            }
            Some(State::Pausing) | None => Ok(()),
        }
    }

    /// The first good reply after a trouble.
    #[cold]
    pub(super) fn recover(&mut self, token: usize, now: u64) -> Result<(), Failure> {
        let Some(trouble) = self.troubles.by_token.remove(&token) else { return Ok(()) };
        if now >= self.troubles.counts_from {
            self.troubles.losses.outages.push((trouble.since, now));
        }
        let interest = match self.connections[token].1.has_unsent() {
            true => Interest::RepliesAndRoom,
            false => Interest::Replies,
        };
        self.await_room(token, interest)
    }

    /// Go on with connections whose pause is over, and stop waiting for those in trouble when the span is over.
    #[cold]
    pub(super) fn go_on(&mut self, span: &Span, now: u64) -> Result<(), Failure> {
        self.learn_nodes(now);
        while let Some(token) = self.troubles.retries.take(now) {
            let Some(trouble) = self.troubles.by_token.get(&token).filter(|it| it.at <= now) else {
                continue;
            };
            match &trouble.state {
                State::Pausing => self.try_again(token, span)?,
                State::Opening(opening) => {
                    let failure = opening.timeout_failure(&self.home(token).target);
                    self.fail_attempt(token, failure)?;
                }
                State::OnTrial => {}
            }
        }
        let over = match span.arrivals {
            None => span.ends_at,
            Some(_) => span.ends_at.saturating_add(self.job.timeout_ns() / DRAIN_PART),
        };
        if now >= over {
            for trouble in self.troubles.by_token.values_mut() {
                if !matches!(trouble.state, State::OnTrial) {
                    self.busy -= usize::from(std::mem::take(&mut trouble.is_busy));
                }
            }
        }
        self.check_at = self.check_at.min(self.troubles.retries.next_at()).min(over.max(now + 1_000_000));
        if self.has_lost_node() {
            self.shared.topology.want();
            self.check_at = self.check_at.min(now + LOOK_EVERY.as_nanos() as u64);
        }
        Ok(())
    }

    /// Whether a connection of a cluster waits for its node, whose slots another one may take over.
    fn has_lost_node(&self) -> bool {
        let waits = |trouble: &Trouble| matches!(trouble.state, State::Pausing | State::Opening(_));
        self.troubles.nodes.len() > 1 && self.troubles.by_token.values().any(waits)
    }

    /// Take over what is known of the cluster: the slots of the nodes, and which connections lead elsewhere. Those that wait
    /// for the node that was there are opened at once.
    fn learn_nodes(&mut self, now: u64) {
        let version = self.shared.topology.version();
        if version == self.troubles.version {
            return;
        }
        (self.troubles.version, self.troubles.nodes) = (version, self.shared.topology.nodes());
        for token in 0..self.connections.len() {
            let node = self.home(token).clone();
            let (_, connection) = &mut self.connections[token];
            if node.target.address == self.troubles.addresses[token] {
                connection.set_tags(node.tags);
                continue;
            }
            connection.retire();
            if let Some(trouble) = self.troubles.by_token.get_mut(&token)
                && !matches!(trouble.state, State::OnTrial)
            {
                (trouble.state, trouble.pauses, trouble.at) = (State::Pausing, 0, now);
                self.troubles.retries.put(now, token);
            }
        }
    }

    pub(super) fn home(&self, token: usize) -> &Node {
        self.troubles.node(self.connections[token].0)
    }

    /// Whether the connection cannot be used now.
    pub(super) fn is_pausing(&self, token: usize) -> bool {
        let trouble = self.troubles.by_token.get(&token);
        trouble.is_some_and(|trouble| !matches!(trouble.state, State::OnTrial))
    }

    /// The loop waits for the connection, which cannot be used now.
    pub(super) fn wait_for(&mut self, token: usize) {
        if let Some(trouble) = self.troubles.by_token.get_mut(&token) {
            trouble.is_busy = true;
        }
    }

    /// What was counted until `now`. A trouble ends with its span when its connection is open and nothing was to be sent;
    /// else its outage has no end.
    pub(super) fn end_losses(&mut self, now: u64) -> Losses {
        for (token, trouble) in &self.troubles.by_token {
            let is_well = matches!(trouble.state, State::OnTrial) && self.connections[*token].1.is_idle();
            let end = if is_well { now } else { u64::MAX };
            self.troubles.losses.outages.push((trouble.since, end));
        }
        std::mem::take(&mut self.troubles.losses)
    }

    /// Connections that are silent for too long are lost.
    pub(super) fn lose_silent(&mut self, now: u64) -> Result<(), Failure> {
        let timeout_ns = self.job.timeout_ns();
        for token in 0..self.connections.len() {
            if self.connections[token].1.is_silent(now, timeout_ns) {
                self.lose(token, ConnectionError::Closed)?;
            }
        }
        Ok(())
    }

    /// Open a connection anew that leads to a node which is not its own any more.
    #[cold]
    pub(super) fn move_home(&mut self, token: usize) -> Result<(), Failure> {
        let Some(recovery) = self.job.recovery.filter(|_| self.connections[token].1.is_idle()) else {
            return Ok(());
        };
        let now = clock::now();
        self.pause(token, now, Recovery { pause: Duration::ZERO, ..recovery });
        let trouble = self.trouble(token, now)?;
        (trouble.is_busy, trouble.is_open, trouble.pauses) = (true, false, 0);
        Ok(())
    }
}
