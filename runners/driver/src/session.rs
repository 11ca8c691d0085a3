//! A run from the first connection to the document: each phase in order, its prefill first.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::cluster;
use crate::counters::Counters;
use crate::crew;
use crate::document::{self, Document, Driver, Growth, Prefill, TargetName, TestResult};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::hdr_log::HdrLog;
use crate::job::{Job, Node, Window};
use crate::keys::KeyOrder;
use crate::memcached::suite::Needs;
use crate::memcached::{self, dialogue};
use crate::meter::{self, read_server_memory};
use crate::modes;
use crate::plan::{Length, Mode, Phase, Plan};
use crate::progress::ProgressLine;
use crate::stage::Stage;
use crate::sys;
use crate::values::ValuePool;
use crate::warmup::{self, WarmUp};
use crate::workload::{Protocol, Speech, Workload};
use crate::workload_file;

/// A prefill batch is at most this deep ...
const PREFILL_PIPELINE: usize = 64;
/// ... and about this long.
const PREFILL_BATCH_BYTES: usize = 64 * 1024;

/// What all phases of a run share.
pub struct Session<'a> {
    plan: &'a Plan,
    nodes: Vec<Node>,
    values: ValuePool,
    /// Whether values belong to their keys, as some phase verifies them.
    keyed: bool,
    counters: Option<Arc<Result<Counters, String>>>,
    /// For each kind of key, how many were set by prefills.
    filled: RefCell<BTreeMap<Vec<u8>, u64>>,
}

/// Do what `plan` asks.
pub fn run(plan: &Plan) -> Result<Document, Failure> {
    let environment = Environment::read();
    if !plan.cpus.is_empty() {
        crew::pin_to(&plan.cpus)?;
    }
    if let Some(pid) = plan.server_pid {
        meter::read_server_clock(pid)?;
    }
    let digest = own_digest()?;
    let started_at = rfc3339(SystemTime::now());
    let largest = plan.phases.iter().map(|phase| phase.values.largest()).max().unwrap_or(0);
    let session = Session {
        plan,
        nodes: nodes(plan)?,
        values: ValuePool::new(plan.seed, largest),
        keyed: plan.phases.iter().any(|phase| phase.verify > 0.0),
        counters: plan
            .server_pid
            .filter(|_| !plan.server_events.is_empty())
            .map(|pid| Arc::new(Counters::of(pid, &plan.server_events))),
        filled: RefCell::default(),
    };
    plan.phases
        .iter()
        .try_for_each(|phase| crew::require_files(phase.clients, phase.threads_with_files()))?;
    session.look_before_prefill()?;
    let mut log = plan.hdr_log.as_deref().map(HdrLog::create).transpose()?;
    let (mut prefill, mut tests) = (None, Vec::new());
    for phase in &plan.phases {
        let filled = phase.prefill.then(|| session.prefill(phase)).transpose()?;
        let mut results = session.measure(phase)?;
        results.iter_mut().for_each(|result| result.prefill = filled.clone());
        prefill = prefill.or(filled);
        session.compare(phase, &mut results)?;
        if let Some(log) = &mut log {
            results.iter().try_for_each(|result| log.append(result))?;
        }
        tests.extend(results);
    }
    Ok(Document {
        schema: document::SCHEMA,
        driver: driver(plan, digest),
        target: TargetName { protocol: plan.protocol.name(), address: plan.target.address.to_string() },
        started_at,
        environment,
        prefill,
        tests,
    })
}

/// The servers that share the load.
fn nodes(plan: &Plan) -> Result<Vec<Node>, Failure> {
    match plan.cluster {
        true => Ok(cluster::nodes(&plan.target)?.into_iter().map(|master| master.node).collect()),
        false => Ok(vec![Node { target: plan.target.clone(), tags: [].into() }]),
    }
}

fn driver(plan: &Plan, digest: String) -> Driver {
    Driver {
        version: env!("CARGO_PKG_VERSION"),
        digest,
        workload_digest: sha256(workload_file::document(plan.protocol, &plan.phases).to_string().as_bytes()),
        argv: plan.argv.clone(),
        seed: plan.seed,
        threads: plan.most_threads(),
        engine: "epoll",
        clock: "CLOCK_MONOTONIC",
    }
}

