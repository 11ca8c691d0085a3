//! A length or an integer, taken digit by digit.

/// i64 has 19 digits.
const NUMBER_DIGITS: u32 = 19;

/// The number in the line of a type, digit by digit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Number {
    value: i64,
    digits: u32,
    negative: bool,
}

impl Number {
    /// None when the byte cannot stand at this place of a number.
    pub fn push(&mut self, byte: u8) -> Option<()> {
        match byte {
            b'-' if self.digits == 0 && !self.negative => self.negative = true,
            b'0'..=b'9' if self.digits < NUMBER_DIGITS => {
                self.value = self.value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                self.digits += 1;
            }
            _ => return None,
        }
        Some(())
    }

    /// None when there was no digit.
    pub fn signed(self) -> Option<i64> {
        let value = if self.negative { -self.value } else { self.value };
        (self.digits > 0).then_some(value)
    }
}
