//! RESP and memcached: commands as templates, and replies that are skipped.

pub mod command;
pub mod command_order;
pub mod expectation;
pub mod expected;
pub mod framed;
pub mod literal;
pub mod memcached;
pub mod message;
pub mod number;
pub mod replies;
pub mod reply;
pub mod resp;
pub mod script;
pub mod shapes;
pub mod skipper;
pub mod stride;
pub mod template;
