//! Ladders: the same load at several values of one setting, the axis.

use crate::mode::Mode;
use crate::phase::Phase;
use crate::phase_check::SettingNames;
use crate::plan::Plan;
use engine::schedule::{ArrivalProcess, check_rate};
use generator::rng::Rng;
use generator::values::Sizes;
use text::checks::require;
use text::failure::Failure;
use text::numbers::{BYTES, THOUSANDS, measured};

/// No ladder has more rungs.
const MOST_RUNGS: usize = 200;
/// Seeds of a ladder's order are not those of its requests.
const ORDER_STREAM: u64 = u64::MAX - 2;

/// The setting that differs from rung to rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Clients,
    Pipeline,
    ValueBytes,
    KeyBytes,
    Keys,
    Rate,
}

const AXES: [(&str, Axis); 6] = [
    ("clients", Axis::Clients),
    ("pipeline", Axis::Pipeline),
    ("value-bytes", Axis::ValueBytes),
    ("key-bytes", Axis::KeyBytes),
    ("keys", Axis::Keys),
    ("rate", Axis::Rate),
];

/// The values of one setting, which rise.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    pub axis: Axis,
    pub values: Vec<f64>,
}

impl Axis {
    pub fn name(self) -> &'static str {
        AXES.iter().find(|(_, axis)| *axis == self).map_or("", |(name, _)| name)
    }

    /// One value, or those of a range; 10k is 10000, and 4kb are 4096 bytes.
    fn steps(self, text: &str) -> Option<Vec<f64>> {
        let units = match self {
            Axis::ValueBytes | Axis::KeyBytes => BYTES.as_slice(),
            _ => THOUSANDS.as_slice(),
        };
        let number = |text: &str| measured(&text.replace('_', ""), units).filter(|number| number.is_finite());
        let Some((first, last)) = text.split_once("..") else { return Some(vec![number(text)?]) };
        let (first, last) = (number(first)?, number(last)?);
        let fits = first > 0.0 && first < last;
        let usual = (0..=12).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
        let between = usual.filter(|step| first < *step && *step < last);
        fits.then(|| [first].into_iter().chain(between).chain([last]).collect())
    }

    /// `phase` with `value` of this setting. There are never more threads than connections.
    pub fn set(self, phase: &Phase, value: f64) -> Phase {
        let (mut phase, whole) = (phase.clone(), value as u64);
        match self {
            Axis::Clients => {
                phase.clients = whole as usize;
                phase.threads = phase.threads.min(phase.clients);
            }
            Axis::Pipeline => phase.pipeline = whole as usize,
            Axis::ValueBytes => phase.values = Sizes::Fixed(whole as usize),
            Axis::KeyBytes => phase.keys.bytes = Some(whole as usize),
            Axis::Keys => phase.keys.count = whole,
            Axis::Rate => {
                let arrivals = match phase.mode {
                    Mode::Open { arrivals, .. } => arrivals,
                    _ => ArrivalProcess::default(),
                };
                phase.mode = Mode::Open { rate: value, arrivals };
            }
        }
        phase
    }

    /// A usage failure when the setting means nothing to `phase`.
    pub fn check(self, phase: &Phase) -> Result<(), Failure> {
        let is_one_load = match self {
            Axis::Rate => matches!(phase.mode, Mode::Closed | Mode::Open { .. }),
            Axis::Clients if phase.mode.ramps_clients() => false,
            _ => !matches!(phase.mode, Mode::Search { .. } | Mode::Sweep { .. }),
        };
        require(
            is_one_load,
            &format!("a ladder of {} is asked for in mode {}", self.name(), phase.mode.name()),
            "each rung is one load: a closed loop, or an open one at one rate",
        )
    }
}

impl Ladder {
    /// `clients=1,2,5,10..300`: values that rise, and `A..B` for A, the steps 1, 2, 5, 10 ... between, and B.
    pub fn parse(text: &str) -> Result<Ladder, Failure> {
        let wrong = || {
            let names = AXES.map(|(name, _)| name).join(", ");
            let remedy = format!("give one of {names} with its values, as in clients=1,2,5,10..300");
            Failure::usage(format!("--ladder cannot be '{text}'"), remedy)
        };
        let (name, list) = text.split_once('=').ok_or_else(wrong)?;
        let axis = AXES.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?.1;
        let parts: Option<Vec<Vec<f64>>> = list.split(',').map(|part| axis.steps(part)).collect();
        let mut values: Vec<f64> = parts.ok_or_else(wrong)?.into_iter().flatten().collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let ladder = Ladder { axis, values };
        ladder.check()?;
        Ok(ladder)
    }

