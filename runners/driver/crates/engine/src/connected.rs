//! Connections that stay open between the spans of load, whatever their protocol.

use crate::record::Record;
use crate::stage::Span;
use crate::worker::Worker;
use protocol::replies::Protocol;
use text::failure::Failure;

/// The connections of one thread. Between two spans nothing is in flight on them.
pub trait Connected {
    /// Drive them through `span` until nothing is in flight and its time is over.
    fn drive(&mut self, span: &Span) -> Result<Record, Failure>;
}

impl<P: Protocol> Connected for Worker<'_, P> {
    fn drive(&mut self, span: &Span) -> Result<Record, Failure> {
        let record = self.run(span);
        record.cut.map_or(Ok(Record { cut: None, ..record }), |cut| Err(cut.failure))
    }
}
