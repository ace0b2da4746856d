//! Generates the JSON Schema of each kind of document from its type. The module `schema` contains the results.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    check::CheckDocument, clocksource_cost::ClocksourceCostDocument, constraints::SIGNED, document::GENERATORS,
    gpio_latency::GpioLatencyDocument, head::SCHEMA, report::ReportDocument, wake_latency::WakeLatencyDocument,
};

/// Returns the generated JSON Schema of a kind of document, or `None` if there is no such kind.
#[must_use]
pub fn of(kind: &str) -> Option<Value> {
    let (kind, generate) = GENERATORS.iter().find(|(name, _)| *name == kind)?;
    let mut schema = generate().to_value();
    let object = schema.as_object_mut().expect("a struct has a schema with properties");
    let properties = object["properties"].as_object_mut().expect("a struct has properties");
    constant(properties, "kind", &json!(kind));
    constant(properties, "schema", &json!(SCHEMA));
    restrict(&mut schema);
    Some(schema)
}

/// The order of the keys in an object's schema, chosen for human readers.
const ORDER: [&str; 7] = ["$schema", "title", "description", "type", "additionalProperties", "required", "properties"];

/// Restricts a property to one value.
fn constant(properties: &mut Map<String, Value>, name: &str, value: &Value) {
    let description = &properties[name]["description"];
    properties[name] = json!({ "description": description, "const": value });
}

pub(crate) fn generated<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

fn titled<T: JsonSchema>(title: &str) -> Schema {
    let mut schema = generated::<T>();
    schema.insert("title".to_owned(), json!(title));
    schema
}

pub(crate) fn clocksource_compare() -> Schema {
    titled::<ClocksourceCostDocument>("hpt clocksource compare: read overhead under every clocksource")
}

pub(crate) fn clocksource_set() -> Schema {
    titled::<ClocksourceCostDocument>("hpt clocksource set: read overhead before and after the change")
}

pub(crate) fn timer() -> Schema {
    waiting("hpt latency timer: wake-up latency", &["kernel", "hpt"])
}

pub(crate) fn poll() -> Schema {
    waiting("hpt latency poll: the latency of a busy-polling thread", &["polling"])
}

/// Generates the schema of a wake-up latency document with the given title and wait methods. `timer` and `poll` have
/// different wait methods.
fn waiting(title: &str, methods: &[&str]) -> Schema {
    let mut schema = titled::<WakeLatencyDocument>(title);
    let root = schema.ensure_object();
    let description = &root["properties"]["wait_method"]["description"];
    root["properties"]["wait_method"] = json!({ "description": description, "enum": methods });
    root["$defs"].as_object_mut().expect("it has definitions").remove("WaitMethod");
    schema
}

/// Generates the schema of a GPIO latency document. The source is always `monotonic`, because the kernel's timestamps
/// of edges come from that clock.
pub(crate) fn gpio_latency() -> Schema {
    let mut schema = generated::<GpioLatencyDocument>();
    let properties = schema.ensure_object()["properties"].as_object_mut().expect("a struct has properties");
    constant(properties, "source", &json!("monotonic"));
    schema
}

/// Generates the schema of a check. The document of a step is an object, or null.
pub(crate) fn check() -> Schema {
    let mut schema = generated::<CheckDocument>();
    let document = &mut schema.ensure_object()["$defs"]["CheckStep"]["properties"]["document"];
    *document = json!({
        "description": document["description"],
        "type": ["object", "null"],
        "required": ["schema", "kind"],
        "additionalProperties": true,
    });
    schema
}

/// Generates the schema of a report, in which each document must have the kind of its part.
pub(crate) fn report() -> Schema {
    let mut schema = generated::<ReportDocument>();
    let documents = crate::words::REPORT_PARTS.iter().map(|&(part, kind)| {
        let document = json!({
            "description": format!("See {kind}.json."),
            "type": "object",
            "required": ["schema", "kind"],
            "properties": { "kind": { "const": kind } },
            "additionalProperties": true,
        });
        (part.to_owned(), document)
    });
    let documents: Map<String, Value> = documents.collect();
    let field = &mut schema.ensure_object()["properties"]["documents"];
    field["properties"] = Value::Object(documents);
    field["additionalProperties"] = json!(false);
    schema
}

/// Applies the rules for all documents: an object may have only the listed properties, and a number must not be
/// negative unless it is marked as signed.
fn restrict(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            // The name of a Rust type is meaningless in other programming languages.
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".to_owned(), json!(false));
            }
            if object.get("type").is_some_and(|name| name == "object") {
                let first = ORDER.iter().filter_map(|&key| object.remove_entry(key));
                let first: Map<String, Value> = first.collect();
                let rest = std::mem::replace(object, first);
                object.extend(rest);
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = in_paragraphs(text);
            }
            let is_signed = object.remove(SIGNED).is_some();
            if is_number(object) && !is_signed && !object.contains_key("minimum") {
                object.insert("minimum".to_owned(), json!(0));
            }
            object.values_mut().for_each(restrict);
        }
        Value::Array(list) => list.iter_mut().for_each(restrict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Joins the lines of each paragraph in a comment. Only an empty line ends a paragraph.
fn in_paragraphs(comment: &str) -> String {
    comment.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}

fn is_number(schema: &Map<String, Value>) -> bool {
    let is = |name: &Value| name == "number" || name == "integer";
    match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(is),
        Some(one) => is(one),
        None => false,
    }
}
