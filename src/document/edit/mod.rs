//! Edits by quoted text and by JSON pointer become one Yjs update.
//!
//! They are made on the integrated document, one after the other, as a Yjs client of its own would
//! make them: only what an edit names is deleted, so whatever people type meanwhile keeps its
//! place. An update holds the edits alone. Either all of them are possible, or nothing comes out.

mod content;
mod diff;
mod format;
mod text;
mod tree;

use std::fmt;

use serde_json::Value;

pub use content::{RootContent, content};

use super::checkpoint::{EMPTY_UPDATE, merge};
use super::error::DocumentError;
use super::replica::{New, Replica};
use super::value::write_any;
use crate::protocol::error::DecodeError;

/// Names and JSON texts of formats, such as `("bold", "true")`; `null` takes a format away.
pub type Attributes = Vec<(String, String)>;

/// One edit of a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Text at the end.
    Append(Inserted),
    /// Formats for quoted text.
    Format(Quote, Attributes),
    /// Text at a place.
    Insert(Spot, Inserted),
    /// An element into an array, before the one that the pointer names; `-` is after the last.
    InsertItem(Pointer, AnyValue),
    /// A key of a map, or an element of an array in place of another.
    Put(Pointer, AnyValue),
    /// A key or an element goes.
    Remove(Pointer),
    /// Other text for quoted text; none deletes it.
    Replace(Quote, String),
    /// All of the text.
    Set(String),
}

/// Text to insert. Without attributes it looks like what is before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inserted {
    /// The text.
    pub text: String,
    /// All of its formats.
    pub attributes: Option<Attributes>,
}

/// Text that the document has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// The text, as the document shows it.
    pub text: String,
    /// Which of several, from 1. Without it there has to be exactly one.
    pub occurrence: Option<u32>,
}

/// Where to insert text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spot {
    /// After a quote.
    After(Quote),
    /// At an offset in UTF-16 code units, in which an embed counts 1 (R5).
    At(u32),
    /// Before a quote.
    Before(Quote),
}

/// The tokens of a JSON pointer (RFC 6901), decoded; never none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// Reads `/a/b~1c`. Nothing for the whole root, which has to stay what it is, and for what is no
    /// pointer.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let tokens = text.strip_prefix('/')?.split('/');
        let decode = |token: &str| {
            let stray = token.replace("~0", "").replace("~1", "").contains('~');
            (!stray).then(|| token.replace("~1", "/").replace("~0", "~"))
        };
        tokens.map(decode).collect::<Option<_>>().map(Self)
    }

    /// A pointer to one member of the root.
    #[must_use]
    pub fn member(name: String) -> Self {
        Self(vec![name])
    }
}

/// A JSON value in the encoding of Yjs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnyValue(Vec<u8>);

impl AnyValue {
    /// Encodes a value, whose nesting the caller has bounded.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        let mut bytes = Vec::new();
        write_any(&mut bytes, value);
        Self(bytes)
    }
}

/// What edits make of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The edits alone, as a Yjs update; [`EMPTY_UPDATE`] when they change nothing.
    pub update: Vec<u8>,
    /// The state vector of the document with them, encoded.
    pub vector: Vec<u8>,
}

impl Edited {
    /// Whether there is something to store.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.update == EMPTY_UPDATE
    }
}

/// Why edits were not made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// The document cannot be read.
    Document(DocumentError),
    /// One of the edits is not possible.
    Refused {
        /// Which one.
        index: usize,
        /// Why.
        why: Refusal,
    },
}

/// Why one edit is not possible.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The root, or what the pointer leads to, is not of the kind that the edit is for.
    NotApplicable(&'static str),
    /// The offset is past the end of the text, which is this long.
    OutOfRange(u32),
    /// The pointer leads to nothing.
    PointerNotFound,
    /// The quote is there more than once, and no occurrence was named.
    QuoteAmbiguous(usize),
    /// The quote is there so many times only: less than the occurrence that was named.
    QuoteNotFound(usize),
    /// The offset is inside a surrogate pair (R5).
    SplitsCharacter,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotApplicable(why) => f.write_str(why),
            Self::OutOfRange(len) => write!(f, "the text ends at offset {len}"),
            Self::PointerNotFound => f.write_str("the pointer leads to nothing in this root"),
            Self::QuoteAmbiguous(count) => {
                write!(f, "the quote is there {count} times: name the occurrence, or quote more")
            }
            Self::QuoteNotFound(0) => f.write_str("the text does not have this quote: read it again"),
            Self::QuoteNotFound(count) => write!(f, "the text has this quote only {count} times"),
            Self::SplitsCharacter => f.write_str("the offset is inside a character of two UTF-16 code units"),
        }
    }
}

impl From<DocumentError> for EditError {
    fn from(cause: DocumentError) -> Self {
        Self::Document(cause)
    }
}

/// Makes edits of roots of the document that the updates are, in order, each on what those before it left. `client` is the id of a new
/// Yjs client, by chance.
///
/// # Errors
/// See [`EditError`]; its `index` counts through all roots. Nothing is made then.
pub fn edit(updates: &[&[u8]], roots: &[(&str, &[Edit])], client: u64) -> Result<Edited, EditError> {
    let merged;
    let mut replica = match Replica::load_all(updates)? {
        Some(replica) => replica,
        None => {
            merged = merge(updates)?;
            Replica::load(&merged)?
        }
    };
    let mut editor = Editor { new: New::of(&replica, client), replica: &mut replica };
    let mut index = 0_usize;
    for (root, edits) in roots {
        for edit in *edits {
            editor.apply(root, edit).map_err(|why| why.at(index))?;
            index = index.saturating_add(1);
        }
    }
    let Editor { new, .. } = editor;
    Ok(Edited { update: new.write(&replica), vector: replica.vector() })
}

/// A replica that is being edited.
struct Editor<'r, 'a> {
    replica: &'r mut Replica<'a>,
    new: New,
}

/// A failure before it is known which edit it is of.
enum Stopped {
    Document(DocumentError),
    Refused(Refusal),
}

impl Stopped {
    fn at(self, index: usize) -> EditError {
        match self {
            Self::Document(cause) => EditError::Document(cause),
            Self::Refused(why) => EditError::Refused { index, why },
        }
    }
}

impl From<Refusal> for Stopped {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

impl From<DocumentError> for Stopped {
    fn from(cause: DocumentError) -> Self {
        Self::Document(cause)
    }
}

impl From<DecodeError> for Stopped {
    fn from(cause: DecodeError) -> Self {
        Self::Document(cause.into())
    }
}

impl<'a> Editor<'_, 'a> {
    fn apply(&mut self, root: &'a str, edit: &'a Edit) -> Result<(), Stopped> {
        match edit {
            Edit::Append(inserted) => self.append(root, inserted),
            Edit::Format(quote, attributes) => self.format(root, quote, attributes),
            Edit::Insert(spot, inserted) => self.insert_text(root, spot, inserted),
            Edit::InsertItem(pointer, value) => self.insert_item(root, pointer, value),
            Edit::Put(pointer, value) => self.put(root, pointer, value),
            Edit::Remove(pointer) => self.remove(root, pointer),
            Edit::Replace(quote, with) => self.replace(root, quote, with),
            Edit::Set(text) => self.set(root, text),
        }
    }
}

#[cfg(test)]
mod tests;
