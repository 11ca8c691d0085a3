//! Runs of the same reply, found without looking at every byte.

/// The usual reply as a constant: its first bytes and its whole length. Runs of it are skipped at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stride {
    prefix: u64,
    mask: u64,
    pub length: usize,
}

impl Stride {
    /// A reply of `prefix` (at most 8 bytes) and `rest` bytes that end with CR LF; none when the prefix is longer.
    pub fn new(prefix: &[u8], rest: usize) -> Option<Stride> {
        if prefix.len() > 8 {
            return None;
        }
        let mut word = [0; 8];
        let mut mask = [0; 8];
        word[..prefix.len()].copy_from_slice(prefix);
        mask[..prefix.len()].fill(0xff);
        Some(Stride {
            prefix: u64::from_le_bytes(word),
            mask: u64::from_le_bytes(mask),
            length: prefix.len() + rest,
        })
    }

    /// Whether `bytes` begin with a whole reply of this shape. One at their end may be left for the slow path.
    #[inline(always)]
    pub fn fits(&self, bytes: &[u8]) -> bool {
        let Some(head) = bytes.first_chunk() else { return false };
        let same = u64::from_le_bytes(*head) & self.mask == self.prefix;
        same && bytes.get(self.length - 2..self.length) == Some(b"\r\n".as_slice())
    }

    /// How many whole replies of this shape `bytes` begin with. The last may be left for the slow path.
    #[inline(always)]
    pub fn run(&self, bytes: &[u8]) -> usize {
        let mut count = 0;
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + 8) {
            let head = u64::from_le_bytes(head.try_into().expect("eight bytes"));
            let end = at + self.length;
            let same = head & self.mask == self.prefix;
            if !same || bytes.get(end - 2..end) != Some(b"\r\n".as_slice()) {
                break;
            }
            count += 1;
            at = end;
        }
        count
    }
}
