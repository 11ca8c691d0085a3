//! Copies of a few bytes.

/// As `copy_from_slice`, without a call for the lengths that are usual for requests and small values: their first and their
/// last bytes, which may overlap.
#[inline(always)]
pub fn copy(from: &[u8], to: &mut [u8]) {
    match from.len() {
        2..=3 => copy_ends::<2>(from, to),
        4..=7 => copy_ends::<4>(from, to),
        8..=15 => copy_ends::<8>(from, to),
        16..=31 => copy_ends::<16>(from, to),
        32..=64 => copy_ends::<32>(from, to),
        65..=128 => copy_ends::<64>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copy the first and the last `N` bytes of two slices of one length, at least `N`.
#[inline(always)]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    let ends = (from.first_chunk::<N>(), from.last_chunk::<N>());
    let (Some(first), Some(last)) = ends else { return };
    to[..N].copy_from_slice(first);
    let rest = to.len() - N;
    to[rest..].copy_from_slice(last);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole_and_nothing_else() {
        for length in 0..300usize {
            let from: Vec<u8> = (0..length).map(|at| at as u8 ^ 0x5a).collect();
            let mut to = vec![0xee; length + 2];
            copy(&from, &mut to[1..=length]);
            assert_eq!(to[1..=length], from, "{length}");
            assert_eq!((to[0], to[length + 1]), (0xee, 0xee), "{length}");
        }
    }
}
