//! The command line of `speedbench run`: words in, one checked [`Plan`] out.

pub mod help;
pub mod options;
pub mod phases;
pub mod values;
