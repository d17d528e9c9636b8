//! Writes structs back as bytes: whole, without their first elements, or joined to the one before.
//!
//! Copies what it does not have to change, so no value is decoded and none can be lost.

use std::borrow::Cow;

use super::value::skip_any;
use super::walk::{Body, Content, HAS_ORIGIN, HAS_PARENT_SUB, Id, Item, Parent, REF_GC, REF_SKIP, Struct};
use super::walk::{read_struct, skip_json_element};
use crate::protocol::error::DecodeError;
use crate::protocol::varint::{Reader, write_var_bytes, write_var_uint};

const REF_DELETED: u8 = 1;
const REF_JSON: u8 = 2;
pub(super) const REF_STRING: u8 = 4;
pub(super) const REF_ANY: u8 = 8;

/// Where a struct stands in an update: enough to sort by, and to read it again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub clock: u32,
    pub end: u32,
    pub bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    pub fn of(part: &Struct<'a>) -> Self {
        Self { clock: part.id.clock, end: part.end(), bytes: part.bytes }
    }

    fn read(&self, client: u64) -> Result<Struct<'a>, DecodeError> {
        read_struct(&mut Reader::new(self.bytes), Id { client, clock: self.clock })
    }
}

/// Collects the structs of one client, in order, and joins what Yjs would join.
#[derive(Debug)]
pub(super) struct ClientWriter {
    client: u64,
    start: Option<u32>,
    end: u32,
    structs: u64,
    out: Vec<u8>,
    run: Option<Run>,
}

/// A struct that is not written yet because the next one may be a continuation of it.
#[derive(Debug)]
struct Run {
    info: u8,
    reference: u8,
    /// Whether it is known to be in a list. The values of a key replace each other and stay apart,
    /// and an item with an origin need not say which it is. (Text is always in a list.)
    listed: bool,
    right_origin: Option<Id>,
    /// All before the content.
    head: Vec<u8>,
    /// Elements; not used by text.
    count: u32,
    /// Encoded elements or text; not used by what is only a length.
    payload: Vec<u8>,
}

impl ClientWriter {
    pub fn new(client: u64) -> Self {
        Self { client, start: None, end: 0, structs: 0, out: Vec::new(), run: None }
    }

    /// Adds what of `piece` is new. A gap before it becomes a Skip, except before the first.
    pub fn add(&mut self, piece: &Piece<'_>) -> Result<(), DecodeError> {
        if self.start.is_none() {
            self.start = Some(piece.clock);
            self.end = piece.clock;
        }
        if piece.end <= self.end {
            return Ok(());
        }
        if piece.clock > self.end {
            self.flush();
            self.out.push(REF_SKIP);
            write_var_uint(&mut self.out, u64::from(piece.clock.saturating_sub(self.end)));
            self.structs = self.structs.saturating_add(1);
            self.end = piece.clock;
        }
        let offset = self.end.saturating_sub(piece.clock);
        let part = piece.read(self.client)?;
        match Cut::of(&part, offset)? {
            Some(cut) => {
                if !self.join(&cut) {
                    self.flush();
                    self.run = Some(cut.into_run(&part));
                }
            }
            None => {
                self.flush();
                self.out.extend_from_slice(piece.bytes);
                self.structs = self.structs.saturating_add(1);
            }
        }
        self.end = piece.end;
        Ok(())
    }

    /// Appends `cut` to the run before it if Yjs would see them as one struct.
    fn join(&mut self, cut: &Cut<'_>) -> bool {
        let Some(run) = self.run.as_mut().filter(|run| run.reference == cut.reference) else { return false };
        if cut.reference != REF_GC {
            let before = Id { client: self.client, clock: self.end.saturating_sub(1) };
            let follows = cut.origin == Some(before) && cut.right_origin == run.right_origin;
            let apart = match cut.reference {
                REF_DELETED => false,
                REF_STRING => (run.info | cut.info) & HAS_PARENT_SUB != 0,
                _ => (run.info | cut.info) & HAS_PARENT_SUB != 0 || !run.listed,
            };
            if !follows || apart {
                return false;
            }
        }
        run.count = run.count.saturating_add(cut.count);
        run.payload.extend_from_slice(&cut.payload);
        true
    }

    fn flush(&mut self) {
        if let Some(run) = self.run.take() {
            run.write(&mut self.out);
            self.structs = self.structs.saturating_add(1);
        }
    }

    /// Appends the block of this client, with its header, and says whether there was one.
    pub fn finish(mut self, out: &mut Vec<u8>) -> bool {
        self.flush();
        let Some(start) = self.start else { return false };
        write_var_uint(out, self.structs);
        write_var_uint(out, self.client);
        write_var_uint(out, u64::from(start));
        out.extend_from_slice(&self.out);
        true
    }
}

/// A struct without its first elements, if it is of a kind that can be cut and joined.
struct Cut<'a> {
    info: u8,
    reference: u8,
    origin: Option<Id>,
    right_origin: Option<Id>,
    count: u32,
    payload: Cow<'a, [u8]>,
}

