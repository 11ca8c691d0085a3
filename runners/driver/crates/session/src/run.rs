//! A run from the first connection to the document: each phase in order, its prefill first.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::session::Session;
use crate::{modes, warmup};
use engine::node::Node;
use engine::stage::Stage;
use engine::{cluster, resources, server_process};
use generator::values::ValuePool;
use machine::counters::Counters;
use machine::environment::Environment;
use report::document::{self, Document, Driver, TargetName};
use report::hdr_log::HdrLog;
use report::progress_line::ProgressLine;
use report::result::TestResult;
use report::warmup::WarmUp;
use text::failure::Failure;
use text::units;
use workload::file::write;
use workload::mode::Mode;
use workload::phase::{Phase, stages};
use workload::plan::Plan;

/// Do what `plan` asks.
pub fn run(plan: &Plan) -> Result<Document, Failure> {
    let environment = Environment::read();
    if !plan.cpus.is_empty() {
        resources::pin_to(&plan.cpus)?;
    }
    if let Some(pid) = plan.server_pid {
        server_process::read_server_clock(pid)?;
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
        .try_for_each(|phase| resources::require_files(phase.clients, phase.threads_with_files()))?;
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
        workload_digest: sha256(write::document(plan.protocol, &plan.phases).to_string().as_bytes()),
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
        let result = TestResult::new(&job, write::written(phase), phase.mode.name(), &outcome);
        Ok(vec![result.after(warmup)])
    }

    /// What connections do besides sending again and again.
    fn connected(&self, phase: &Phase) -> Result<Vec<TestResult>, Failure> {
        let (speech, job) = self.ready(phase)?;
        let mut result = Vec::new();
        for stage in stages(phase.warmup, phase.length) {
            let (outcome, findings) = modes::run(phase, &speech, &job, stage)?;
            let counted = TestResult::new(&job, write::written(phase), phase.mode.name(), &outcome);
            result = vec![TestResult { findings, ..counted.after(WarmUp::fixed(phase.warmup)) }];
        }
        Ok(result)
    }

    /// Raise the flags of results that are not as the phase expects.
    fn compare(&self, phase: &Phase, results: &mut [TestResult]) -> Result<(), Failure> {
        if let Some([least, most]) = phase.expect.hit_rate {
            for result in results.iter_mut() {
                let rate = units::per(result.hits as f64, (result.hits + result.misses) as f64);
                result.flags.extend((rate < least || rate > most).then_some("hit_rate"));
            }
        }
        if let Some(keys) = phase.expect.keys {
            let differs = self.count_keys(keys)? != keys;
            results.iter_mut().for_each(|result| result.flags.extend(differs.then_some("key_count")));
        }
        Ok(())
    }
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
    use std::time::Duration;

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
