//! Phases in the form of a workload file, so that a result can be given back as one.

use serde_json::{Value, json};

use crate::file::written::{
    DistributionName, Entry, Expected, Keys, ModeName, OneOrTwo, Request, Values, Written,
};
use crate::mode::Mode;
use crate::order::Order;
use crate::phase::{KeySpace, Length, Phase};
use crate::protocol_name::Protocol;
use crate::source::Origin;
use crate::workload::Item;
use generator::keys;
use generator::values::{Sizes, Ttl};
use text::secrets::without_password;
use text::words;

/// `phases` as a file would say them, every setting in words, but for the seed.
pub fn document(protocol: Protocol, phases: &[Phase]) -> Value {
    json!({ "protocol": protocol, "phase": phases.iter().map(written).collect::<Vec<_>>() })
}

/// `phase` as a file would say it, every setting in words.
pub fn written(phase: &Phase) -> Value {
    let value = serde_json::to_value(Written::from(phase)).expect("the keys are strings");
    without_nulls(value)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let told = fields.into_iter().filter(|(_, value)| !value.is_null());
            told.map(|(key, value)| (key, without_nulls(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

impl From<&Phase> for Written {
    fn from(phase: &Phase) -> Written {
        let workload = &phase.workload;
        let named = workload.name().filter(|_| !phase.mode.has_own_commands()).map(str::to_owned);
        let entries = |order| {
            let wanted = workload.name().is_none() && workload.order() == order;
            wanted.then(|| workload.items().iter().map(|item| Entry::of(item, order)).collect())
        };
        let (duration_s, requests) = match phase.length {
            Length::Lasting(window) => (Some(window.as_secs_f64()), None),
            Length::Requests(requests) => (None, Some(requests)),
        };
        let written = Written {
            name: Some(phase.name.clone()),
            test: named,
            commands: entries(Order::Mix),
            sequence: entries(Order::Sequence),
            clients: Some(phase.clients),
            threads: Some(phase.threads),
            pipeline: Some(phase.pipeline),
            window: Some(phase.window),
            keys: Keys::from(&phase.keys),
            values: Some(Values::from(&phase.values)),
            ttl_s: phase.ttl.map(|Ttl(least, most)| OneOrTwo::of([least, most])),
            prefill: phase.prefill,
            expect: Expected { hit_rate: phase.expect.hit_rate.map(OneOrTwo::of), keys: phase.expect.keys },
            verify: phase.verify,
            warmup_s: Some(phase.warmup.as_secs_f64()),
            warmup_most_s: phase.warmup_most.map(|most| most.as_secs_f64()),
            duration_s,
            requests,
            probe: phase.probe,
            resp3: phase.resp3,
            tracking: phase.tracking,
            ..Written::default()
        };
        written.with_mode(&phase.mode)
    }
}

impl Written {
    fn with_mode(self, mode: &Mode) -> Written {
        match mode {
            Mode::Closed => self,
            Mode::Idle => Written { mode: ModeName::Idle, ..self },
            Mode::Churn => Written { mode: ModeName::Churn, ..self },
            Mode::Open { rate, arrivals } => {
                Written { mode: ModeName::Open, rate: Some(*rate), arrivals: Some(*arrivals), ..self }
            }
            Mode::Search { limit, arrivals, from } => Written {
                mode: ModeName::Search,
                limit: Some(*limit),
                arrivals: Some(*arrivals),
                rate: *from,
                ..self
            },
            Mode::Sweep { rates, arrivals } => Written {
                mode: ModeName::Sweep,
                rates: Some(rates.clone()),
                arrivals: Some(*arrivals),
                ..self
            },
            Mode::PubSub(setting) => {
                Written { mode: ModeName::PubSub, rate: setting.rate, pubsub: Some(*setting), ..self }
            }
            Mode::Blocking(setting) => {
                Written { mode: ModeName::Blocking, rate: setting.rate, blocking: Some(*setting), ..self }
            }
        }
    }
}

impl Entry {
    fn of(item: &Item<Origin>, order: Order) -> Entry {
        let (test, request) = match item.source {
            Origin::Test(name) => (Some(name.to_owned()), None),
            Origin::Request(words) => (None, Some(Request::Text(words::join(&without_password(words))))),
        };
        let count = |wanted: Order| (order == wanted).then_some(item.count);
        let (weight, times) = (count(Order::Mix), count(Order::Sequence));
        Entry { request, test, name: Some(item.name.clone()), weight, times }
    }
}

impl From<&KeySpace> for Keys {
    fn from(keys: &KeySpace) -> Keys {
        use keys::Distribution as D;
        let of = |distribution| Keys { count: Some(keys.count), distribution, ..Keys::default() };
        match keys.distribution {
            D::Uniform => of(DistributionName::Uniform),
            D::Sequential => of(DistributionName::Sequential),
            D::Parts => of(DistributionName::Parts),
            D::Zipf { exponent } => Keys { exponent: Some(exponent), ..of(DistributionName::Zipf) },
            D::Latest { exponent } => Keys { exponent: Some(exponent), ..of(DistributionName::Latest) },
            D::Gaussian { mean, deviation } => {
                Keys { mean: Some(mean), deviation: Some(deviation), ..of(DistributionName::Gaussian) }
            }
            D::Hotspot { hot_keys, hot_requests } => Keys {
                hot_keys: Some(hot_keys),
                hot_requests: Some(hot_requests),
                ..of(DistributionName::Hotspot)
            },
        }
    }
}

impl From<&Sizes> for Values {
    fn from(sizes: &Sizes) -> Values {
        match sizes {
            Sizes::Fixed(bytes) => Values { bytes: Some(*bytes), ..Values::default() },
            Sizes::Range(least, most) => Values { range: Some([*least, *most]), ..Values::default() },
            Sizes::Weighted(sizes) => Values { weighted: Some(sizes.clone()), ..Values::default() },
        }
    }
}
