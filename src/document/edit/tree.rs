//! Edits of maps and arrays by JSON pointer.
//!
//! A pointer goes through shared types. What is stored as a plain JSON value is one value, as in
//! Yjs: it is put whole, since two people who change it at once would not merge anyway.

use super::text::counted;
use super::{AnyValue, Editor, Pointer, Refusal, Stopped};
use crate::document::project::root_kind;
use crate::document::replica::{NodeIndex, Place, TypeIndex};
use crate::document::walk::{Content, TypeRef};

/// The type that a pointer's last token is in.
enum Container {
    Array(TypeIndex),
    Map(TypeIndex),
}

impl<'a> Editor<'_, 'a> {
    pub(super) fn put(
        &mut self,
        root: &'a str,
        pointer: &'a Pointer,
        value: &'a AnyValue,
    ) -> Result<(), Stopped> {
        let (container, token) = self.resolve(root, pointer, TypeRef::Map)?;
        match container {
            Container::Map(parent) => {
                let old = self.replica.shared_type(parent).and_then(|shared| shared.keys.get(token).copied());
                let place = Place { parent, key: Some(token), left: old };
                self.new.insert(self.replica, place, Content::Any(&value.0))?;
                if let Some(old) = old {
                    self.new.delete(self.replica, old);
                }
            }
            Container::Array(parent) => {
                let old = self.element(parent, token)?;
                let place = Place { parent, key: None, left: Some(old) };
                self.new.insert(self.replica, place, Content::Any(&value.0))?;
                self.new.delete(self.replica, old);
            }
        }
        Ok(())
    }

    pub(super) fn insert_item(
        &mut self,
        root: &'a str,
        pointer: &'a Pointer,
        value: &'a AnyValue,
    ) -> Result<(), Stopped> {
        let (container, token) = self.resolve(root, pointer, TypeRef::Array)?;
        let Container::Array(parent) = container else {
            return Err(
                Refusal::NotApplicable("only an array takes `insert` with a pointer: use `put`").into()
            );
        };
        let left = match token {
            "-" => self.last(parent),
            _ => self.before_element(parent, index_of(token)?)?,
        };
        self.new.insert(self.replica, Place { parent, key: None, left }, Content::Any(&value.0))?;
        Ok(())
    }

    pub(super) fn remove(&mut self, root: &'a str, pointer: &'a Pointer) -> Result<(), Stopped> {
        let (container, token) = self.resolve(root, pointer, TypeRef::Map)?;
        let node = match container {
            Container::Map(parent) => self.value_of(parent, token)?,
            Container::Array(parent) => self.element(parent, token)?,
        };
        self.new.delete(self.replica, node);
        Ok(())
    }

    /// Follows all tokens but the last. A root with nothing in it is of the kind that is wanted.
    fn resolve(
        &mut self,
        root: &'a str,
        pointer: &'a Pointer,
        wanted: TypeRef<'static>,
    ) -> Result<(Container, &'a str), Stopped> {
        let parent = self.replica.root_of(root);
        let kind = root_kind(self.replica, parent).unwrap_or(wanted);
        let mut container = container(parent, kind)?;
        let (last, before) = pointer.0.split_last().ok_or(Refusal::PointerNotFound)?;
        for token in before {
            let node = match container {
                Container::Map(parent) => self.value_of(parent, token)?,
                Container::Array(parent) => self.element(parent, token)?,
            };
            let node = self.replica.node(node).ok_or(Refusal::PointerNotFound)?;
            container = match (node.content, node.holds) {
                (Content::Type(kind), Some(inner)) => self::container(inner, kind)?,
                _ => return Err(Refusal::NotApplicable(PLAIN_VALUE).into()),
            };
        }
        Ok((container, last))
    }

    /// The node of a key that has a value.
    fn value_of(&self, parent: TypeIndex, key: &str) -> Result<NodeIndex, Refusal> {
        let keys = self.replica.shared_type(parent).map(|shared| &shared.keys);
        let node = keys.and_then(|keys| keys.get(key).copied());
        node.filter(|node| counted(self.replica, *node) > 0).ok_or(Refusal::PointerNotFound)
    }

    /// The element of an array as a node of its own.
    fn element(&mut self, parent: TypeIndex, token: &str) -> Result<NodeIndex, Stopped> {
        let left = self.before_element(parent, index_of(token)?)?;
        let mut next = self.replica.after(parent, left);
        while let Some(index) = next.filter(|index| counted(self.replica, *index) == 0) {
            next = self.replica.after(parent, Some(index));
        }
        let index = next.ok_or(Refusal::PointerNotFound)?;
        self.replica.cut_after(index, 1);
        Ok(index)
    }

    /// The node that ends before the element of this number; nothing before the first.
    fn before_element(&mut self, parent: TypeIndex, number: u32) -> Result<Option<NodeIndex>, Refusal> {
        let (mut left, mut rest) = (None, number);
        let mut next = self.replica.after(parent, None);
        while let Some(index) = next.filter(|_| rest > 0) {
            let len = counted(self.replica, index);
            if len > 0 {
                self.replica.cut_after(index, rest);
                left = Some(index);
                rest = rest.saturating_sub(len);
            }
            next = self.replica.after(parent, next);
        }
        if rest > 0 { Err(Refusal::PointerNotFound) } else { Ok(left) }
    }

    /// The last element of an array.
    fn last(&self, parent: TypeIndex) -> Option<NodeIndex> {
        let mut last = None;
        let mut next = self.replica.after(parent, None);
        while let Some(index) = next {
            if counted(self.replica, index) > 0 {
                last = Some(index);
            }
            next = self.replica.after(parent, next);
        }
        last
    }
}

fn container(index: TypeIndex, kind: TypeRef<'_>) -> Result<Container, Refusal> {
    match kind {
        TypeRef::Array => Ok(Container::Array(index)),
        TypeRef::Map => Ok(Container::Map(index)),
        _ => Err(Refusal::NotApplicable("the pointer leads into text or XML, which has no keys")),
    }
}

/// An index as JSON pointers write it: digits without a zero before them.
fn index_of(token: &str) -> Result<u32, Refusal> {
    let plain = token == "0" || !token.starts_with('0');
    let digits = token.bytes().all(|byte| byte.is_ascii_digit());
    token.parse().ok().filter(|_| plain && digits).ok_or(Refusal::PointerNotFound)
}

const PLAIN_VALUE: &str = "the pointer leads into a plain JSON value: put that value whole";
