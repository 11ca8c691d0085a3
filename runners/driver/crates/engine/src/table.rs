//! Rows of named fields out of a file of comma- or tab-separated values, in memory.

use std::io;

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
    /// The columns `names` of the file at `path`, of at most so many rows. Its first line has the names of the fields; a `.tsv`
    /// has tabs between them. A field that a row lacks is empty there. Errors say what is wrong with the file.
    pub fn read(path: &str, names: &[String], rows: Option<usize>) -> Result<Table, String> {
        let bytes =
            std::fs::read(path).map_err(|error: io::Error| format!("{path}: cannot be read ({error})"))?;
        let separator = if !path.contains(".csv") && path.contains(".tsv") { b'\t' } else { b',' };
        let mut lines =
            bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let header = lines.next().unwrap_or_default();
        let fields: Vec<String> = header
            .split(|byte| *byte == separator)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        let places = names.iter().map(|name| place(path, &fields, name)).collect::<Result<Vec<_>, _>>()?;
        let columns = names.iter().map(|name| Column { name: name.clone(), longest: 0 }).collect();
        let mut table = Table { columns, cells: Vec::new(), ends: Vec::new() };
        let rows = lines.enumerate().filter(|(_, line)| !line.is_empty()).take(rows.unwrap_or(usize::MAX));
        for (at, line) in rows {
            table
                .add(&cells(line, separator), &places)
                .map_err(|name| format!("{path}: line {} has no base64 in field {name}", at + 2))?;
        }
        match table.columns.is_empty() || !table.ends.is_empty() {
            true => Ok(table),
            false => Err(format!("{path}: has no row")),
        }
    }

    /// Add a row; the name of a field that cannot be decoded otherwise.
    fn add(&mut self, row: &[&[u8]], places: &[usize]) -> Result<(), String> {
        for (column, place) in self.columns.iter_mut().zip(places) {
            let cell = row.get(*place).copied().unwrap_or_default();
            let begin = self.cells.len();
            match column.name.ends_with(DECODED) {
                false => self.cells.extend_from_slice(cell),
                true => STANDARD.decode_vec(cell, &mut self.cells).map_err(|_| column.name.clone())?,
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

/// The place of the field `name`, which may be decoded, among `fields`.
fn place(path: &str, fields: &[String], name: &str) -> Result<usize, String> {
    let bare = name.strip_suffix(DECODED).unwrap_or(name);
    let place = fields.iter().position(|field| field == bare);
    place.ok_or_else(|| format!("{path}: has no field '{bare}', only {}", fields.join(", ")))
}

/// The cells of a line. A separator between quotes is none; quotes around a cell are left out.
fn cells(line: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut quoted = false;
    let is_end = |byte: &u8| {
        quoted ^= *byte == b'"';
        *byte == separator && !quoted
    };
    let bare = |cell: &'_ [u8]| cell.len() > 1 && cell.starts_with(b"\"") && cell.ends_with(b"\"");
    line.split(is_end).map(|cell| if bare(cell) { &cell[1..cell.len() - 1] } else { cell }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, text: &str, names: &[&str], rows: Option<usize>) -> Result<Table, String> {
        let path = std::env::temp_dir().join(format!("speedbench-table-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let table = Table::read(path.to_str().unwrap(), &names, rows);
        std::fs::remove_file(path).unwrap();
        table
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
        assert!(Table::read("/nonexistent", &[], None).unwrap_err().contains("cannot be read"));
    }
}
