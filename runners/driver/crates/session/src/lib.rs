//! A run from the first connection to the document.

pub mod fresh_server;
pub mod ladder;
pub mod modes;
pub mod prefill;
pub mod rate_search;
pub mod rates;
pub mod replay;
pub mod run;
pub mod session;
pub mod warmup;
