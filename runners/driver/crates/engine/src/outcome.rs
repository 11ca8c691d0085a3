//! The outcome of a stage.

use crate::record::Record;
use crate::stage::{Span, Stage};
use text::failure::Failure;

/// Why and when a stage ended before its time.
#[derive(Debug, Clone)]
pub struct Cut {
    /// Monotonic ns.
    pub at: u64,
    pub failure: Failure,
}

/// The span of a stage and what each thread counted in it.
pub struct Outcome {
    pub span: Span,
    pub records: Vec<Record>,
    pub probe: Option<Record>,
    /// None of a stage that is whole.
    pub cut: Option<Cut>,
}

impl Outcome {
    /// The outcome of a stage that is whole; else the failure that cut it short.
    pub fn whole(self) -> Result<Outcome, Failure> {
        match self.cut {
            None => Ok(self),
            Some(cut) => Err(cut.failure),
        }
    }

    /// Whether a reply was counted.
    pub fn is_counted(&self) -> bool {
        self.records.iter().any(|record| record.inside.replies > 0)
    }
}

/// Returns the next stage, given the outcome of the one before; none ends the run. After an outcome that is cut short no
/// stage is run.
pub type StageSource<'a> = &'a mut dyn FnMut(Option<Outcome>) -> Option<Stage>;
