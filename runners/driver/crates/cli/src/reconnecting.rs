//! The options of going on when connections are lost; `run` and memtier share them.

use std::time::Duration;

use clap::Args;

use crate::values::seconds;
use engine::recovery::Recovery;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Going on")]
pub struct ReconnectOptions {
    /// go on when connections are lost or slots move: open them again, follow MOVED and ASK
    #[arg(long = "reconnect-on-error")]
    on_error: bool,
    /// end the run when so many attempts of a connection in a row have failed (0: never)
    #[arg(long = "max-reconnect-attempts", value_name = "N")]
    attempts: Option<u32>,
    /// by which each pause before an attempt is longer than the last
    #[arg(long = "reconnect-backoff-factor", value_name = "F")]
    factor: Option<f64>,
    /// an attempt fails after S seconds
    #[arg(long = "connection-timeout", value_name = "S", value_parser = |text: &str| seconds("--connection-timeout", text))]
    connect_timeout: Option<Duration>,
}

impl ReconnectOptions {
    /// As the options say, and else as `usual`; none unless they are asked for.
    pub fn recovery(&self, usual: Recovery) -> Option<Recovery> {
        let timeout = self.connect_timeout.filter(|timeout| !timeout.is_zero());
        self.on_error.then(|| Recovery {
            attempts: self.attempts.filter(|attempts| *attempts > 0).or(usual.attempts),
            factor: self.factor.unwrap_or(usual.factor),
            connect_timeout: timeout.unwrap_or(usual.connect_timeout),
            ..usual
        })
    }

    /// By which the first pause is longer than the usual one, as memtier has it.
    pub fn factor(&self) -> f64 {
        self.factor.unwrap_or(1.0).max(1.0)
    }
}
