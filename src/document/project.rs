//! Text and JSON of a stored document, as Yjs shows them.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::error::DocumentError;
use super::replica::{Node, Replica, TypeIndex};
use super::value::read_any;
use super::walk::{Content, TypeRef};
use super::xml;
use crate::protocol::limits::MAX_NESTING;
use crate::protocol::varint::Reader;

/// What is told when types are nested deeper than we follow.
pub(super) const TOO_DEEP: DocumentError =
    DocumentError::Unsupported("more nested types than can be followed");

/// The text of a root, as `Y.Text#toString` or, for XML, `Y.XmlFragment#toString` shows it. Without
/// a name it is the only root of the document, and [`DocumentError::Ambiguous`] if there are several.
/// A root that is not there is empty, as in Yjs.
pub fn text(update: &[u8], root: Option<&str>) -> Result<String, DocumentError> {
    let replica = Replica::load(update)?;
    let roots = replica.roots();
    let index = match root {
        Some(name) => roots.get(name).copied(),
        None if roots.len() > 1 => {
            return Err(DocumentError::Ambiguous(roots.keys().map(|&name| name.to_owned()).collect()));
        }
        None => roots.values().next().copied(),
    };
    let Some(index) = index else { return Ok(String::new()) };
    match root_kind(&replica, index) {
        Some(TypeRef::XmlFragment) => xml::fragment(&replica, index, 0),
        _ => Ok(plain_text(&replica, index)),
    }
}

/// The document as `{root: value}`. An update does not say what type a root is, so it is inferred:
/// text if it holds text, else a map if it has keys, else XML or an array by its elements, and text
/// if there is nothing to tell by.
pub fn json(update: &[u8]) -> Result<Value, DocumentError> {
    let replica = Replica::load(update)?;
    let mut document = Map::new();
    for (name, index) in replica.roots() {
        let kind = root_kind(&replica, *index).unwrap_or(TypeRef::Text);
        document.insert((*name).to_owned(), type_json(&replica, *index, kind, 0)?);
    }
    Ok(Value::Object(document))
}

/// What a root is, as far as its content tells.
pub(super) fn root_kind<'a>(replica: &Replica<'a>, index: TypeIndex) -> Option<TypeRef<'a>> {
    let mut kind = None;
    for node in replica.list_with_deleted(index) {
        kind = match node.content {
            // Only text ever held these, so they tell even when they are deleted.
            Content::String(_) | Content::Format { .. } | Content::Embed(_) => return Some(TypeRef::Text),
            _ if node.deleted => kind,
            Content::Type(TypeRef::XmlElement(_) | TypeRef::XmlHook(_) | TypeRef::XmlText) => {
                kind.or(Some(TypeRef::XmlFragment))
            }
            _ => Some(TypeRef::Array),
        };
    }
    let keys = &replica.shared_type(index)?.keys;
    if keys.is_empty() { kind } else { Some(TypeRef::Map) }
}

fn type_json(
    replica: &Replica<'_>,
    index: TypeIndex,
    kind: TypeRef<'_>,
    depth: usize,
) -> Result<Value, DocumentError> {
    if depth > MAX_NESTING {
        return Err(TOO_DEEP);
    }
    let depth = depth.saturating_add(1);
    match kind {
        TypeRef::Text => Ok(plain_text(replica, index).into()),
        TypeRef::XmlText | TypeRef::XmlFragment | TypeRef::XmlElement(_) => {
            Ok(xml::to_string(replica, index, kind, depth)?.into())
        }
        TypeRef::Array => {
            let mut items = Vec::new();
            for node in replica.list(index) {
                for value in node_json(replica, node, depth)? {
                    items.push(value.unwrap_or(Value::Null));
                }
            }
            Ok(items.into())
        }
        TypeRef::Map | TypeRef::XmlHook(_) => {
            let mut map = Map::new();
            let keys = replica.shared_type(index).into_iter().flat_map(|shared| &shared.keys);
            for (key, item) in keys {
                let Some(node) = replica.node(*item).filter(|node| !node.deleted) else { continue };
                if let Some(Some(value)) = node_json(replica, node, depth)?.pop() {
                    map.insert((*key).to_owned(), value);
                }
            }
            Ok(map.into())
        }
    }
}

/// The elements of a node. Nothing in place of `undefined`.
pub(super) fn node_json(
    replica: &Replica<'_>,
    node: &Node<'_>,
    depth: usize,
) -> Result<Vec<Option<Value>>, DocumentError> {
    Ok(match node.content {
        Content::Deleted | Content::Format { .. } => Vec::new(),
        Content::Any(elements) => read_elements(node, elements, |reader| Ok(read_any(reader)?))?,
        Content::Json(elements) => read_elements(node, elements, |reader| match reader.var_string()? {
            "undefined" => Ok(None),
            text => parse_json(text).map(Some),
        })?,
        Content::String(_) => node.text.chars().map(|unit| Some(unit.to_string().into())).collect(),
        Content::Embed(text) => vec![Some(parse_json(text)?)],
        Content::Binary(bytes) => vec![Some(bytes.into())],
        // A subdocument is loaded on its own; `JSON.stringify` shows an empty one.
        Content::Doc => vec![Some(Map::new().into())],
        Content::Type(kind) => match node.holds {
            Some(index) => vec![Some(type_json(replica, index, kind, depth)?)],
            None => Vec::new(),
        },
    })
}

/// The encoded elements that belong to `node`, which may be a part of what was one struct.
fn read_elements<'a>(
    node: &Node<'_>,
    elements: &'a [u8],
    read: fn(&mut Reader<'a>) -> Result<Option<Value>, DocumentError>,
) -> Result<Vec<Option<Value>>, DocumentError> {
    let mut reader = Reader::new(elements);
    for _ in 0..node.skipped {
        read(&mut reader)?;
    }
    let mut values = Vec::new();
    for _ in 0..node.len {
        values.push(read(&mut reader)?);
    }
    Ok(values)
}

/// JSON inside an update. What `JSON.parse` takes and Rust strings cannot hold is told apart.
pub(super) fn parse_json(text: &str) -> Result<Value, DocumentError> {
    serde_json::from_str(text)
        .map_err(|_| DocumentError::Unsupported("JSON with half a character or very deep nesting"))
}

/// The text of a type, without formats and embeds.
pub(super) fn plain_text(replica: &Replica<'_>, index: TypeIndex) -> String {
    let mut text = String::new();
    for node in replica.list(index) {
        text.push_str(&node.text);
    }
    text
}

/// What `String(value)` gives in JavaScript.
pub(super) fn javascript_string(value: Option<&Value>) -> String {
    match value {
        None => "undefined".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(_)) => "[object Object]".to_owned(),
        Some(Value::Array(items)) => {
            let mut text = String::new();
            for (at, item) in items.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let item = if item.is_null() { String::new() } else { javascript_string(Some(item)) };
                let _ = write!(text, "{comma}{item}");
            }
            text
        }
        Some(other) => other.to_string(),
    }
}
