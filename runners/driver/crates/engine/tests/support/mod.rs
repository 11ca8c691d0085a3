pub mod stalling;
