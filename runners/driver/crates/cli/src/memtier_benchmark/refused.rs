//! Options of memtier_benchmark that this front end has not.

use crate::suggestions::Habit;

const NOT_HERE: &str = "memtier_benchmark has it, this front end has not";

pub const REFUSED: [Habit; 4] = [
    ("-D", NOT_HERE),
    ("--debug", NOT_HERE),
    ("--graphite-port", NOT_HERE),
    ("--data-offset", "write SETRANGE and GETRANGE with --command"),
];
