//! Own random number generators: a seed must give the same requests for ever, whatever becomes of a library.
//!
//! SplitMix64 (Steele, Lea, Flood 2014) spreads seeds; xoshiro256++ 1.0 (Blackman, Vigna 2019) draws.

/// Spreads a 64-bit seed over as many words as needed.
pub struct SplitMix64(u64);

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// xoshiro256++ 1.0.
#[derive(Clone)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The generator seeded as its authors advise: four words of SplitMix64.
    pub fn seeded(seed: u64) -> Self {
        let mut words = SplitMix64::new(seed);
        Rng(std::array::from_fn(|_| words.next_u64()))
    }

    /// Stream number `index` of `seed`. Both are hashed first, so that neighbouring streams are independent.
    pub fn stream(seed: u64, index: u64) -> Self {
        let seed = SplitMix64::new(seed).next_u64();
        let index = SplitMix64::new(!index).next_u64();
        Rng::seeded(seed ^ index.rotate_left(32))
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let word = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        word
    }

    /// A number in `0..limit` from exactly one draw (Lemire's multiplication).
    ///
    /// Without his rejection step: the bias is below `limit / 2^64`, and each request costs the same number of draws.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// A number in [0, 1): a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}
