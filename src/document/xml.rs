//! XML types as text, as their `toString` in Yjs gives it. Like Yjs it escapes nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::DocumentError;
use super::index::order;
use super::project::{TOO_DEEP, javascript_string, node_json, parse_json, plain_text};
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
        TypeRef::Text => Ok(plain_text(replica, index)),
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
        for part in node_string(replica, node, depth)? {
            text.push_str(&part);
        }
    }
    Ok(text)
}

fn element(
    replica: &Replica<'_>,
    index: TypeIndex,
    name: &str,
    depth: usize,
) -> Result<String, DocumentError> {
    // As Yjs does for every name that a schema has; the tables for all of Unicode are 18 KB of wasm.
    let name = name.to_ascii_lowercase();
    let mut text = String::new();
    push_all(&mut text, &["<", &name]);
    let mut attributes = Vec::new();
    for (key, item) in replica.shared_type(index).into_iter().flat_map(|shared| &shared.keys) {
        if let Some(node) = replica.node(*item).filter(|node| !node.deleted) {
            let value = node_string(replica, node, depth)?.pop().unwrap_or_default();
            attributes.push(((*key).to_owned(), value));
        }
    }
    push_attributes(&mut text, &attributes);
    push_all(&mut text, &[">", &fragment(replica, index, depth)?, "</", &name, ">"]);
    Ok(text)
}

/// Text with its formats as tags, the innermost last by name: `<b><i href="x">text</i></b>`.
fn formatted_text(replica: &Replica<'_>, index: TypeIndex, depth: usize) -> Result<String, DocumentError> {
    let mut formats = Formats::default();
    let mut text = String::new();
    let mut run = String::new();
    for node in replica.list(index) {
        match node.content {
            Content::String(_) => run.push_str(&node.text),
            Content::Format { key, json } => {
                push_run(&mut text, &mut run, &formats);
                formats.set(key, parse_json(json)?);
            }
            Content::Embed(_) | Content::Type(_) => {
                push_run(&mut text, &mut run, &formats);
                for part in node_string(replica, node, depth)? {
                    run.push_str(&part);
                }
                push_run(&mut text, &mut run, &formats);
            }
            _ => {}
        }
    }
    push_run(&mut text, &mut run, &formats);
    Ok(text)
}

/// The formats that are on.
#[derive(Default)]
struct Formats<'a> {
    open: Vec<(&'a str, Value)>,
    /// Where each name is or was in `open`. Nothing is taken out: that would cost 4 KB of code.
    places: BTreeMap<&'a str, usize>,
}

impl<'a> Formats<'a> {
    fn set(&mut self, name: &'a str, value: Value) {
        let place = self.places.get(name).copied().unwrap_or_default();
        match self.open.get_mut(place).filter(|format| format.0 == name) {
            Some(_) if value.is_null() => {
                self.open.swap_remove(place);
                if let Some((moved, _)) = self.open.get(place) {
                    self.places.insert(moved, place);
                }
            }
            Some(format) => format.1 = value,
            None if value.is_null() => {}
            None => {
                self.places.insert(name, self.open.len());
                self.open.push((name, value));
            }
        }
    }
}

fn push_run(text: &mut String, run: &mut String, formats: &Formats<'_>) {
    if run.is_empty() {
        return;
    }
    let name = |at: usize| formats.open.get(at).map_or("", |format| format.0);
    let order = order(formats.open.len(), &|a, b| utf16_order(name(a), name(b)));
    for (name, value) in order.iter().filter_map(|at| formats.open.get(*at)) {
        push_all(text, &["<", name]);
        let mut attributes = Vec::new();
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    attributes.push((key.clone(), javascript_string(Some(value))));
                }
            }
            Value::Array(list) => {
                for item in list {
                    push_numbered(&mut attributes, javascript_string(Some(item)));
                }
            }
            Value::String(word) => {
                for unit in word.chars() {
                    push_numbered(&mut attributes, unit.to_string());
                }
            }
            _ => {}
        }
        push_attributes(text, &attributes);
        text.push('>');
    }
    text.push_str(run);
    run.clear();
    for at in order.iter().rev() {
        push_all(text, &["</", name(*at), ">"]);
    }
}

fn push_attributes(text: &mut String, attributes: &[(String, String)]) {
    let key = |at: usize| attributes.get(at).map_or("", |attribute| attribute.0.as_str());
    for at in order(attributes.len(), &|a, b| utf16_order(key(a), key(b))) {
        if let Some((key, value)) = attributes.get(at) {
            push_all(text, &[" ", key, "=\"", value, "\""]);
        }
    }
}

/// Smaller than `format!`, which also makes a string in between.
fn push_all(text: &mut String, parts: &[&str]) {
    for part in parts {
        text.push_str(part);
    }
}

/// `for (key in value)` of a list or a string goes over its indices.
fn push_numbered(attributes: &mut Vec<(String, String)>, value: String) {
    attributes.push((attributes.len().to_string(), value));
}

/// The elements of a node, each as JavaScript's `String()` gives it.
fn node_string(replica: &Replica<'_>, node: &Node<'_>, depth: usize) -> Result<Vec<String>, DocumentError> {
    if let Content::Type(kind) = node.content {
        let Some(index) = node.holds else { return Ok(Vec::new()) };
        return Ok(vec![to_string(replica, index, kind, depth.saturating_add(1))?]);
    }
    let mut texts = Vec::new();
    for value in node_json(replica, node, depth)? {
        texts.push(javascript_string(value.as_ref()));
    }
    Ok(texts)
}

/// JavaScript compares strings by UTF-16 code units, Rust by bytes; they differ past U+FFFF.
fn utf16_order(a: &str, b: &str) -> std::cmp::Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}
