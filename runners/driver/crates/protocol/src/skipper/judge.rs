//! Whether a reply is the one that its command should get.

use crate::expectation::ReplyType;
use crate::replies::ProtocolError;
use crate::skipper::{Skipper, Trial};

impl Skipper {
    /// What is to be said of a reply that begins with `bytes`, and is no error.
    pub(super) fn judge(&self, bytes: &[u8]) -> Result<Trial, ProtocolError> {
        let expected = self.expected.at(self.place);
        let byte = bytes[0];
        // The length of these tells whether they are a null.
        let may_be_null = matches!(byte, b'$' | b'*');
        match expected.reply {
            _ if byte == b'_' && expected.nullable => Ok(Trial::Passed),
            ReplyType::Any => Ok(Trial::Passed),
            ReplyType::Line(_) if self.expected.suits(self.place, byte) => Ok(Trial::Line(1)),
            _ if self.expected.suits(self.place, byte) && may_be_null => Ok(Trial::Begun(byte)),
            _ if self.expected.suits(self.place, byte) && self.expected.learn(self.place, byte) => {
                Ok(Trial::Passed)
            }
            _ if may_be_null && expected.nullable => Ok(Trial::NullOnly(byte)),
            _ => Err(self.refused(bytes)),
        }
    }

    /// The length of the bulk or array is known; nothing of one within another is judged.
    pub(super) fn judge_length(&mut self, length: i64) -> Result<(), ProtocolError> {
        let holds = match (self.trial, length) {
            _ if self.nested => true,
            (Trial::Begun(_), -1) => self.expected.at(self.place).nullable,
            (Trial::NullOnly(_), length) => length == -1,
            (Trial::Begun(byte), _) => self.expected.learn(self.place, byte),
            (Trial::Passed | Trial::Line(_), _) => true,
        };
        match (holds, self.trial) {
            (false, Trial::Begun(byte) | Trial::NullOnly(byte)) => {
                Err(self.refused(format!("{}{length}", char::from(byte)).as_bytes()))
            }
            _ => Ok(()),
        }
    }

    /// Compare the next `text` of a line, which is `whole` with it, with what the line should be.
    pub(super) fn compare(&mut self, text: &[u8], whole: bool) -> Result<(), ProtocolError> {
        let (Trial::Line(at), ReplyType::Line(line)) = (self.trial, self.expected.at(self.place).reply)
        else {
            return Ok(());
        };
        let (known, rest) = line.as_bytes().split_at(at);
        if rest.starts_with(text) && (!whole || rest.len() == text.len()) {
            self.trial = Trial::Line(at + text.len());
            return Ok(());
        }
        Err(self.refused(&[known, text].concat()))
    }

    #[cold]
    pub(super) fn refused(&self, bytes: &[u8]) -> ProtocolError {
        self.expected.refused(self.place, bytes)
    }
}
