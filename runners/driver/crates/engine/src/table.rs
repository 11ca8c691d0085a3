//! Rows of named fields out of a file, in memory.

mod delimited;
mod npy;
mod xml;

use std::fs::File;
use std::io::{self, BufReader};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What stands behind the name of a field whose values are decoded.
const DECODED: &str = ":base64";

/// The columns of a file that are sent, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<Column>,
    cells: Vec<u8>,
    /// Where each cell ends in `cells`, row by row.
    ends: Vec<usize>,
}

/// A field whose values are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// As it was asked for: `title`, or `vector:base64`.
    pub name: String,
    pub longest: usize,
}

impl Table {
    /// The columns `names` of the file at `path`, of at most so many rows; a field that a row lacks is empty there. The name of
    /// the file says its format, as in valkey-benchmark; in an XML file each `element` is a row. Errors say what is wrong with
    /// the file.
    pub fn read(path: &str, names: &[String], rows: Option<usize>, element: &str) -> Result<Table, String> {
        let most = rows.unwrap_or(usize::MAX);
        let columns = names.iter().map(|name| Column { name: name.clone(), longest: 0 }).collect();
        let mut table = Table { columns, cells: Vec::new(), ends: Vec::new() };
        File::open(path)
            .map_err(unreadable)
            .map(BufReader::new)
            .and_then(|file| match Format::of(path) {
                Format::Delimited(separator) => delimited::read(file, separator, most, &mut table),
                Format::Npy => npy::read(file, most, &mut table),
                Format::Xml => xml::read(file, element, most, &mut table),
            })
            .map_err(|cause| format!("{path}: {cause}"))?;
        match table.columns.is_empty() || !table.ends.is_empty() {
            true => Ok(table),
            false => Err(format!("{path}: has no row")),
        }
    }

    /// Whether the rows of the file at `path` are elements of XML.
    pub fn has_elements(path: &str) -> bool {
        Format::of(path) == Format::Xml
    }

    /// The places of the columns among `fields`.
    fn places(&self, fields: &[String]) -> Result<Vec<usize>, String> {
        let place = |column: &Column| {
            let bare = column.name.strip_suffix(DECODED).unwrap_or(&column.name);
            let place = fields.iter().position(|field| field == bare);
            place.ok_or_else(|| format!("has no field '{bare}', only {}", fields.join(", ")))
        };
        self.columns.iter().map(place).collect()
    }

    /// Add a row, whose cells stand at `places`.
    fn add(&mut self, row: &[&[u8]], places: &[usize]) -> Result<(), String> {
        for (column, place) in self.columns.iter_mut().zip(places) {
            let cell = row.get(*place).copied().unwrap_or_default();
            let begin = self.cells.len();
            match column.name.ends_with(DECODED) {
                false => self.cells.extend_from_slice(cell),
                true => STANDARD
                    .decode_vec(cell, &mut self.cells)
                    .map_err(|_| format!("has no base64 in field {}", column.name))?,
            }
            column.longest = column.longest.max(self.cells.len() - begin);
            self.ends.push(self.cells.len());
        }
        Ok(())
    }

    fn rows(&self) -> u64 {
        (self.ends.len() / self.columns.len().max(1)) as u64
    }

    /// The value of a column in row `number`; after the last row comes the first again. There is at least one.
    pub fn cell(&self, number: u64, column: usize) -> &[u8] {
        let at = (number % self.rows()) as usize * self.columns.len() + column;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.cells[begin..self.ends[at]]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Delimited(u8),
    Npy,
    Xml,
}

impl Format {
    fn of(path: &str) -> Format {
        let formats = [
            (".npy", Format::Npy),
            (".csv", Format::Delimited(b',')),
            (".tsv", Format::Delimited(b'\t')),
            (".xml", Format::Xml),
        ];
        let named = formats.into_iter().find(|(name, _)| path.contains(name));
        named.map_or(Format::Delimited(b','), |(_, format)| format)
    }
}

fn unreadable(error: io::Error) -> String {
    format!("cannot be read ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of these columns of a file of this name and content, in elements `doc`.
    pub fn table(
        name: &str,
        content: impl AsRef<[u8]>,
        names: &[&str],
        rows: Option<usize>,
    ) -> Result<Table, String> {
        let path = std::env::temp_dir().join(format!("speedbench-table-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let table = Table::read(path.to_str().unwrap(), &names, rows, "doc");
        std::fs::remove_file(path).unwrap();
        table
    }

    /// Row `number` as text.
    pub fn row(table: &Table, number: u64) -> Vec<String> {
        let cell = |column| String::from_utf8_lossy(table.cell(number, column)).into_owned();
        (0..table.columns.len()).map(cell).collect()
    }

    #[test]
    fn cells_have_quotes_and_separators() {
        let text = "id,title,data\r\n1,\"a, b\",AAEC\r\n\r\n2,c\n3,\"d\"\"e\",Zg==";
        let table = table("a.csv", text, &["title", "id", "data:base64"], None).unwrap();
        let row = |number| [0, 1, 2].map(|column| table.cell(number, column).to_vec());
        assert_eq!(row(0), [b"a, b".to_vec(), b"1".to_vec(), vec![0, 1, 2]]);
        assert_eq!(row(4), [b"c".to_vec(), b"2".to_vec(), Vec::new()]);
        assert_eq!(row(2), [b"d\"\"e".to_vec(), b"3".to_vec(), b"f".to_vec()]);
        assert_eq!(table.columns.iter().map(|column| column.longest).collect::<Vec<_>>(), [4, 1, 3]);
    }

    #[test]
    fn tabs_and_a_limit_of_rows() {
        let table = table("b.tsv", "id\tx\n1\ta,b\n2\tc\n3\td\n", &["x"], Some(2)).unwrap();
        assert_eq!(
            [0, 1, 2].map(|number| table.cell(number, 0).to_vec()),
            [b"a,b".to_vec(), b"c".to_vec(), b"a,b".to_vec()]
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str, name: &str| table("c.csv", text, &[name], None).unwrap_err();
        assert!(said("id,x\n1,2\n", "y").ends_with("has no field 'y', only id, x"));
        assert!(said("id,x\n", "x").ends_with("has no row"));
        assert!(said("id,x\n1,AA==\n2,!\n", "x:base64").ends_with("line 3 has no base64 in field x:base64"));
        assert!(Table::read("/nonexistent", &[], None, "").unwrap_err().contains("cannot be read"));
    }
}
