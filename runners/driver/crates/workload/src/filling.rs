//! Keys that are stored before a load.

use crate::traffic::Traffic;
use engine::job::Job;
use engine::stage::Stage;
use text::failure::Failure;

/// A filling has no more connections: thousands would be opened twice in a row.
pub const MOST_CLIENTS: usize = 500;

/// Stores each of `requests` keys once.
pub struct Filling {
    pub traffic: Traffic,
    pub job: Job,
    pub requests: u64,
}

impl Filling {
    pub fn run(&self) -> Result<(), Failure> {
        let stages = [Stage::Exactly { requests: self.requests }];
        self.traffic.run(&self.job, &stages, &mut |_| ()).map(|_| ())
    }
}
