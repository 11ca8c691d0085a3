//! Bytes that are copied into many requests.

/// Bytes that are copied into many requests, as fast as their length allows.
#[derive(Debug, Clone, Default)]
pub struct Literal {
    pub bytes: Vec<u8>,
    /// The bytes and then zeros, when they are few: a copy of a constant length is a few instructions.
    block: Option<[u8; BLOCK_BYTES]>,
}

/// Literals that are no longer are copied as a block.
pub const BLOCK_BYTES: usize = 64;

impl From<Vec<u8>> for Literal {
    fn from(bytes: Vec<u8>) -> Literal {
        let block = block(&bytes);
        Literal { bytes, block }
    }
}

impl Literal {
    /// Write its bytes to the begin of `place`, which has room for a block; what is behind them may change, too.
    #[inline(always)]
    pub fn render(&self, place: &mut [u8]) {
        match &self.block {
            Some(block) => place[..BLOCK_BYTES].copy_from_slice(block),
            None => place[..self.bytes.len()].copy_from_slice(&self.bytes),
        }
    }
}

/// `bytes` and zeros behind them, when they fit into a block.
fn block(bytes: &[u8]) -> Option<[u8; BLOCK_BYTES]> {
    let mut block = [0; BLOCK_BYTES];
    block.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(block)
}
