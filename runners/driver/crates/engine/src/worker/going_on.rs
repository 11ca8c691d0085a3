//! Going on when a connection is lost or refused: it pauses, is opened again where its node is now, and is on trial until
//! its first good reply. All of this is beside the hot path: events of troubled connections have tokens of their own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::connection::ConnectionError;
use crate::meter::Meter;
use crate::node::Node;
use crate::recovery::{Losses, Recovery, Redirection, is_passing};
use crate::stage::Span;
use crate::turn_queue::TurnQueue;
use crate::worker::{DRAIN_PART, Worker, count};
use machine::clock;
use machine::epoll::Ready;
use machine::socket::Interest;
use network::channel::Channel;
use network::opening::Opening;
use network::target::{Address, Target};
use protocol::replies::{Protocol, Tally};
use text::failure::{Failure, machine_failure};

/// Events of connections in trouble have tokens from here on.
pub const TROUBLED: usize = 1 << 32;
/// A node to which a request is redirected may take so long.
const REDIRECTED_WITHIN: Duration = Duration::from_secs(1);

/// A connection that was lost or refused and has had no good reply since.
struct Trouble {
    since: u64,
    /// Pauses so far, and attempts to open it that failed in a row.
    pauses: u32,
    failed: u32,
    /// When the pause or the attempt ends.
    at: u64,
    /// Whether it is one of those that the loop waits for.
    is_busy: bool,
    /// Whether its channel can still be used.
    is_open: bool,
    state: State,
}

enum State {
    Pausing,
    Opening(Box<Opening>),
    OnTrial,
}

/// What a thread keeps of connections in trouble.
pub struct GoingOn {
    troubles: HashMap<usize, Trouble>,
    retries: TurnQueue,
    losses: Losses,
    /// Where each connection leads; empty when a loss ends the run.
    addresses: Vec<Address>,
    /// The nodes as this thread knows them.
    nodes: Arc<[Node]>,
    version: u64,
    /// Blocking connections for redirected requests.
    redirected: HashMap<String, Channel>,
    /// The begin of the window.
    counts_from: u64,
}

impl GoingOn {
    pub fn new(nodes: &[Node], addresses: Vec<Address>) -> GoingOn {
        GoingOn {
            troubles: HashMap::new(),
            retries: TurnQueue::default(),
            losses: Losses::default(),
            addresses,
            nodes: nodes.into(),
            version: 0,
            redirected: HashMap::new(),
            counts_from: 0,
        }
    }

    pub fn begin(&mut self, span: &Span) {
        self.counts_from = span.counts_from;
        self.losses = Losses::default();
        // A trouble that lasts is one of the new span, too.
        self.troubles.values_mut().for_each(|trouble| trouble.since = trouble.since.max(span.begins_at));
    }

