//! The walk over a Yjs v1 update: every struct and every delete range, checked as it is passed.
//!
//! Iterative, bounded by the bytes that are there, and without building a document, so that it
//! can run on what a hostile peer sent (W4). What it refuses is what makes stock Yjs throw, yrs
//! trap, or either lose data in silence.

use super::index::Table;
use super::value::{ANY_OBJECT, check_json, skip_any};
use crate::protocol::error::DecodeError;
use crate::protocol::varint::Reader;

/// Largest clock. yrs subtracts clocks as `i32`; no document comes near 2^31 operations of one client.
pub(super) const MAX_CLOCK: u32 = i32::MAX as u32;

pub(super) const HAS_ORIGIN: u8 = 0b1000_0000;
pub(super) const HAS_RIGHT_ORIGIN: u8 = 0b0100_0000;
pub(super) const HAS_PARENT_SUB: u8 = 0b0010_0000;
const REF_MASK: u8 = 0b0001_1111;
pub(super) const REF_GC: u8 = 0;
pub(super) const REF_SKIP: u8 = 10;

/// Address of one element: the client that made it and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub client: u64,
    pub clock: u32,
}

/// One struct of an update: `len` elements of `id.client`, the first of which is `id.clock`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Struct<'a> {
    pub id: Id,
    pub len: u32,
    pub body: Body<'a>,
    /// All of it as encoded, so that it can be copied.
    pub bytes: &'a [u8],
}

