//! What programs say and read: failures, units, words, and no passwords.

pub mod checks;
pub mod failure;
pub mod output;
pub mod secrets;
pub mod units;
pub mod words;
