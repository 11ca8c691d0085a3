//! Rows of an XML file: elements of one name, whose fields are the elements inside. Text is sent as it is written.

use std::io::BufRead;

use memchr::{memchr, memchr_iter, memmem, memrchr};

use super::{Table, unreadable};

/// Add at most `most` of the elements `element` of `file` to `table`. The first one has the fields.
pub fn read(mut file: impl BufRead, element: &str, most: usize, table: &mut Table) -> Result<(), String> {
    let mut row = Vec::new();
    if !next_row(&mut file, element, 1, &mut row)? {
        return Err(format!("has no element <{element}>"));
    }
    let fields = fields(&row);
    let places = table.places(&fields)?;
    let sent = |(place, name): (usize, &String)| places.contains(&place).then(|| name.clone());
    let fields: Vec<Option<String>> = fields.iter().enumerate().map(sent).collect();
    for number in 1..=most {
        if number > 1 && !next_row(&mut file, element, number, &mut row)? {
            break;
        }
        table.add(&cells(&row, &fields), &places).map_err(|cause| format!("element {number} {cause}"))?;
    }
    Ok(())
}

/// Whether there is another element: what it holds is in `row` then. It is the `number`th.
fn next_row(
    file: &mut impl BufRead,
    element: &str,
    number: usize,
    row: &mut Vec<u8>,
) -> Result<bool, String> {
    let mut is_inside = false;
    row.clear();
    loop {
        let begin = row.len();
        file.read_until(b'>', row).map_err(unreadable)?;
        let Some(text) = row[begin..].strip_suffix(b">") else {
            return if is_inside { Err(format!("ends within element {number}")) } else { Ok(false) };
        };
        let open = memrchr(b'<', text);
        let tag = open.map_or(b"".as_slice(), |open| &text[open + 1..]);
        if !is_inside {
            is_inside = tag_name(tag) == element.as_bytes() && !tag.ends_with(b"/");
            row.clear();
        } else if tag.strip_prefix(b"/").is_some_and(|tag| tag_name(tag) == element.as_bytes()) {
            row.truncate(begin + open.unwrap_or_default());
            return Ok(true);
        }
    }
}

/// The name at the begin of a tag.
fn tag_name(tag: &[u8]) -> &[u8] {
    let end = tag.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'/');
    &tag[..end.unwrap_or(tag.len())]
}

/// The tags of a row, without `<` and `>`, and what follows each.
fn tags(row: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    memchr_iter(b'<', row).filter_map(|open| {
        let rest = &row[open + 1..];
        memchr(b'>', rest).map(|close| (&rest[..close], &rest[close + 1..]))
    })
}

/// The names of the elements in a row.
fn fields(row: &[u8]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (tag, _) in tags(row).filter(|(tag, _)| !tag.starts_with(b"!") && !tag.starts_with(b"?")) {
        let name = String::from_utf8_lossy(tag_name(tag)).into_owned();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What the first element of each field that is sent holds, and nothing for the others.
fn cells<'a>(row: &'a [u8], fields: &[Option<String>]) -> Vec<&'a [u8]> {
    let mut cells: Vec<Option<&[u8]>> = vec![None; fields.len()];
    for (tag, rest) in tags(row) {
        let name = tag_name(tag);
        let is_name = |field: &Option<String>| field.as_ref().is_some_and(|field| field.as_bytes() == name);
        if let Some(place) = fields.iter().position(is_name)
            && cells[place].is_none()
        {
            let end = match tag.ends_with(b"/") {
                true => None,
                false => memmem::find(rest, &[b"</", name, b">"].concat()),
            };
            cells[place] = Some(&rest[..end.unwrap_or_default()]);
        }
    }
    cells.into_iter().map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use crate::table::tests::{row, table};

    const CORPUS: &str = "<?xml version=\"1.0\"?>\n<corpus doc=\"1\">\n  <documents/>\n  <doc>\n    <id>1</id>\n\
                          <text lang=\"en\">a &lt; b > c</text><empty/><textual>no</textual>\n  </doc>\n\
                          <doc type='x'><text>second <ref>r</ref></text></doc><doc><id>3</id></doc></corpus>";

    #[test]
    fn elements_are_rows() {
        let table = table("a.xml", CORPUS, &["text", "id", "empty", "textual"], None).unwrap();
        assert_eq!(row(&table, 0), ["a &lt; b > c", "1", "", "no"]);
        assert_eq!(row(&table, 1), ["second <ref>r</ref>", "", "", ""]);
        assert_eq!(row(&table, 2), ["", "3", "", ""]);
        assert_eq!(row(&table, 3), row(&table, 0));
    }

    #[test]
    fn fields_lie_at_any_depth() {
        let text = "<doc><title>T</title><revision><id>7</id><text>x</text></revision></doc>";
        let table = table("b.xml", text, &["revision", "text"], None).unwrap();
        assert_eq!(row(&table, 0), ["<id>7</id><text>x</text>", "x"]);
    }

    #[test]
    fn rows_are_read_only_as_far_as_they_are_wanted() {
        let cut = &CORPUS[..CORPUS.find("second").unwrap()];
        assert_eq!(row(&table("c.xml", cut, &["id"], Some(1)).unwrap(), 5), ["1"]);
        assert!(table("d.xml", cut, &["id"], None).unwrap_err().ends_with("ends within element 2"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str, name: &str| table("e.xml", text, &[name], None).unwrap_err();
        assert!(said(CORPUS, "ref").ends_with("has no field 'ref', only id, text, empty, textual"));
        assert!(
            said("<corpus><document><id>1</id></document></corpus>", "id").ends_with("has no element <doc>")
        );
        assert!(said("", "id").ends_with("has no element <doc>"));
        assert!(
            said("<doc><id>!</id></doc>", "id:base64")
                .ends_with("element 1 has no base64 in field id:base64")
        );
    }
}
