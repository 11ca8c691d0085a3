//! Limits on what a load may take of this machine.

/// Request buffers of all connections together.
const LARGEST_BUFFERS: usize = 4 * 1024 * 1024 * 1024;

/// Whether the batches of all connections fit into the memory that is meant for them.
pub fn fits(batch_bytes: usize, clients: usize) -> bool {
    batch_bytes.checked_mul(clients).is_some_and(|bytes| bytes <= LARGEST_BUFFERS)
}

/// As redis-benchmark has it: their stacks alone can exhaust a process.
pub const MOST_THREADS: usize = 500;
