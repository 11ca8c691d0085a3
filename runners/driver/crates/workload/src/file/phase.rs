//! A phase from its form in a workload file.

use serde_json::Value;

use crate::file::commands::{request_words, workload};
use crate::file::keys_and_values::{key_space, share, sizes};
use crate::file::written::{ExpectFields, ModeName, OneOrTwo, PhaseFields, label, read_as};
use crate::mode::Mode;
use crate::phase::{Expect, Length, Phase};
use crate::phase_check::SettingNames;
use crate::protocol_name::ProtocolName;
use crate::source::Source;
use engine::schedule::check_rate;
use generator::values::Ttl;
use protocol::template::TTL;
use text::checks::{self, require};
use text::failure::Failure;

const TERMS: SettingNames = SettingNames {
    clients: "clients",
    threads: "threads",
    pipeline: "pipeline",
    keys: "keys.count",
    bytes: "values",
    length: "requests or duration_s",
    resp3: "resp3",
    tracking: "tracking",
};

pub fn phase(value: Value, at: usize, protocol: ProtocolName) -> Result<Phase, Failure> {
    let written: PhaseFields = read_as(value)?;
    let mode = mode(&written)?;
    let length = length(&written, mode.usual_length())?;
    let usual = Phase::of(workload(&written, protocol, &mode)?);
    let unnamed = || usual.workload.name().map_or(format!("phase-{}", at + 1), str::to_owned);
    let phase = Phase {
        name: written.name.clone().map_or_else(|| Ok(unnamed()), |name| label(&name))?,
        clients: written.clients.unwrap_or(usual.clients),
        threads: written.threads.unwrap_or(usual.threads),
        pipeline: written.pipeline.unwrap_or(usual.pipeline),
        window: written.window.unwrap_or(usual.window),
        keys: key_space(&written.keys, usual.keys.count)?,
        values: written.values.as_ref().map_or(Ok(usual.values.clone()), sizes)?,
        ttl: written.ttl_s.map(ttl).transpose()?,
        prefill: written.prefill,
        prefill_request: written.prefill_request.as_ref().map(request_words).transpose()?,
        expect: expect(&written.expect)?,
        verify: share(written.verify, "verify", true)?,
        warmup: match written.warmup_s {
            Some(seconds) => checks::duration(seconds, "warmup_s")?,
            None => mode.usual_warmup(length),
        },
        warmup_most: written.warmup_most_s.map(|most| checks::duration(most, "warmup_most_s")).transpose()?,
        length,
        mode,
        probe: written.probe.map(|probe| probe.check("probe.clients", "probe.rate")).transpose()?,
        resp3: written.resp3,
        tracking: written.tracking,
        seed: written.seed,
        ..usual
    };
    require(
        phase.ttl.is_some() || !phase.workload.contains(TTL),
        "__ttl__ is sent, but ttl_s is not given",
        "give seconds",
    )?;
    phase.check(&TERMS, protocol)?;
    check_prefill_request(&phase, protocol)?;
    Ok(phase)
}

/// A usage failure unless the request of a prefill stores one key, which differs from request to request.
fn check_prefill_request(phase: &Phase, protocol: ProtocolName) -> Result<(), Failure> {
    let Some(words) = &phase.prefill_request else { return Ok(()) };
    require(
        phase.prefill && protocol == ProtocolName::Resp,
        "prefill_request is given without prefill, or for memcached",
        "add prefill = true, or leave it out",
    )?;
    let numbers = Source::Request(words.clone()).command(&phase.places(false)).numbers();
    let key_has_number = words.get(1).is_some_and(|key| memchr::memmem::find(key, b"__key__").is_some());
    require(
        numbers == 1 && key_has_number,
        "prefill_request does not name one key by its number",
        "write __key__ into its first argument, and where else the same number is meant, as in 'SADD set:__key__ m:__key__'",
    )
}

