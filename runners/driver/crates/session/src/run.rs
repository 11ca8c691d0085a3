//! A run from the first connection to the document: each phase in order, its prefill first.

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::prefill::{count_keys, require_empty_server};
use crate::session::Session;
use crate::{modes, warmup};
use engine::progress::Watcher;
use engine::stage::Stage;
use engine::{resources, server_process};
use machine::environment::Environment;
use network::memcached::Refusals;
use network::target::Target;
use report::document::{self, CutShort, Document, Driver, TargetName};
use report::hdr_log::HdrLog;
use report::result::TestResult;
use report::warmup::WarmUp;
use text::failure::Failure;
use text::units;
use views::Views;
use workload::file::write;
use workload::mode::Mode;
use workload::phase::{Phase, stages};
use workload::plan::Plan;

/// Run `plan`.
pub fn run(plan: &Plan) -> Result<Document, Failure> {
    run_watched(plan, &mut |_| ())
}

/// Run `plan`; `watcher` sees the progress of its loads.
pub fn run_watched(plan: &Plan, watcher: Watcher) -> Result<Document, Failure> {
    let environment = Environment::read();
    if !plan.cpus.is_empty() {
        resources::pin_to(&plan.cpus)?;
    }
    if let Some(pid) = plan.server_pid {
        server_process::read_server_clock(pid)?;
    }
    let digest = own_digest()?;
    let started_at = rfc3339(Timestamp::now());
    let views = Views::begin(plan.live, plan.metrics_at)?;
    let session = Session::new(plan)?.watched_by(watcher).seen_at(views.scoreboards());
    require_resources(plan)?;
    require_empty_server(plan)?;
    let mut log = plan.hdr_log.as_deref().map(HdrLog::create).transpose()?;
    let (mut tests, mut cut_short) = (Vec::new(), None);
    for phase in &plan.phases {
        let failed = session.go_through(phase, log.as_mut(), &mut tests).err();
        cut_short = cut_within(&mut tests).or(failed.map(|failure| CutShort::before(&phase.name, failure)));
        if cut_short.is_some() {
            break;
        }
    }
    if let (true, Some(cut)) = (tests.is_empty(), &cut_short) {
        return Err(cut.failure.clone());
    }
    let prefill = tests.iter().find_map(|test: &TestResult| test.prefill.clone());
    Ok(Document {
        schema: document::SCHEMA.into(),
        driver: driver(plan, digest),
        target: TargetName { protocol: plan.protocol.name().into(), address: plan.address() },
        started_at,
        part: plan.part,
        joined: None,
        environment,
        prefill,
        tests,
        cut_short,
    })
}

/// Why the last of `tests` ended before its time, if it did.
fn cut_within(tests: &mut [TestResult]) -> Option<CutShort> {
    let last = tests.last_mut()?;
    last.cut.take().map(|cut| CutShort::within(last, cut))
}

/// A failure when this machine cannot open the connections of `plan`.
pub fn require_resources(plan: &Plan) -> Result<(), Failure> {
    for phase in &plan.phases {
        let clients = plan.own_clients(phase.clients).len();
        resources::require_files(clients, phase.threads_with_files())?;
        if !plan.cluster {
            resources::require_ports(&plan.target, clients)?;
        }
    }
    Ok(())
}

/// What the document says of this program, whose binary has `digest`.
pub fn driver(plan: &Plan, digest: String) -> Driver {
    Driver {
        version: env!("CARGO_PKG_VERSION").into(),
        digest,
        workload_digest: sha256(write::document(plan.protocol, &plan.phases).to_string().as_bytes()),
        argv: plan.argv.clone(),
        seed: plan.seed,
        threads: plan.most_threads(),
        engine: "epoll".into(),
        clock: "CLOCK_MONOTONIC".into(),
    }
}

