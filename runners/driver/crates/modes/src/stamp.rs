//! Sender, number and send time in the first bytes of a value.

use generator::rng::Rng;

/// At the front of a value: who sent it, as which of its values, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Monotonic ns.
    pub sent_at: u64,
    pub sequence: u64,
    pub sender: u32,
}

impl Stamp {
    pub const BYTES: usize = 20;

    pub fn write(self, place: &mut [u8]) {
        place[..8].copy_from_slice(&self.sent_at.to_le_bytes());
        place[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        place[16..Stamp::BYTES].copy_from_slice(&self.sender.to_le_bytes());
    }

    /// The stamp of `value`; none when it is too short for one.
    pub fn read(value: &[u8]) -> Option<Stamp> {
        Some(Stamp {
            sent_at: u64::from_le_bytes(*value.first_chunk()?),
            sequence: u64::from_le_bytes(*value.get(8..)?.first_chunk()?),
            sender: u32::from_le_bytes(*value.get(16..)?.first_chunk()?),
        })
    }
}

/// Random bytes with room for a stamp: the value of `bytes` bytes, or as long as a stamp is.
pub fn blank(bytes: usize, seed: u64) -> Vec<u8> {
    let mut value = vec![0; bytes.max(Stamp::BYTES)];
    Rng::stream(seed, u64::MAX).fill(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = Stamp { sent_at: 1 << 50, sequence: 7, sender: 3 };
        let mut value = blank(30, 1);
        stamp.write(&mut value);
        assert_eq!((value.len(), Stamp::read(&value)), (30, Some(stamp)));
        assert_eq!(Stamp::read(&value[..19]), None);
    }
}
