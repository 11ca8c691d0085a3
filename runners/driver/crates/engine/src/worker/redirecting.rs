//! Requests that a node of a cluster redirects are sent where its replies say, over blocking connections.

use std::collections::HashMap;
use std::time::Duration;

use crate::recovery::Redirection;
use crate::worker::Worker;
use network::channel::Channel;
use network::target::{Address, Target};
use protocol::replies::{Protocol, Tally};

/// A node to which a request is redirected may take so long.
const REDIRECTED_WITHIN: Duration = Duration::from_secs(1);

/// The blocking connections, by address.
pub type Channels = HashMap<String, Channel>;

impl<P: Protocol> Worker<'_, P> {
    /// Send requests that were redirected where the replies say; what is answered there is no error.
    pub(super) fn follow(&mut self, token: usize, tally: &mut Tally) {
        let (index, connection) = &mut self.connections[token];
        let from = &self.troubles.addresses[token];
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
            match ask(&mut self.troubles.redirected, target, &to, request) {
                Some(reply) if !reply.starts_with(b"-") => {
                    tally.errors -= 1;
                    tally.nulls += u64::from(reply.starts_with(b"$-1") || reply.starts_with(b"_"));
                    self.troubles.losses.redirected += 1;
                }
                Some(_) => {}
                None => failed = Some(to.address),
            }
        }
        if tally.errors == 0 {
            tally.first_error = None;
        }
    }
}

/// What the node of `to` answers to `request`; none when it does not. Connections are kept in `channels`.
fn ask(channels: &mut Channels, target: &Target, to: &Redirection, request: &[u8]) -> Option<Vec<u8>> {
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
