//! The file whose rows a custom command holds.

use std::sync::Arc;

use clap::Args;

use engine::table::Table;
use protocol::template;
use text::checks::require;
use text::failure::Failure;

const VALUE: &[u8] = b"__data__";

#[derive(Debug, Args)]
#[command(next_help_heading = "Tests")]
pub struct DatasetOptions {
    /// put the fields of its rows for __field:NAME__ in the command, a row for each (CSV, or TSV, XML, NPY)
    #[arg(long = "dataset", value_name = "FILE")]
    path: Option<String>,
    /// the element of an XML file that is a row; the elements inside are its fields
    #[arg(long = "xml-root-element", value_name = "NAME")]
    element: Option<String>,
    /// only so many of its rows
    #[arg(long = "maxdocs", value_name = "N")]
    most_rows: Option<usize>,
}

impl DatasetOptions {
    /// The columns of the file that `command` names.
    pub fn table(&self, command: &[Vec<u8>]) -> Result<Option<Arc<Table>>, Failure> {
        let Some(path) = &self.path else {
            let alone = |given: bool, option: &str| {
                require(!given, &format!("{option} is given without --dataset"), "give it, too")
            };
            alone(self.most_rows.is_some(), "--maxdocs")?;
            alone(self.element.is_some(), "--xml-root-element")?;
            return Ok(None);
        };
        let holds_value = |word: &Vec<u8>| word.windows(VALUE.len()).any(|part| part == VALUE);
        let names = template::field_names(command);
        require(
            !names.is_empty(),
            "--dataset is given without a command that names a field",
            "give one, as in SET doc:__rand_int__ __field:content__",
        )?;
        require(
            !command.iter().any(holds_value),
            "__data__ placeholders cannot be used with --dataset option",
            "leave them out",
        )?;
        require(
            !command.iter().any(|word| word == b";"),
            "--dataset is given with a sequence of commands",
            "give one command",
        )?;
        require(
            self.element.is_some() || !Table::has_elements(path),
            "XML dataset requires --xml-root-element parameter",
            "give the name of the element that is a row, as in --xml-root-element doc",
        )?;
        let most = self.most_rows.filter(|most| *most > 0);
        let table = Table::read(path, &names, most, self.element.as_deref().unwrap_or_default())
            .map_err(|cause| Failure::usage(cause, "give --dataset a file that has these fields"))?;
        Ok(Some(Arc::new(table)))
    }
}
