//! What one thread counts besides its record.

#[derive(Default)]
pub struct Counts {
    pub published: u64,
    /// Deliveries that published messages should lead to.
    pub expected: u64,
    pub delivered: u64,
    pub duplicates: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.published += other.published;
        self.expected += other.expected;
        self.delivered += other.delivered;
        self.duplicates += other.duplicates;
    }
}
