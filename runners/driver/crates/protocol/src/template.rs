//! Texts with placeholders that are filled for each request.

use generator::digits;
use generator::values::Ttl;

/// Shared numbers: number 0 is `__key__`, of one command; 1 to 9 are `__rand_1st__` to `__rand_9th__`, of a sequence.
pub const SHARED: usize = 10;
/// A hash tag with its braces: `{abc}`.
pub const TAG_WIDTH: usize = 5;

/// What fills a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// A key number of its own.
    Number,
    /// A key number that is the same at all places that name it, of one command or of a sequence ([`SHARED`]).
    Shared(u8),
    /// The number of the command among those of all connections.
    Sequence,
    /// A hash tag of the connection's node, the same at all places of one command.
    Tag,
    /// So many bytes of the value pool.
    Value(usize),
    /// Bytes whose length differs from request to request.
    Varying(Varying),
    /// The sum, as text, of `plus` and the lengths of the next so many varying fills.
    Length { plus: usize, varying: usize },
}

/// A fill without a fixed width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Varying {
    /// A value by the rule of the pool, of at most so many bytes.
    Value(usize),
    /// A number of seconds.
    Ttl(Ttl),
    /// A key number without leading zeros.
    Key(PlainKeys),
    /// What the last reply has named.
    Reply,
    /// A whole request, which sets the next item of a dump.
    Item(ItemPlaces),
    /// The key of an item of a dump.
    ItemKey(ItemPlaces),
    /// The value of this column in the command's row of a table, of at most so many bytes.
    Field { column: usize, longest: usize },
}

/// Items of a dump in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemPlaces {
    /// The most bytes of a request that sets one.
    pub longest_request: usize,
    pub longest_key: usize,
    /// What key number 0 is called, where keys with numbers replace its own.
    pub first: Option<u64>,
    /// The command of the script, which has key numbers of its own.
    pub command: usize,
}

/// Key numbers without leading zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainKeys {
    /// What key number 0 is called.
    pub first: u64,
    /// The command of the script, which has key numbers of its own.
    pub command: usize,
}

impl Fill {
    /// Its length if that is constant, else 0.
    pub fn width(self) -> usize {
        match self {
            Fill::Number | Fill::Shared(_) | Fill::Sequence => digits::WIDTH,
            Fill::Tag => TAG_WIDTH,
            Fill::Value(bytes) => bytes,
            Fill::Varying(_) | Fill::Length { .. } => 0,
        }
    }

    /// The most bytes that it may add to its width.
    pub fn room(self) -> usize {
        match self {
            Fill::Varying(Varying::Value(largest)) => largest,
            Fill::Varying(Varying::Item(places)) => places.longest_request,
            Fill::Varying(Varying::ItemKey(places)) => places.longest_key,
            Fill::Varying(Varying::Field { longest, .. }) => longest,
            Fill::Varying(Varying::Reply) => LONGEST_REPLY,
            Fill::Varying(Varying::Ttl(_) | Varying::Key(_)) | Fill::Length { .. } => LONGEST_NUMBER,
            _ => 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Literal(Vec<u8>),
    Filled(Fill),
}

impl Part {
    pub fn width(&self) -> usize {
        match self {
            Part::Literal(bytes) => bytes.len(),
            Part::Filled(fill) => fill.width(),
        }
    }

    pub fn varying(&self) -> Option<Varying> {
        match self {
            Part::Filled(Fill::Varying(varying)) => Some(*varying),
            _ => None,
        }
    }
}

/// What `__data__` stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// So many bytes, which differ from request to request.
    Drawn(usize),
    /// At most so many bytes, which differ from request to request.
    Varying(usize),
    /// The same bytes in all requests.
    Same(Vec<u8>),
}

impl Default for Value {
    fn default() -> Value {
        Value::Drawn(0)
    }
}

/// Which placeholders of a text are replaced; others are literal text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placeholders {
    /// `__rand_int__`, `__rand_1st__` to `__rand_9th__`.
    pub numbers: bool,
    /// `{tag}`.
    pub tags: bool,
    pub value: Value,
    /// `__ttl__`.
    pub ttl: Option<Ttl>,
    /// `__key__`, then a number of its own at each place, instead of the one that the command shares.
    pub plain_keys: Option<PlainKeys>,
    /// Keys that begin as those of the named tests do are filled up to so many bytes, before their number.
    pub key_bytes: Option<usize>,
    /// What the last reply has named: [`CURSOR`] in a scan, [`REPLY`] in a sequence.
    pub reply: Option<&'static str>,
    /// `__item_key__`.
    pub items: Option<ItemPlaces>,
    /// `__field:NAME__`: the name of each column of a table, and the most bytes that its values have.
    pub fields: Vec<(String, usize)>,
}

/// How the keys of the named tests begin.
const KEY_NAMES: [&[u8]; 2] = [b"key:", b"counter:"];
/// No key of a named test is shorter than this.
pub const SHORTEST_KEY: usize = KEY_NAMES[0].len() + digits::WIDTH;

const NAMED: [(&[u8], Fill); 13] = [
    (b"__rand_int__", Fill::Number),
    (b"__rand_1st__", Fill::Shared(1)),
    (b"__rand_2nd__", Fill::Shared(2)),
    (b"__rand_3rd__", Fill::Shared(3)),
    (b"__rand_4th__", Fill::Shared(4)),
    (b"__rand_5th__", Fill::Shared(5)),
    (b"__rand_6th__", Fill::Shared(6)),
    (b"__rand_7th__", Fill::Shared(7)),
    (b"__rand_8th__", Fill::Shared(8)),
    (b"__rand_9th__", Fill::Shared(9)),
    (b"__key__", Fill::Shared(0)),
    (b"__seq__", Fill::Sequence),
    (b"{tag}", Fill::Tag),
];

