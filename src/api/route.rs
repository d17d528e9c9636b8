//! The table of every endpoint: a method and an address become a [`Route`].
//!
//! The address is split at `/` as it stands and each segment is then decoded once, so an encoded
//! `/` never moves the border between two segments. Fixed segments must be written plainly.
//!
//! A document may be named `a/updates`: `GET …/docs/a/updates` reads it, while `POST` to the same
//! address adds an update to the document `a`; its own updates go to `…/docs/a/updates/updates`. So it
//! is with `edits`, and with `move` of nodes.

use super::path::{NodePath, WorkspaceId, decode_segment};
use super::problem::{Problem, ProblemCode};

/// One endpoint with the names from its address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// `POST /api/workspaces/:id/ops`
    ApplyOps(WorkspaceId),
    /// `POST /api/workspaces`
    CreateWorkspace,
    /// `DELETE /api/workspaces/:id/nodes/<path>`
    DeleteNode(WorkspaceId, NodePath),
    /// `DELETE /api/workspaces/:id`
    DeleteWorkspace(WorkspaceId),
    /// `DELETE /api/workspaces/:id/presence`
    DeletePresence(WorkspaceId),
    /// `POST /api/workspaces/:id/docs/<path>/edits`
    EditDocument(WorkspaceId, NodePath),
    /// `GET /healthz`: the process answers.
    Health,
    /// `GET /api/workspaces/:id/changes`
    ListChanges(WorkspaceId),
    /// `GET /api/workspaces/:id/nodes`
    ListNodes(WorkspaceId),
    /// `GET /api/workspaces/:id/presence`
    ListPresence(WorkspaceId),
    /// `GET /api/workspaces/:id/p2p/signal`
    ListSignals(WorkspaceId),
    /// `GET /api/relays`: what clients reported of relays.
    ListRelays,
    /// `POST /mcp`: the Model Context Protocol.
    Mcp,
    /// `POST /api/workspaces/:id/tokens`
    MintToken(WorkspaceId),
    /// `POST /api/workspaces/:id/nodes/<path>/move`
    MoveNode(WorkspaceId, NodePath),
    /// `GET /api/openapi.json`
    OpenApi,
    /// `PATCH /api/workspaces/:id/nodes/<path>`
    PatchNode(WorkspaceId, NodePath),
    /// `POST /api/workspaces/:id/docs/<path>/updates`
    PostUpdate(WorkspaceId, NodePath),
    /// `PUT /api/workspaces/:id/nodes/<path>`
    PutNode(WorkspaceId, NodePath),
    /// `PUT /api/workspaces/:id/presence`
    PutPresence(WorkspaceId),
    /// `PUT /api/workspaces/:id/docs/<path>`
    ReplaceDocument(WorkspaceId, NodePath),
    /// `GET /api/workspaces/:id/docs/<path>`
    ReadDocument(WorkspaceId, NodePath),
    /// `GET /api/workspaces/:id/nodes/<path>`
    ReadNode(WorkspaceId, NodePath),
    /// `GET /api/workspaces/:id`
    ReadWorkspace(WorkspaceId),
    /// `GET /readyz`: storage answers too.
    Ready,
    /// `GET /ws/<workspaceId>[/<document path>]`: the WebSocket of a relay. Without a document it
    /// is the workspace channel.
    Relay(WorkspaceId, Option<NodePath>),
    /// `POST /api/telemetry`
    ReportTelemetry,
    /// `POST /api/workspaces/:id/p2p/signal`
    SendSignal(WorkspaceId),
    /// `GET /api/workspaces/:id/changes/stream`
    StreamChanges(WorkspaceId),
}

