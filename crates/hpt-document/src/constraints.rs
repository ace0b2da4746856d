//! Constraints on a field beyond its type: the words that a string may contain, and whether a number may be negative.

use schemars::Schema;
use serde_json::{Value, json};

use crate::words;

/// The schema key that marks a number as possibly negative. [`crate::schema`] removes the key again.
pub(crate) const SIGNED: &str = "x-signed";

/// Allows a number to be negative. For a list, allows its items. Without this attribute, a number must not be negative.
pub(crate) fn signed(schema: &mut Schema) {
    let schema = schema.ensure_object();
    let schema = match schema.get_mut("items") {
        Some(Value::Object(items)) => items,
        _ => schema,
    };
    schema.insert(SIGNED.to_owned(), json!(true));
}

/// Restricts a string to `words`. An optional string may also be null. For a list, restricts the items.
fn one_of(schema: &mut Schema, words: &[&str]) {
    let schema = schema.ensure_object();
    let schema = match schema.get("items") {
        Some(Value::Object(_)) => schema["items"].as_object_mut().expect("the match has found an object"),
        _ => schema,
    };
    let is_optional = schema.remove("type").is_some_and(|types| types.is_array());
    let null = is_optional.then_some(Value::Null);
    schema.insert("enum".to_owned(), words.iter().map(|&word| json!(word)).chain(null).collect());
}

/// Defines one function for each list of words, to be used in the `transform` attribute of a field.
macro_rules! words {
    ($($name:ident: $words:ident,)*) => {
        $(pub(crate) fn $name(schema: &mut Schema) {
            one_of(schema, &words::$words);
        })*
    };
}

words! {
    read_paths: READ_PATHS,
    clock_read_paths: CLOCK_READ_PATHS,
    scopes: SCOPES,
    kernel_verdicts: KERNEL_VERDICTS,
    calibration_methods: CALIBRATION_METHODS,
    sleep_methods: SLEEP_METHODS,
    scheduling_policies: SCHEDULING_POLICIES,
    settings: SETTINGS,
    gpio_directions: GPIO_DIRECTIONS,
    source_faults: SOURCE_FAULTS,
    stall_causes: STALL_CAUSES,
}

pub(crate) fn report_parts(schema: &mut Schema) {
    one_of(schema, &words::REPORT_PARTS.map(|(part, _)| part));
}
