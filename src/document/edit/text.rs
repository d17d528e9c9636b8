//! Edits of text: of a text root, or of the texts inside an XML root.
//!
//! A quote is sought in what `text/plain` shows of a text: without embeds, across formats. Embeds
//! inside a quote stay. In XML each text is by itself, so a quote never spans two elements.

use super::diff::diff;
use super::{Attributes, Editor, Inserted, Quote, Refusal, Spot, Stopped};
use crate::document::project::root_kind;
use crate::document::replica::{NodeIndex, Place, Replica, TypeIndex};
use crate::document::walk::{Content, TypeRef, utf16_len};
use crate::protocol::error::DecodeError;

use super::format::Cursor;

/// The visible text of one type, and where its nodes are in it.
struct Surface {
    parent: TypeIndex,
    text: String,
    runs: Vec<Run>,
}

/// A text node and the byte at which it begins.
struct Run {
    node: NodeIndex,
    byte: usize,
}

/// Quoted text that was found, in bytes.
struct Found {
    surface: Surface,
    start: usize,
    end: usize,
}

impl<'a> Editor<'_, 'a> {
    pub(super) fn append(&mut self, root: &'a str, inserted: &'a Inserted) -> Result<(), Stopped> {
        let parent = self.text_root(root)?;
        let mut last = None;
        let mut next = self.replica.after(parent, None);
        while let Some(index) = next {
            if counted(self.replica, index) > 0 {
                last = Some(index);
            }
            next = self.replica.after(parent, next);
        }
        self.put_text(parent, last, inserted)
    }

    pub(super) fn insert_text(
        &mut self,
        root: &'a str,
        spot: &'a Spot,
        inserted: &'a Inserted,
    ) -> Result<(), Stopped> {
        let (parent, left) = match spot {
            Spot::At(offset) => {
                let parent = self.text_root(root)?;
                (parent, self.node_before(parent, *offset)?)
            }
            Spot::Before(quote) => {
                let found = self.find(root, quote)?;
                (found.surface.parent, self.counted_before(&found.surface, found.start)?)
            }
            Spot::After(quote) => {
                let found = self.find(root, quote)?;
                (found.surface.parent, self.ending_at(&found.surface, found.end)?)
            }
        };
        self.put_text(parent, left, inserted)
    }

    pub(super) fn replace(&mut self, root: &'a str, quote: &Quote, with: &'a str) -> Result<(), Stopped> {
        let found = self.find(root, quote)?;
        self.splice(&found, with)
    }

    pub(super) fn set(&mut self, root: &'a str, text: &'a str) -> Result<(), Stopped> {
        let parent = self.text_root(root)?;
        let surface = Surface::of(self.replica, parent);
        let end = surface.text.len();
        self.splice(&Found { surface, start: 0, end }, text)
    }

    pub(super) fn format(
        &mut self,
        root: &'a str,
        quote: &Quote,
        attributes: &'a Attributes,
    ) -> Result<(), Stopped> {
        let found = self.find(root, quote)?;
        self.starting_at(&found.surface, found.end)?;
        let left = self.counted_before(&found.surface, found.start)?;
        let cursor = Cursor::after(self.replica, found.surface.parent, left);
        self.format_from(cursor, utf16_len(&quote.text)?, attributes)
    }

    /// Replaces a range by another text, hunk by hunk, the last first: what comes before stays where
    /// the surface says.
    fn splice(&mut self, found: &Found, with: &'a str) -> Result<(), Stopped> {
        let Found { surface, start, end } = found;
        let old = surface.text.get(*start..*end).unwrap_or_default();
        for hunk in diff(old, with).into_iter().rev() {
            let (from, to) = (start.saturating_add(hunk.start), start.saturating_add(hunk.end));
            let stop = self.starting_at(surface, to)?;
            let left = if hunk.start == 0 && !old.is_empty() || to > from {
                // Before its first character and behind the formats of it: it looks like what it
                // replaces.
                let first = self.starting_at(surface, from)?;
                let left = first.and_then(|first| self.replica.before(first));
                if to > from {
                    self.delete_text(surface.parent, first, stop);
                }
                left
            } else {
                self.ending_at(surface, from)?
            };
            if !hunk.text.is_empty() {
                let place = Place { parent: surface.parent, key: None, left };
                self.new.insert(self.replica, place, Content::String(hunk.text))?;
            }
        }
        Ok(())
    }

    /// Deletes the text from one node to before another.
    fn delete_text(&mut self, parent: TypeIndex, first: Option<NodeIndex>, stop: Option<NodeIndex>) {
        let mut next = first;
        while let Some(index) = next.filter(|_| next != stop) {
            if is_text(self.replica, index) {
                self.new.delete(self.replica, index);
            }
            next = self.replica.after(parent, next);
        }
    }

    fn put_text(
        &mut self,
        parent: TypeIndex,
        left: Option<NodeIndex>,
        inserted: &'a Inserted,
    ) -> Result<(), Stopped> {
        if inserted.text.is_empty() {
            return Ok(());
        }
        match &inserted.attributes {
            Some(attributes) => {
                let cursor = Cursor::after(self.replica, parent, left);
                self.insert_formatted(cursor, &inserted.text, attributes)
            }
            None => {
                let place = Place { parent, key: None, left };
                self.new.insert(self.replica, place, Content::String(&inserted.text))?;
                Ok(())
            }
        }
    }

    /// The one text of a text root.
    fn text_root(&mut self, root: &'a str) -> Result<TypeIndex, Stopped> {
        let parent = self.replica.root_of(root);
        match root_kind(self.replica, parent) {
            None | Some(TypeRef::Text) => Ok(parent),
            Some(TypeRef::XmlFragment) => Err(Refusal::NotApplicable(SEVERAL_TEXTS).into()),
            Some(_) => Err(Refusal::NotApplicable(NO_TEXT).into()),
        }
    }

    /// Looks for a quote in all texts of a root.
    fn find(&mut self, root: &'a str, quote: &Quote) -> Result<Found, Stopped> {
        let parent = self.replica.root_of(root);
        let texts = match root_kind(self.replica, parent) {
            None | Some(TypeRef::Text) => vec![parent],
            Some(TypeRef::XmlFragment) => xml_texts(self.replica, parent),
            Some(_) => return Err(Refusal::NotApplicable(NO_TEXT).into()),
        };
        let wanted = quote.occurrence.map_or(1, |number| usize::try_from(number).unwrap_or(usize::MAX));
        let (mut count, mut found) = (0_usize, None);
        for text in texts.into_iter().filter(|_| !quote.text.is_empty()) {
            let surface = Surface::of(self.replica, text);
            let mut here = None;
            for (start, _) in surface.text.match_indices(&quote.text) {
                count = count.saturating_add(1);
                if count == wanted {
                    here = Some(start);
                }
            }
            if let Some(start) = here {
                found = Some(Found { surface, start, end: start.saturating_add(quote.text.len()) });
            }
        }
        match found {
            Some(_) if quote.occurrence.is_none() && count > 1 => Err(Refusal::QuoteAmbiguous(count).into()),
            Some(found) => Ok(found),
            None => Err(Refusal::QuoteNotFound(count).into()),
        }
    }

    /// The node that begins at a byte of the surface, split off if need be; nothing at its end.
    fn starting_at(&mut self, surface: &Surface, byte: usize) -> Result<Option<NodeIndex>, DecodeError> {
        let Some(run) = surface.run_at(byte) else { return Ok(None) };
        let offset = utf16_len(surface.text.get(run.byte..byte).unwrap_or_default())?;
        Ok(self.replica.cut_before(run.node, offset))
    }

    /// The node that ends at a byte of the surface; nothing at its beginning.
    fn ending_at(&mut self, surface: &Surface, byte: usize) -> Result<Option<NodeIndex>, DecodeError> {
        let Some(run) = byte.checked_sub(1).and_then(|before| surface.run_at(before)) else {
            return Ok(None);
        };
        let offset = utf16_len(surface.text.get(run.byte..byte).unwrap_or_default())?;
        self.replica.cut_after(run.node, offset);
        Ok(Some(run.node))
    }

    /// What is counted before a byte of the surface: text or an embed, past formats and deleted ones.
    fn counted_before(&mut self, surface: &Surface, byte: usize) -> Result<Option<NodeIndex>, DecodeError> {
        let first = self.starting_at(surface, byte)?;
        let mut left = first.and_then(|first| self.replica.before(first));
        while let Some(index) = left.filter(|index| counted(self.replica, *index) == 0) {
            left = self.replica.before(index);
        }
        Ok(left)
    }

    /// The node before an offset in UTF-16 code units, split off if need be; nothing at 0.
    fn node_before(&mut self, parent: TypeIndex, offset: u32) -> Result<Option<NodeIndex>, Stopped> {
        let (mut left, mut rest) = (None, offset);
        let mut next = self.replica.after(parent, None);
        while let Some(index) = next.filter(|_| rest > 0) {
            let len = counted(self.replica, index);
            if len > rest {
                let node = self.replica.node(index).filter(|node| is_border(&node.text, rest));
                if node.is_none() {
                    return Err(Refusal::SplitsCharacter.into());
                }
                self.replica.cut_after(index, rest);
            }
            if len > 0 {
                left = Some(index);
                rest = rest.saturating_sub(len);
            }
            next = self.replica.after(parent, next);
        }
        if rest > 0 { Err(Refusal::OutOfRange(offset.saturating_sub(rest)).into()) } else { Ok(left) }
    }
}

