//! One recorded request, as it is sent again.

/// Its bytes may not be more than this: they are held in memory, on their way through several threads.
pub const LARGEST: usize = 16 << 20;

/// One recorded request. The reader fills the same one again and again.
#[derive(Debug, Default)]
pub struct Request {
    /// In the protocol that is spoken.
    pub bytes: Vec<u8>,
    /// The command as it was written.
    pub name: Vec<u8>,
    /// When it was recorded, ns since some epoch; none where the recording has no times.
    pub at_ns: Option<u64>,
    /// A hash of the client that sent it, or of what else its order is to be kept with.
    pub client: u64,
    pub database: u64,
    /// How often it is sent.
    pub times: u64,
}

impl Request {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.name.clear();
        *self = Request {
            bytes: std::mem::take(&mut self.bytes),
            name: std::mem::take(&mut self.name),
            times: 1,
            ..Request::default()
        };
        // Room for what was unusually long is given back.
        self.bytes.shrink_to(1 << 20);
    }
}

/// Append a number in decimal.
pub fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return bytes.extend_from_slice(&digits[at..]);
        }
    }
}

/// Append the head of an array or of a bulk: its type and its length.
pub fn push_length(bytes: &mut Vec<u8>, kind: u8, length: usize) {
    bytes.push(kind);
    push_number(bytes, length as u64);
    bytes.extend_from_slice(b"\r\n");
}

/// Append a bulk.
pub fn push_word(bytes: &mut Vec<u8>, word: &[u8]) {
    push_length(bytes, b'$', word.len());
    bytes.extend_from_slice(word);
    bytes.extend_from_slice(b"\r\n");
}

/// A hash that is the same on every machine and in every version: FNV-1a, its bits mixed.
pub fn hash(bytes: &[u8]) -> u64 {
    let folded = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (folded ^ (folded >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}
