//! More connections, or fewer, while the load lasts.

use crate::stage::Span;
use crate::worker::Worker;
use machine::clock;
use protocol::replies::Protocol;
use text::failure::Failure;

impl<P: Protocol> Worker<'_, P> {
    /// Open the connections of the next step, and let each send; or let more of those that are open send, or fewer.
    #[cold]
    pub(super) fn climb(&mut self, span: &Span) -> Result<(), Failure> {
        if let Some(clients) = &span.clients {
            return self.follow_ramp(clients, span, clock::now());
        }
        for (index, replies) in self.climb.take_step() {
            self.add(index, replies)?;
            let now = clock::now();
            self.begin_on(self.connections.len() - 1, span, (now, now))?;
        }
        Ok(())
    }
}