impl Session<'_> {
    /// Put the load of a phase on the server.
    fn measure(&self, phase: &Phase) -> Result<Vec<TestResult>, Failure> {
        match phase.mode {
            Mode::Closed => self.closed(phase),
            Mode::Open { .. } | Mode::Search { .. } | Mode::Sweep { .. } => self.scheduled(phase),
            Mode::Idle | Mode::Churn | Mode::PubSub(_) | Mode::Blocking(_) => self.connected(phase),
        }
    }

    /// Refuse to prefill a server that holds keys, before anything is sent: they may be somebody's.
    fn look_before_prefill(&self) -> Result<(), Failure> {
        if self.plan.overwrites || !self.plan.phases.iter().any(|phase| phase.prefill) {
            return Ok(());
        }
        match self.count_keys(0)? {
            0 => Ok(()),
            held => Err(Failure::run(
                format!(
                    "the server holds {held} keys{} already, which a prefill may overwrite",
                    self.place()
                ),
                "give an empty server or another --dbnum, or --prefill=force to overwrite them",
            )),
        }
    }

    /// Where keys are counted, for a message.
    fn place(&self) -> String {
        match self.plan.protocol {
            Protocol::Resp => format!(" in db{}", self.plan.database),
            Protocol::Memcached => String::new(),
        }
    }

    /// Set every key of the phase once, then let the server say how many it has.
    fn prefill(&self, phase: &Phase) -> Result<Prefill, Failure> {
        let before_bytes = self.server_memory()?;
        let began = sys::now();
        match self.plan.protocol {
            Protocol::Resp => {
                phase.workload.string_keys().iter().try_for_each(|key| self.fill(phase, key))?
            }
            Protocol::Memcached => self.fill_memcached(phase, Needs::Keys)?,
        }
        let seconds = document::round(document::seconds(sys::now() - began), 6);
        let keys = self.note_filled(phase);
        let keys_in_server = self.count_keys(keys)?;
        if keys_in_server < keys || keys_in_server > keys && !self.plan.overwrites {
            let limit = match self.plan.protocol {
                Protocol::Resp => "maxmemory",
                Protocol::Memcached => "-m",
            };
            return Err(Failure::run(
                format!("the server holds {keys_in_server} keys{} after a prefill of {keys}", self.place()),
                format!("start with an empty server, and look for eviction ({limit})"),
            ));
        }
        let memory = before_bytes.zip(self.server_memory()?);
        let server_memory = memory.map(|(before, after)| Growth::of(before, after, keys));
        Ok(Prefill { keys, seconds, keys_in_server, server_memory })
    }

    fn server_memory(&self) -> Result<Option<u64>, Failure> {
        self.plan.server_pid.map(read_server_memory).transpose()
    }

    /// How many keys all prefills so far have set.
    fn note_filled(&self, phase: &Phase) -> u64 {
        let mut filled = self.filled.borrow_mut();
        for key in phase.workload.string_keys() {
            let count = filled.entry(key).or_default();
            *count = phase.keys.count.max(*count);
        }
        filled.values().sum()
    }

    /// The number of keys in the server, of which `expected` would be right.
    fn count_keys(&self, expected: u64) -> Result<u64, Failure> {
        match self.plan.protocol {
            Protocol::Resp => self.plan.target.count_keys(self.plan.database),
            Protocol::Memcached => dialogue::count_living(&self.plan.target, expected),
        }
    }

    fn fill(&self, phase: &Phase, key: &[u8]) -> Result<(), Failure> {
        let keys = phase.keys.count;
        let clients = phase.clients.min(usize::try_from(keys).unwrap_or(usize::MAX));
        let workload = Workload::setting(key, phase.ttl.is_some());
        let set = Phase { name: workload.text(), workload, ..phase.clone() };
        let speech = self.speech(&set);
        let job = Job {
            clients,
            threads: phase.threads.min(clients),
            pipeline: (PREFILL_BATCH_BYTES / phase.values.largest().max(1)).clamp(1, PREFILL_PIPELINE),
            key_order: KeyOrder::Parts,
            probe: None,
            verify: None,
            window: Window::Batch,
            allow_errors: false,
            ..self.job(&set, &speech)
        };
        speech.run(&job, &[Stage::Exactly { requests: keys }], &mut |_| ()).map(|_| ())
    }

    fn fill_memcached(&self, phase: &Phase, needs: Needs) -> Result<(), Failure> {
        let keys = match (needs, phase.length) {
            (Needs::KeyPerRequest, Length::Requests(requests)) => requests,
            _ => phase.keys.count,
        };
        memcached::fill(self.job(phase, &self.speech(phase)), needs, keys, &phase.places(false))
    }

    /// The closed loop: a connection sends again when it was answered.
    fn closed(&self, phase: &Phase) -> Result<Vec<TestResult>, Failure> {
        let (speech, job) = self.ready(phase)?;
        let mut line = ProgressLine::new(&phase.name);
        let (outcome, warmup) = warmup::run(
            phase,
            (&speech, &job),
            |window_ns, _| Stage::Timed { warmup_ns: 0, window_ns },
            |settling| stages(settling, phase.length),
            &mut |progress| line.tell(progress),
        )?;
        let result = TestResult::new(&job, workload_file::written(phase), phase.mode.name(), &outcome);
        Ok(vec![result.after(warmup)])
    }

    /// What `phase` sends, once the server holds the keys that it needs.
    pub fn ready(&self, phase: &Phase) -> Result<(Speech, Job), Failure> {
        for needs in phase.workload.needs() {
            self.fill_memcached(phase, needs)?;
        }
        let speech = self.speech(phase);
        let job = self.job(phase, &speech);
        Ok((speech, job))
    }

    /// What connections do besides sending again and again.
    fn connected(&self, phase: &Phase) -> Result<Vec<TestResult>, Failure> {
        let (speech, job) = self.ready(phase)?;
        let mut result = Vec::new();
        for stage in stages(phase.warmup, phase.length) {
            let (outcome, findings) = modes::run(phase, &speech, &job, stage)?;
            let counted = TestResult::new(&job, workload_file::written(phase), phase.mode.name(), &outcome);
            result = vec![TestResult { findings, ..counted.after(WarmUp::fixed(phase.warmup)) }];
        }
        Ok(result)
    }

    /// Raise the flags of results that are not as the phase expects.
    fn compare(&self, phase: &Phase, results: &mut [TestResult]) -> Result<(), Failure> {
        if let Some([least, most]) = phase.expect.hit_rate {
            for result in results.iter_mut() {
                let rate = document::per(result.hits as f64, (result.hits + result.misses) as f64);
                result.flags.extend((rate < least || rate > most).then_some("hit_rate"));
            }
        }
        if let Some(keys) = phase.expect.keys {
            let differs = self.count_keys(keys)? != keys;
            results.iter_mut().for_each(|result| result.flags.extend(differs.then_some("key_count")));
        }
        Ok(())
    }

    fn speech(&self, phase: &Phase) -> Speech {
        phase.workload.speech(&phase.places(self.plan.cluster), self.plan.seed)
    }

    fn job(&self, phase: &Phase, speech: &Speech) -> Job {
        Job {
            name: phase.name.clone(),
            nodes: self.nodes.iter().map(|node| node.greeted(&phase.greeting())).collect(),
            script: speech.script().clone().into(),
            spoken: phase.workload.spoken(),
            clients: phase.clients,
            threads: phase.threads,
            pipeline: phase.pipeline,
            window: phase.window,
            rate: None,
            keepalive: true,
            keyspace: phase.keys.count,
            key_order: KeyOrder::of(phase.keys.distribution, phase.keys.count),
            values: self.values.with(&phase.values, self.keyed),
            seed: self.plan.seed,
            probe: phase.probe,
            cpus: self.plan.cpus.clone(),
            server_pid: self.plan.server_pid,
            counters: self.counters.clone(),
            slice_ns: self.plan.slice_ms * 1_000_000,
            interval_slices: self.plan.interval_slices(),
            allow_errors: self.plan.allow_errors,
            verify: phase.verification(),
        }
    }
}

