//! What every part of the program needs for its messages: failures, units, words of commands, hidden passwords.

pub mod checks;
pub mod failure;
pub mod numbers;
pub mod output;
pub mod secrets;
pub mod units;
pub mod words;
