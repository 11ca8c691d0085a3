//! Ways to cut a string of bytes.

/// Whole, in single bytes, and in pieces whose lengths `seed` draws.
pub fn ways(length: usize, seed: u8) -> [Vec<usize>; 3] {
    let mut state = u32::from(seed);
    let longest = [3, 9, 40, 200][usize::from(seed % 4)];
    let mut drawn = Vec::new();
    let mut at = 0;
    loop {
        // The linear congruential generator of Numerical Recipes; its high bits.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        at += 1 + (state >> 16) as usize % longest;
        if at >= length {
            return [Vec::new(), (1..length).collect(), drawn];
        }
        drawn.push(at);
    }
}