/// A warm-up of `warmup`, then a window of `length`.
pub fn stages(warmup: Duration, length: Length) -> Vec<Stage> {
    let warmup_ns = ns(warmup);
    match length {
        Length::Lasting(window) => vec![Stage::Timed { warmup_ns, window_ns: ns(window) }],
        Length::Requests(requests) if warmup_ns == 0 => vec![Stage::Exactly { requests }],
        Length::Requests(requests) => {
            vec![Stage::WarmUp { ns: warmup_ns }, Stage::Exactly { requests }]
        }
    }
}

pub fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// SHA-256 of the running binary.
fn own_digest() -> Result<String, Failure> {
    let binary = std::fs::read("/proc/self/exe")
        .map_err(|error| Failure::run(format!("cannot read the own binary ({error})"), "mount /proc"))?;
    Ok(sha256(&binary))
}

fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// UTC with milliseconds: `2026-11-20T18:31:00.123Z`. The calendar is Howard Hinnant's `civil_from_days`.
fn rfc3339(time: SystemTime) -> String {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since_1970.as_secs() / 86_400, since_1970.as_secs() % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = since_1970.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |ms| rfc3339(UNIX_EPOCH + Duration::from_millis(ms));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_795_199_460_123), "2026-11-20T18:31:00.123Z");
        assert_eq!(at(4_102_444_799_999), "2099-12-31T23:59:59.999Z");
    }
}
