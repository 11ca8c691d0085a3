//! Rows of an array of numpy (NPY): records with fields, or vectors, whose field is `vector`. Numbers are sent as the bytes that
//! they have in the file.

use std::io::Read;

use super::{Table, unreadable};

const MAGIC: &[u8] = b"\x93NUMPY";
/// The field of an array without names.
const VECTOR: &str = "vector";
/// Types whose bytes can be sent: text, raw bytes, truth values, integers and floating point numbers.
const SENT: [char; 7] = ['S', 'a', 'V', 'b', 'i', 'u', 'f'];
/// How deeply brackets may be nested in a header.
const DEEPEST: usize = 8;
/// An error shows the header up to this many characters.
const SHOWN: usize = 60;

/// Add at most `most` rows of `file` to `table`.
pub fn read(mut file: impl Read, most: usize, table: &mut Table) -> Result<(), String> {
    let array = Array::of(&header(&mut file)?)?;
    let names: Vec<String> = array.fields.iter().map(|field| field.name.clone()).collect();
    let places = table.places(&names)?;
    let mut row = Vec::new();
    for number in 1..=array.rows.min(most as u64) {
        bytes(&mut file, array.row_bytes, &mut row)
            .map_err(|cause| cause.unwrap_or(format!("ends within row {number} of {}", array.rows)))?;
        let cells: Vec<&[u8]> = array.fields.iter().map(|field| field.cell(&row)).collect();
        table.add(&cells, &places).map_err(|cause| format!("row {number} {cause}"))?;
    }
    Ok(())
}

/// The next `count` bytes of `file`; nothing as the cause if it ends before. The room for them grows as they are read.
fn bytes(file: &mut impl Read, count: u64, bytes: &mut Vec<u8>) -> Result<(), Option<String>> {
    bytes.clear();
    file.take(count).read_to_end(bytes).map_err(|error| Some(unreadable(error)))?;
    if bytes.len() as u64 == count { Ok(()) } else { Err(None) }
}

/// The text that describes the array.
fn header(file: &mut impl Read) -> Result<String, String> {
    let mut part = Vec::new();
    let foreign = || "is no NPY file".to_owned();
    let mut next = |count: u64| {
        bytes(file, count, &mut part).map_err(|cause| cause.unwrap_or_else(foreign)).map(|()| part.clone())
    };
    let begin = next(MAGIC.len() as u64 + 2)?;
    let version = begin.strip_prefix(MAGIC).ok_or_else(foreign)?[0];
    let length = next(if version == 1 { 2 } else { 4 })?;
    let length = length.iter().rev().fold(0, |length, byte| length << 8 | u64::from(*byte));
    Ok(String::from_utf8_lossy(&next(length)?).into_owned())
}

struct Array {
    rows: u64,
    row_bytes: u64,
    fields: Vec<Field>,
}

#[derive(Debug, PartialEq, Eq)]
struct Field {
    name: String,
    begin: usize,
    bytes: usize,
    /// Text is filled up with zeros.
    is_text: bool,
}

impl Field {
    fn cell<'a>(&self, row: &'a [u8]) -> &'a [u8] {
        let cell = &row[self.begin..self.begin + self.bytes];
        let end = cell.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if self.is_text { &cell[..end] } else { cell }
    }
}

impl Array {
    fn of(header: &str) -> Result<Array, String> {
        let begin: String = header.chars().take(SHOWN).collect();
        let unknown = || format!("has a header that cannot be read: {begin}");
        let Some(Literal::Items(parts)) = literal(&mut &*header, 0) else { return Err(unknown()) };
        let part = |name: &str| {
            let pair = parts.chunks_exact(2).find(|pair| pair[0] == Literal::Word(name.to_owned()));
            pair.map(|pair| &pair[1]).ok_or_else(unknown)
        };
        let shape = part("shape")?.numbers().ok_or_else(unknown)?;
        let (rows, inner) = shape.split_first().ok_or("has no rows, but a single value")?;
        if shape.len() > 1 && *part("fortran_order")? != Literal::Word("False".into()) {
            return Err("has its columns one after another (fortran_order), not its rows".into());
        }
        let fields: Vec<Described> = match part("descr")? {
            Literal::Word(kind) => vec![(VECTOR, kind.as_str(), inner.to_vec())],
            Literal::Items(fields) if inner.is_empty() => {
                fields.iter().map(described).collect::<Option<_>>().ok_or_else(unknown)?
            }
            _ => return Err(unknown()),
        };
        let mut array = Array { rows: *rows, row_bytes: 0, fields: Vec::new() };
        for (name, kind, shape) in fields {
            array.add(name, kind, &shape)?;
        }
        match array.row_bytes {
            0 => Err("has rows without bytes".into()),
            _ => Ok(array),
        }
    }

    /// Add a field of the type `kind`, as in `<f4`, in a row that has `shape` of them.
    fn add(&mut self, name: &str, kind: &str, shape: &[u64]) -> Result<(), String> {
        let bare = kind.trim_start_matches(['<', '>', '=', '|']);
        let unsent = || format!("has field {name} of type {kind}, which cannot be sent");
        let letter = bare.chars().next().filter(|letter| SENT.contains(letter)).ok_or_else(unsent)?;
        let width: u64 = bare[1..].parse().map_err(|_| unsent())?;
        let bytes = shape.iter().try_fold(width, |bytes, count| bytes.checked_mul(*count));
        let end = bytes.and_then(|bytes| self.row_bytes.checked_add(bytes)).ok_or_else(unsent)?;
        let is_text = "Sa".contains(letter) && shape.is_empty();
        let begin = self.row_bytes as usize;
        self.fields.push(Field { name: name.to_owned(), begin, bytes: end as usize - begin, is_text });
        self.row_bytes = end;
        Ok(())
    }
}

