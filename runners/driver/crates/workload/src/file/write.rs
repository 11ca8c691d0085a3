//! Phases in the form of a workload file, so that a result can be given back as one.

use serde_json::{Value, json};

use crate::file::written::{
    CommandFields, DistributionName, ExpectFields, KeyFields, ModeName, OneOrTwo, PhaseFields, Request,
    ValueFields,
};
use crate::mode::Mode;
use crate::order::Order;
use crate::phase::{KeySpace, Length, Phase};
use crate::protocol_name::ProtocolName;
use crate::source::Origin;
use crate::workload::Item;
use generator::keys;
use generator::values::{Sizes, Ttl};
use text::secrets::without_password;
use text::words;

/// `phases` as a workload file with every setting but the seed.
pub fn document(protocol: ProtocolName, phases: &[Phase]) -> Value {
    json!({ "protocol": protocol, "phase": phases.iter().map(written).collect::<Vec<_>>() })
}

/// `phase` as in a workload file, with every setting.
pub fn written(phase: &Phase) -> Value {
    let value = serde_json::to_value(PhaseFields::from(phase)).expect("the keys are strings");
    without_nulls(value)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let present = fields.into_iter().filter(|(_, value)| !value.is_null());
            present.map(|(key, value)| (key, without_nulls(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

impl From<&Phase> for PhaseFields {
    fn from(phase: &Phase) -> PhaseFields {
        let workload = &phase.workload;
        let named = workload.name().filter(|_| !phase.mode.has_own_commands()).map(str::to_owned);
        let entries = |order| {
            let is_of_order = workload.name().is_none() && workload.order() == order;
            is_of_order.then(|| workload.items().iter().map(|item| CommandFields::of(item, order)).collect())
        };
        let (duration_s, requests) = match phase.length {
            Length::Lasting(window) => (Some(window.as_secs_f64()), None),
            Length::Requests(requests) => (None, Some(requests)),
        };
        let written = PhaseFields {
            name: Some(phase.name.clone()),
            test: named,
            commands: entries(Order::Mix),
            sequence: entries(Order::Sequence),
            clients: Some(phase.clients),
            threads: Some(phase.threads),
            pipeline: Some(phase.pipeline),
            window: Some(phase.window),
            keys: KeyFields::from(&phase.keys),
            values: Some(ValueFields::from(&phase.values)),
            ttl_s: phase.ttl.map(|Ttl(least, most)| OneOrTwo::of([least, most])),
            prefill: phase.prefill,
            prefill_request: phase.prefill_request.as_ref().map(|words| Request::Text(words::join(words))),
            expect: ExpectFields {
                hit_rate: phase.expect.hit_rate.map(OneOrTwo::of),
                keys: phase.expect.keys,
            },
            verify: phase.verify,
            warmup_s: Some(phase.warmup.as_secs_f64()),
            warmup_most_s: phase.warmup_most.map(|most| most.as_secs_f64()),
            duration_s,
            requests,
            probe: phase.probe,
            resp3: phase.resp3,
            tracking: phase.tracking,
            seed: phase.seed,
            ..PhaseFields::default()
        };
        written.with_mode(&phase.mode)
    }
}

impl PhaseFields {
    fn with_mode(self, mode: &Mode) -> PhaseFields {
        match mode {
            Mode::Closed => self,
            Mode::Idle => PhaseFields { mode: ModeName::Idle, ..self },
            Mode::Churn => PhaseFields { mode: ModeName::Churn, ..self },
            Mode::Open { rate, arrivals } => {
                PhaseFields { mode: ModeName::Open, rate: Some(*rate), arrivals: Some(*arrivals), ..self }
            }
            Mode::Ramp { setting, arrivals } => {
                let arrivals = (!mode.ramps_clients()).then_some(*arrivals);
                PhaseFields { mode: ModeName::Ramp, ramp: Some(*setting), arrivals, ..self }
            }
            Mode::Search { limit, arrivals, from } => PhaseFields {
                mode: ModeName::Search,
                limit: Some(*limit),
                arrivals: Some(*arrivals),
                rate: *from,
                ..self
            },
            Mode::Sweep { rates, arrivals } => PhaseFields {
                mode: ModeName::Sweep,
                rates: Some(rates.clone()),
                arrivals: Some(*arrivals),
                ..self
            },
            Mode::PubSub(setting) => {
                PhaseFields { mode: ModeName::PubSub, rate: setting.rate, pubsub: Some(*setting), ..self }
            }
            Mode::Blocking(setting) => {
                PhaseFields { mode: ModeName::Blocking, rate: setting.rate, blocking: Some(*setting), ..self }
            }
            Mode::Replay(setting) => {
                PhaseFields { mode: ModeName::Replay, replay: Some(setting.clone()), ..self }
            }
        }
    }
}

impl CommandFields {
    fn of(item: &Item<Origin>, order: Order) -> CommandFields {
        let (test, request) = match item.source {
            Origin::Test(name) => (Some(name.to_owned()), None),
            Origin::Request(words) => (None, Some(Request::Text(words::join(&without_password(words))))),
        };
        let count = |is_of_order: Order| (order == is_of_order).then_some(item.count);
        let (weight, times) = (count(Order::Mix), count(Order::Sequence));
        CommandFields { request, test, name: Some(item.name.clone()), weight, times }
    }
}

impl From<&KeySpace> for KeyFields {
    fn from(keys: &KeySpace) -> KeyFields {
        use keys::Distribution as D;
        let of = |distribution| KeyFields {
            count: Some(keys.count),
            bytes: keys.bytes,
            distribution,
            ..KeyFields::default()
        };
        match keys.distribution {
            D::Uniform => of(DistributionName::Uniform),
            D::Sequential => of(DistributionName::Sequential),
            D::Parts => of(DistributionName::Parts),
            D::Cycle => of(DistributionName::Cycle),
            D::Zipf { exponent, first_rank } => {
                KeyFields { exponent: Some(exponent), first_rank, ..of(DistributionName::Zipf) }
            }
            D::Latest { exponent } => KeyFields { exponent: Some(exponent), ..of(DistributionName::Latest) },
            D::Gaussian { mean, deviation } => {
                KeyFields { mean: Some(mean), deviation: Some(deviation), ..of(DistributionName::Gaussian) }
            }
            D::Hotspot { hot_keys, hot_requests } => KeyFields {
                hot_keys: Some(hot_keys),
                hot_requests: Some(hot_requests),
                ..of(DistributionName::Hotspot)
            },
        }
    }
}

impl From<&Sizes> for ValueFields {
    fn from(sizes: &Sizes) -> ValueFields {
        match sizes {
            Sizes::Fixed(bytes) => ValueFields { bytes: Some(*bytes), ..ValueFields::default() },
            Sizes::Range(least, most) => {
                ValueFields { range: Some([*least, *most]), ..ValueFields::default() }
            }
            Sizes::Weighted(sizes) => ValueFields { weighted: Some(sizes.clone()), ..ValueFields::default() },
        }
    }
}
