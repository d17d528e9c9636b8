//! XML types as text, as their `toString` in Yjs gives it. Like Yjs it escapes nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::DocumentError;
use super::project::{TOO_DEEP, javascript_string, node_json, parse_json};
use super::replica::{Node, Replica, TypeIndex};
use super::walk::{Content, TypeRef};
use crate::protocol::limits::MAX_NESTING;

/// Any type as text: what `String(type)` gives in JavaScript.
pub(super) fn to_string(
    replica: &Replica<'_>,
    index: TypeIndex,
    kind: TypeRef<'_>,
    depth: usize,
) -> Result<String, DocumentError> {
    if depth > MAX_NESTING {
        return Err(TOO_DEEP);
    }
    match kind {
        TypeRef::XmlFragment => fragment(replica, index, depth),
        TypeRef::XmlElement(name) => element(replica, index, name, depth),
        TypeRef::XmlText => formatted_text(replica, index, depth),
        TypeRef::Text => Ok(replica.list(index).map(|node| &*node.text).collect()),
        TypeRef::Array | TypeRef::Map | TypeRef::XmlHook(_) => Ok("[object Object]".to_owned()),
    }
}

/// The children of a fragment or element, one after the other.
pub(super) fn fragment(
    replica: &Replica<'_>,
    index: TypeIndex,
    depth: usize,
) -> Result<String, DocumentError> {
    let mut text = String::new();
    for node in replica.list(index) {
        text.push_str(&node_string(replica, node, depth)?.concat());
    }
    Ok(text)
}

fn element(
    replica: &Replica<'_>,
    index: TypeIndex,
    name: &str,
    depth: usize,
) -> Result<String, DocumentError> {
    let name = name.to_lowercase();
    let mut text = format!("<{name}");
    let mut attributes = Vec::new();
    for (key, item) in replica.shared_type(index).into_iter().flat_map(|shared| &shared.keys) {
        if let Some(node) = replica.node(*item).filter(|node| !node.deleted) {
            attributes.push((*key, node_string(replica, node, depth)?.pop().unwrap_or_default()));
        }
    }
    attributes.sort_by(|(a, _), (b, _)| utf16_order(a, b));
    for (key, value) in attributes {
        text.push_str(&format!(" {key}=\"{value}\""));
    }
    text.push_str(&format!(">{}</{name}>", fragment(replica, index, depth)?));
    Ok(text)
}

/// Text with its formats as tags, the innermost last by name: `<b><i href="x">text</i></b>`.
fn formatted_text(replica: &Replica<'_>, index: TypeIndex, depth: usize) -> Result<String, DocumentError> {
    let mut formats: BTreeMap<&str, Value> = BTreeMap::new();
    let mut text = String::new();
    let mut run = String::new();
    for node in replica.list(index) {
        match node.content {
            Content::String(_) => run.push_str(&node.text),
            Content::Format { key, json } => {
                push_run(&mut text, &mut run, &formats);
                match parse_json(json)? {
                    Value::Null => formats.remove(key),
                    value => formats.insert(key, value),
                };
            }
            Content::Embed(_) | Content::Type(_) => {
                push_run(&mut text, &mut run, &formats);
                run = node_string(replica, node, depth)?.concat();
                push_run(&mut text, &mut run, &formats);
            }
            _ => {}
        }
    }
    push_run(&mut text, &mut run, &formats);
    Ok(text)
}

fn push_run(text: &mut String, run: &mut String, formats: &BTreeMap<&str, Value>) {
    if run.is_empty() {
        return;
    }
    let mut nodes: Vec<(&str, &Value)> = formats.iter().map(|(name, value)| (*name, value)).collect();
    nodes.sort_by(|(a, _), (b, _)| utf16_order(a, b));
    for (name, value) in &nodes {
        text.push_str(&format!("<{name}"));
        let mut attributes: Vec<(String, String)> = match value {
            Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), javascript_string(Some(v)))).collect(),
            Value::Array(list) => numbered(list.iter().map(|item| javascript_string(Some(item)))),
            Value::String(word) => numbered(word.chars().map(String::from)),
            _ => Vec::new(),
        };
        attributes.sort_by(|(a, _), (b, _)| utf16_order(a, b));
        for (key, value) in attributes {
            text.push_str(&format!(" {key}=\"{value}\""));
        }
        text.push('>');
    }
    text.push_str(run);
    run.clear();
    for (name, _) in nodes.iter().rev() {
        text.push_str(&format!("</{name}>"));
    }
}

/// `for (key in value)` of a list or a string goes over its indices.
fn numbered(values: impl Iterator<Item = String>) -> Vec<(String, String)> {
    values.enumerate().map(|(at, value)| (at.to_string(), value)).collect()
}

/// The elements of a node, each as JavaScript's `String()` gives it.
fn node_string(replica: &Replica<'_>, node: &Node<'_>, depth: usize) -> Result<Vec<String>, DocumentError> {
    if let Content::Type(kind) = node.content {
        let Some(index) = node.holds else { return Ok(Vec::new()) };
        return Ok(vec![to_string(replica, index, kind, depth.saturating_add(1))?]);
    }
    let values = node_json(replica, node, depth)?;
    Ok(values.iter().map(|value| javascript_string(value.as_ref())).collect())
}

/// JavaScript compares strings by UTF-16 code units, Rust by bytes; they differ past U+FFFF.
fn utf16_order(a: &str, b: &str) -> std::cmp::Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}
