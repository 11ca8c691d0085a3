//! The outcome of a stage.

use crate::record::Record;
use crate::stage::{Span, Stage};

/// The span of a stage and what each thread counted in it.
pub struct Outcome {
    pub span: Span,
    pub records: Vec<Record>,
    pub probe: Option<Record>,
}

/// Returns the next stage, given the outcome of the one before; none ends the run.
pub type StageSource<'a> = &'a mut dyn FnMut(Option<Outcome>) -> Option<Stage>;
