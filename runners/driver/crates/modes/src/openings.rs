//! How connections were opened, and what became of them.

use serde::Serialize;

use engine::histogram::Histogram;
use engine::job::Job;
use engine::latency::LatencyUs;
use network::opening::OpeningTimes;
use text::failure::Failure;

/// What the server holds in memory, by what the kernel says of its process.
#[derive(Debug, Serialize)]
pub struct ServerMemory {
    /// Resident before the first connection, and at the end of the window.
    pub before_bytes: u64,
    pub open_bytes: u64,
    /// The difference, 0 when there is less; memory that was free in the process already does not show.
    pub bytes_per_connection: f64,
}

/// How connections were opened, and what became of them.
#[derive(Debug, Serialize)]
pub struct Connections {
    pub opened: u64,
    /// Not opened, or broken too early.
    pub lost: u64,
    pub first_loss: Option<String>,
    pub connect_us: LatencyUs,
    pub tls_us: Option<LatencyUs>,
    pub login_us: Option<LatencyUs>,
    /// From the open connection to the first reply on it.
    pub first_reply_us: LatencyUs,
    pub server_memory: Option<ServerMemory>,
}

/// The parts of opening a connection, in ns.
#[derive(Clone, Default)]
pub struct OpeningStats {
    pub connect: Histogram,
    tls: Histogram,
    login: Histogram,
    pub first_reply: Histogram,
    lost: u64,
    pub first_loss: Option<String>,
}

impl OpeningStats {
    pub fn opened(&mut self, times: OpeningTimes) {
        self.connect.record(times.connected - times.began, 1);
        self.tls.record(times.secured - times.connected, 1);
        self.login.record(times.open - times.secured, 1);
    }

    /// Count a lost connection if errors are allowed and the server caused this one.
    pub fn count_loss(&mut self, job: &Job, failure: Failure) -> Result<(), Failure> {
        if !job.allow_errors || matches!(failure, Failure::Machine(_)) {
            return Err(failure);
        }
        self.lost += 1;
        self.first_loss.get_or_insert_with(|| failure.to_string());
        Ok(())
    }

    pub fn merge(&mut self, other: &OpeningStats) {
        self.connect.merge(&other.connect);
        self.tls.merge(&other.tls);
        self.login.merge(&other.login);
        self.first_reply.merge(&other.first_reply);
        self.lost += other.lost;
        self.first_loss = self.first_loss.take().or_else(|| other.first_loss.clone());
    }

    pub fn report(self, job: &Job, server_memory: Option<ServerMemory>) -> Connections {
        let target = &job.nodes[0].target;
        Connections {
            opened: self.connect.count(),
            lost: self.lost,
            connect_us: LatencyUs::of(&self.connect),
            tls_us: target.tls.is_some().then(|| LatencyUs::of(&self.tls)),
            login_us: (!target.greeting.is_empty()).then(|| LatencyUs::of(&self.login)),
            first_reply_us: LatencyUs::of(&self.first_reply),
            first_loss: self.first_loss,
            server_memory,
        }
    }
}
