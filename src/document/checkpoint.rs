//! Stored updates: merge, diff by state vector, holes, chunks.
//!
//! Works on the encoding. No document is built, so nothing is lost that yrs would not keep
//! (bigint, minus zero, the order of keys), and the cost is that of reading the bytes once.

use super::error::DocumentError;
use super::index::{Table, order};
use super::replica::Replica;
use super::splice::{ClientWriter, Piece, write_tail};
use super::walk::{Body, Id, Parent, Struct, Visitor, walk};
use crate::protocol::error::DecodeError;
use crate::protocol::varint::{Reader, write_var_uint};

/// The update that changes nothing: no structs, no deletes.
pub const EMPTY_UPDATE: [u8; 2] = [0, 0];

/// One update with the effect of all of them, in any order and with repeats. Text that was typed
/// in a row becomes one struct, as in a Yjs document. No update gives [`EMPTY_UPDATE`]; one is
/// copied without decoding.
pub fn merge(updates: &[&[u8]]) -> Result<Vec<u8>, DocumentError> {
    match updates {
        [] => Ok(EMPTY_UPDATE.to_vec()),
        [only] => Ok(only.to_vec()),
        _ => Ok(Merge::of(updates)?.write()?),
    }
}

/// The update in a form that yrs can load, for those who need its document to make edits: what Yjs
/// applies without waiting, and none of the contents that yrs misreads; those are
/// [`DocumentError::Unsupported`]. Load it with `OffsetKind::Utf16`: by bytes yrs miscounts a
/// character that was cut in half.
pub fn for_yrs(update: &[u8]) -> Result<Vec<u8>, DocumentError> {
    let replica = Replica::load(update)?;
    if let Some(what) = replica.unknown_to_yrs() {
        return Err(DocumentError::Unsupported(what));
    }
    let mut merge = Merge::of(&[update])?;
    merge.cut(|client| replica.end(client));
    Ok(merge.write()?)
}

/// What of `update` somebody lacks who has `state_vector`, with all its deletes, as
/// `Y.diffUpdate` gives it. An empty state vector gives a copy without decoding.
pub fn diff(update: &[u8], state_vector: &[u8]) -> Result<Vec<u8>, DocumentError> {
    if matches!(state_vector, [] | [0]) {
        return Ok(update.to_vec());
    }
    let mut diff = Diff { known: read_state_vector(state_vector)?, ..Diff::default() };
    let deletes = walk(update, &mut diff)?;
    diff.end_client();
    let mut out = Vec::with_capacity(diff.out.len().saturating_add(deletes.len()).saturating_add(2));
    write_var_uint(&mut out, diff.clients);
    out.extend_from_slice(&diff.out);
    out.extend_from_slice(deletes);
    Ok(out)
}

/// The state vector of `update`, encoded: for each client the clock up to which nothing is
/// missing. It stops before a hole, and a client whose structs do not begin at 0 is not in it (D5).
pub fn state_vector(update: &[u8]) -> Result<Vec<u8>, DocumentError> {
    Ok(outline(update)?.vector)
}

/// What of an update others are told or asked about.
#[derive(Debug, Default)]
pub struct Outline {
    /// Its state vector, as [`state_vector`] gives it.
    pub vector: Vec<u8>,
    /// Where its delete set begins, which goes on to its end.
    pub deletes: usize,
}

/// Reads the update once for all of it.
pub fn outline(update: &[u8]) -> Result<Outline, DocumentError> {
    let mut holes = Holes::default();
    let deletes = walk(update, &mut holes)?;
    let mut out = Vec::new();
    let clients = holes.complete.clients();
    write_var_uint(&mut out, clients.len() as u64);
    for client in clients {
        write_var_uint(&mut out, client);
        write_var_uint(&mut out, u64::from(holes.complete(client)));
    }
    Ok(Outline { vector: out, deletes: update.len().saturating_sub(deletes.len()) })
}

