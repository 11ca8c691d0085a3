//! What a thread tells of its progress, some times a second.

use crate::progress::Progress;
use crate::record::Record;
use crate::scoreboard::Score;
use crate::stage::Span;
use crate::worker::Worker;
use machine::clock;
use protocol::replies::Protocol;

impl<P: Protocol> Worker<'_, P> {
    #[cold]
    pub(super) fn publish(&self, span: &Span, record: &Record) {
        let (replies, latency_ns) = (record.inside.replies, record.latency.sum());
        let bytes = self.connections.iter().map(|(_, connection)| connection.bytes_moved()).sum();
        self.shared.publish(self.thread, Progress { replies, latency_ns, bytes });
        if let Some(scoreboard) = &self.job.scoreboard {
            scoreboard.publish(self.thread, span, |score| self.write(score, bytes, span, record));
        }
    }

    /// Note what was counted until now, without an allocation after the first time.
    fn write(&self, score: &mut Score, bytes: u64, span: &Span, record: &Record) {
        let losses = &self.troubles.losses;
        score.at = clock::now();
        score.replies = record.inside.replies;
        score.errors = record.inside.errors + losses.lost;
        score.bytes = bytes;
        score.connections = self.sending_connections(span);
        score.reconnects = losses.reconnects;
        score.latency.clone_from(&record.latency);
        score.commands.resize_with(record.commands.len(), Default::default);
        for (copy, command) in score.commands.iter_mut().zip(&record.commands) {
            copy.clone_from(&command.latency);
        }
    }

    /// Those that are open, or that send, while their number changes.
    fn sending_connections(&self, span: &Span) -> u64 {
        if span.clients.is_some() {
            return self.connections.iter().filter(|(_, connection)| connection.quota > 0).count() as u64;
        }
        let closed = self.troubles.by_token.values().filter(|trouble| !trouble.is_open).count();
        (self.connections.len() - closed) as u64
    }
}
