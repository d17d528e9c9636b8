//! `Idempotency-Key`: a retry finds the answer of the first attempt (R1, I01, I02).

use base64ct::{Base64UrlUnpadded, Encoding};
use sha2::{Digest, Sha256};

use super::limits::MAX_IDEMPOTENCY_KEY_BYTES;
use super::path::WorkspaceId;
use super::problem::{Problem, ProblemCode};

/// The client's name for one attempt to do one thing: 1 to 128 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Reads the header. The IETF draft quotes the key, most clients do not: `"k"` and `k` are
    /// the same key. `None` without the header.
    ///
    /// # Errors
    /// `bad_request`: a key that cannot be read must not be ignored, the client relies on it.
    pub fn parse(header: Option<&str>) -> Result<Option<Self>, Problem> {
        let Some(text) = header.map(str::trim) else { return Ok(None) };
        let key = match text.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => Some(text.to_owned()),
        };
        key.filter(|key| {
            (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic())
        })
        .map(|key| Some(Self(key)))
        .ok_or_else(|| {
            Problem::because(
                ProblemCode::BadRequest,
                format!("`Idempotency-Key` is 1 to {MAX_IDEMPOTENCY_KEY_BYTES} visible ASCII characters."),
            )
        })
    }

    /// The key as it is stored: a hash over its scope, which is actor, workspace, method and path.
    /// The same key of another actor or for another address is another key and tells nothing
    /// about the first (I02). 22 characters, whatever the lengths.
    #[must_use]
    pub fn scope_key(&self, actor: &str, workspace: &WorkspaceId, method: &str, path: &str) -> String {
        self.scoped([actor, workspace.as_str(), method, path])
    }

    /// The same for creating a workspace. The address names none, so whichever id the body names,
    /// the key is one key.
    #[must_use]
    pub fn create_key(&self, actor: &str) -> String {
        self.scoped([actor, "", "POST", ""])
    }

    fn scoped(&self, scope: [&str; 4]) -> String {
        let mut hash = Sha256::new();
        for part in scope.into_iter().chain([self.0.as_str()]) {
            // With its length, so that no two lists of parts are the same bytes.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        encode_half(&hash.finalize())
    }
}

/// What tells two bodies of one key apart: stored with the key, compared on a replay. Another hash
/// means `idempotency_key_reused`.
#[must_use]
pub fn body_hash(body: &[u8]) -> String {
    encode_half(&Sha256::digest(body))
}

/// The first 128 bits in base64url: a short column, and finding a second body for a hash still
/// takes 2^128 attempts.
fn encode_half(hash: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(hash.first_chunk::<16>().map_or(hash, |half| half.as_slice()))
}

/// The rest of a quoted string of structured fields (RFC 9651): `\"` and `\\` are its only escapes.
fn unquote(quoted: &str) -> Option<String> {
    let mut key = String::with_capacity(quoted.len());
    let mut rest = quoted.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => return rest.as_str().is_empty().then_some(key),
            '\\' => key.push(rest.next().filter(|c| matches!(c, '"' | '\\'))?),
            c => key.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(header: &str) -> Option<IdempotencyKey> {
        IdempotencyKey::parse(Some(header)).unwrap_or(None)
    }

    fn workspace(text: &str) -> WorkspaceId {
        WorkspaceId::parse(text).unwrap()
    }

    #[test]
    fn quoted_and_bare_keys_are_the_same() {
        assert_eq!(key("\"8e03978e-40d5\""), key("8e03978e-40d5"));
        assert_eq!(key("\"a\\\"b\\\\\"").unwrap().0, "a\"b\\");
        assert_eq!(key(" k ").unwrap().0, "k");
        assert_eq!(key(&"k".repeat(128)).unwrap().0.len(), 128);
        assert_eq!(IdempotencyKey::parse(None), Ok(None));
    }

    #[test]
    fn keys_that_cannot_be_read_are_refused() {
        let long = "k".repeat(129);
        for bad in
            ["", "\"\"", "\"", "\"k", "\"k\"x", "\"a\\x\"", "\"k\\", "a b", "\"a b\"", "é", "\u{7}", &long]
        {
            assert_eq!(IdempotencyKey::parse(Some(bad)).unwrap_err().code, ProblemCode::BadRequest, "{bad}");
        }
    }

    #[test]
    fn i02_the_scope_is_actor_workspace_method_and_path() {
        let scope =
            |actor, ws, method, path, k| key(k).unwrap().scope_key(actor, &workspace(ws), method, path);
        let first = scope("ada", "w", "PUT", "/nodes/a", "k");
        assert_eq!(first, scope("ada", "w", "PUT", "/nodes/a", "\"k\""));
        let others = [
            scope("bob", "w", "PUT", "/nodes/a", "k"),
            scope("ada", "v", "PUT", "/nodes/a", "k"),
            scope("ada", "w", "PATCH", "/nodes/a", "k"),
            scope("ada", "w", "PUT", "/nodes/b", "k"),
            scope("ada", "w", "PUT", "/nodes/a", "l"),
            scope("adaw", "w", "PUT", "/nodes/a", "k"),
            scope("ada", "w", "PUT/", "nodes/a", "k"),
        ];
        assert!(others.iter().all(|other| *other != first));
        assert_eq!(first.len(), 22);
        let create = |actor| key("k").unwrap().create_key(actor);
        assert_ne!(create("ada"), create("bob"));
        assert_ne!(create("ada"), scope("ada", "w", "POST", "", "k"));
    }

    #[test]
    fn i02_another_body_has_another_hash() {
        assert_ne!(body_hash(b"{\"a\":1}"), body_hash(b"{\"a\":2}"));
        // The first half of the well-known SHA-256 of nothing: e3b0c442 98fc1c14 9afbf4c8 996fb924.
        assert_eq!(body_hash(b""), "47DEQpj8HBSa-_TImW-5JA");
    }
}
