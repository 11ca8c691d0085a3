//! A test that will be measured.

use crate::redis_benchmark::options::Options;
use crate::redis_benchmark::suite;
use protocol::script::Script;
use protocol::template::{Placeholders, Value};

/// One test that will be measured.
pub struct PlannedTest {
    pub title: String,
    pub script: Script,
    /// What the report calls the bytes of the payload.
    pub payload_bytes: usize,
    /// A command that the test needs once before.
    pub before: Option<Vec<String>>,
}

pub fn placeholders(options: &Options) -> Placeholders {
    let columns = options.table.iter().flat_map(|table| &table.columns);
    let fields = columns.map(|column| (column.name.clone(), column.longest));
    Placeholders {
        numbers: options.load.keyspace.is_some(),
        tags: options.endpoint.access.cluster,
        value: Value::Same(suite::value(options.load.value_bytes)),
        fields: fields.collect(),
        ..Placeholders::default()
    }
}
