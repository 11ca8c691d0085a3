//! Opening lost connections again.

use std::time::Duration;

use crate::connection::ConnectionError;
use crate::stage::Span;
use crate::worker::Worker;
use crate::worker::trouble::{State, TROUBLED, Trouble};
use machine::clock;
use machine::socket::Interest;
use network::opening::Opening;
use protocol::replies::Protocol;
use text::failure::{Failure, machine_failure};

impl<P: Protocol> Worker<'_, P> {
    /// Replace a connection that has sent enough; whether it can send now.
    #[cold]
    pub(super) fn replace(&mut self, token: usize) -> Result<bool, Failure> {
        let (index, connection) = &self.connections[token];
        if connection.is_retired() {
            return self.move_home(token).map(|()| false);
        }
        match (self.open(token, *index), self.job.recovery) {
            (Ok(channel), _) => self.connections[token].1.renew(channel),
            (Err(failure), Some(_)) if !matches!(failure, Failure::Machine(_)) => {
                return self.lose(token, ConnectionError::Closed).map(|()| false);
            }
            (Err(failure), _) => return Err(failure),
        }
        Ok(true)
    }

    pub(super) fn try_again(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        let (job, node) = (self.job, self.home(token).clone());
        let is_there = node.target.address == self.troubles.addresses[token];
        let Some(trouble) = self.troubles.by_token.get_mut(&token) else { return Ok(()) };
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
        self.troubles.addresses[token] = node.target.address.clone();
        self.schedule(at, token);
        self.advance_opening(token, span)
    }

    pub(super) fn advance_opening(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        let target = self.home(token).target.clone();
        let Some(Trouble { state: State::Opening(opening), .. }) = self.troubles.by_token.get_mut(&token)
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
        let Some(trouble) = self.troubles.by_token.get_mut(&token) else { return Ok(()) };
        let State::Opening(opening) = std::mem::replace(&mut trouble.state, State::OnTrial) else {
            return Ok(());
        };
        (trouble.failed, trouble.is_open) = (0, true);
        let (channel, _) = opening.into_channel();
        self.epoll.change(channel.socket(), token + TROUBLED, Interest::Replies).map_err(machine_failure)?;
        let (_, connection) = &mut self.connections[token];
        connection.renew(channel);
        connection.set_tags(tags);
        self.troubles.losses.reconnects += 1;
        self.resume(token, span)
    }

    pub(super) fn resume(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        let Some(trouble) = self.troubles.by_token.get_mut(&token) else { return Ok(()) };
        self.busy += usize::from(!std::mem::take(&mut trouble.is_busy));
        let (_, connection) = &mut self.connections[token];
        connection.resume();
        let has_turn = connection.has_turn;
        match has_turn {
            true => Ok(()),
            false => self.send_next(token, span, clock::now()),
        }
    }

    pub(super) fn fail_attempt(&mut self, token: usize, failure: Failure) -> Result<(), Failure> {
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
}
