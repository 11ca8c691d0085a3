//! This machine: its clocks, its system calls, and what it says of processes and of itself.

pub mod clock;
pub mod counters;
pub mod environment;
pub mod epoll;
pub mod perf;
pub mod process;
pub mod socket;
pub mod this_thread;
