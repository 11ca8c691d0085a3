//! Options of memtier_benchmark that this front end has not.

use crate::suggestions::Habit;

const NOT_HERE: &str = "memtier_benchmark has it, this front end has not";
const DATA: &str =
    "data files are not imported here; values are drawn, and `speedbench run --workload` can verify them";

pub const REFUSED: [Habit; 9] = [
    ("-D", NOT_HERE),
    ("--debug", NOT_HERE),
    ("--graphite-port", NOT_HERE),
    ("--data-offset", "write SETRANGE and GETRANGE with --command"),
    ("--data-import", DATA),
    ("--data-verify", DATA),
    ("--verify-only", DATA),
    ("--generate-keys", DATA),
    ("--no-expiry", DATA),
];