const DATA: &[u8] = b"__data__";
const PLAIN_KEY: &[u8] = b"__key__";
pub const TTL: &[u8] = b"__ttl__";
pub const CURSOR: &str = "__cursor__";
pub const REPLY: &str = "__reply__";
/// `__reply__` stands for at most so many bytes.
pub const LONGEST_REPLY: usize = 512;
pub const ITEM_KEY: &str = "__item_key__";
const FIELD: &[u8] = b"__field:";
const FIELD_END: &[u8] = b"__";
/// Digits of the longest length or number of seconds.
const LONGEST_NUMBER: usize = 20;

impl Value {
    /// Its bytes, or the most that it may have.
    pub fn bytes(&self) -> usize {
        match self {
            Value::Drawn(bytes) | Value::Varying(bytes) => *bytes,
            Value::Same(bytes) => bytes.len(),
        }
    }

    /// Any bytes, as many as it has.
    pub fn any(&self) -> Value {
        match self {
            Value::Varying(largest) => Value::Varying(*largest),
            fixed => Value::Drawn(fixed.bytes()),
        }
    }

    /// Its part of a command.
    fn part(&self) -> Part {
        match self {
            Value::Drawn(bytes) => Part::Filled(Fill::Value(*bytes)),
            Value::Varying(largest) => Part::Filled(Fill::Varying(Varying::Value(*largest))),
            Value::Same(bytes) => Part::Literal(bytes.clone()),
        }
    }

    /// Its length as text, before it.
    pub fn length_part(&self) -> Part {
        match self {
            Value::Varying(_) => Part::Filled(Fill::Length { plus: 0, varying: 1 }),
            fixed => Part::Literal(fixed.bytes().to_string().into_bytes()),
        }
    }
}

/// The name in the placeholder of a field that `text` begins with.
fn field_name(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(FIELD)?;
    text.windows(FIELD_END.len()).position(|end| end == FIELD_END).map(|end| &text[..end])
}

/// The names of the fields that occur as placeholders in `words`, without duplicates.
pub fn field_names<W: AsRef<[u8]>>(words: &[W]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for word in words {
        let word = word.as_ref();
        for name in (0..word.len()).filter_map(|at| field_name(&word[at..])) {
            let name = String::from_utf8_lossy(name).into_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn ttl_part(ttl: Ttl) -> Part {
    match ttl.0 == ttl.1 {
        true => Part::Literal(ttl.0.to_string().into_bytes()),
        false => Part::Filled(Fill::Varying(Varying::Ttl(ttl))),
    }
}

impl Placeholders {
    pub fn value_bytes(&self) -> usize {
        self.value.bytes()
    }

    /// Those of command number `command` of a script.
    pub fn of_command(&self, command: usize) -> Placeholders {
        let plain_keys = self.plain_keys.map(|keys| PlainKeys { command, ..keys });
        let items = self.items.map(|items| ItemPlaces { command, ..items });
        Placeholders { plain_keys, items, ..self.clone() }
    }

    /// Cut one argument into literal parts and places.
    pub fn cut(&self, text: &[u8]) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(&byte) = rest.first() {
            match self.placeholder(rest) {
                Some((width, part)) => {
                    literal.extend(std::iter::repeat_n(b'x', self.padding(&literal, &part)));
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                    parts.push(part);
                    rest = &rest[width..];
                }
                None => {
                    literal.push(byte);
                    rest = &rest[1..];
                }
            }
        }
        parts.push(Part::Literal(literal));
        parts
    }

    /// How many bytes are missing between `before`, the begin of a key, and its number `part`.
    fn padding(&self, before: &[u8], part: &Part) -> usize {
        let is_number = matches!(part, Part::Filled(Fill::Number | Fill::Shared(_)));
        let name = KEY_NAMES.into_iter().find(|name| is_number && before.ends_with(name));
        let length = name.map(|name| name.len() + digits::WIDTH);
        self.key_bytes.zip(length).map_or(0, |(bytes, length)| bytes.saturating_sub(length))
    }

    /// The placeholder that `text` begins with, and how long its name is.
    fn placeholder(&self, text: &[u8]) -> Option<(usize, Part)> {
        if text.starts_with(DATA) {
            return Some((DATA.len(), self.value.part()));
        }
        if let (true, Some(ttl)) = (text.starts_with(TTL), self.ttl) {
            return Some((TTL.len(), ttl_part(ttl)));
        }
        if let Some(name) = self.reply.filter(|name| text.starts_with(name.as_bytes())) {
            return Some((name.len(), Part::Filled(Fill::Varying(Varying::Reply))));
        }
        if let (false, Some(name)) = (self.fields.is_empty(), field_name(text)) {
            let column = self.fields.iter().position(|(field, _)| field.as_bytes() == name)?;
            let fill = Fill::Varying(Varying::Field { column, longest: self.fields[column].1 });
            return Some((FIELD.len() + name.len() + FIELD_END.len(), Part::Filled(fill)));
        }
        if let (true, Some(items)) = (text.starts_with(ITEM_KEY.as_bytes()), self.items) {
            return Some((ITEM_KEY.len(), Part::Filled(Fill::Varying(Varying::ItemKey(items)))));
        }
        if let (true, Some(keys)) = (text.starts_with(PLAIN_KEY), self.plain_keys) {
            return Some((PLAIN_KEY.len(), Part::Filled(Fill::Varying(Varying::Key(keys)))));
        }
        let (name, fill) = NAMED.into_iter().find(|(name, _)| text.starts_with(name))?;
        let known = match fill {
            Fill::Tag => self.tags,
            Fill::Number | Fill::Shared(1..) => self.numbers,
            _ => true,
        };
        known.then_some((name.len(), Part::Filled(fill)))
    }
}
