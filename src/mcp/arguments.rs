//! The arguments of a tool: each is taken by name, and one that is left over is refused.

use serde_json::{Map, Value};

use super::Caller;
use crate::api::idempotency::IdempotencyKey;
use crate::api::json::whole;
use crate::api::path::{NodePath, WorkspaceId};
use crate::api::problem::{Problem, ProblemCode};

/// What a tool was called with. Of an optional argument null is as good as nothing.
pub(super) struct Arguments(pub Map<String, Value>);

impl Arguments {
    /// Any JSON, null too, that has to be there.
    pub(super) fn value(&mut self, name: &str) -> Result<Value, Problem> {
        self.0.remove(name).ok_or_else(|| bad(name, "is missing"))
    }

    /// Any JSON but null, if it is there.
    pub(super) fn given(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(bad(name, "has to be a string")),
        }
    }

    pub(super) fn integer(&mut self, name: &str, (least, most): (u64, u64)) -> Result<Option<u64>, Problem> {
        match self.given(name) {
            None => Ok(None),
            Some(value) => match whole(&value).filter(|number| (least..=most).contains(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(bad(name, &format!("has to be a whole number from {least} to {most}"))),
            },
        }
    }

    /// The workspace that is named, or the only one of the token.
    pub(super) fn workspace(&mut self, caller: &Caller) -> Result<WorkspaceId, Problem> {
        match self.text("workspace")? {
            Some(id) => WorkspaceId::parse(&id),
            None => caller.only_workspace().ok_or_else(|| {
                bad("workspace", "has to name one: the token is not for exactly one workspace")
                    .with("workspaces", caller.workspaces.as_slice())
            }),
        }
    }

    pub(super) fn path(&mut self) -> Result<NodePath, Problem> {
        self.text("path")?.ok_or_else(|| bad("path", "is missing")).and_then(|path| NodePath::parse(&path))
    }

    /// `ifMatch` and `idempotencyKey`, as the headers that they are in REST.
    pub(super) fn write_headers(&mut self) -> Result<Vec<(&'static str, String)>, Problem> {
        let mut headers = Vec::new();
        match self.given("ifMatch") {
            None => {}
            Some(Value::String(star)) if star == "*" => headers.push(("If-Match", star)),
            Some(value) => match whole(&value) {
                Some(clock) => headers.push(("If-Match", format!("\"{clock}\""))),
                None => return Err(bad("ifMatch", "has to be a clock or \"*\"")),
            },
        }
        headers.extend(self.idempotency_key()?);
        Ok(headers)
    }

    /// `idempotencyKey`, as the header.
    pub(super) fn idempotency_key(&mut self) -> Result<Option<(&'static str, String)>, Problem> {
        let Some(key) = self.text("idempotencyKey")? else { return Ok(None) };
        // Here, because a platform drops a header value that it cannot carry.
        IdempotencyKey::parse(Some(&key))
            .map_err(|_| bad("idempotencyKey", "has to be 1 to 128 visible ASCII characters"))?;
        Ok(Some(("Idempotency-Key", key)))
    }

    /// `ifNoneMatch`, as the header.
    pub(super) fn only_if_missing(&mut self) -> Result<Option<(&'static str, String)>, Problem> {
        match self.text("ifNoneMatch")? {
            None => Ok(None),
            Some(star) if star == "*" => Ok(Some(("If-None-Match", star))),
            Some(_) => Err(bad("ifNoneMatch", "can only be \"*\"")),
        }
    }

    pub(super) fn finish(self) -> Result<(), Problem> {
        match self.0.keys().next() {
            Some(name) => Err(bad(name, "is not an argument of this tool")),
            None => Ok(()),
        }
    }
}

/// The caller's own word is named, but not at any length.
pub(super) fn bad(name: &str, what: &str) -> Problem {
    let name: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
    Problem::because(ProblemCode::BadRequest, format!("`{name}` {what}."))
}

/// Of a name that is quoted in an error.
const MAX_NAME_CHARS: usize = 64;
