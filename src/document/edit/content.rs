//! A whole new document, root by root.

use super::{AnyValue, Edited};
use crate::document::checkpoint::{EMPTY_UPDATE, merge, state_vector};
use crate::document::error::DocumentError;
use crate::document::replica::{New, Place, Replica};
use crate::document::walk::Content;

/// What a root is to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootContent {
    /// A `Y.Array` of plain values.
    Array(Vec<AnyValue>),
    /// A `Y.Map` of plain values.
    Map(Vec<(String, AnyValue)>),
    /// A `Y.Text`.
    Text(String),
}

/// A document that holds these roots and nothing else, made by one client.
///
/// # Errors
/// When there are more elements than a client can have.
pub fn content(roots: &[(String, RootContent)], client: u64) -> Result<Edited, DocumentError> {
    let mut replica = Replica::load(&EMPTY_UPDATE)?;
    let mut new = New::of(&replica, client);
    for (name, root) in roots {
        let parent = replica.root_of(name);
        let place = Place { parent, key: None, left: None };
        match root {
            RootContent::Text(text) if text.is_empty() => {}
            RootContent::Text(text) => drop(new.insert(&mut replica, place, Content::String(text))?),
            RootContent::Map(members) => {
                for (key, value) in members {
                    let place = Place { key: Some(key), ..place };
                    new.insert(&mut replica, place, Content::Any(&value.0))?;
                }
            }
            RootContent::Array(items) => {
                let mut left = None;
                for item in items {
                    left = Some(new.insert(&mut replica, Place { left, ..place }, Content::Any(&item.0))?);
                }
            }
        }
    }
    // Merged, so that the elements of an array become one struct, as in Yjs.
    let update = merge(&[&new.write(&replica), &EMPTY_UPDATE])?;
    let vector = state_vector(&update)?;
    Ok(Edited { update, vector })
}