    fn check(&self) -> Result<(), Failure> {
        require(
            self.values.len() <= MOST_RUNGS,
            &format!("--ladder has {} values", self.values.len()),
            "give at most 200",
        )?;
        for value in &self.values {
            let is_count = value.fract() == 0.0 && (0.0..=1e12).contains(value);
            match self.axis {
                Axis::Rate => check_rate(*value, "--ladder rate").map(drop)?,
                _ => require(
                    is_count,
                    &format!("--ladder {} cannot be {value}", self.axis.name()),
                    "give whole numbers",
                )?,
            }
        }
        Ok(())
    }

    /// `plan` at each value; settings are called as `names` says in usage failures.
    pub fn plans(&self, plan: &Plan, names: &SettingNames) -> Result<Vec<Plan>, Failure> {
        let at = |value: &f64| {
            let place = format!("{} = {value}", self.axis.name());
            self.plan(plan, *value, names).map_err(|failure| failure.within(place))
        };
        self.values.iter().map(at).collect()
    }

    fn plan(&self, plan: &Plan, value: f64, names: &SettingNames) -> Result<Plan, Failure> {
        plan.phases.iter().try_for_each(|phase| self.axis.check(phase))?;
        let phases = plan.phases.iter().map(|phase| self.axis.set(phase, value)).collect();
        let rung = Plan { phases, ..plan.clone() };
        rung.phases.iter().try_for_each(|phase| phase.check(names, rung.protocol))?;
        rung.check()?;
        Ok(rung)
    }

    /// The places of its values in the order in which they are measured: what changes with time is not taken for the axis.
    pub fn order(&self, seed: u64) -> Vec<usize> {
        let (mut order, mut rng) =
            ((0..self.values.len()).collect::<Vec<_>>(), Rng::stream(seed, ORDER_STREAM));
        for last in (1..order.len()).rev() {
            order.swap(last, rng.below(last as u64 + 1) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol_name::ProtocolName;
    use crate::workload::Workload;

    #[test]
    fn a_range_has_usual_steps() {
        let values = |text: &str| Ladder::parse(text).unwrap().values;
        assert_eq!(values("clients=1,2,5,10..300"), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0]);
        assert_eq!(values("rate=30..70,2.5"), [2.5, 30.0, 50.0, 70.0]);
        assert_eq!(values("value-bytes=1_000_000,10,10"), [10.0, 1e6]);
        assert_eq!(values("rate=1k..5k,1.5k"), [1000.0, 1500.0, 2000.0, 5000.0]);
        assert_eq!(values("value-bytes=4k,4kb,1mb"), [4000.0, 4096.0, 1_048_576.0]);
        assert_eq!(values("keys=2m"), [2e6]);
    }

    #[test]
    fn a_ladder_that_is_none_is_refused() {
        for text in [
            "clients",
            "conns=1",
            "clients=",
            "clients=a",
            "clients=5..2",
            "clients=1.5",
            "rate=0",
            "rate=10kb",
            "clients=infk",
            "keys=-1",
        ] {
            let message = Ladder::parse(text).err().unwrap().to_string();
            assert!(message.starts_with("--ladder"), "{message}");
        }
    }

    #[test]
    fn every_value_comes_once_and_the_seed_decides_when() {
        let ladder = Ladder::parse("keys=1..1000").unwrap();
        let mut order = ladder.order(1);
        assert_eq!((&order, order == ladder.order(2)), (&ladder.order(1), false));
        order.sort_unstable();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_rung_differs_in_its_setting_only() {
        let phase = Phase { threads: 4, ..Phase::of(Workload::named(ProtocolName::Resp, "get").unwrap()) };
        let one = Axis::Clients.set(&phase, 1.0);
        assert_eq!((one.clients, one.threads, one.pipeline), (1, 1, 1));
        assert_eq!(Axis::KeyBytes.set(&phase, 200.0).keys.bytes, Some(200));
        assert_eq!(Axis::Rate.set(&phase, 2.5).mode.name(), "open");
    }
}
