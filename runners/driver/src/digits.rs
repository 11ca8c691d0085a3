//! Twelve decimal digits written in place: three copies out of a table of all four-digit groups.

/// Digits of a key number.
pub const WIDTH: usize = 12;
/// Key numbers are below this.
pub const LIMIT: u64 = 1_000_000_000_000;

static GROUPS: [[u8; 4]; 10_000] = groups();

const fn groups() -> [[u8; 4]; 10_000] {
    let mut table = [[b'0'; 4]; 10_000];
    let mut n = 0;
    while n < 10_000 {
        table[n] = [
            b'0' + (n / 1000) as u8,
            b'0' + (n / 100 % 10) as u8,
            b'0' + (n / 10 % 10) as u8,
            b'0' + (n % 10) as u8,
        ];
        n += 1;
    }
    table
}

/// Write `number` (below [`LIMIT`]) over `place`, padded with zeros.
#[inline]
pub fn write(place: &mut [u8; WIDTH], number: u64) {
    debug_assert!(number < LIMIT);
    let high = number / 100_000_000;
    let low = (number % 100_000_000) as u32;
    place[..4].copy_from_slice(&GROUPS[high as usize % 10_000]);
    place[4..8].copy_from_slice(&GROUPS[(low / 10_000) as usize]);
    place[8..].copy_from_slice(&GROUPS[(low % 10_000) as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_format_writes() {
        let steps = (0..LIMIT).step_by(999_999_937).chain([0, 1, 9_999, 10_000, LIMIT - 1]);
        for number in steps {
            let mut place = [b'x'; WIDTH];
            write(&mut place, number);
            assert_eq!(place.as_slice(), format!("{number:012}").as_bytes());
        }
    }
}