impl Struct<'_> {
    /// The clock after the last element. Never overflows: the walk bounds it by [`MAX_CLOCK`].
    pub fn end(&self) -> u32 {
        self.id.clock.saturating_add(self.len)
    }

    /// Several values of one key. Yjs joins them once all of them are deleted; if only some are, it
    /// throws when the map is collected.
    fn is_run_of_a_key(&self) -> bool {
        let Body::Item(item) = self.body else { return false };
        self.len > 1 && item.info & HAS_PARENT_SUB != 0 && !matches!(item.content, Content::Deleted)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Body<'a> {
    /// Collected: only its length is left.
    Gc,
    /// Not in this update: a hole (D5).
    Skip,
    Item(Item<'a>),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Item<'a> {
    pub info: u8,
    pub origin: Option<Id>,
    pub right_origin: Option<Id>,
    /// Present exactly if neither origin is.
    pub parent: Option<Parent<'a>>,
    pub parent_sub: Option<&'a str>,
    pub content: Content<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Parent<'a> {
    Root(&'a str),
    Id(Id),
}

/// The content of an item. Only what can be split or merged is kept apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
    Deleted,
    /// The encoded elements, after the count.
    Json(&'a [u8]),
    Any(&'a [u8]),
    String(&'a str),
    Type(TypeRef<'a>),
    Binary(&'a [u8]),
    Embed(&'a str),
    Format {
        key: &'a str,
        json: &'a str,
    },
    Doc,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeRef<'a> {
    Array,
    Map,
    Text,
    XmlElement(&'a str),
    XmlFragment,
    XmlHook(&'a str),
    XmlText,
}

/// Who wants to see the parts of an update.
pub(super) trait Visitor<'a> {
    /// One struct; those of one client come together, in order of their clocks, without a gap.
    fn visit_struct(&mut self, part: &Struct<'a>) -> Result<(), DecodeError>;
    /// One deleted range; those of one client come together, in order, without overlap.
    fn visit_delete(&mut self, first: Id, len: u32) -> Result<(), DecodeError>;
}

/// Walks a whole update and fails on the first thing that is not right, including bytes after it.
/// Returns the encoded delete set, its second half. Not generic: a copy for each visitor is 2 KB.
pub(super) fn walk<'a>(bytes: &'a [u8], visitor: &mut dyn Visitor<'a>) -> Result<&'a [u8], DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut seen = Clients::default();
    let mut key_runs = KeyRuns::default();
    for _ in 0..reader.var_uint()? {
        let structs = reader.var_uint()?;
        let client = seen.next(&mut reader)?;
        let mut clock = read_clock(&mut reader)?;
        for _ in 0..structs {
            let part = read_struct(&mut reader, Id { client, clock })?;
            clock = part.end();
            if part.is_run_of_a_key() {
                key_runs.add(&part);
            }
            visitor.visit_struct(&part)?;
        }
    }
    let deletes = reader.rest();
    walk_deletes(&mut reader, visitor, &mut key_runs)?;
    reader.finish()?;
    if key_runs.left > 0 {
        return Err(DecodeError::Unknown);
    }
    Ok(deletes)
}

/// Walks the delete set, and tells `key_runs` what it deletes.
fn walk_deletes<'a>(
    reader: &mut Reader<'a>,
    visitor: &mut dyn Visitor<'a>,
    key_runs: &mut KeyRuns,
) -> Result<(), DecodeError> {
    let mut seen = Clients::default();
    for _ in 0..reader.var_uint()? {
        let client = seen.next(reader)?;
        let mut after = 0;
        for _ in 0..reader.var_uint()? {
            let clock = read_clock(reader)?;
            let len = read_clock(reader)?;
            // Stock Yjs sorts and merges its ranges; an empty one deletes nothing.
            if len == 0 || clock < after {
                return Err(DecodeError::Unknown);
            }
            after = end_of(clock, len)?;
            visitor.visit_delete(Id { client, clock }, len)?;
            key_runs.delete(client, clock, after);
        }
    }
    Ok(())
}

/// Reads one struct that begins at `id`.
pub(super) fn read_struct<'a>(reader: &mut Reader<'a>, id: Id) -> Result<Struct<'a>, DecodeError> {
    let start = reader.rest();
    let info = reader.u8()?;
    let (len, body) = match info {
        REF_GC => (read_clock(reader)?, Body::Gc),
        REF_SKIP => (read_clock(reader)?, Body::Skip),
        _ => {
            let (len, item) = read_item(reader, id, info)?;
            (len, Body::Item(item))
        }
    };
    // An empty struct has the id of the next one: both libraries then look up the wrong struct.
    if len == 0 {
        return Err(DecodeError::Unknown);
    }
    end_of(id.clock, len)?;
    let size = start.len().saturating_sub(reader.rest().len());
    let bytes = start.get(..size).unwrap_or_default();
    Ok(Struct { id, len, body, bytes })
}

fn read_item<'a>(reader: &mut Reader<'a>, id: Id, info: u8) -> Result<(u32, Item<'a>), DecodeError> {
    let origin = if info & HAS_ORIGIN == 0 { None } else { Some(read_id(reader, id)?) };
    let right_origin = if info & HAS_RIGHT_ORIGIN == 0 { None } else { Some(read_id(reader, id)?) };
    let mut parent = None;
    let mut parent_sub = None;
    if origin.is_none() && right_origin.is_none() {
        parent = Some(match reader.var_uint()? {
            0 => Parent::Id(read_id(reader, id)?),
            1 => Parent::Root(reader.var_string()?),
            _ => return Err(DecodeError::Unknown),
        });
        if info & HAS_PARENT_SUB != 0 {
            parent_sub = Some(reader.var_string()?);
        }
    }
    let (len, content) = read_content(reader, info & REF_MASK)?;
    Ok((len, Item { info, origin, right_origin, parent, parent_sub, content }))
}

/// Length and content. The length of text is in UTF-16 code units.
fn read_content<'a>(reader: &mut Reader<'a>, reference: u8) -> Result<(u32, Content<'a>), DecodeError> {
    Ok(match reference {
        1 => (read_clock(reader)?, Content::Deleted),
        2 => {
            let (len, elements) = read_elements(reader, skip_json_element)?;
            (len, Content::Json(elements))
        }
        3 => (1, Content::Binary(reader.var_bytes()?)),
        4 => {
            let text = reader.var_string()?;
            (utf16_len(text)?, Content::String(text))
        }
        5 => {
            let json = reader.var_string()?;
            check_json(json)?;
            (1, Content::Embed(json))
        }
        6 => {
            let key = reader.var_string()?;
            let json = reader.var_string()?;
            check_json(json)?;
            (1, Content::Format { key, json })
        }
        7 => (1, Content::Type(read_type_ref(reader)?)),
        8 => {
            let (len, elements) = read_elements(reader, skip_any)?;
            (len, Content::Any(elements))
        }
        9 => {
            reader.var_string()?;
            // Yjs reads properties of the options: null or undefined would throw.
            if reader.rest().first() != Some(&ANY_OBJECT) {
                return Err(DecodeError::Unknown);
            }
            skip_any(reader)?;
            (1, Content::Doc)
        }
        _ => return Err(DecodeError::Unknown),
    })
}

fn read_elements<'a>(
    reader: &mut Reader<'a>,
    skip: fn(&mut Reader<'a>) -> Result<(), DecodeError>,
) -> Result<(u32, &'a [u8]), DecodeError> {
    let len = read_clock(reader)?;
    let start = reader.rest();
    for _ in 0..len {
        skip(reader)?;
    }
    let size = start.len().saturating_sub(reader.rest().len());
    Ok((len, start.get(..size).unwrap_or_default()))
}

/// One element of legacy JSON content: Yjs writes `undefined` as that word.
pub(super) fn skip_json_element(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    match reader.var_string()? {
        "undefined" => Ok(()),
        json => check_json(json),
    }
}

fn read_type_ref<'a>(reader: &mut Reader<'a>) -> Result<TypeRef<'a>, DecodeError> {
    // One byte: yrs reads a byte where Yjs reads an integer, so a longer form would part them.
    Ok(match reader.u8()? {
        0 => TypeRef::Array,
        1 => TypeRef::Map,
        2 => TypeRef::Text,
        3 => TypeRef::XmlElement(reader.var_string()?),
        4 => TypeRef::XmlFragment,
        5 => TypeRef::XmlHook(reader.var_string()?),
        6 => TypeRef::XmlText,
        _ => return Err(DecodeError::Unknown),
    })
}

/// An id that the struct at `own` refers to. One of the same client has to come before it: Yjs
/// looks such an id up without asking whether it is there, and throws.
fn read_id(reader: &mut Reader<'_>, own: Id) -> Result<Id, DecodeError> {
    let id = Id { client: reader.var_uint()?, clock: read_clock(reader)? };
    if id.client == own.client && id.clock >= own.clock { Err(DecodeError::Unknown) } else { Ok(id) }
}

fn read_clock(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let value = u32::try_from(reader.var_uint()?).map_err(|_| DecodeError::TooLarge)?;
    if value > MAX_CLOCK { Err(DecodeError::TooLarge) } else { Ok(value) }
}

fn end_of(clock: u32, len: u32) -> Result<u32, DecodeError> {
    clock.checked_add(len).filter(|end| *end <= MAX_CLOCK).ok_or(DecodeError::TooLarge)
}

/// UTF-16 code units, which is how Yjs counts text.
pub(super) fn utf16_len(text: &str) -> Result<u32, DecodeError> {
    let units = if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() };
    u32::try_from(units).map_err(|_| DecodeError::TooLarge)
}

/// The runs of values of a key that are not deleted yet.
#[derive(Default)]
struct KeyRuns {
    /// Of each client the ranges (start, end) in order, and how many of them are passed.
    runs: Table<(Vec<(u32, u32)>, usize)>,
    left: usize,
}

impl KeyRuns {
    fn add(&mut self, part: &Struct<'_>) {
        self.left = self.left.saturating_add(1);
        self.runs.change(part.id.client, |(runs, _)| runs.push((part.id.clock, part.end())));
    }

    /// The ranges of a client come in order: a run that begins before this one stays.
    fn delete(&mut self, client: u64, start: u32, end: u32) {
        let Some((runs, passed)) = self.runs.get_mut(client) else { return };
        while let Some(run) = runs.get(*passed).filter(|run| run.0 < end) {
            if run.0 >= start && run.1 <= end {
                self.left = self.left.saturating_sub(1);
            }
            *passed = passed.saturating_add(1);
        }
    }
}

/// The clients of one section. Each may come once: of two blocks Yjs would drop the first in
/// silence. A set is made only from the second client on.
#[derive(Default)]
struct Clients {
    first: Option<u64>,
    more: Table<()>,
}

impl Clients {
    fn next(&mut self, reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
        let client = reader.var_uint()?;
        let is_new = match self.first {
            None => {
                self.first = Some(client);
                true
            }
            Some(first) => first != client && self.more.insert(client, ()),
        };
        if is_new { Ok(client) } else { Err(DecodeError::Unknown) }
    }
}
