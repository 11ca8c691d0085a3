//! Runs of replies of the usual shapes, found without looking at every byte.

/// How long a reply of RESP is that says "no such key", and what it is.
const NULL: &[u8] = b"$-1\r\n";

/// The usual reply as a constant: its first bytes and its whole length. Runs of it are skipped at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// The null of RESP2: the answer to a request for a key that is not there.
    pub fn null() -> Stride {
        Stride::new(NULL, 0).expect("a short prefix")
    }

    /// Whether `bytes` begin with a whole reply of this shape.
    #[inline(always)]
    pub fn fits(&self, bytes: &[u8]) -> bool {
        let same = head(bytes) & self.mask == self.prefix;
        same && bytes.get(self.length - 2..self.length) == Some(b"\r\n".as_slice())
    }

    /// How many whole replies of this shape `bytes` begin with; `most`, if there are more.
    #[inline(always)]
    pub fn run(&self, bytes: &[u8], most: u64) -> u64 {
        let mut count = 0;
        let mut rest = bytes;
        while count < most && self.fits(rest) {
            count += 1;
            rest = &rest[self.length..];
        }
        count
    }
}

/// The first eight bytes, as a little-endian number; what is missing is 0.
#[inline(always)]
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(head) => u64::from_le_bytes(*head),
        None => last(bytes),
    }
}

/// The same of fewer than eight bytes.
#[inline]
fn last(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte))
}

/// The length of the integer reply that `bytes` begin with, its CR LF included: `:` and one to sixteen digits. None for
/// any other bytes, and for integers with a sign, which the caller reads in another way.
#[inline(always)]
pub fn integer(bytes: &[u8]) -> Option<usize> {
    let (b':', digits) = bytes.split_first()? else { return None };
    let count = match leading_digits(head(digits)) {
        0 => return None,
        8 => 8 + leading_digits(head(&digits[8..])),
        few => few,
    };
    (digits.get(count..count + 2) == Some(b"\r\n".as_slice())).then_some(count + 3)
}

/// How many of the eight bytes of `word`, the lowest first, are digits before the first that is none.
#[inline(always)]
fn leading_digits(word: u64) -> usize {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const THREES: u64 = 0x3030_3030_3030_3030;
    const SIXES: u64 = 0x0606_0606_0606_0606;
    // Digits are 0x30 to 0x39: they keep their high half when 6 is added. A carry changes only bytes behind one that is none.
    let others = ((word & HIGH) ^ THREES) | ((word.wrapping_add(SIXES) & HIGH) ^ THREES);
    others.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_their_lengths() {
        for text in
            [":0\r\n", ":7\r\n:8\r\n", ":12345678\r\n", ":123456789\r\n", ":9999999999999999\r\n$3\r\n"]
        {
            let length = text.find('\n').unwrap() + 1;
            assert_eq!(integer(text.as_bytes()), Some(length), "{text:?}");
        }
        for text in [
            "",
            ":",
            ":\r\n",
            ":-1\r\n",
            ":1",
            ":1\r",
            ":1x\r\n",
            "$3\r\n",
            ":12345678",
            ":12345678901234567\r\n",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
        for byte in 0..=255u8 {
            let bytes = [b':', byte, b'1', b'\r', b'\n', 0, 0, 0, 0];
            assert_eq!(integer(&bytes).is_some(), byte.is_ascii_digit(), "{byte}");
        }
    }

    #[test]
    fn a_run_ends_with_the_last_whole_reply() {
        let stride = Stride::new(b"+OK\r\n", 0).unwrap();
        for (text, count) in
            [("", 0), ("+OK\r", 0), ("+OK\r\n", 1), ("+OK\r\n+OK\r\n", 2), ("+OK\r\n+OK\r\n+NO\r\n", 2)]
        {
            assert_eq!(stride.run(text.as_bytes(), 9), count, "{text:?}");
        }
        let value = Stride::new(b"$3\r\n", 5).unwrap();
        assert_eq!(value.run(b"$3\r\nabc\r\n$3\r\nabc\r\n$3\r\nab", 9), 2);
        assert_eq!(Stride::null().run(b"$-1\r\n$-1\r\n$-2\r\n", 9), 2);
        assert_eq!(Stride::null().run(b"$-1\r\n$-1\r\n", 1), 1);
    }
}