fn length(written: &PhaseFields, usual: Length) -> Result<Length, Failure> {
    match (written.duration_s, written.requests) {
        (Some(_), Some(_)) => {
            Err(Failure::usage("duration_s and requests are both given", "give one of them"))
        }
        (Some(seconds), None) => Ok(Length::Lasting(checks::duration(seconds, "duration_s")?)),
        (None, Some(requests)) => Ok(Length::Requests(requests)),
        (None, None) => Ok(usual),
    }
}

fn ttl(seconds: OneOrTwo<u64>) -> Result<Ttl, Failure> {
    let [least, most] = seconds.both();
    let fits = 0 < least && least <= most && most <= u64::from(u32::MAX);
    require(fits, &format!("ttl_s cannot be {least} to {most}"), "give seconds above 0, the lesser first")?;
    Ok(Ttl(least, most))
}

fn expect(expected: &ExpectFields) -> Result<Expect, Failure> {
    let hit_rate = expected.hit_rate.map(OneOrTwo::both);
    if let Some([least, most]) = hit_rate {
        let fits = 0.0 <= least && least <= most && most <= 1.0;
        require(fits, "expect.hit_rate is not a share", "give one or two between 0 and 1, the lesser first")?;
    }
    Ok(Expect { hit_rate, keys: expected.keys })
}

pub fn mode(written: &PhaseFields) -> Result<Mode, Failure> {
    let name = written.mode;
    let scheduled = matches!(name, ModeName::Open | ModeName::Ramp | ModeName::Search | ModeName::Sweep);
    let settings = [
        (
            "rate",
            written.rate.is_some(),
            matches!(name, ModeName::Open | ModeName::Search | ModeName::PubSub | ModeName::Blocking),
        ),
        ("ramp", written.ramp.is_some(), name == ModeName::Ramp),
        ("rates", written.rates.is_some(), name == ModeName::Sweep),
        ("limit", written.limit.is_some(), name == ModeName::Search),
        ("pubsub", written.pubsub.is_some(), name == ModeName::PubSub),
        ("blocking", written.blocking.is_some(), name == ModeName::Blocking),
        ("replay", written.replay.is_some(), name == ModeName::Replay),
        ("arrivals", written.arrivals.is_some(), scheduled),
    ];
    for (setting, given, taken) in settings {
        require(taken || !given, &format!("{setting} means nothing in this mode"), "correct mode")?;
    }
    let missing = |setting: &str| Failure::usage(format!("{setting} is missing"), "this mode needs it");
    let arrivals = written.arrivals.unwrap_or_default();
    let given_rate = written.rate.map(|rate| check_rate(rate, "rate")).transpose()?;
    Ok(match name {
        ModeName::Closed => Mode::Closed,
        ModeName::Open => Mode::Open { rate: given_rate.ok_or_else(|| missing("rate"))?, arrivals },
        ModeName::Ramp => Mode::Ramp { setting: written.ramp.ok_or_else(|| missing("ramp"))?, arrivals },
        ModeName::Search => {
            let limit = written.limit.ok_or_else(|| missing("limit"))?;
            Mode::Search { limit: limit.check("limit")?, arrivals, from: given_rate }
        }
        ModeName::Sweep => {
            let rates = written.rates.clone().ok_or_else(|| missing("rates"))?;
            require(!rates.is_empty(), "rates is empty", "give at least one")?;
            rates.iter().try_for_each(|each| check_rate(*each, "rates").map(drop))?;
            Mode::Sweep { rates, arrivals }
        }
        ModeName::Idle => Mode::Idle,
        ModeName::Churn => Mode::Churn,
        ModeName::PubSub => Mode::PubSub(written.pubsub.unwrap_or_default()).at_rate(given_rate),
        ModeName::Blocking => Mode::Blocking(written.blocking.unwrap_or_default()).at_rate(given_rate),
        ModeName::Replay => Mode::Replay(written.replay.clone().ok_or_else(|| missing("replay"))?),
    })
}
