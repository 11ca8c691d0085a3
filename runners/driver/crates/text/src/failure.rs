//! Why nothing was measured: one line, the cause and the remedy.

use std::{fmt, io};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The command line cannot be obeyed: exit code 2.
    Usage(String),
    /// The server or the machine did not let the measurement happen: exit code 1.
    Run(String),
    /// A resource of this machine is exhausted, whatever the server does: exit code 1.
    Machine(String),
    /// A signal asked the program to end: exit code 128 and its number.
    Signal(u8, String),
}

impl Failure {
    pub fn usage(cause: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Failure::Usage(one_line(format!("{cause}: {remedy}")))
    }

    pub fn run(cause: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Failure::Run(one_line(format!("{cause}: {remedy}")))
    }

    pub fn machine(cause: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Failure::Machine(one_line(format!("{cause}: {remedy}")))
    }

    /// `signal`, called `name`, asked the program to end.
    pub fn signal(signal: i32, name: &str) -> Self {
        Failure::Signal(
            signal as u8,
            format!("{name} ended the run: what it had counted until then was kept"),
        )
    }

    /// The same failure, with its place in front of the message.
    pub fn within(self, place: impl fmt::Display) -> Self {
        self.with(|line| one_line(format!("{place}: {line}")))
    }

    /// All of `failures` as one, in their order; the exit code is that of the first. None of none.
    pub fn joined(failures: impl IntoIterator<Item = Failure>) -> Option<Failure> {
        failures.into_iter().reduce(|first, later| first.with(|line| format!("{line}; {later}")))
    }

    /// The same failure with another line.
    pub fn with(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Failure::Usage(line) => Failure::Usage(change(line)),
            Failure::Run(line) => Failure::Run(change(line)),
            Failure::Machine(line) => Failure::Machine(change(line)),
            Failure::Signal(signal, line) => Failure::Signal(signal, change(line)),
        }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Run(_) | Failure::Machine(_) => 1,
            Failure::Signal(signal, _) => 128 + signal,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(line) | Failure::Run(line) | Failure::Machine(line) | Failure::Signal(_, line) => {
                f.write_str(line)
            }
        }
    }
}

impl std::error::Error for Failure {}

/// The failure of a system call that fails only when a resource of this machine is exhausted.
pub fn machine_failure(error: io::Error) -> Failure {
    Failure::machine(
        format!("a system call failed ({error})"),
        "check limits of files and memory (ulimit -a)",
    )
}

/// Messages contain texts of servers and arguments, which may hold line breaks: replace them.
fn one_line(text: String) -> String {
    text.replace(|c: char| c.is_control(), " ")
}
