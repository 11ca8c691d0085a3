//! The shape of a document, which golden files hold.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Keys and types, recursively. A list is the set of its elements' shapes; which flags are up is not a shape, nor is
/// whether a clock tick met the server in a short phase: without one its user and system time are null.
pub fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("bool"),
        Value::Number(number) if number.is_f64() => json!("float"),
        Value::Number(_) => json!("int"),
        Value::String(_) => json!("string"),
        Value::Array(elements) => {
            let shapes: BTreeMap<String, Value> =
                elements.iter().map(|element| (shape(element).to_string(), shape(element))).collect();
            shapes.into_values().collect()
        }
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match key.as_str() {
                "flags" => (key.clone(), json!(["string"])),
                "user_ns" | "system_ns" if value.is_null() => (key.clone(), json!("int")),
                _ => (key.clone(), shape(value)),
            })
            .collect(),
    }
}

/// The names of all fields of a document.
pub fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.keys().cloned());
            fields.values().for_each(|value| names(value, found));
        }
        Value::Array(elements) => elements.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}
