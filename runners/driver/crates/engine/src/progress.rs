//! How far a run is: what threads tell each other, and those who watch.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a run is: replies counted in the window, and the sum of their latencies in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub replies: u64,
    pub latency_ns: u64,
}

/// Is told of the progress now and then while a stage lasts.
pub type Watcher<'a> = &'a mut dyn FnMut(Progress);

/// The progress of one thread, on a cache line of its own; written a few times per second.
#[derive(Default)]
#[repr(align(128))]
struct Beat {
    replies: AtomicU64,
    latency_ns: AtomicU64,
}

/// All that threads tell each other.
pub struct Shared {
    /// Another thread gave up.
    pub failed: AtomicBool,
    beats: Vec<Beat>,
}

impl Shared {
    pub fn new(threads: usize) -> Shared {
        Shared { failed: AtomicBool::new(false), beats: (0..threads).map(|_| Beat::default()).collect() }
    }

    pub fn beat(&self, thread: usize, (replies, latency_ns): (u64, u64)) {
        self.beats[thread].replies.store(replies, Ordering::Relaxed);
        self.beats[thread].latency_ns.store(latency_ns, Ordering::Relaxed);
    }

    /// Of the first `threads`.
    pub fn progress(&self, threads: usize) -> Progress {
        let beats = &self.beats[..threads];
        let sum = |of: fn(&Beat) -> &AtomicU64| beats.iter().map(|b| of(b).load(Ordering::Relaxed)).sum();
        Progress { replies: sum(|beat| &beat.replies), latency_ns: sum(|beat| &beat.latency_ns) }
    }
}
