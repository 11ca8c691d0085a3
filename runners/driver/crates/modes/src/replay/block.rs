//! Requests on their way from the reader of a recording to the threads that send them.

/// Blocks have about this many bytes or requests.
const FULL_BYTES: usize = 128 * 1024;
const FULL_ITEMS: usize = 2048;

/// One request of a block.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// The number of its connection among those of the thread.
    pub token: u32,
    /// The number of its command among those of the recording.
    pub command: u16,
    /// Replies before its own to what was sent with it: SELECT.
    pub unasked: u8,
    /// Whether a null says that its key was not there.
    pub reads: bool,
    pub bytes: usize,
    /// ns after the begin; 0 when there are no times.
    pub due_ns: u64,
}

/// Requests with their bytes, one behind the other.
#[derive(Default)]
pub struct Block {
    pub bytes: Vec<u8>,
    pub items: Vec<Item>,
}

impl Block {
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES || self.items.len() >= FULL_ITEMS
    }

    /// Forget the requests, but not the room for them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * FULL_BYTES);
        self.items.clear();
    }
}
