//! Twelve decimal digits written in place, by arithmetic on several digits at once: a lookup table would be evicted from
//! the L1 cache by every system call.

/// Digits of a key number.
pub const WIDTH: usize = 12;
/// Key numbers are below this.
pub const LIMIT: u64 = 1_000_000_000_000;
/// The first number of nine digits; most keys are below it, and are not divided by it.
const NINE_DIGITS: u64 = 100_000_000;

/// Write `number` (below [`LIMIT`]) over `place`, padded with zeros.
#[inline]
pub fn write(place: &mut [u8; WIDTH], number: u64) {
    debug_assert!(number < LIMIT);
    let (first, low) = match number {
        0..NINE_DIGITS => (*b"0000", number),
        _ => (((eight((number / NINE_DIGITS) as u32) >> 32) as u32).to_le_bytes(), number % NINE_DIGITS),
    };
    place[..4].copy_from_slice(&first);
    place[4..].copy_from_slice(&eight(low as u32).to_le_bytes());
}

/// The digits of `number` without leading zeros and then any bytes, and how many they are; none if they are more than eight.
#[inline(always)]
pub fn few(number: u64) -> Option<([u8; 8], usize)> {
    if number >= NINE_DIGITS {
        return None;
    }
    let digits = eight(number as u32);
    let zeros = ((digits & 0x0f0f_0f0f_0f0f_0f0f).trailing_zeros() / 8).min(7);
    Some(((digits >> (8 * zeros)).to_le_bytes(), 8 - zeros as usize))
}

/// The eight digits of `number` (below 10^8) as ASCII, the first in the lowest byte.
///
/// Halves are split in parallel: one number of eight digits into two of four, those into four of two, those into
/// eight of one. The quotients by multiplication are exact in these ranges (Granlund and Montgomery 1994).
#[inline]
fn eight(number: u32) -> u64 {
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    (tens | (twos - 10 * tens) << 8) + 0x3030_3030_3030_3030
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_format_writes() {
        let steps = (0..LIMIT).step_by(999_999_937).chain(0..=10_000).chain([LIMIT - 1]);
        for number in steps {
            let mut place = [b'x'; WIDTH];
            write(&mut place, number);
            assert_eq!(place.as_slice(), format!("{number:012}").as_bytes());
            let text = number.to_string();
            match few(number) {
                Some((digits, count)) => assert_eq!(&digits[..count], text.as_bytes()),
                None => assert!(text.len() > 8),
            }
        }
    }
}
