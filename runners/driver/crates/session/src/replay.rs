//! A phase that plays a recording.

use std::time::Duration;

use crate::session::Session;
use modes::findings::Findings;
use modes::replay::reader::Limits;
use modes::replay::{self, Setting};
use recording::format::Wire;
use report::result::TestResult;
use report::warmup::WarmUp;
use text::failure::Failure;
use text::units::ns;
use workload::file::write;
use workload::phase::{Length, Phase};
use workload::protocol_name::ProtocolName;

impl Session<'_> {
    /// Play the recording of `setting`. Error replies are counted, as a recording has them, too.
    pub fn measure_replay(&self, phase: &Phase, setting: &Setting) -> Result<Vec<TestResult>, Failure> {
        let mut job = self.job(phase, &self.traffic(phase));
        let limits = match phase.length {
            Length::Requests(requests) => Limits { requests, ns: u64::MAX },
            Length::Lasting(time) => Limits { requests: u64::MAX, ns: ns(time) },
        };
        let wire = match self.plan.protocol {
            ProtocolName::Resp => Wire::Resp,
            ProtocolName::Memcached => Wire::Memcached,
        };
        let played = replay::run(&job, setting, wire, limits)?;
        job.named_commands = played.commands;
        let result = TestResult::new(&job, write::written(phase), phase.mode.name(), &played.outcome);
        let findings = Findings { replay: Some(played.replayed), ..Findings::default() };
        Ok(vec![TestResult { findings, ..result.after(WarmUp::fixed(Duration::ZERO)) }])
    }
}
