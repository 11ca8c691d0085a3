//! What views of a running load see: its threads publish what they have counted some times a second, beside the loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::histogram::Histogram;
use crate::stage::Span;

/// What was counted in the window of a stage until a moment: by one thread, or by all.
#[derive(Debug, Clone, Default)]
pub struct Score {
    /// Monotonic ns; of several threads the mean, at which the sums are what they are while rates are steady.
    pub at: u64,
    /// Replies inside the window, errors included.
    pub replies: u64,
    /// Error replies, and requests that were lost.
    pub errors: u64,
    /// Sent and received since the connections were opened.
    pub bytes: u64,
    /// Connections that are open; while their number changes by a ramp, those that send.
    pub connections: u64,
    /// Connections that were opened again.
    pub reconnects: u64,
    pub latency: Histogram,
    /// Of each command, when there are several.
    pub commands: Vec<Histogram>,
}

impl Score {
    fn add(&mut self, other: &Score) {
        self.replies += other.replies;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.connections += other.connections;
        self.reconnects += other.reconnects;
        self.latency.merge(&other.latency);
        self.commands.resize_with(other.commands.len(), Histogram::default);
        self.commands.iter_mut().zip(&other.commands).for_each(|(sum, command)| sum.merge(command));
    }
}

/// The score of a thread, in the stage that began at that moment.
#[derive(Default)]
struct ThreadScore {
    begins_at: u64,
    score: Score,
}

/// The load of one test: views read it, its threads write it.
pub struct Scoreboard {
    pub test: String,
    /// Of the script, when it has several.
    pub commands: Vec<String>,
    span: Mutex<Option<Span>>,
    threads: Vec<Mutex<ThreadScore>>,
    is_warming: AtomicBool,
    is_over: AtomicBool,
}

impl Scoreboard {
    pub fn new(test: &str, commands: Vec<String>, threads: usize) -> Scoreboard {
        Scoreboard {
            test: test.to_owned(),
            commands,
            span: Mutex::default(),
            threads: (0..threads).map(|_| Mutex::default()).collect(),
            is_warming: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    /// A stage begins, in which all is counted anew.
    pub fn begin(&self, span: Span) {
        *locked(&self.span) = Some(span);
    }

    /// Whether the stages from here on are those of a warm-up, whose counts nobody sees.
    pub fn warm(&self, is_warming: bool) {
        self.is_warming.store(is_warming, Ordering::Relaxed);
    }

    /// All stages are over: no connection is left.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Let `write` note the score of `thread` in `span`. The thread waits for nobody: while a view reads, nothing is noted.
    /// Threads beyond those of the load, as that of a probe, have no score.
    pub fn publish(&self, thread: usize, span: &Span, write: impl FnOnce(&mut Score)) {
        if let Some(Ok(mut thread)) = self.threads.get(thread).map(Mutex::try_lock) {
            thread.begins_at = span.begins_at;
            write(&mut thread.score);
        }
    }

    /// The stage that runs, or ran last, and the scores of all threads in it added up; none before the first.
    pub fn score(&self) -> Option<(Span, Score)> {
        let mut span = (*locked(&self.span))?;
        let (mut sum, mut moments) = (Score::default(), Vec::new());
        for thread in &self.threads {
            let thread = locked(thread);
            if thread.begins_at == span.begins_at {
                sum.add(&thread.score);
                moments.push(u128::from(thread.score.at));
            }
        }
        sum.at = (moments.iter().sum::<u128>() / moments.len().max(1) as u128) as u64;
        if self.is_over.load(Ordering::Relaxed) {
            sum.connections = 0;
        }
        if self.is_warming.load(Ordering::Relaxed) {
            span.counts_from = u64::MAX;
            sum = Score { bytes: sum.bytes, connections: sum.connections, ..Score::default() };
        }
        Some((span, sum))
    }
}

/// The loads of a run, in the order in which they began.
#[derive(Default)]
pub struct Scoreboards(Mutex<Vec<Arc<Scoreboard>>>);

impl Scoreboards {
    pub fn add(&self, scoreboard: Arc<Scoreboard>) {
        locked(&self.0).push(scoreboard);
    }

    pub fn all(&self) -> Vec<Arc<Scoreboard>> {
        locked(&self.0).clone()
    }

    pub fn latest(&self) -> Option<Arc<Scoreboard>> {
        locked(&self.0).last().cloned()
    }
}

/// A thread that panicked ends the program, so what it left is as good as any.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Stage;

    #[test]
    fn scores_of_the_stage_that_runs_are_added_up() {
        let board = Scoreboard::new("get", Vec::new(), 2);
        let warmup = Stage::Timed { warmup_ns: 0, window_ns: 10 }.span(100);
        let window = Stage::Timed { warmup_ns: 0, window_ns: 10 }.span(200);
        let write = |at, replies| {
            move |score: &mut Score| {
                (score.at, score.replies, score.connections) = (at, replies, 3);
            }
        };
        assert!(board.score().is_none());
        board.begin(warmup);
        board.publish(0, &warmup, write(110, 70));
        board.begin(window);
        board.publish(1, &window, write(204, 5));
        let (span, score) = board.score().unwrap();
        assert_eq!((span, score.at, score.replies), (window, 204, 5));
        board.publish(0, &window, write(206, 7));
        board.publish(2, &window, write(900, 900));
        let (_, score) = board.score().unwrap();
        assert_eq!((score.at, score.replies, score.connections), (205, 12, 6));
        board.warm(true);
        let (span, score) = board.score().unwrap();
        assert_eq!((span.counts_from, score.replies, score.connections), (u64::MAX, 0, 6));
        board.warm(false);
        board.end();
        let (_, score) = board.score().unwrap();
        assert_eq!((score.replies, score.connections), (12, 0));
    }
}
