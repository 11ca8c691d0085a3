//! Rows of a file of comma- or tab-separated values. Its first line has the names of the fields.

use std::io::BufRead;

use super::{Table, unreadable};

/// Add at most `most` rows of `file` to `table`.
pub fn read(mut file: impl BufRead, separator: u8, most: usize, table: &mut Table) -> Result<(), String> {
    let mut line = Vec::new();
    next_line(&mut file, &mut line)?;
    let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let fields: Vec<String> = line.split(|byte| *byte == separator).map(name).collect();
    let places = table.places(&fields)?;
    let mut number = 1;
    while table.rows() < most as u64 && next_line(&mut file, &mut line)? {
        number += 1;
        if !line.is_empty() {
            table.add(&cells(&line, separator), &places).map_err(|cause| format!("line {number} {cause}"))?;
        }
    }
    Ok(())
}

/// Whether there is another line: it is in `line` then, without its end.
fn next_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, String> {
    line.clear();
    let bytes = file.read_until(b'\n', line).map_err(unreadable)?;
    for end in [b'\n', b'\r'] {
        line.pop_if(|last| *last == end);
    }
    Ok(bytes > 0)
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