    /// The node of connection `index`.
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index % self.nodes.len()]
    }

    pub fn is_troubled(&self) -> bool {
        !self.troubles.is_empty() || !self.addresses.is_empty()
    }

    /// The token of the events of connection `token`.
    pub fn event_token(&self, token: usize) -> usize {
        if self.troubles.contains_key(&token) { token + TROUBLED } else { token }
    }

    fn count_errors(&mut self, now: u64, errors: u64) {
        if now >= self.counts_from {
            self.losses.count_errors(now - self.counts_from, errors);
        }
    }
}

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
        if now >= self.going_on.counts_from {
            self.going_on.losses.lost += lost;
            self.going_on.losses.broken += 1;
        }
        self.going_on.count_errors(now, lost);
        self.queue.retain(|queued| *queued != token);
        self.pause(token, now, recovery);
        let trouble = self.trouble(token, now)?;
        trouble.is_open = false;
        trouble.is_busy |= is_busy;
        self.shared.topology.want();
        Ok(())
    }

    /// The trouble of a connection, which begins now if there was none.
    fn trouble(&mut self, token: usize, now: u64) -> Result<&mut Trouble, Failure> {
        if !self.going_on.troubles.contains_key(&token) {
            self.epoll
                .change(self.connections[token].1.socket(), token + TROUBLED, Interest::Replies)
                .map_err(machine_failure)?;
        }
        Ok(self.going_on.troubles.entry(token).or_insert(Trouble {
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
    fn pause(&mut self, token: usize, now: u64, recovery: Recovery) {
        // An event of the socket cannot be asked for twice: what is wrong with it shows when it is used again.
        let Ok(trouble) = self.trouble(token, now) else { return };
        trouble.at = now + recovery.pause_ns(trouble.pauses);
        trouble.pauses += 1;
        trouble.state = State::Pausing;
        let at = trouble.at;
        self.connections[token].1.suspend();
        self.schedule(at, token);
    }

    fn schedule(&mut self, at: u64, token: usize) {
        self.going_on.retries.put(at, token);
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
            self.going_on.count_errors(now, tally.errors);
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

    /// Send requests that were redirected where the replies say; what is answered there is no error.
    fn follow(&mut self, token: usize, tally: &mut Tally) {
        let (index, connection) = &mut self.connections[token];
        let from = &self.going_on.addresses[token];
        let redirections = connection.take_redirections();
        if self.job.script.unit() > 1 {
            return;
        }
        let mut failed: Option<Address> = None;
        for (at, text) in redirections {
            if text.starts_with("MOVED") {
                self.shared.topology.want();
            }
            let Some(to) = Redirection::parse(&text, from).filter(|to| failed.as_ref() != Some(&to.address))
            else {
                continue;
            };
            let Some(request) = connection.request(at, tally.replies) else { continue };
            let target = &self.job.node(*index).target;
            match ask(&mut self.going_on.redirected, target, &to, request) {
                Some(reply) if !reply.starts_with(b"-") => {
                    tally.errors -= 1;
                    tally.nulls += u64::from(reply.starts_with(b"$-1") || reply.starts_with(b"_"));
                    self.going_on.losses.redirected += 1;
                }
                Some(_) => {}
                None => failed = Some(to.address),
            }
        }
        if tally.errors == 0 {
            tally.first_error = None;
        }
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
        match self.going_on.troubles.get(&token).map(|trouble| &trouble.state) {
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
        let Some(trouble) = self.going_on.troubles.remove(&token) else { return Ok(()) };
        if now >= self.going_on.counts_from {
            self.going_on.losses.outages.push((trouble.since, now));
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
        self.learn_nodes();
        while let Some(token) = self.going_on.retries.take(now) {
            let Some(trouble) = self.going_on.troubles.get(&token).filter(|it| it.at <= now) else {
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
            for trouble in self.going_on.troubles.values_mut() {
                if !matches!(trouble.state, State::OnTrial) {
                    self.busy -= usize::from(std::mem::take(&mut trouble.is_busy));
                }
            }
        }
        self.check_at = self.check_at.min(self.going_on.retries.next_at()).min(over.max(now + 1_000_000));
        Ok(())
    }

    /// Take over what is known of the cluster: the slots of the nodes, and which connections lead elsewhere.
    fn learn_nodes(&mut self) {
        let version = self.shared.topology.version();
        if version == self.going_on.version {
            return;
        }
        (self.going_on.version, self.going_on.nodes) = (version, self.shared.topology.nodes());
        for token in 0..self.connections.len() {
            let node = self.home(token).clone();
            let (_, connection) = &mut self.connections[token];
            match node.target.address == self.going_on.addresses[token] {
                true => connection.set_tags(node.tags),
                false => connection.retire(),
            }
        }
    }

    fn home(&self, token: usize) -> &Node {
        self.going_on.node(self.connections[token].0)
    }

    /// Whether the connection cannot be used now.
    pub(super) fn is_pausing(&self, token: usize) -> bool {
        let trouble = self.going_on.troubles.get(&token);
        trouble.is_some_and(|trouble| !matches!(trouble.state, State::OnTrial))
    }

    /// The loop waits for the connection, which cannot be used now.
    pub(super) fn wait_for(&mut self, token: usize) {
        if let Some(trouble) = self.going_on.troubles.get_mut(&token) {
            trouble.is_busy = true;
        }
    }

    /// What was counted until `now`. A trouble ends with its span when its connection is open and nothing was to be sent;
    /// else its outage has no end.
    pub(super) fn end_losses(&mut self, now: u64) -> Losses {
        for (token, trouble) in &self.going_on.troubles {
            let is_well = matches!(trouble.state, State::OnTrial) && self.connections[*token].1.is_idle();
            let end = if is_well { now } else { u64::MAX };
            self.going_on.losses.outages.push((trouble.since, end));
        }
        std::mem::take(&mut self.going_on.losses)
    }

    fn try_again(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        let (job, node) = (self.job, self.home(token).clone());
        let is_there = node.target.address == self.going_on.addresses[token];
        let Some(trouble) = self.going_on.troubles.get_mut(&token) else { return Ok(()) };
        if trouble.is_open && is_there {
            trouble.state = State::OnTrial;
            let socket = self.connections[token].1.socket();
            self.epoll.change(socket, token + TROUBLED, Interest::Replies).map_err(machine_failure)?;
            return self.resume(token, span);
        }
        let peer = node.target.peers().ok().and_then(|peers| peers.into_iter().next());
        let opening = match peer {
            Some(peer) => Opening::begin(&node.target, &peer),
            None => Err(node.target.unreachable(&std::io::ErrorKind::AddrNotAvailable.into())),
        };
        let opening = match opening {
            Ok(opening) => opening,
            Err(failure) => return self.fail_attempt(token, failure),
        };
        let added = self.epoll.add_for(opening.socket(), token + TROUBLED, opening.interest());
        added.map_err(machine_failure)?;
        let timeout = job.recovery.map_or(Duration::ZERO, |recovery| recovery.connect_timeout);
        trouble.at = clock::now() + timeout.as_nanos() as u64;
        trouble.state = State::Opening(Box::new(opening));
        let at = trouble.at;
        self.going_on.addresses[token] = node.target.address.clone();
        self.schedule(at, token);
        self.advance_opening(token, span)
    }

    fn advance_opening(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        let target = self.home(token).target.clone();
        let Some(Trouble { state: State::Opening(opening), .. }) = self.going_on.troubles.get_mut(&token)
        else {
            return Ok(());
        };
        match opening.advance(&target) {
            Err(failure) => self.fail_attempt(token, failure),
            Ok(()) if opening.is_open() => self.reopen(token, span),
            Ok(()) => {
                let (socket, interest) = (opening.socket(), opening.interest());
                self.epoll.change(socket, token + TROUBLED, interest).map_err(machine_failure)
            }
        }
    }

    /// The connection is open again: it goes on over the new channel.
    fn reopen(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        let tags = self.home(token).tags.clone();
        let Some(trouble) = self.going_on.troubles.get_mut(&token) else { return Ok(()) };
        let State::Opening(opening) = std::mem::replace(&mut trouble.state, State::OnTrial) else {
            return Ok(());
        };
        (trouble.failed, trouble.is_open) = (0, true);
        let (channel, _) = opening.into_channel();
        self.epoll.change(channel.socket(), token + TROUBLED, Interest::Replies).map_err(machine_failure)?;
        let (_, connection) = &mut self.connections[token];
        connection.renew(channel);
        connection.set_tags(tags);
        self.going_on.losses.reconnects += 1;
        self.resume(token, span)
    }

    fn resume(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        let Some(trouble) = self.going_on.troubles.get_mut(&token) else { return Ok(()) };
        self.busy += usize::from(!std::mem::take(&mut trouble.is_busy));
        let (_, connection) = &mut self.connections[token];
        connection.resume();
        let has_turn = connection.has_turn;
        match has_turn {
            true => Ok(()),
            false => self.send_next(token, span, clock::now()),
        }
    }

    fn fail_attempt(&mut self, token: usize, failure: Failure) -> Result<(), Failure> {
        let Some(recovery) = self.job.recovery.filter(|_| !matches!(failure, Failure::Machine(_))) else {
            return Err(failure);
        };
        let now = clock::now();
        let trouble = self.trouble(token, now)?;
        trouble.failed += 1;
        if recovery.attempts.is_some_and(|most| trouble.failed >= most) {
            let attempts = trouble.failed;
            return Err(
                failure.within(format!("a connection was lost, and not opened again (attempts: {attempts})"))
            );
        }
        self.pause(token, now, recovery);
        self.shared.topology.want();
        Ok(())
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

/// What the node of `to` answers to `request`; none when it does not. Connections are kept in `channels`.
fn ask(
    channels: &mut HashMap<String, Channel>,
    target: &Target,
    to: &Redirection,
    request: &[u8],
) -> Option<Vec<u8>> {
    let timeout = target.timeout.min(REDIRECTED_WITHIN);
    let target = Target { address: to.address.clone(), timeout, ..target.clone() };
    let name = to.address.to_string();
    let mut channel = match channels.remove(&name) {
        Some(channel) => channel,
        None => target.connect().ok()?,
    };
    if to.asking {
        target.ask_raw(&mut channel, b"*1\r\n$6\r\nASKING\r\n").ok()?;
    }
    let reply = target.ask_raw(&mut channel, request).ok()?;
    channels.insert(name, channel);
    Some(reply)
}
