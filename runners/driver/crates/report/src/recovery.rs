//! How a load went on when connections were lost or refused.

use serde::{Deserialize, Serialize};

use engine::recovery::Losses;
use text::units::{round, seconds};

#[derive(Debug, Serialize, Deserialize)]
pub struct Recovery {
    /// Connections that were lost, and opened again.
    pub broken: u64,
    pub reconnects: u64,
    pub lost: u64,
    pub redirected: u64,
    pub errors_per_s: Vec<u64>,
    pub longest_gap_s: f64,
    /// The longest outage; none when one has not ended.
    pub recovery_s: Option<f64>,
    pub outages: Vec<Outage>,
}

/// From the first error of some connection until all had good replies again.
#[derive(Debug, Serialize, Deserialize)]
pub struct Outage {
    /// Since the begin of the window.
    pub after_s: f64,
    pub lasted_s: Option<f64>,
}

impl Recovery {
    /// Of a window that began at `began`, monotonic ns.
    pub fn of(losses: &Losses, began: u64) -> Recovery {
        let rounded = |ns: u64| round(seconds(ns), 6);
        let merged = losses.merged_outages();
        let lasted = |(from, to): &(u64, u64)| (*to < u64::MAX).then(|| to.saturating_sub(*from));
        let longest = merged.iter().map(lasted).try_fold(0, |longest, lasted| Some(lasted?.max(longest)));
        let outage = |outage: &(u64, u64)| Outage {
            after_s: rounded(outage.0.saturating_sub(began)),
            lasted_s: lasted(outage).map(rounded),
        };
        Recovery {
            broken: losses.broken,
            reconnects: losses.reconnects,
            lost: losses.lost,
            redirected: losses.redirected,
            errors_per_s: losses.errors_per_s.clone(),
            longest_gap_s: rounded(losses.longest_gap_ns()),
            recovery_s: longest.map(rounded),
            outages: merged.iter().map(outage).collect(),
        }
    }

    /// One line for those who read.
    pub fn note(&self) -> String {
        let recovered = match self.recovery_s {
            None => "not recovered".to_owned(),
            Some(recovery_s) => format!("recovered in {recovery_s:.3} s"),
        };
        format!(
            "{recovered}, longest gap {:.3} s; {} broken, {} lost, {} redirected",
            self.longest_gap_s, self.broken, self.lost, self.redirected
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_without_an_end_is_no_recovery() {
        let mut losses = Losses { outages: vec![(5_000_000, 9_000_000)], ..Losses::default() };
        let whole = Recovery::of(&losses, 1_000_000);
        assert_eq!((whole.recovery_s, whole.outages[0].after_s), (Some(0.004), 0.004));
        losses.outages.push((20_000_000, u64::MAX));
        let lasting = Recovery::of(&losses, 1_000_000);
        assert_eq!((lasting.recovery_s, lasting.outages.len()), (None, 2));
        assert_eq!(Recovery::of(&Losses::default(), 0).recovery_s, Some(0.0));
    }
}
