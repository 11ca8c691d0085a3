//! Recorded traffic: MONITOR's output, append-only files and cache traces, read as requests one after the other in constant
//! memory, whatever the length of the file.

pub mod append_only;
pub mod cache_trace;
pub mod commands;
pub mod digest;
pub mod format;
pub mod input;
pub mod monitor;
pub mod omission;
pub mod recording;
pub mod request;
pub mod timing;
