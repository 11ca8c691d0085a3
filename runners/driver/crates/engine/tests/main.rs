//! What concerns several parts of the engine, in one program.

mod batch;
mod ketama;
mod numbers;
mod open_loop;
mod schedule;
mod support;
mod window;