impl Route {
    /// The `operationId` in the OpenAPI document.
    #[must_use]
    pub const fn operation_id(&self) -> &'static str {
        match self {
            Self::ApplyOps(_) => "applyOps",
            Self::CreateWorkspace => "createWorkspace",
            Self::DeleteNode(..) => "deleteNode",
            Self::DeletePresence(_) => "deletePresence",
            Self::DeleteWorkspace(_) => "deleteWorkspace",
            Self::EditDocument(..) => "editDocument",
            Self::Health => "health",
            Self::ListChanges(_) => "listChanges",
            Self::ListNodes(_) => "listNodes",
            Self::ListPresence(_) => "listPresence",
            Self::ListRelays => "listRelays",
            Self::ListSignals(_) => "listSignals",
            Self::Mcp => "mcp",
            Self::MintToken(_) => "mintToken",
            Self::MoveNode(..) => "moveNode",
            Self::OpenApi => "openapi",
            Self::PatchNode(..) => "patchNode",
            Self::PostUpdate(..) => "postUpdate",
            Self::PutNode(..) => "putNode",
            Self::PutPresence(_) => "putPresence",
            Self::ReadDocument(..) => "readDocument",
            Self::ReplaceDocument(..) => "replaceDocument",
            Self::ReadNode(..) => "readNode",
            Self::ReadWorkspace(_) => "readWorkspace",
            Self::Ready => "ready",
            Self::Relay(_, None) => "relayWorkspace",
            Self::Relay(_, Some(_)) => "relayDocument",
            Self::ReportTelemetry => "reportTelemetry",
            Self::SendSignal(_) => "sendSignal",
            Self::StreamChanges(_) => "streamChanges",
        }
    }

    /// Whether the caller shows an API token. The open routes need none, and a relay takes a scope token.
    #[must_use]
    pub const fn needs_api_token(&self) -> bool {
        !matches!(self, Self::Health | Self::OpenApi | Self::Ready | Self::Relay(..))
    }

    /// The workspace the route is about, for the check of the caller's role.
    #[must_use]
    pub const fn workspace(&self) -> Option<&WorkspaceId> {
        match self {
            Self::CreateWorkspace
            | Self::Health
            | Self::ListRelays
            | Self::Mcp
            | Self::OpenApi
            | Self::Ready
            | Self::ReportTelemetry => None,
            Self::ApplyOps(id)
            | Self::DeleteNode(id, _)
            | Self::DeletePresence(id)
            | Self::DeleteWorkspace(id)
            | Self::EditDocument(id, _)
            | Self::ListChanges(id)
            | Self::ListNodes(id)
            | Self::ListPresence(id)
            | Self::ListSignals(id)
            | Self::MintToken(id)
            | Self::MoveNode(id, _)
            | Self::PatchNode(id, _)
            | Self::PostUpdate(id, _)
            | Self::PutNode(id, _)
            | Self::PutPresence(id)
            | Self::ReadDocument(id, _)
            | Self::ReplaceDocument(id, _)
            | Self::ReadNode(id, _)
            | Self::ReadWorkspace(id)
            | Self::Relay(id, _)
            | Self::SendSignal(id)
            | Self::StreamChanges(id) => Some(id),
        }
    }
}

/// The endpoint of a request. A query string after the path is ignored.
///
/// # Errors
/// `not_found`, `method_not_allowed` with the methods that work, `invalid_workspace_id` or
/// `invalid_path`.
pub fn route(method: &str, path: &str) -> Result<Route, Problem> {
    let resource = Resource::find(path)?;
    match (method, &resource) {
        // Only as a document's name does the whole address have to fit the limits of a path.
        (
            "GET" | "PUT" | "PATCH" | "DELETE",
            Resource::DocumentOr(_, _, Err(problem), _) | Resource::NodeOrMove(_, Err(problem), _),
        ) => Err(problem.clone()),
        _ => resource.route(method).ok_or_else(|| Problem::method_not_allowed(resource.allow())),
    }
}

/// The methods of an address, as `Allow` and `Access-Control-Allow-Methods` write them.
///
/// # Errors
/// As [`route`], except for the method.
pub fn allowed_methods(path: &str) -> Result<&'static str, Problem> {
    Resource::find(path).map(|resource| resource.allow())
}

/// What is posted to a document.
#[derive(Clone, Copy)]
enum Part {
    Edits,
    Updates,
}

