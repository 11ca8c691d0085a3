//! When recorded requests are due: never before those that precede them, and spread where times are whole seconds.

use crate::recording::{Next, Recording};
use crate::request::Request;
use text::failure::Failure;

const SECOND_NS: u64 = 1_000_000_000;

/// Times that ran backwards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backward {
    pub count: u64,
    pub first: Option<String>,
    pub most_ns: u64,
}

/// The times of a recording since its first request.
pub struct Timing {
    /// Reads the same file ahead where times are whole seconds: how many requests have the next one.
    scout: Option<Scout>,
    first_ns: Option<u64>,
    latest_ns: u64,
    /// Of the current second: requests so far, and all.
    within: (u64, u64),
    pub backward: Backward,
}

struct Scout {
    recording: Recording,
    request: Request,
    /// The second of the request that was read last; none at the end.
    second: Option<u64>,
}

impl Timing {
    /// `scout` is a second reader of the same file if its times are whole seconds.
    pub fn new(scout: Option<Recording>) -> Result<Timing, Failure> {
        let mut scout = scout.map(|recording| Scout { recording, request: Request::default(), second: None });
        if let Some(scout) = &mut scout {
            scout.advance()?;
        }
        let backward = Backward::default();
        Ok(Timing { scout, first_ns: None, latest_ns: 0, within: (0, 0), backward })
    }

    /// ns since the first request at which one is due that was recorded at `at_ns`, at `place`.
    pub fn due_ns(&mut self, at_ns: u64, place: impl FnOnce() -> String) -> Result<u64, Failure> {
        let first_ns = *self.first_ns.get_or_insert(at_ns);
        if at_ns < self.latest_ns {
            self.backward.count += 1;
            self.backward.first.get_or_insert_with(place);
            self.backward.most_ns = self.backward.most_ns.max(self.latest_ns - at_ns);
        }
        if at_ns > self.latest_ns || self.within == (0, 0) {
            self.latest_ns = at_ns.max(self.latest_ns);
            if let Some(scout) = &mut self.scout {
                self.within = (0, scout.count(self.latest_ns)?);
            }
        }
        let mut due_ns = self.latest_ns;
        if self.scout.is_some() {
            let (number, all) = self.within;
            due_ns += (SECOND_NS as f64 * number as f64 / all.max(1) as f64) as u64;
            self.within.0 = (number + 1).min(all.saturating_sub(1));
        }
        Ok(due_ns - first_ns.min(due_ns))
    }
}

impl Scout {
    fn advance(&mut self) -> Result<(), Failure> {
        self.second = loop {
            match self.recording.next(&mut self.request)? {
                Next::Request => break self.request.at_ns,
                Next::LeftOut(_) => {}
                Next::End | Next::Broken(_) => break None,
            }
        };
        Ok(())
    }

    /// The number of requests from here on until one is later than `at_ns`.
    fn count(&mut self, at_ns: u64) -> Result<u64, Failure> {
        let mut count = 0;
        while self.second.is_some_and(|second| second <= at_ns) {
            count += 1;
            self.advance()?;
        }
        Ok(count)
    }
}
