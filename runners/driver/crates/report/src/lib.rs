//! Results: the document, and the table, the CSV and the log that are made of it.

pub mod csv;
pub mod document;
pub mod flags;
pub mod hdr_log;
pub mod html;
pub mod intervals;
pub mod joined;
pub mod ladder;
pub mod notes;
pub mod prefill;
pub mod progress_line;
pub mod recovery;
pub mod result;
pub mod search;
pub mod steps;
pub mod table;
pub mod usage;
pub mod warmup;
pub mod written;
