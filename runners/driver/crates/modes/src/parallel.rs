//! Work on several threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use engine::job::Job;
use engine::resources;
use text::failure::Failure;

/// Silent servers and failures of other threads are checked for this often.
pub const CHECK_EVERY_NS: u64 = 10_000_000;

/// Do each of `works` on a thread of its own, which sees whether another has failed: the results in their order.
pub fn on_threads<W: Send, T: Send>(
    job: &Job,
    works: Vec<W>,
    run: impl Fn(W, &AtomicBool) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let failed = AtomicBool::new(false);
    let one = |thread: usize, work: W| {
        let done = resources::pin(job, thread).and_then(|()| run(work, &failed));
        failed.fetch_or(done.is_err(), Ordering::Relaxed);
        done
    };
    let one = &one;
    let done: Vec<_> = thread::scope(|scope| {
        let works = works.into_iter().enumerate();
        let threads: Vec<_> = works.map(|(thread, work)| scope.spawn(move || one(thread, work))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread does not panic")).collect()
    });
    // A thread that stopped because another failed says less than the other.
    let has_stopped = |done: &Result<T, Failure>| done.as_ref().is_err_and(|failure| *failure == stopped());
    match done.iter().position(|done| done.is_err() && !has_stopped(done)) {
        Some(at) => done.into_iter().nth(at).into_iter().collect(),
        None => done.into_iter().collect(),
    }
}

pub fn stopped() -> Failure {
    Failure::run("stopped because another thread failed", "see its message")
}
