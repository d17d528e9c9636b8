//! New nodes and deletes in a replica, as a Yjs client makes them, and the update that says so.

use std::borrow::Cow;

use super::super::index::order;
use super::super::splice::{REF_ANY, REF_STRING, write_head};
use super::super::walk::{Content, HAS_PARENT_SUB, HAS_RIGHT_ORIGIN, Id, Item, Parent, utf16_len};
use super::{Elements, Node, NodeIndex, Replica, TypeIndex};
use crate::protocol::error::DecodeError;
use crate::protocol::varint::{write_var_bytes, write_var_uint};

const REF_FORMAT: u8 = 6;

/// Where a node goes: into a list after another one or at its beginning, or to a key.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Place<'a> {
    pub parent: TypeIndex,
    pub key: Option<&'a str>,
    pub left: Option<NodeIndex>,
}

/// What one client adds to a replica and deletes in it.
pub(in super::super) struct New {
    pub client: u64,
    /// The clock after its last element.
    pub end: u32,
    deletes: Vec<(Id, u32)>,
}

impl New {
    /// For a client that has written nothing yet; `wanted` is its id unless it has.
    pub fn of(replica: &Replica<'_>, wanted: u64) -> Self {
        let mut client = wanted;
        while replica.end(client) > 0 {
            client = client.wrapping_add(1) & u64::from(u32::MAX);
        }
        Self { client, end: 0, deletes: Vec::new() }
    }

    /// Adds a node at a place. Both neighbours are known, so there is nothing to search.
    pub fn insert<'a>(
        &mut self,
        replica: &mut Replica<'a>,
        place: Place<'a>,
        content: Content<'a>,
    ) -> Result<NodeIndex, DecodeError> {
        let Place { parent, key, left } = place;
        let right = match left {
            Some(left) => replica.node(left).and_then(|node| node.right),
            None => replica.first(Some(parent), key),
        };
        let len = length(content)?;
        let id = Id { client: self.client, clock: self.end };
        self.end = self.end.checked_add(len).ok_or(DecodeError::TooLarge)?;
        let node = Node {
            id,
            len,
            deleted: false,
            content,
            text: if let Content::String(text) = content { Cow::Borrowed(text) } else { Cow::default() },
            skipped: 0,
            holds: None,
            origin: left.and_then(|left| replica.node(left)).map(Node::last),
            right_origin: right.and_then(|right| replica.node(right)).map(|node| node.id),
            left: None,
            right: None,
            parent: Some(parent),
            key,
            seen: (0, 0),
        };
        let index = replica.push(node);
        replica.link(index, parent, key, left);
        Ok(index)
    }

    /// Deletes a node.
    pub fn delete(&mut self, replica: &mut Replica<'_>, index: NodeIndex) {
        if let Some(node) = replica.nodes.get_mut(index).filter(|node| !node.deleted) {
            node.deleted = true;
            self.deletes.push((node.id, node.len));
        }
    }

    /// Everything as one Yjs update.
    pub fn write(&self, replica: &Replica<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        match replica.clients.get(self.client).filter(|_| self.end > 0) {
            None => out.push(0),
            Some(Elements { nodes, .. }) => {
                write_var_uint(&mut out, 1);
                write_var_uint(&mut out, nodes.len() as u64);
                write_var_uint(&mut out, self.client);
                out.push(0);
                for node in nodes.iter().filter_map(|index| replica.node(*index)) {
                    replica.write_node(&mut out, node);
                }
            }
        }
        self.write_deletes(&mut out);
        out
    }

    /// The delete set: by client, in order, ranges that touch joined.
    fn write_deletes(&self, out: &mut Vec<u8>) {
        let id = |at: usize| self.deletes.get(at).map(|(id, _)| *id);
        let mut clients: Vec<(u64, Vec<(u32, u32)>)> = Vec::new();
        for (id, len) in order(self.deletes.len(), &|a, b| id(a).cmp(&id(b)))
            .into_iter()
            .filter_map(|at| self.deletes.get(at))
        {
            let end = id.clock.saturating_add(*len);
            match clients.last_mut().filter(|(client, _)| *client == id.client) {
                None => clients.push((id.client, vec![(id.clock, end)])),
                Some((_, ranges)) => match ranges.last_mut().filter(|range| range.1 == id.clock) {
                    Some(range) => range.1 = end,
                    None => ranges.push((id.clock, end)),
                },
            }
        }
        write_var_uint(out, clients.len() as u64);
        for (client, ranges) in clients {
            write_var_uint(out, client);
            write_var_uint(out, ranges.len() as u64);
            for (start, end) in ranges {
                write_var_uint(out, u64::from(start));
                write_var_uint(out, u64::from(end.saturating_sub(start)));
            }
        }
    }
}

