//! Counting what was answered.

use crate::connection::Connection;
use crate::meter::Meter;
use protocol::replies::{Replies, Tally};
use text::failure::Failure;

/// Count `tally`, received at `now`: each reply with the moment at which its own request began. Inlined
/// although errors are counted by it, too: else each batch costs the call and a copy of its tally.
#[inline(always)]
pub(super) fn count<R: Replies>(
    meter: &mut Meter,
    connection: &mut Connection<R>,
    now: u64,
    tally: Tally,
) -> Result<(), Failure> {
    let mut left = tally.replies;
    let all = left;
    let missed = tally.misses + tally.nulls + tally.null_elements;
    let mut counted = tally;
    while left > 0 {
        let (answered, begin) = connection.answer_oldest(left);
        let part = Tally { replies: answered, ..std::mem::take(&mut counted) };
        meter.count(now, begin, part)?;
        if meter.counts_parts() {
            meter.count_node(connection.node, answered);
            if meter.counts_commands() {
                connection.count_answered(answered, meter.answered());
                let misses = if left == all { missed } else { 0 };
                if let Some(log) = &mut connection.log {
                    log.note(now, begin.due_at, meter.answered(), misses);
                }
                meter.count_commands(now, begin);
            }
        }
        left -= answered;
    }
    Ok(())
}