/// An address before its method is looked at.
enum Resource {
    Changes(WorkspaceId),
    ChangeStream(WorkspaceId),
    Document(WorkspaceId, NodePath),
    /// An address that ends in `/edits` or `/updates`: a document of that name, or these of another.
    DocumentOr(Part, WorkspaceId, Result<NodePath, Problem>, NodePath),
    Health,
    Mcp,
    Node(WorkspaceId, NodePath),
    /// An address that ends in `/move`: a node of that name, or the move of another.
    NodeOrMove(WorkspaceId, Result<NodePath, Problem>, NodePath),
    Nodes(WorkspaceId),
    OpenApi,
    Ops(WorkspaceId),
    Presence(WorkspaceId),
    Ready,
    Relay(WorkspaceId, Option<NodePath>),
    Relays,
    Signals(WorkspaceId),
    Telemetry,
    Tokens(WorkspaceId),
    Workspace(WorkspaceId),
    Workspaces,
}

impl Resource {
    fn find(path: &str) -> Result<Self, Problem> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let Some(relative) = path.strip_prefix('/') else { return Err(ProblemCode::NotFound.into()) };
        let segments: Vec<&str> = relative.split('/').collect();
        Ok(match segments.as_slice() {
            ["healthz"] => Self::Health,
            ["mcp"] => Self::Mcp,
            ["readyz"] => Self::Ready,
            ["api", "openapi.json"] => Self::OpenApi,
            ["api", "relays"] => Self::Relays,
            ["api", "telemetry"] => Self::Telemetry,
            ["api", "workspaces"] => Self::Workspaces,
            ["api", "workspaces", id] => Self::Workspace(workspace(id)?),
            ["api", "workspaces", id, "changes"] => Self::Changes(workspace(id)?),
            ["api", "workspaces", id, "changes", "stream"] => Self::ChangeStream(workspace(id)?),
            ["api", "workspaces", id, "docs", path @ ..] if !path.is_empty() => Self::document(id, path)?,
            ["api", "workspaces", id, "nodes"] => Self::Nodes(workspace(id)?),
            ["api", "workspaces", id, "nodes", path @ ..] => Self::node(id, path)?,
            ["api", "workspaces", id, "ops"] => Self::Ops(workspace(id)?),
            ["api", "workspaces", id, "p2p", "signal"] => Self::Signals(workspace(id)?),
            ["api", "workspaces", id, "presence"] => Self::Presence(workspace(id)?),
            ["api", "workspaces", id, "tokens"] => Self::Tokens(workspace(id)?),
            // A slash after the id alone is still the workspace channel: never a second room.
            ["ws", id] | ["ws", id, ""] => Self::Relay(workspace(id)?, None),
            ["ws", id, path @ ..] => Self::Relay(workspace(id)?, Some(NodePath::from_segments(path)?)),
            _ => return Err(ProblemCode::NotFound.into()),
        })
    }

    fn document(id: &str, segments: &[&str]) -> Result<Self, Problem> {
        let id = workspace(id)?;
        let path = NodePath::from_segments(segments);
        let (part, parent) = match segments {
            [parent @ .., "edits"] if !parent.is_empty() => (Part::Edits, parent),
            [parent @ .., "updates"] if !parent.is_empty() => (Part::Updates, parent),
            _ => return Ok(Self::Document(id, path?)),
        };
        Ok(Self::DocumentOr(part, id, path, NodePath::from_segments(parent)?))
    }

    fn node(id: &str, segments: &[&str]) -> Result<Self, Problem> {
        let id = workspace(id)?;
        let path = NodePath::from_segments(segments);
        match segments {
            [parent @ .., "move"] if !parent.is_empty() => {
                Ok(Self::NodeOrMove(id, path, NodePath::from_segments(parent)?))
            }
            _ => Ok(Self::Node(id, path?)),
        }
    }

    fn route(&self, method: &str) -> Option<Route> {
        Some(match (method, self) {
            ("POST", Self::Workspaces) => Route::CreateWorkspace,
            ("GET", Self::Workspace(id)) => Route::ReadWorkspace(id.clone()),
            ("DELETE", Self::Workspace(id)) => Route::DeleteWorkspace(id.clone()),
            ("GET", Self::Nodes(id)) => Route::ListNodes(id.clone()),
            ("POST", Self::NodeOrMove(id, _, node)) => Route::MoveNode(id.clone(), node.clone()),
            (_, Self::Node(id, path) | Self::NodeOrMove(id, Ok(path), _)) => {
                let (id, path) = (id.clone(), path.clone());
                match method {
                    "GET" => Route::ReadNode(id, path),
                    "PUT" => Route::PutNode(id, path),
                    "PATCH" => Route::PatchNode(id, path),
                    "DELETE" => Route::DeleteNode(id, path),
                    _ => return None,
                }
            }
            ("POST", Self::Ops(id)) => Route::ApplyOps(id.clone()),
            ("GET", Self::Document(id, path) | Self::DocumentOr(_, id, Ok(path), _)) => {
                Route::ReadDocument(id.clone(), path.clone())
            }
            ("PUT", Self::Document(id, path) | Self::DocumentOr(_, id, Ok(path), _)) => {
                Route::ReplaceDocument(id.clone(), path.clone())
            }
            ("POST", Self::DocumentOr(Part::Edits, id, _, parent)) => {
                Route::EditDocument(id.clone(), parent.clone())
            }
            ("POST", Self::DocumentOr(Part::Updates, id, _, parent)) => {
                Route::PostUpdate(id.clone(), parent.clone())
            }
            ("GET", Self::Changes(id)) => Route::ListChanges(id.clone()),
            ("GET", Self::ChangeStream(id)) => Route::StreamChanges(id.clone()),
            ("GET", Self::Presence(id)) => Route::ListPresence(id.clone()),
            ("PUT", Self::Presence(id)) => Route::PutPresence(id.clone()),
            ("DELETE", Self::Presence(id)) => Route::DeletePresence(id.clone()),
            ("GET", Self::Signals(id)) => Route::ListSignals(id.clone()),
            ("POST", Self::Signals(id)) => Route::SendSignal(id.clone()),
            ("POST", Self::Tokens(id)) => Route::MintToken(id.clone()),
            ("POST", Self::Mcp) => Route::Mcp,
            ("GET", Self::Health) => Route::Health,
            ("GET", Self::Ready) => Route::Ready,
            ("GET", Self::OpenApi) => Route::OpenApi,
            ("GET", Self::Relays) => Route::ListRelays,
            ("POST", Self::Telemetry) => Route::ReportTelemetry,
            ("GET", Self::Relay(id, path)) => Route::Relay(id.clone(), path.clone()),
            _ => return None,
        })
    }

    const fn allow(&self) -> &'static str {
        match self {
            Self::Changes(_)
            | Self::ChangeStream(_)
            | Self::Health
            | Self::Nodes(_)
            | Self::OpenApi
            | Self::Ready
            | Self::Relay(..)
            | Self::Relays => "GET",
            Self::Document(..) => "GET, PUT",
            Self::DocumentOr(..) => "GET, PUT, POST",
            Self::NodeOrMove(..) => "GET, PUT, PATCH, DELETE, POST",
            Self::Node(..) => "GET, PUT, PATCH, DELETE",
            Self::Mcp | Self::Ops(_) | Self::Telemetry | Self::Tokens(_) | Self::Workspaces => "POST",
            Self::Presence(_) => "GET, PUT, DELETE",
            Self::Signals(_) => "GET, POST",
            Self::Workspace(_) => "GET, DELETE",
        }
    }
}

