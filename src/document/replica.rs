//! The structs of an update in document order: Yjs's integration.
//!
//! Nodes live in one vector and point at each other by index, so that a hostile update can at most
//! give a strange document. What waits for missing structs is left out, as in Yjs.

mod cut;
mod insert;
mod queue;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

pub(super) use insert::{New, Place};

use super::error::DocumentError;
use super::index::Table;
use super::walk::{Body, Content, Id, Item, Parent, Struct, TypeRef, walk};
use crate::protocol::limits::MAX_NESTING;
use cut::split_text;
use queue::Queue;

pub(super) type NodeIndex = usize;
pub(super) type TypeIndex = usize;

/// A document as far as its structs are there.
#[derive(Default)]
pub(super) struct Replica<'a> {
    nodes: Vec<Node<'a>>,
    types: Vec<SharedType<'a>>,
    roots: BTreeMap<&'a str, TypeIndex>,
    /// Nodes of each client by clock, without gaps from 0.
    clients: Table<Elements>,
    /// Whether an item names a parent that is not a type. Yjs collects it; yrs fails as a whole.
    stray: bool,
    /// How many searches for a place there were.
    searches: u32,
}

/// The elements of one client.
#[derive(Default)]
struct Elements {
    nodes: Vec<NodeIndex>,
    /// Where one was looked up last: people write in one place for a while.
    recent: Cell<usize>,
}

/// A shared type: a list, a map, or both.
#[derive(Default)]
pub(super) struct SharedType<'a> {
    /// How many types it is in.
    depth: usize,
    start: Option<NodeIndex>,
    /// The newest item of each key.
    pub keys: BTreeMap<&'a str, NodeIndex>,
}

/// A run of elements, or a collected one, which has no parent.
pub(super) struct Node<'a> {
    id: Id,
    pub len: u32,
    pub deleted: bool,
    pub content: Content<'a>,
    /// The text of string content, after splits.
    pub text: Cow<'a, str>,
    /// How many encoded elements come before those of this node.
    pub skipped: u32,
    /// The type that this node holds.
    pub holds: Option<TypeIndex>,
    origin: Option<Id>,
    right_origin: Option<Id>,
    left: Option<NodeIndex>,
    right: Option<NodeIndex>,
    parent: Option<TypeIndex>,
    key: Option<&'a str>,
    /// The last search for a place that came by, and at which step of it.
    seen: (u32, u32),
}

impl<'a> Replica<'a> {
    /// Integrates all of `update` that does not wait for something missing.
    pub fn load(update: &'a [u8]) -> Result<Self, DocumentError> {
        let mut queue = Queue::default();
        walk(update, &mut queue)?;
        Ok(Self::of(queue))
    }

    /// Integrates updates in their order without merging them. `None` when one does not begin where
    /// those before it end: then they have to be merged.
    pub fn load_all(updates: &[&'a [u8]]) -> Result<Option<Self>, DocumentError> {
        let mut queue = Queue::default();
        for update in updates {
            walk(update, &mut queue)?;
        }
        Ok((!queue.has_gap).then(|| Self::of(queue)))
    }

    fn of(mut queue: Queue<'a>) -> Self {
        let mut replica = Self::default();
        for client in queue.structs.clients() {
            replica.integrate_from(client, &mut queue);
        }
        for (first, len) in queue.deletes {
            replica.delete(first, len);
        }
        replica
    }

    pub fn roots(&self) -> &BTreeMap<&'a str, TypeIndex> {
        &self.roots
    }

