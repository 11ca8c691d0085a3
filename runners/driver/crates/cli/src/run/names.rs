//! The names of settings in messages.

use workload::phase_check::SettingNames;

/// What the settings of a workload are called on the command line.
pub const TERMS: SettingNames = SettingNames {
    clients: "-c",
    threads: "--threads",
    pipeline: "-P",
    keys: "-r",
    bytes: "-d",
    length: "-n or --duration",
    resp3: "-3",
    tracking: "--tracking",
};