impl<'a> Cut<'a> {
    fn of(part: &Struct<'a>, offset: u32) -> Result<Option<Self>, DecodeError> {
        let count = part.len.saturating_sub(offset);
        let Body::Item(item) = part.body else {
            let gc = matches!(part.body, Body::Gc);
            let reference = if gc { REF_GC } else { REF_SKIP };
            let payload = Cow::default();
            return Ok(Some(Self {
                info: reference,
                reference,
                origin: None,
                right_origin: None,
                count,
                payload,
            }));
        };
        let (reference, payload) = match item.content {
            Content::Deleted => (REF_DELETED, Cow::default()),
            Content::Json(all) => (REF_JSON, skip_elements(all, offset, skip_json_element)?.into()),
            Content::Any(all) => (REF_ANY, skip_elements(all, offset, skip_any)?.into()),
            Content::String(text) if offset == 0 => (REF_STRING, text.as_bytes().into()),
            Content::String(text) => (REF_STRING, text_tail(text, offset).into_bytes().into()),
            _ => return Ok(None),
        };
        // Cut inside, it follows the element before the cut.
        let before =
            Id { client: part.id.client, clock: part.id.clock.saturating_add(offset).saturating_sub(1) };
        let origin = if offset == 0 { item.origin } else { Some(before) };
        Ok(Some(Self { info: item.info, reference, origin, right_origin: item.right_origin, count, payload }))
    }

    fn into_run(self, part: &Struct<'_>) -> Run {
        let mut head = Vec::new();
        match part.body {
            Body::Item(item) => write_head(&mut head, &item, self.origin),
            Body::Gc | Body::Skip => head.push(self.info),
        }
        let listed = match part.body {
            Body::Item(item) => item.right_origin.is_some() || item.parent.is_some(),
            Body::Gc | Body::Skip => true,
        };
        Run {
            reference: self.reference,
            info: self.info,
            listed,
            right_origin: self.right_origin,
            head,
            count: self.count,
            payload: self.payload.into_owned(),
        }
    }
}

impl Run {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        if self.reference == REF_STRING {
            write_var_bytes(out, &self.payload);
        } else {
            write_var_uint(out, u64::from(self.count));
            out.extend_from_slice(&self.payload);
        }
    }
}

/// Appends `part` without its first `offset` elements (fewer than it has).
pub(super) fn write_tail(out: &mut Vec<u8>, part: &Struct<'_>, offset: u32) -> Result<(), DecodeError> {
    match if offset == 0 { None } else { Cut::of(part, offset)? } {
        Some(cut) => cut.into_run(part).write(out),
        None => out.extend_from_slice(part.bytes),
    }
    Ok(())
}

/// All of an item before its content.
pub(super) fn write_head(out: &mut Vec<u8>, item: &Item<'_>, origin: Option<Id>) {
    out.push(if origin.is_some() { item.info | HAS_ORIGIN } else { item.info });
    for id in [origin, item.right_origin].into_iter().flatten() {
        write_id(out, id);
    }
    if origin.is_some() {
        return;
    }
    match item.parent {
        Some(Parent::Root(name)) => {
            out.push(1);
            write_var_bytes(out, name.as_bytes());
        }
        Some(Parent::Id(id)) => {
            out.push(0);
            write_id(out, id);
        }
        None => {}
    }
    if let Some(key) = item.parent_sub {
        write_var_bytes(out, key.as_bytes());
    }
}

fn write_id(out: &mut Vec<u8>, id: Id) {
    write_var_uint(out, id.client);
    write_var_uint(out, u64::from(id.clock));
}

fn skip_elements<'a>(
    elements: &'a [u8],
    offset: u32,
    skip: fn(&mut Reader<'a>) -> Result<(), DecodeError>,
) -> Result<&'a [u8], DecodeError> {
    let mut reader = Reader::new(elements);
    for _ in 0..offset {
        skip(&mut reader)?;
    }
    Ok(reader.rest())
}

/// Text after `offset` UTF-16 code units. Of a character cut in half the rest is U+FFFD, as in Yjs.
fn text_tail(text: &str, offset: u32) -> String {
    let mut left = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut chars = text.chars();
    while left > 0 {
        let Some(next) = chars.next() else { break };
        if next.len_utf16() > left {
            return format!("\u{fffd}{}", chars.as_str());
        }
        left = left.saturating_sub(next.len_utf16());
    }
    chars.as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_in_utf16_code_units() {
        assert_eq!(text_tail("abc", 0), "abc");
        assert_eq!(text_tail("aé👍z", 2), "👍z");
        assert_eq!(text_tail("aé👍z", 3), "\u{fffd}z");
        assert_eq!(text_tail("aé👍z", 4), "z");
        assert_eq!(text_tail("a", 9), "");
    }

    #[test]
    fn a_cut_item_follows_the_element_before_the_cut() {
        // Client 11, clock 0, root "t", text "hello".
        let bytes = [4, 1, 1, b't', 5, b'h', b'e', b'l', b'l', b'o'];
        let part = read_struct(&mut Reader::new(&bytes), Id { client: 11, clock: 0 }).unwrap();
        let mut out = Vec::new();
        write_tail(&mut out, &part, 2).unwrap();
        assert_eq!(out, [0x84, 11, 1, 3, b'l', b'l', b'o']);
        out.clear();
        write_tail(&mut out, &part, 0).unwrap();
        assert_eq!(out, bytes);
    }
}