impl Surface {
    fn of(replica: &Replica<'_>, parent: TypeIndex) -> Self {
        let mut surface = Self { parent, text: String::new(), runs: Vec::new() };
        let mut next = replica.after(parent, None);
        while let Some(index) = next {
            if let Some(node) = replica.node(index).filter(|_| is_text(replica, index)) {
                surface.runs.push(Run { node: index, byte: surface.text.len() });
                surface.text.push_str(&node.text);
            }
            next = replica.after(parent, next);
        }
        surface
    }

    /// The run that a byte is in.
    fn run_at(&self, byte: usize) -> Option<&Run> {
        let after = self.runs.partition_point(|run| run.byte <= byte);
        self.runs.get(after.checked_sub(1)?).filter(|_| byte < self.text.len())
    }
}

/// The texts of an XML type, in the order of the document.
fn xml_texts(replica: &Replica<'_>, root: TypeIndex) -> Vec<TypeIndex> {
    let mut texts = Vec::new();
    let mut open = vec![(root, replica.after(root, None))];
    while let Some((parent, next)) = open.pop() {
        let Some(index) = next else { continue };
        open.push((parent, replica.after(parent, next)));
        let Some(node) = replica.node(index).filter(|node| !node.deleted) else { continue };
        if let (Content::Type(kind), Some(inner)) = (node.content, node.holds) {
            if kind == TypeRef::XmlText {
                texts.push(inner);
            }
            open.push((inner, replica.after(inner, None)));
        }
    }
    texts
}

fn is_text(replica: &Replica<'_>, index: NodeIndex) -> bool {
    replica.node(index).is_some_and(|node| !node.deleted && matches!(node.content, Content::String(_)))
}

/// How many units of a text's length a node is.
pub(super) fn counted(replica: &Replica<'_>, index: NodeIndex) -> u32 {
    let node = replica.node(index).filter(|node| !node.deleted);
    node.filter(|node| !matches!(node.content, Content::Format { .. })).map_or(0, |node| node.len)
}

/// Whether an offset in UTF-16 code units is between two characters.
fn is_border(text: &str, offset: u32) -> bool {
    let mut units = 0_u32;
    for c in text.chars() {
        if units >= offset {
            break;
        }
        units = units.saturating_add(c.len_utf16() as u32);
    }
    units == offset
}

const NO_TEXT: &str = "the root is a map or an array: use `put`, `insert` and `remove` with a pointer";
const SEVERAL_TEXTS: &str =
    "the root is XML and has several texts: use `replace`, `delete`, `format`, or `insert` with a quote";