    pub fn shared_type(&self, index: TypeIndex) -> Option<&SharedType<'a>> {
        self.types.get(index)
    }

    pub fn node(&self, index: NodeIndex) -> Option<&Node<'a>> {
        self.nodes.get(index)
    }

    /// The nodes of a type's list that are not deleted, in order.
    pub fn list(&self, index: TypeIndex) -> impl Iterator<Item = &Node<'a>> {
        self.list_with_deleted(index).filter(|node| !node.deleted)
    }

    pub fn list_with_deleted(&self, index: TypeIndex) -> impl Iterator<Item = &Node<'a>> {
        let mut next = self.types.get(index).and_then(|shared| shared.start);
        std::iter::from_fn(move || {
            let node = self.nodes.get(next?)?;
            next = node.right;
            Some(node)
        })
    }

    /// The first thing in here that yrs 0.28 does not read as Yjs does, if there is one.
    pub fn unknown_to_yrs(&self) -> Option<&'static str> {
        let stray = self.stray.then_some("an item inside something that is not a type");
        // It walks types by recursion.
        let deep = self.types.iter().any(|shared| shared.depth > MAX_NESTING);
        let deep = deep.then_some("more nested types than can be followed");
        stray.or(deep).or_else(|| self.nodes.iter().find_map(Node::unknown_to_yrs))
    }

    /// Integrates the structs of `client`, and first those of others that they need. A ring of
    /// clients that wait for each other stays out.
    fn integrate_from(&mut self, client: u64, queue: &mut Queue<'a>) {
        let mut waiting = vec![client];
        queue.set_waits(client, true);
        while let Some(client) = waiting.last().copied() {
            let Some(part) = queue.structs.get(client).and_then(queue::Parts::first).copied() else {
                waiting.pop();
                continue;
            };
            match self.missing(&part) {
                None => {
                    self.integrate(&part);
                    queue.structs.change(client, |parts| parts.done = parts.done.saturating_add(1));
                    // Back to the one that waits: it may have what it needs, and this one may need it.
                    if waiting.len() > 1 {
                        waiting.pop();
                        queue.set_waits(client, false);
                    }
                }
                Some(other) if queue.can_help(other) => {
                    waiting.push(other);
                    queue.set_waits(other, true);
                }
                Some(_) => {
                    queue.structs.change(client, |parts| parts.done = parts.structs.len());
                    waiting.pop();
                }
            }
        }
    }

    /// The clock after the last integrated element of `client`.
    pub fn end(&self, client: u64) -> u32 {
        let last = self.clients.get(client).and_then(|list| self.node(*list.nodes.last()?));
        last.map_or(0, |node| node.id.clock.saturating_add(node.len))
    }

    /// A client of which `part` needs more than there is.
    fn missing(&self, part: &Struct<'a>) -> Option<u64> {
        let Body::Item(item) = part.body else { return None };
        let parent = if let Some(Parent::Id(id)) = item.parent { Some(id) } else { None };
        let needed = [item.origin, item.right_origin, parent].into_iter().flatten();
        needed.filter(|id| id.clock >= self.end(id.client)).map(|id| id.client).next()
    }

    fn integrate(&mut self, part: &Struct<'a>) {
        match part.body {
            Body::Skip => {}
            Body::Gc => drop(self.push(Node::collected(part))),
            Body::Item(item) => self.integrate_item(part, &item),
        }
    }

    fn integrate_item(&mut self, part: &Struct<'a>, item: &Item<'a>) {
        let left = item.origin.and_then(|id| self.ending_at(id));
        let right = item.right_origin.and_then(|id| self.starting_at(id));
        let Some((parent, key)) = self.parent_of(item, left, right) else {
            self.push(Node::collected(part));
            return;
        };
        let mut node = Node { parent: Some(parent), key, ..Node::of(part, item) };
        if let Content::Type(_) = item.content {
            node.holds = Some(self.types.len());
            let depth = self.types.get(parent).map_or(0, |outer| outer.depth).saturating_add(1);
            self.types.push(SharedType { depth, ..SharedType::default() });
        }
        let left = self.place(&node, left, right);
        let index = self.push(node);
        self.link(index, parent, key, left);
    }

    /// The type and key that an item belongs to; nothing if it hangs on something collected.
    fn parent_of(
        &mut self,
        item: &Item<'a>,
        left: Option<NodeIndex>,
        right: Option<NodeIndex>,
    ) -> Option<(TypeIndex, Option<&'a str>)> {
        let mut found = None;
        for neighbour in [left, right].into_iter().flatten() {
            let node = self.node(neighbour)?;
            let place = (node.parent?, node.key);
            found = found.or(Some(place));
        }
        match item.parent {
            None => found,
            Some(Parent::Root(name)) => Some((self.root(name), item.parent_sub)),
            Some(Parent::Id(id)) => {
                let holder = self.node(self.find(id)?.1)?;
                let (holds, deleted) = (holder.holds, matches!(holder.content, Content::Deleted));
                self.stray |= holds.is_none() && !deleted;
                Some((holds?, item.parent_sub))
            }
        }
    }

    fn root(&mut self, name: &'a str) -> TypeIndex {
        if let Some(index) = self.roots.get(name) {
            return *index;
        }
        let index = self.types.len();
        self.types.push(SharedType::default());
        self.roots.insert(name, index);
        index
    }

    /// Where in the list `node` goes: after the node this returns. The conflict rules of YATA.
    fn place(
        &mut self,
        node: &Node<'a>,
        left: Option<NodeIndex>,
        right: Option<NodeIndex>,
    ) -> Option<NodeIndex> {
        let mut next = match left {
            Some(left) => self.node(left).and_then(|left| left.right),
            None => self.first(node.parent, node.key),
        };
        if next == right {
            return left;
        }
        let mut after = left;
        self.searches = self.searches.saturating_add(1);
        // Nodes seen up to this step do not conflict. Marks in the nodes, not sets of them.
        let (mut step, mut settled): (u32, u32) = (0, 0);
        while let Some(index) = next.filter(|_| next != right) {
            step = step.saturating_add(1);
            let Some(other) = self.nodes.get_mut(index) else { break };
            other.seen = (self.searches, step);
            let (origin, same_right) = (other.origin, other.right_origin == node.right_origin);
            next = other.right;
            if origin == node.origin {
                if other.id.client < node.id.client {
                    after = Some(index);
                    settled = step;
                } else if same_right {
                    break;
                }
            } else {
                match origin.and_then(|id| self.node(self.find(id)?.1)).map(|origin| origin.seen) {
                    Some((search, at)) if search == self.searches => {
                        if at <= settled {
                            after = Some(index);
                            settled = step;
                        }
                    }
                    _ => break,
                }
            }
        }
        after
    }

    /// First node of a list, or of the items of one key.
    fn first(&self, parent: Option<TypeIndex>, key: Option<&str>) -> Option<NodeIndex> {
        let shared = self.types.get(parent?)?;
        let Some(key) = key else { return shared.start };
        let mut first = shared.keys.get(key).copied()?;
        while let Some(before) = self.node(first).and_then(|node| node.left) {
            first = before;
        }
        Some(first)
    }

    fn link(&mut self, index: NodeIndex, parent: TypeIndex, key: Option<&'a str>, left: Option<NodeIndex>) {
        let right = match left {
            Some(left) => self.nodes.get_mut(left).and_then(|node| node.right.replace(index)),
            None => self.first(Some(parent), key),
        };
        if let Some(node) = self.nodes.get_mut(index) {
            node.left = left;
            node.right = right;
        }
        if let Some(node) = right.and_then(|right| self.nodes.get_mut(right)) {
            node.left = Some(index);
        }
        let Some(shared) = self.types.get_mut(parent) else { return };
        match key {
            Some(key) if right.is_none() => drop(shared.keys.insert(key, index)),
            None if left.is_none() => shared.start = Some(index),
            _ => {}
        }
    }

    fn push(&mut self, node: Node<'a>) -> NodeIndex {
        let index = self.nodes.len();
        self.clients.change(node.id.client, |list| list.nodes.push(index));
        self.nodes.push(node);
        index
    }

    /// The node that holds `id`: its place among its client's, and its index.
    fn find(&self, id: Id) -> Option<(usize, NodeIndex)> {
        let Elements { nodes, recent } = self.clients.get(id.client)?;
        let starts_by = |index: &NodeIndex| self.node(*index).is_some_and(|node| node.id.clock <= id.clock);
        let is_before = |place: usize| nodes.get(place).is_some_and(starts_by);
        // From the last place in steps that double, then by halves.
        let (mut low, mut high, mut step) = (recent.get(), recent.get(), 1_usize);
        if is_before(low) {
            while is_before(low.saturating_add(step)) {
                low = low.saturating_add(step);
                step = step.saturating_mul(2);
            }
            high = low.saturating_add(step).min(nodes.len());
        } else {
            while low > 0 && !is_before(low) {
                high = low;
                low = low.saturating_sub(step);
                step = step.saturating_mul(2);
            }
        }
        let within = nodes.get(low..high).unwrap_or_default();
        let place = low.saturating_add(within.partition_point(starts_by)).checked_sub(1)?;
        recent.set(place);
        Some((place, *nodes.get(place)?))
    }

    /// The node whose first element is `id`, split off if need be.
    fn starting_at(&mut self, id: Id) -> Option<NodeIndex> {
        let (place, index) = self.find(id)?;
        let node = self.node(index)?;
        let offset = id.clock.saturating_sub(node.id.clock);
        if offset == 0 || node.parent.is_none() { Some(index) } else { self.split(place, index, offset) }
    }

    /// The node whose last element is `id`, split off if need be.
    fn ending_at(&mut self, id: Id) -> Option<NodeIndex> {
        let (place, index) = self.find(id)?;
        let node = self.node(index)?;
        let offset = id.clock.saturating_sub(node.id.clock).saturating_add(1);
        if offset < node.len && node.parent.is_some() {
            self.split(place, index, offset)?;
        }
        Some(index)
    }

    /// Cuts the node at `index` after `offset` elements and returns the second half.
    fn split(&mut self, place: usize, index: NodeIndex, offset: u32) -> Option<NodeIndex> {
        let new = self.nodes.len();
        let half = self.nodes.get_mut(index)?.split_off(offset);
        let (right, parent, key) = (half.right, half.parent, half.key);
        self.clients.get_mut(half.id.client)?.nodes.insert(place.saturating_add(1), new);
        self.nodes.push(Node { left: Some(index), ..half });
        self.nodes.get_mut(index)?.right = Some(new);
        match right {
            Some(right) => self.nodes.get_mut(right)?.left = Some(new),
            None => {
                if let (Some(key), Some(shared)) = (key, parent.and_then(|parent| self.types.get_mut(parent)))
                {
                    shared.keys.insert(key, new);
                }
            }
        }
        Some(new)
    }

    fn delete(&mut self, first: Id, len: u32) {
        let mut clock = first.clock;
        let end = clock.saturating_add(len).min(self.end(first.client));
        while clock < end {
            let Some(index) = self.starting_at(Id { client: first.client, clock }) else { return };
            let Some(node) = self.node(index) else { return };
            let mut after = node.id.clock.saturating_add(node.len);
            if after > end && node.parent.is_some() {
                self.starting_at(Id { client: first.client, clock: end });
                after = end;
            }
            if let Some(node) = self.nodes.get_mut(index) {
                node.deleted = true;
            }
            clock = after;
        }
    }
}

