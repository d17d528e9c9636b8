//! Formats of text: marks in its list that begin and end them, placed as Yjs places them.

use std::collections::BTreeMap;

use super::text::counted;
use super::{Attributes, Editor, Stopped};
use crate::document::project::parse_json;
use crate::document::replica::{NodeIndex, Place, Replica, TypeIndex};
use crate::document::walk::Content;

/// A place in a text, and the formats that are on there.
pub(super) struct Cursor<'a> {
    parent: TypeIndex,
    left: Option<NodeIndex>,
    open: Formats<'a>,
}

/// Values by name, none of which is ever taken out. A hostile text may have as many names as marks.
#[derive(Default)]
struct Formats<'a> {
    values: Vec<(&'a str, Option<&'a str>)>,
    places: BTreeMap<&'a str, usize>,
    /// How many have a value.
    count: usize,
}

impl<'a> Formats<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.values.get(*self.places.get(name)?)?.1
    }

    fn set(&mut self, name: &'a str, value: Option<&'a str>) {
        let place = *self.places.entry(name).or_insert(self.values.len());
        if place == self.values.len() {
            self.values.push((name, None));
        }
        if let Some((_, old)) = self.values.get_mut(place) {
            self.count = self.count.saturating_add(usize::from(value.is_some()));
            self.count = self.count.saturating_sub(usize::from(old.is_some()));
            *old = value;
        }
    }

    fn each(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.values.iter().filter_map(|&(name, value)| Some((name, value?)))
    }
}

impl<'a> Cursor<'a> {
    /// The place after a node, or the beginning of a text.
    pub(super) fn after(replica: &Replica<'a>, parent: TypeIndex, left: Option<NodeIndex>) -> Self {
        let mut cursor = Self { parent, left: None, open: Formats::default() };
        while cursor.left != left && cursor.right(replica).is_some() {
            cursor.forward(replica);
        }
        cursor
    }

    fn right(&self, replica: &Replica<'a>) -> Option<NodeIndex> {
        replica.after(self.parent, self.left)
    }

    fn forward(&mut self, replica: &Replica<'a>) {
        let right = self.right(replica);
        let node = right.and_then(|right| replica.node(right)).filter(|node| !node.deleted);
        if let Some(Content::Format { key, json }) = node.map(|node| node.content) {
            self.open.set(key, Some(json));
        }
        self.left = right;
    }

    /// Passes what is deleted, and marks that say what `wanted` says.
    fn pass_same(&mut self, replica: &Replica<'a>, wanted: &Formats<'a>) {
        while let Some(node) = self.right(replica).and_then(|right| replica.node(right)) {
            let same = match node.content {
                Content::Format { key, json } => is_same(wanted.get(key).unwrap_or(NULL), json),
                _ => false,
            };
            if !node.deleted && !same {
                return;
            }
            self.forward(replica);
        }
    }
}

impl<'a> Editor<'_, 'a> {
    /// Inserts text that has exactly these formats.
    pub(super) fn insert_formatted(
        &mut self,
        mut cursor: Cursor<'a>,
        text: &'a str,
        attributes: &'a Attributes,
    ) -> Result<(), Stopped> {
        let mut wanted = Formats::default();
        for (name, _) in cursor.open.each().filter(|(_, json)| *json != NULL) {
            wanted.set(name, Some(NULL));
        }
        for (name, json) in attributes {
            wanted.set(name, Some(json));
        }
        cursor.pass_same(self.replica, &wanted);
        let before = self.begin(&mut cursor, &wanted)?;
        self.mark(&mut cursor, Content::String(text))?;
        self.end(cursor, before)
    }

    /// Gives formats to so many UTF-16 code units of text from a place on.
    pub(super) fn format_from(
        &mut self,
        mut cursor: Cursor<'a>,
        units: u32,
        attributes: &'a Attributes,
    ) -> Result<(), Stopped> {
        let mut wanted = Formats::default();
        for (name, json) in attributes {
            wanted.set(name, Some(json));
        }
        cursor.pass_same(self.replica, &wanted);
        let mut before = self.begin(&mut cursor, &wanted)?;
        let mut left = units;
        while let Some(right) = cursor.right(self.replica) {
            let Some(node) = self.replica.node(right) else { break };
            let (content, deleted) = (node.content, node.deleted);
            let is_mark = matches!(content, Content::Format { .. });
            if left == 0 && (before.count == 0 || !deleted && !is_mark) {
                break;
            }
            if let (false, Content::Format { key, json }) = (deleted, content)
                && let Some(value) = wanted.get(key)
            {
                // A mark inside the range gives way; what it said holds again after the range.
                if is_same(value, json) {
                    before.set(key, None);
                } else if left == 0 {
                    break;
                } else {
                    before.set(key, Some(json));
                }
                self.new.delete(self.replica, right);
            } else if matches!(content, Content::String(_)) {
                left = left.saturating_sub(counted(self.replica, right));
            }
            cursor.forward(self.replica);
        }
        self.end(cursor, before)
    }

    /// Marks the beginning of formats that are not on already, and returns what was on before.
    fn begin(&mut self, cursor: &mut Cursor<'a>, wanted: &Formats<'a>) -> Result<Formats<'a>, Stopped> {
        let mut before = Formats::default();
        for (key, json) in wanted.each() {
            let current = cursor.open.get(key).unwrap_or(NULL);
            if !is_same(current, json) {
                before.set(key, Some(current));
                self.mark(cursor, Content::Format { key, json })?;
            }
        }
        Ok(before)
    }

    /// Marks where formats are again what they were before.
    fn end(&mut self, mut cursor: Cursor<'a>, mut before: Formats<'a>) -> Result<(), Stopped> {
        while let Some(node) = cursor.right(self.replica).and_then(|right| self.replica.node(right)) {
            if !node.deleted {
                let Content::Format { key, json } = node.content else { break };
                if !before.get(key).is_some_and(|value| is_same(value, json)) {
                    break;
                }
                before.set(key, None);
            }
            cursor.forward(self.replica);
        }
        for (key, json) in before.each() {
            self.mark(&mut cursor, Content::Format { key, json })?;
        }
        Ok(())
    }

    fn mark(&mut self, cursor: &mut Cursor<'a>, content: Content<'a>) -> Result<(), Stopped> {
        let place = Place { parent: cursor.parent, key: None, left: cursor.left };
        self.new.insert(self.replica, place, content)?;
        cursor.forward(self.replica);
        Ok(())
    }
}

/// Whether two JSON texts are the same value.
fn is_same(a: &str, b: &str) -> bool {
    a == b || matches!((parse_json(a), parse_json(b)), (Ok(a), Ok(b)) if a == b)
}

/// The value of a format that is off.
const NULL: &str = "null";