/// Whether all that `asked` deletes is deleted in `held`. Both are encoded delete sets.
pub fn has_deletes(held: &[u8], asked: &[u8]) -> Result<bool, DocumentError> {
    // A stock client that has the same document writes the same bytes.
    if held == asked {
        return Ok(true);
    }
    let read = |deletes: &[u8]| [&[0], deletes].concat();
    let (held, asked) = (read(held), read(asked));
    let known = Merge::of(&[&held])?;
    Ok(Merge::of(&[&held, &asked])?.write()? == known.write()?)
}

/// Whether somebody with `state_vector` has every struct of `update`. It does not tell about deletes.
pub fn is_covered(update: &[u8], vector: &[u8]) -> Result<bool, DocumentError> {
    let known = read_state_vector(vector)?;
    let own = read_state_vector(&state_vector(update)?)?;
    let has = |client| own.get(client) <= known.get(client);
    Ok(own.clients().into_iter().all(has))
}

/// Whether `update` depends on structs that it does not hold (D5): a gap in a client's structs, or
/// an origin, a parent or a delete that points past what is there.
pub fn has_hole(update: &[u8]) -> Result<bool, DocumentError> {
    let mut holes = Holes::default();
    walk(update, &mut holes)?;
    let wanted = |client| holes.wanted.get(client).copied().unwrap_or(0);
    Ok(holes.gap || holes.wanted.clients().into_iter().any(|client| wanted(client) > holes.complete(client)))
}

/// `bytes` in slices of at most `max` bytes (at least 1), for storage with a limit on values.
pub fn chunks(bytes: &[u8], max: usize) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(max.max(1))
}

fn read_state_vector(bytes: &[u8]) -> Result<Table<u32>, DecodeError> {
    super::validate::validate_state_vector(bytes)?;
    let mut reader = Reader::new(bytes);
    let mut known = Table::default();
    for _ in 0..reader.var_uint()? {
        let client = reader.var_uint()?;
        known.insert(client, u32::try_from(reader.var_uint()?).unwrap_or(u32::MAX));
    }
    Ok(known)
}

/// Everything that some updates hold, by client.
#[derive(Default)]
struct Merge<'a> {
    structs: Table<Vec<Piece<'a>>>,
    deletes: Table<Vec<(u32, u32)>>,
}

impl<'a> Merge<'a> {
    fn of(updates: &[&'a [u8]]) -> Result<Self, DecodeError> {
        let mut merge = Self::default();
        for update in updates {
            walk(update, &mut merge)?;
        }
        Ok(merge)
    }

    /// Drops what is at or past the end of its client. Ends fall between structs.
    fn cut(&mut self, end: impl Fn(u64) -> u32) {
        for client in self.structs.clients() {
            let end = end(client);
            self.structs.change(client, |pieces| pieces.retain(|piece| piece.end <= end));
        }
        for client in self.deletes.clients() {
            let end = end(client);
            self.deletes.change(client, |ranges| {
                ranges.retain(|range| range.0 < end);
                ranges.iter_mut().for_each(|range| range.1 = range.1.min(end));
            });
        }
    }

    fn write(&self) -> Result<Vec<u8>, DecodeError> {
        let mut blocks = Vec::new();
        let mut clients: u64 = 0;
        for client in self.structs.clients() {
            let pieces = self.structs.get(client).map_or(&[][..], Vec::as_slice);
            let mut writer = ClientWriter::new(client);
            for piece in in_order(pieces, |piece| piece.clock) {
                writer.add(piece)?;
            }
            clients = clients.saturating_add(u64::from(writer.finish(&mut blocks)));
        }
        let mut out = Vec::with_capacity(blocks.len().saturating_add(16));
        write_var_uint(&mut out, clients);
        out.append(&mut blocks);
        clients = 0;
        for client in self.deletes.clients() {
            let ranges = union(self.deletes.get(client).map_or(&[][..], Vec::as_slice));
            if ranges.is_empty() {
                continue;
            }
            clients = clients.saturating_add(1);
            write_var_uint(&mut blocks, client);
            write_var_uint(&mut blocks, ranges.len() as u64);
            for (start, end) in ranges {
                write_var_uint(&mut blocks, u64::from(start));
                write_var_uint(&mut blocks, u64::from(end.saturating_sub(start)));
            }
        }
        write_var_uint(&mut out, clients);
        out.append(&mut blocks);
        Ok(out)
    }
}

impl<'a> Visitor<'a> for Merge<'a> {
    fn visit_struct(&mut self, part: &Struct<'a>) -> Result<(), DecodeError> {
        if !matches!(part.body, Body::Skip) {
            self.structs.change(part.id.client, |pieces| pieces.push(Piece::of(part)));
        }
        Ok(())
    }

