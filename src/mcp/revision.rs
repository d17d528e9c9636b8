//! Which revision of the protocol a request follows, and whether its headers say the same.
//!
//! Since 2026-07-28 every request names its version in `_meta` and repeats its method and target in
//! headers, for those on the way that do not read bodies. A request without that follows an older
//! revision; between those there is no difference here but the number that `initialize` answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Headers;
use super::rpc::{HEADER_MISMATCH, INVALID_PARAMS, Request, RpcError, UNSUPPORTED_VERSION};

/// An era of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revision {
    /// Begins with `initialize`.
    Legacy,
    /// Each request stands for itself.
    Modern,
}

/// The revision in which requests name their version.
pub(super) const MODERN: &str = "2026-07-28";

/// Those before that are served, the newest first.
pub(super) const LEGACY: [&str; 2] = ["2025-11-25", "2025-06-18"];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

impl Revision {
    /// The revision of a request, whose headers fit it.
    pub(super) fn of(headers: &Headers<'_>, request: &Request) -> Result<Self, RpcError> {
        let meta = request.params.get("_meta");
        let field = |name: &str| meta.and_then(|meta| meta.get(name));
        let Some(version) = field(VERSION_KEY) else {
            check_header(headers.protocol_version)?;
            return if headers.protocol_version == Some(MODERN) {
                Err(missing(VERSION_KEY))
            } else {
                Ok(Self::Legacy)
            };
        };
        if version.as_str() != headers.protocol_version {
            return Err(mismatch("MCP-Protocol-Version"));
        }
        if version != MODERN {
            return Err(unsupported(version));
        }
        if !field(CAPABILITIES_KEY).is_some_and(Value::is_object) {
            return Err(missing(CAPABILITIES_KEY));
        }
        if headers.method != Some(request.method.as_str()) {
            return Err(mismatch("Mcp-Method"));
        }
        let target = match request.method.as_str() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _ => return Ok(Self::Modern),
        };
        let named = headers.name.and_then(decoded);
        let meant = request.params.get(target).and_then(Value::as_str);
        if named.is_none() || named.as_deref() != meant {
            return Err(mismatch("Mcp-Name"));
        }
        Ok(Self::Modern)
    }
}

/// Whether a version header, if there is one, names a revision that is served.
pub(super) fn check_header(version: Option<&str>) -> Result<(), RpcError> {
    match version {
        Some(version) if version != MODERN && !LEGACY.contains(&version) => Err(unsupported(&version.into())),
        _ => Ok(()),
    }
}

/// The revisions that are served, as JSON text.
pub(super) fn supported() -> Value {
    let [newest, oldest] = LEGACY;
    json!([MODERN, newest, oldest])
}

fn unsupported(requested: &Value) -> RpcError {
    RpcError::new(UNSUPPORTED_VERSION, "The server does not speak this version of the protocol.")
        .with_data(json!({ "supported": supported(), "requested": requested }))
        .with_status(400)
}

fn mismatch(header: &str) -> RpcError {
    RpcError::new(HEADER_MISMATCH, format!("The header {header} is missing, or differs from the body."))
        .with_status(400)
}

fn missing(key: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("`_meta` has no `{key}`.")).with_status(400)
}

/// A header value, of which base64 carries what a header cannot.
fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(base64) => STANDARD.decode(base64).ok().and_then(|bytes| String::from_utf8(bytes).ok()),
        None => Some(value.to_owned()),
    }
}
