//! What connections do besides sending requests as fast as the server answers: nothing, coming and going, listening,
//! waiting. Each mode counts with the meter of the load, so a result has the same fields and means the same.

pub mod blocking;
pub mod churn;
pub mod findings;
pub mod idle;
pub mod line;
pub mod openings;
pub mod parallel;
pub mod pubsub;
pub mod stamp;
pub mod timing;