    fn visit_delete(&mut self, first: Id, len: u32) -> Result<(), DecodeError> {
        let range = (first.clock, first.clock.saturating_add(len));
        self.deletes.change(first.client, |ranges| ranges.push(range));
        Ok(())
    }
}

/// Things by their clocks. Of two structs with one id the earlier update's comes first, and is kept.
fn in_order<T>(things: &[T], clock: impl Fn(&T) -> u32) -> impl Iterator<Item = &T> {
    let key = |index| things.get(index).map(&clock);
    order(things.len(), &|a, b| key(a).cmp(&key(b))).into_iter().filter_map(|index| things.get(index))
}

/// Ranges (start, end) in order, with those that touch joined.
fn union(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for &(start, end) in in_order(ranges, |range| range.0) {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Copies the structs that are not known yet.
#[derive(Default)]
struct Diff {
    known: Table<u32>,
    clients: u64,
    out: Vec<u8>,
    current: Option<(u64, u32)>,
    structs: u64,
    block: Vec<u8>,
}

impl Diff {
    fn end_client(&mut self) {
        if let Some((client, start)) = self.current.take() {
            write_var_uint(&mut self.out, self.structs);
            write_var_uint(&mut self.out, client);
            write_var_uint(&mut self.out, u64::from(start));
            self.out.append(&mut self.block);
            self.clients = self.clients.saturating_add(1);
            self.structs = 0;
        }
    }
}

impl<'a> Visitor<'a> for Diff {
    fn visit_struct(&mut self, part: &Struct<'a>) -> Result<(), DecodeError> {
        let mut offset = 0;
        if self.current.is_none_or(|(client, _)| client != part.id.client) {
            self.end_client();
            let known = self.known.get(part.id.client).copied().unwrap_or(0);
            // A block must not begin with a hole.
            if part.end() <= known || matches!(part.body, Body::Skip) {
                return Ok(());
            }
            offset = known.saturating_sub(part.id.clock);
            self.current = Some((part.id.client, part.id.clock.saturating_add(offset)));
        }
        self.structs = self.structs.saturating_add(1);
        write_tail(&mut self.block, part, offset)
    }

    fn visit_delete(&mut self, _first: Id, _len: u32) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// How far each client is complete, and how far it is needed.
#[derive(Default)]
struct Holes {
    complete: Table<u32>,
    wanted: Table<u32>,
    gap: bool,
}

impl Holes {
    fn want(&mut self, id: Id) {
        self.wanted.change(id.client, |end| *end = (*end).max(id.clock.saturating_add(1)));
    }

    fn complete(&self, client: u64) -> u32 {
        self.complete.get(client).copied().unwrap_or(0)
    }
}

impl<'a> Visitor<'a> for Holes {
    fn visit_struct(&mut self, part: &Struct<'a>) -> Result<(), DecodeError> {
        if matches!(part.body, Body::Skip) || part.id.clock != self.complete(part.id.client) {
            self.gap = true;
            return Ok(());
        }
        self.complete.insert(part.id.client, part.end());
        if let Body::Item(item) = part.body {
            let parent = if let Some(Parent::Id(id)) = item.parent { Some(id) } else { None };
            for id in [item.origin, item.right_origin, parent].into_iter().flatten() {
                self.want(id);
            }
        }
        Ok(())
    }

    fn visit_delete(&mut self, first: Id, len: u32) -> Result<(), DecodeError> {
        self.want(Id { client: first.client, clock: first.clock.saturating_add(len).saturating_sub(1) });
        Ok(())
    }
}
