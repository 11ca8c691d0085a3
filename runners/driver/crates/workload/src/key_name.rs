//! How the keys of a command begin, from which their servers can be computed before the load.

/// What the keys of a test are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyName {
    /// It has no keys.
    None,
    /// This and a number of the keyspace.
    Head(Vec<u8>),
    /// Any other form: the server of such a key cannot be computed before the load.
    Other,
}

impl KeyName {
    /// How they begin.
    pub fn head(self) -> Option<Vec<u8>> {
        match self {
            KeyName::Head(head) => Some(head),
            KeyName::None | KeyName::Other => None,
        }
    }
}
