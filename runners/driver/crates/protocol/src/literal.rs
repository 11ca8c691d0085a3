//! Bytes that are copied into many requests.

/// Constant bytes of a command. Short ones are copied as a block of constant length, which takes a few instructions.
#[derive(Debug, Clone, Default)]
pub struct Literal {
    pub bytes: Vec<u8>,
    /// The bytes padded with zeros; none if they are longer than a block.
    block: Option<[u8; BLOCK_BYTES]>,
}

/// The longest literal that is copied as a block.
pub const BLOCK_BYTES: usize = 64;

impl From<Vec<u8>> for Literal {
    fn from(bytes: Vec<u8>) -> Literal {
        let block = block(&bytes);
        Literal { bytes, block }
    }
}

impl Literal {
    /// Copy the bytes to the start of `place`, which must hold a block: up to a block may be overwritten.
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