/// A field's name, its type, and how many values of it a row has in each dimension.
type Described<'a> = (&'a str, &'a str, Vec<u64>);

fn described(field: &Literal) -> Option<Described<'_>> {
    let Literal::Items(parts) = field else { return None };
    match parts.as_slice() {
        [Literal::Word(name), Literal::Word(kind)] => Some((name, kind, Vec::new())),
        [Literal::Word(name), Literal::Word(kind), shape] => Some((name, kind, shape.numbers()?)),
        _ => None,
    }
}

/// A literal of Python as headers have them.
#[derive(Debug, PartialEq, Eq)]
enum Literal {
    /// A text, or a bare word.
    Word(String),
    Number(u64),
    /// Of a list or tuple; of a dictionary each name and its value.
    Items(Vec<Literal>),
}

impl Literal {
    fn numbers(&self) -> Option<Vec<u64>> {
        let number = |item: &Literal| match item {
            Literal::Number(number) => Some(*number),
            _ => None,
        };
        match self {
            Literal::Items(items) => items.iter().map(number).collect(),
            Literal::Number(number) => Some(vec![*number]),
            Literal::Word(_) => None,
        }
    }
}

/// The literal that `text` begins with, which is taken from it.
fn literal(text: &mut &str, depth: usize) -> Option<Literal> {
    let separators = |byte: char| byte.is_whitespace() || byte == ',' || byte == ':';
    *text = text.trim_start_matches(separators);
    let first = text.chars().next()?;
    let rest = &text[first.len_utf8()..];
    match first {
        '\'' | '"' => {
            let (word, rest) = rest.split_once(first)?;
            *text = rest;
            Some(Literal::Word(word.to_owned()))
        }
        '(' | '[' | '{' if depth < DEEPEST => {
            *text = rest;
            let mut items = Vec::new();
            loop {
                *text = text.trim_start_matches(separators);
                if let Some(rest) = text.strip_prefix([')', ']', '}']) {
                    *text = rest;
                    return Some(Literal::Items(items));
                }
                items.push(literal(text, depth + 1)?);
            }
        }
        _ => {
            let end = text.find(|byte: char| !byte.is_ascii_alphanumeric()).unwrap_or(text.len());
            let (word, rest) = text.split_at(end);
            *text = rest;
            let number = || word.parse().ok().map(Literal::Number);
            if first.is_ascii_digit() { number() } else { (end > 0).then(|| Literal::Word(word.to_owned())) }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::table::tests::{row, table};

    /// The file of an array with this header and content.
    fn array(header: &str, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), content].concat()
    }

    const RECORDS: &str = "{'descr': [('title', 'S4'), ('vector', '<f4', (2,)), ('count', '<i2')], \
                           'fortran_order': False, 'shape': (2,), }    \n";

    #[test]
    fn records_have_fields() {
        let content = b"ab\0\0\0\0\x80\x3f\0\0\0\0\x07\0wxyz\0\0\0\0\0\0\0\0\0\x01";
        let table = table("a.npy", array(RECORDS, content), &["vector", "title", "count"], None).unwrap();
        assert_eq!(row(&table, 0), ["\0\0\u{fffd}?\0\0\0\0", "ab", "\x07\0"]);
        assert_eq!(row(&table, 1), ["\0\0\0\0\0\0\0\0", "wxyz", "\0\x01"]);
    }

    #[test]
    fn an_array_without_names_has_vectors() {
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }";
        let table = table("b.npy", array(header, b"abcdef"), &["vector"], Some(2)).unwrap();
        assert_eq!([0, 1, 2].map(|number| row(&table, number).concat()), ["ab", "cd", "ab"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |bytes: Vec<u8>| {
            let error = table("c.npy", bytes, &["vector"], None).unwrap_err();
            error.split_once(": ").unwrap().1.to_owned()
        };
        let of = |header: &str| said(array(header, b""));
        assert_eq!(said(b"PK\x03\x04 an archive".to_vec()), "is no NPY file");
        assert_eq!(said(array(RECORDS, b"")[..30].to_vec()), "is no NPY file");
        assert_eq!(said(array(RECORDS, b"fourteen bytes")), "ends within row 2 of 2");
        assert_eq!(of("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4)}"), "has no row");
        assert_eq!(
            of("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4)}"),
            "has its columns one after another (fortran_order), not its rows"
        );
        assert_eq!(
            of("{'descr': '<f4', 'fortran_order': False, 'shape': ()}"),
            "has no rows, but a single value"
        );
        assert_eq!(
            of("{'descr': [('vector', 'S0')], 'fortran_order': False, 'shape': (9,)}"),
            "has rows without bytes"
        );
        for kind in ["|O", "<U5", "<M8[ns]", "f", ""] {
            let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': (3, 4)}}");
            assert_eq!(of(&header), format!("has field vector of type {kind}, which cannot be sent"));
        }
        assert_eq!(
            of("{'descr': '<f8', 'fortran_order': False, 'shape': (9, 9999999999999999999)}"),
            "has field vector of type <f8, which cannot be sent"
        );
        assert_eq!(
            of("{'descr': '<f8', 'fortran_order': False, 'shape': (9, 99999999999999999)}"),
            "ends within row 1 of 9"
        );
        let nested = "(".repeat(10_000);
        for header in ["", "{", "{'descr': ", "{'shape': (2,)}", "[1, -2]", &nested] {
            assert!(of(header).starts_with("has a header that cannot be read"), "{header}");
        }
    }
}
