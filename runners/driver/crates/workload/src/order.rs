//! What the counts of the commands of a workload mean.

use protocol::command::Command;
use protocol::script::Script;

/// What the counts of items mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Weights of a mix.
    Mix,
    /// How often each is repeated before the next one comes.
    Sequence,
}

impl Order {
    /// The script of commands with their counts.
    pub fn script(self, counted: Vec<(u64, Command)>, seed: u64) -> Script {
        match self {
            Order::Mix if counted.len() > 1 => Script::mix(counted, seed),
            Order::Mix => Script::sequence(counted.into_iter().map(|(_, command)| (1, command)).collect()),
            Order::Sequence => Script::sequence(
                counted.into_iter().map(|(times, command)| (times as usize, command)).collect(),
            ),
        }
    }
}
