//! This machine: clocks, system calls, processes, and facts of the hardware.

pub mod clock;
pub mod counters;
pub mod environment;
pub mod epoll;
pub mod perf;
pub mod process;
pub mod signals;
pub mod socket;
pub mod terminal;
pub mod this_thread;
