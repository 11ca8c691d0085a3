//! Which lines may answer a command, and what they mean.

/// The family of replies that a command may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any number of `VALUE` with their data, then `END`.
    Values,
    /// `VA` with its data, or a miss.
    Item,
    /// `HD`, or a miss.
    Head,
    /// The replies of quiet commands, up to the `MN` that closes their batch.
    Quiet,
    /// The errors of commands that want no reply, up to the `MN` that closes their batch.
    Silent,
    /// `STORED`, or the reason why not.
    Stored,
    /// The new value of a counter, or `NOT_FOUND`.
    Number,
    Touched,
    Deleted,
    Version,
    /// `MN`.
    NoOp,
}

/// What one line of a reply means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// A key that is there; its data follow, and this argument of the line has their length.
    Data(usize),
    Hit,
    Miss,
    End,
}

impl Kind {
    /// None when the line is invalid here.
    pub fn meaning(self, word: &[u8], alone: bool) -> Option<Meaning> {
        let meaning = match (self, word) {
            (Kind::Values, b"VALUE") => Meaning::Data(3),
            (Kind::Item | Kind::Quiet, b"VA") => Meaning::Data(1),
            (Kind::Head | Kind::Quiet, b"HD") | (Kind::Version, b"VERSION") => Meaning::Hit,
            (Kind::Item | Kind::Head | Kind::Quiet, b"EN" | b"NF" | b"NS" | b"EX") => Meaning::Miss,
            (Kind::Quiet | Kind::Silent | Kind::NoOp, b"MN") => Meaning::End,
            _ if !alone => return None,
            (Kind::Values, b"END") => Meaning::End,
            (Kind::Stored, b"STORED") | (Kind::Touched, b"TOUCHED") | (Kind::Deleted, b"DELETED") => {
                Meaning::Hit
            }
            (Kind::Stored, b"NOT_STORED" | b"EXISTS" | b"NOT_FOUND") => Meaning::Miss,
            (Kind::Number | Kind::Touched | Kind::Deleted, b"NOT_FOUND") => Meaning::Miss,
            (Kind::Number, digits) if is_number(digits) => Meaning::Hit,
            _ => return None,
        };
        Some(meaning)
    }

    /// What should have come for `keys` that are looked for, for a message.
    pub fn description(self, keys: u64) -> &'static str {
        match self {
            Kind::Values => "VALUE or END",
            Kind::Item => "VA or EN",
            Kind::Head if keys == 0 => "HD",
            Kind::Head => "HD or a miss",
            Kind::Quiet if keys == 0 => "MN",
            Kind::Quiet => "VA, HD or MN",
            Kind::Stored if keys == 0 => "STORED",
            Kind::Stored => "STORED or NOT_STORED",
            Kind::Number => "a number or NOT_FOUND",
            Kind::Touched => "TOUCHED or NOT_FOUND",
            Kind::Deleted => "DELETED or NOT_FOUND",
            Kind::Version => "VERSION",
            Kind::Silent | Kind::NoOp => "MN",
        }
    }

    /// Whether the reply is a series of lines, the last of which marks its end.
    pub fn has_end(self) -> bool {
        matches!(self, Kind::Values | Kind::Quiet | Kind::Silent | Kind::NoOp)
    }
}

/// A decimal u64; memcached may leave blanks of a longer number behind it, which are part of the next word.
pub fn is_number(word: &[u8]) -> bool {
    (1..=20).contains(&word.len()) && word.iter().all(u8::is_ascii_digit)
}
