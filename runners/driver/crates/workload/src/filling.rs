//! Keys that are stored before a load.

use crate::memcached::load::Load;
use crate::memcached::suite::Needs;
use crate::traffic::Traffic;
use engine::job::{Job, Window};
use engine::stage::Stage;
use generator::keys::KeyOrder;
use protocol::template::Placeholders;
use text::failure::Failure;

/// A filling has no more connections: thousands would be opened twice in a row.
pub const MOST_CLIENTS: usize = 500;
/// A batch of memcached's filling is at most this deep ...
const FILL_PIPELINE: usize = 64;
/// ... and about this long.
const FILL_BATCH_BYTES: usize = 64 * 1024;
/// With TLS, memcached 1.6.18 leaves what is longer than a record unread until more comes.
const FILL_BATCH_BYTES_OF_TLS: usize = 15 * 1024;

/// Stores each of `requests` keys once.
pub struct Filling {
    pub traffic: Traffic,
    pub job: Job,
    pub requests: u64,
}

impl Filling {
    pub fn run(&self) -> Result<(), Failure> {
        let stages = [Stage::Exactly { requests: self.requests }];
        self.traffic.run(&self.job, &stages, &mut |_| ())?.whole().map(drop)
    }

    /// What stores each of the first `keys` keys that `needs` names, with the connections of `job`; none if it
    /// names none.
    pub fn of_memcached(job: Job, needs: Needs, keys: u64, places: &Placeholders) -> Option<Filling> {
        let test = needs.filler()?;
        let load = Load::new(test, places, job.seed);
        let clients = job.clients.min(MOST_CLIENTS).min(usize::try_from(keys).unwrap_or(usize::MAX));
        let request_bytes = load.script.batch_bytes(1).max(1);
        let batch_bytes = match job.nodes[0].target.tls {
            None => FILL_BATCH_BYTES,
            Some(_) => FILL_BATCH_BYTES_OF_TLS,
        };
        let job = Job {
            name: test.name.to_owned(),
            clients,
            own_clients: 0..clients,
            begins_at: None,
            threads: job.threads.min(clients),
            pipeline: (batch_bytes / request_bytes).clamp(1, FILL_PIPELINE),
            keyspace: keys,
            key_order: KeyOrder::Parts,
            window: Window::Batch,
            rate: None,
            probe: None,
            verify: None,
            keepalive: true,
            allow_errors: false,
            recovery: None,
            script: load.script.clone().into(),
            named_commands: Vec::new(),
            ..job
        };
        Some(Filling { traffic: Traffic::Memcached(load), job, requests: keys })
    }
}