fn workspace(raw: &str) -> Result<WorkspaceId, Problem> {
    decode_segment(raw)
        .ok_or_else(|| ProblemCode::InvalidWorkspaceId.into())
        .and_then(|id| WorkspaceId::parse(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> WorkspaceId {
        WorkspaceId::parse(text).unwrap()
    }

    fn node(text: &str) -> NodePath {
        NodePath::parse(text).unwrap()
    }

    fn code(method: &str, path: &str) -> ProblemCode {
        route(method, path).unwrap_err().code
    }

    #[test]
    fn every_endpoint_has_its_method_and_address() {
        let w = || id("w-1");
        let table = [
            ("POST", "/api/workspaces", Route::CreateWorkspace),
            ("GET", "/api/workspaces/w-1", Route::ReadWorkspace(w())),
            ("DELETE", "/api/workspaces/w-1", Route::DeleteWorkspace(w())),
            ("GET", "/api/workspaces/w-1/nodes?prefix=a", Route::ListNodes(w())),
            ("GET", "/api/workspaces/w-1/nodes/jobs/42", Route::ReadNode(w(), node("jobs/42"))),
            ("PUT", "/api/workspaces/w-1/nodes/jobs/42", Route::PutNode(w(), node("jobs/42"))),
            ("PATCH", "/api/workspaces/w-1/nodes/jobs/42", Route::PatchNode(w(), node("jobs/42"))),
            ("DELETE", "/api/workspaces/w-1/nodes/%C3%A9", Route::DeleteNode(w(), node("é"))),
            ("POST", "/api/workspaces/w-1/ops", Route::ApplyOps(w())),
            ("GET", "/api/workspaces/w-1/docs/a/b", Route::ReadDocument(w(), node("a/b"))),
            ("POST", "/api/workspaces/w-1/docs/a/b/updates", Route::PostUpdate(w(), node("a/b"))),
            ("GET", "/api/workspaces/w-1/changes?since=3", Route::ListChanges(w())),
            ("GET", "/api/workspaces/w-1/changes/stream", Route::StreamChanges(w())),
            ("POST", "/api/workspaces/w-1/tokens", Route::MintToken(w())),
            ("GET", "/api/workspaces/w-1/presence?session=t", Route::ListPresence(w())),
            ("PUT", "/api/workspaces/w-1/presence", Route::PutPresence(w())),
            ("DELETE", "/api/workspaces/w-1/presence?session=t", Route::DeletePresence(w())),
            ("POST", "/api/workspaces/w-1/p2p/signal", Route::SendSignal(w())),
            ("GET", "/api/workspaces/w-1/p2p/signal?peer=b", Route::ListSignals(w())),
            ("POST", "/api/telemetry", Route::ReportTelemetry),
            ("POST", "/mcp", Route::Mcp),
            ("GET", "/api/relays", Route::ListRelays),
            ("GET", "/healthz", Route::Health),
            ("GET", "/readyz", Route::Ready),
            ("GET", "/api/openapi.json", Route::OpenApi),
            ("GET", "/ws/w-1", Route::Relay(w(), None)),
            ("GET", "/ws/w-1/notes/intro", Route::Relay(w(), Some(node("notes/intro")))),
        ];
        for (method, path, expected) in table {
            assert_eq!(route(method, path), Ok(expected), "{method} {path}");
        }
    }

    #[test]
    fn workspace_ids_of_the_case_list_open_one_room_or_none() {
        let room = Ok(Route::Relay(id("team-1"), None));
        for path in ["/ws/team-1", "/ws/team-1/", "/ws/team-1?x=1", "/ws/team%2D1"] {
            assert_eq!(route("GET", path), room, "{path}");
        }
        let long = format!("/ws/{}", "a".repeat(300));
        for path in ["/ws/", "/ws/a%2Fb", "/ws/..%2f..%2fapi", "/ws/%E2%9C%93", "/ws/✓", "/ws/%", &long] {
            assert_eq!(code("GET", path), ProblemCode::InvalidWorkspaceId, "{path}");
        }
        // Not two segments of an id: document `b` of workspace `a`.
        assert_eq!(route("GET", "/ws/a/b"), Ok(Route::Relay(id("a"), Some(node("b")))));
        assert_eq!(code("GET", "/ws/a/b/"), ProblemCode::InvalidPath);
        assert_eq!(code("GET", "/ws/a//"), ProblemCode::InvalidPath);
        assert_eq!(code("GET", "/ws"), ProblemCode::NotFound);
    }

    #[test]
    fn unknown_addresses_are_404() {
        let paths =
            ["", "/", "api/workspaces", "/api", "/api/workspaces/w/x", "/api/workspaces/w/docs", "/%77s/a"];
        for path in paths {
            assert_eq!(code("GET", path), ProblemCode::NotFound, "{path}");
        }
        assert_eq!(code("GET", "/api/workspaces/"), ProblemCode::InvalidWorkspaceId);
        assert_eq!(code("GET", "/api/workspaces/w/nodes/"), ProblemCode::InvalidPath);
        assert_eq!(code("GET", "/api/workspaces/w/nodes/a%2Fb"), ProblemCode::InvalidPath);
        assert_eq!(code("GET", "/api/workspaces/w/docs/a/../b"), ProblemCode::InvalidPath);
    }

    #[test]
    fn a_wrong_method_is_405_and_names_the_right_ones() {
        let allow = |method, path| route(method, path).unwrap_err().allow;
        assert_eq!(allow("POST", "/api/workspaces/w/nodes/a"), Some("GET, PUT, PATCH, DELETE"));
        assert_eq!(allow("GET", "/api/workspaces"), Some("POST"));
        assert_eq!(allow("get", "/healthz"), Some("GET"));
        assert_eq!((allow("GET", "/mcp"), allow("DELETE", "/mcp")), (Some("POST"), Some("POST")));
        assert_eq!(allow("POST", "/ws/a"), Some("GET"));
        assert_eq!(allow("POST", "/api/workspaces/w/docs/a"), Some("GET, PUT"));
        assert_eq!(allow("PATCH", "/api/workspaces/w/docs/a/updates"), Some("GET, PUT, POST"));
        assert_eq!(allowed_methods("/api/workspaces/w"), Ok("GET, DELETE"));
    }

    #[test]
    fn edits_and_moves_are_posted_to_what_they_are_of() {
        let post = |path| route("POST", path);
        assert_eq!(post("/api/workspaces/w/docs/a/b/edits"), Ok(Route::EditDocument(id("w"), node("a/b"))));
        assert_eq!(post("/api/workspaces/w/nodes/a/b/move"), Ok(Route::MoveNode(id("w"), node("a/b"))));
        assert_eq!(code("POST", "/api/workspaces/w/docs/edits"), ProblemCode::MethodNotAllowed);
        assert_eq!(code("POST", "/api/workspaces/w/nodes/move"), ProblemCode::MethodNotAllowed);
        let put = |path| route("PUT", path);
        assert_eq!(put("/api/workspaces/w/nodes/a/move"), Ok(Route::PutNode(id("w"), node("a/move"))));
        assert_eq!(
            put("/api/workspaces/w/docs/a/edits"),
            Ok(Route::ReplaceDocument(id("w"), node("a/edits")))
        );
        // 512 bytes with the last segment are too long for a name, and not for what it is of.
        let long = "a".repeat(510);
        assert!(post(&format!("/api/workspaces/w/nodes/{long}/move")).is_ok());
        assert_eq!(code("DELETE", &format!("/api/workspaces/w/nodes/{long}/move")), ProblemCode::InvalidPath);
    }

    #[test]
    fn a_document_named_updates_can_be_read_and_written() {
        let read = |path| route("GET", path).unwrap();
        assert_eq!(read("/api/workspaces/w/docs/a/updates"), Route::ReadDocument(id("w"), node("a/updates")));
        assert_eq!(read("/api/workspaces/w/docs/updates"), Route::ReadDocument(id("w"), node("updates")));
        assert_eq!(
            route("POST", "/api/workspaces/w/docs/a/updates/updates"),
            Ok(Route::PostUpdate(id("w"), node("a/updates")))
        );
        assert_eq!(
            route("POST", "/api/workspaces/w/docs/updates/updates"),
            Ok(Route::PostUpdate(id("w"), node("updates")))
        );
        assert_eq!(code("POST", "/api/workspaces/w/docs/updates"), ProblemCode::MethodNotAllowed);
        let longest = format!("/api/workspaces/w/docs/{}/updates", "x".repeat(512));
        assert_eq!(route("POST", &longest), Ok(Route::PostUpdate(id("w"), node(&"x".repeat(512)))));
        assert_eq!(code("GET", &longest), ProblemCode::InvalidPath);
    }

    #[test]
    fn a_route_names_its_workspace_for_the_role_check() {
        assert_eq!(route("GET", "/ws/w/doc").unwrap().workspace(), Some(&id("w")));
        assert_eq!(route("POST", "/api/workspaces").unwrap().workspace(), None);
    }

    #[test]
    fn a1_only_the_open_routes_and_relays_need_no_api_token() {
        for open in ["/healthz", "/readyz", "/api/openapi.json", "/ws/w", "/ws/w/d"] {
            assert!(!route("GET", open).unwrap().needs_api_token(), "{open}");
        }
        for closed in ["/api/relays", "/api/workspaces/w", "/api/workspaces/w/changes/stream"] {
            assert!(route("GET", closed).unwrap().needs_api_token(), "{closed}");
        }
        assert!(route("POST", "/mcp").unwrap().needs_api_token());
    }
}