impl Session<'_> {
    /// Prefill and measure one phase; what was measured is added to `tests`, also when something failed after it.
    fn go_through(
        &self,
        phase: &Phase,
        log: Option<&mut HdrLog>,
        tests: &mut Vec<TestResult>,
    ) -> Result<(), Failure> {
        let filled = (phase.prefill && self.plan.fills()).then(|| self.prefill(phase)).transpose()?;
        let refusals = self.refusals(phase)?;
        let mut results = self.measure(phase)?;
        results.iter_mut().for_each(|result| result.prefill = filled.clone());
        let is_cut = results.iter().any(|result| result.cut.is_some());
        let checked = if is_cut { Ok(()) } else { self.check_expectations(phase, &mut results) };
        let refused = match refusals {
            Some(refusals) if !is_cut => refusals.check(self.targets(), &phase.name),
            _ => Ok(()),
        };
        let logged = log.map_or(Ok(()), |log| results.iter().try_for_each(|result| log.append(result)));
        tests.extend(results);
        checked.and(refused).and(logged)
    }

    /// What the servers have refused so far, if they may refuse more without a word and that ends the run.
    fn refusals(&self, phase: &Phase) -> Result<Option<Refusals>, Failure> {
        let asked = phase.workload.stores_silently() && !self.plan.allow_errors;
        asked.then(|| Refusals::before(self.targets())).transpose()
    }

    fn targets(&self) -> impl Iterator<Item = &Target> {
        self.nodes.iter().map(|node| &node.target)
    }

    /// Measure one phase.
    fn measure(&self, phase: &Phase) -> Result<Vec<TestResult>, Failure> {
        match phase.mode {
            Mode::Closed => self.measure_closed(phase),
            Mode::Open { .. } | Mode::Ramp { .. } | Mode::Search { .. } | Mode::Sweep { .. } => {
                self.measure_scheduled(phase)
            }
            Mode::Replay(ref setting) => self.measure_replay(phase, setting),
            Mode::Idle | Mode::Churn | Mode::PubSub(_) | Mode::Blocking(_) => self.measure_connections(phase),
        }
    }

    /// The closed loop: a connection sends again when it was answered.
    fn measure_closed(&self, phase: &Phase) -> Result<Vec<TestResult>, Failure> {
        let (traffic, job) = self.prepare(phase)?;
        let mut line = self.line(phase);
        let (outcome, warmup) = warmup::run(
            phase,
            (&traffic, &job),
            |window_ns, _| Stage::Timed { warmup_ns: 0, window_ns },
            |settling| stages(settling, phase.length),
            &mut |progress| self.watch(&mut line, progress),
        )?;
        let result = TestResult::new(&job, write::written(phase), phase.mode.name(), &outcome);
        Ok(vec![result.after(warmup)])
    }

    /// What connections do besides sending again and again.
    fn measure_connections(&self, phase: &Phase) -> Result<Vec<TestResult>, Failure> {
        let (traffic, job) = self.prepare(phase)?;
        let mut result = Vec::new();
        for stage in stages(phase.warmup, phase.length) {
            let (outcome, findings) = modes::run(phase, &traffic, &job, stage)?;
            let counted = TestResult::new(&job, write::written(phase), phase.mode.name(), &outcome);
            result = vec![TestResult { findings, ..counted.after(WarmUp::fixed(phase.warmup)) }];
        }
        Ok(result)
    }

    /// Raise the flags of results that are not as the phase expects.
    pub fn check_expectations(&self, phase: &Phase, results: &mut [TestResult]) -> Result<(), Failure> {
        if let Some([least, most]) = phase.expect.hit_rate {
            for result in results.iter_mut() {
                let rate = units::per(result.hits as f64, (result.hits + result.misses) as f64);
                result.flags.extend((rate < least || rate > most).then_some("hit_rate".into()));
            }
        }
        if let Some(keys) = phase.expect.keys {
            let differs = count_keys(self.plan, keys)? != keys;
            results.iter_mut().for_each(|result| result.flags.extend(differs.then_some("key_count".into())));
        }
        Ok(())
    }
}

/// SHA-256 of the running binary.
pub fn own_digest() -> Result<String, Failure> {
    let binary = std::fs::read("/proc/self/exe")
        .map_err(|error| Failure::run(format!("cannot read the own binary ({error})"), "mount /proc"))?;
    Ok(sha256(&binary))
}

fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// UTC with milliseconds: `2026-11-20T18:31:00.123Z`.
pub fn rfc3339(time: Timestamp) -> String {
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_a_zone() {
        let at = |ms| rfc3339(Timestamp::from_millisecond(ms).unwrap());
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_795_199_460_123), "2026-11-20T18:31:00.123Z");
    }
}
