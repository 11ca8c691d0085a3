//! What connections do besides sending requests as fast as the server answers: stay idle, open and close, subscribe,
//! block. Each mode counts with the meter of the load, so a result has the same fields and means the same.

pub mod blocking;
pub mod churn;
pub mod findings;
pub mod idle;
pub mod message_connection;
pub mod openings;
pub mod parallel;
pub mod pubsub;
pub mod replay;
pub mod stamp;
pub mod timing;