impl<'a> Node<'a> {
    fn of(part: &Struct<'a>, item: &Item<'a>) -> Self {
        Self {
            id: part.id,
            len: part.len,
            deleted: matches!(item.content, Content::Deleted),
            content: item.content,
            text: if let Content::String(text) = item.content { text.into() } else { Cow::default() },
            skipped: 0,
            holds: None,
            origin: item.origin,
            right_origin: item.right_origin,
            left: None,
            right: None,
            parent: None,
            key: None,
            seen: (0, 0),
        }
    }

    fn unknown_to_yrs(&self) -> Option<&'static str> {
        match self.content {
            Content::Embed(json) | Content::Format { json, .. } => serde_json::from_str::<yrs::Any>(json)
                .is_err()
                .then_some("JSON with half a character or a huge number"),
            // It reads one element more than there is.
            Content::Json(_) => Some("values of a Yjs before version 13"),
            // It does not read the name.
            Content::Type(TypeRef::XmlHook(_)) => Some("XML hooks"),
            _ => None,
        }
    }

    /// A node without a place. An item that hangs on nothing keeps its content for the record.
    fn collected(part: &Struct<'a>) -> Self {
        let content = Content::Deleted;
        let nothing =
            Item { info: 0, origin: None, right_origin: None, parent: None, parent_sub: None, content };
        let item = if let Body::Item(item) = part.body { item } else { nothing };
        Self { deleted: true, ..Self::of(part, &item) }
    }

    /// Its last element.
    fn last(&self) -> Id {
        Id { client: self.id.client, clock: self.id.clock.saturating_add(self.len).saturating_sub(1) }
    }

    /// Keeps the first `offset` elements and returns the rest.
    fn split_off(&mut self, offset: u32) -> Self {
        let clock = self.id.clock.saturating_add(offset);
        let (before, after) = split_text(std::mem::take(&mut self.text), offset);
        let half = Self {
            id: Id { client: self.id.client, clock },
            len: self.len.saturating_sub(offset),
            text: after,
            skipped: self.skipped.saturating_add(offset),
            origin: Some(Id { client: self.id.client, clock: clock.saturating_sub(1) }),
            ..*self
        };
        self.len = offset;
        self.text = before;
        half
    }
}