impl<'a> Replica<'a> {
    /// The root of this name, made if it is not there.
    pub fn root_of(&mut self, name: &'a str) -> TypeIndex {
        self.root(name)
    }

    /// The node after another one in its list, or the first of a type's list.
    pub fn after(&self, parent: TypeIndex, left: Option<NodeIndex>) -> Option<NodeIndex> {
        match left {
            Some(left) => self.node(left)?.right,
            None => self.shared_type(parent)?.start,
        }
    }

    /// The node before another one.
    pub fn before(&self, index: NodeIndex) -> Option<NodeIndex> {
        self.node(index)?.left
    }

    /// The node that begins with element `offset` of a node, split off if need be.
    pub fn cut_before(&mut self, index: NodeIndex, offset: u32) -> Option<NodeIndex> {
        let id = self.node(index)?.id;
        self.starting_at(Id { client: id.client, clock: id.clock.saturating_add(offset) })
    }

    /// Cuts a node after so many of its elements, if it has more.
    pub fn cut_after(&mut self, index: NodeIndex, len: u32) {
        if self.node(index).is_some_and(|node| node.len > len) {
            self.cut_before(index, len);
        }
    }

    /// Writes a node that [`New::insert`] made, or a part that was cut off one.
    fn write_node(&self, out: &mut Vec<u8>, node: &Node<'a>) {
        let Node { origin, right_origin, key, content, .. } = *node;
        let parent = match (origin, right_origin, node.parent) {
            (None, None, Some(parent)) => self.address(parent),
            _ => None,
        };
        let mut info = reference(&content);
        if right_origin.is_some() {
            info |= HAS_RIGHT_ORIGIN;
        }
        if key.is_some() {
            info |= HAS_PARENT_SUB;
        }
        // A neighbour tells the key as it tells the parent.
        let parent_sub = key.filter(|_| parent.is_some());
        write_head(out, &Item { info, origin, right_origin, parent, parent_sub, content }, origin);
        match content {
            Content::String(_) => write_var_bytes(out, node.text.as_bytes()),
            Content::Format { key, json } => {
                write_var_bytes(out, key.as_bytes());
                write_var_bytes(out, json.as_bytes());
            }
            Content::Any(value) => {
                write_var_uint(out, 1);
                out.extend_from_slice(value);
            }
            _ => {}
        }
    }

    /// The state vector, encoded.
    pub fn vector(&self) -> Vec<u8> {
        let clients = self.clients.clients();
        let mut out = Vec::new();
        write_var_uint(&mut out, clients.len() as u64);
        for client in clients {
            write_var_uint(&mut out, client);
            write_var_uint(&mut out, u64::from(self.end(client)));
        }
        out
    }

    /// How an item that has no neighbour names its parent.
    fn address(&self, parent: TypeIndex) -> Option<Parent<'a>> {
        let root = self.roots.iter().find(|(_, index)| **index == parent);
        let holder = || self.nodes.iter().find(|node| node.holds == Some(parent));
        root.map(|(name, _)| Parent::Root(name)).or_else(|| holder().map(|node| Parent::Id(node.id)))
    }
}

/// How many elements a content has that [`New::insert`] is given: text, a format, or one value.
fn length(content: Content<'_>) -> Result<u32, DecodeError> {
    match content {
        Content::String(text) => utf16_len(text),
        _ => Ok(1),
    }
}

fn reference(content: &Content<'_>) -> u8 {
    match content {
        Content::String(_) => REF_STRING,
        Content::Format { .. } => REF_FORMAT,
        _ => REF_ANY,
    }
}
