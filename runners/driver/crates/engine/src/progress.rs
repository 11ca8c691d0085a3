//! The progress of a run, as threads publish it and watchers see it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::node::Node;
use crate::topology::Topology;

/// How far a run is: replies counted in the window, the sum of their latencies in ns, and the bytes sent and received since
/// the connections were opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub replies: u64,
    pub latency_ns: u64,
    pub bytes: u64,
}

/// Receives the progress now and then while a stage lasts.
pub type Watcher<'a> = &'a mut dyn FnMut(Progress);

/// The progress of one thread, on a cache line of its own; written a few times per second.
#[derive(Default)]
#[repr(align(128))]
struct ThreadProgress {
    replies: AtomicU64,
    latency_ns: AtomicU64,
    bytes: AtomicU64,
}

/// The memory that threads share.
pub struct Shared {
    /// Whether the threads are to end at once: one has failed, or the program was asked to end.
    pub stopped: AtomicBool,
    threads: Vec<ThreadProgress>,
    pub topology: Topology,
}

impl Shared {
    /// For so many `threads`, whose connections lead to `nodes`.
    pub fn new(threads: usize, nodes: &[Node]) -> Shared {
        Shared {
            topology: Topology::new(nodes),
            stopped: AtomicBool::new(false),
            threads: (0..threads).map(|_| ThreadProgress::default()).collect(),
        }
    }

    pub fn publish(&self, thread: usize, progress: Progress) {
        let thread = &self.threads[thread];
        thread.replies.store(progress.replies, Ordering::Relaxed);
        thread.latency_ns.store(progress.latency_ns, Ordering::Relaxed);
        thread.bytes.store(progress.bytes, Ordering::Relaxed);
    }

    /// Of the first `threads`.
    pub fn progress(&self, threads: usize) -> Progress {
        let threads = &self.threads[..threads];
        let sum = |of: fn(&ThreadProgress) -> &AtomicU64| {
            threads.iter().map(|thread| of(thread).load(Ordering::Relaxed)).sum()
        };
        Progress {
            replies: sum(|thread| &thread.replies),
            latency_ns: sum(|thread| &thread.latency_ns),
            bytes: sum(|thread| &thread.bytes),
        }
    }
}
