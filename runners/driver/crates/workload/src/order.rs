//! What the counts of the commands of a workload mean.

use protocol::command::Command;
use protocol::script::{ScanLimit, Script};

/// What the counts of items mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Weights of a mix.
    Mix,
    /// Weights of a mix that comes in decks: first all of the first command, then all of the second one.
    Decks,
    /// How often each is repeated before the next one comes.
    Sequence,
    /// None: the first command begins a scan, the second one goes on with it.
    Scan(ScanLimit),
}

impl Order {
    /// The script of commands with their counts.
    pub fn script(self, counted: Vec<(u64, Command)>, seed: u64) -> Script {
        match self {
            Order::Mix if counted.len() > 1 => Script::mix(counted, seed),
            Order::Decks if counted.len() > 1 => Script::decks(counted),
            Order::Mix | Order::Decks => {
                Script::sequence(counted.into_iter().map(|(_, command)| (1, command)).collect())
            }
            Order::Scan(limit) => {
                Script::scan(counted.into_iter().map(|(_, command)| command).collect(), limit)
            }
            Order::Sequence => Script::sequence(
                counted.into_iter().map(|(times, command)| (times as usize, command)).collect(),
            ),
        }
    }
}
