//! Calls of the REST API, and what of their answers counts.

use crate::api::path::{NodePath, WorkspaceId};

/// A call of the REST API, as a request to its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestCall {
    /// The method.
    pub method: &'static str,
    path: String,
    pub(super) query: Vec<(&'static str, String)>,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Option<String>,
}

impl RestCall {
    /// A call of what a workspace has once.
    pub(super) fn of_workspace(method: &'static str, workspace: &WorkspaceId, name: &str) -> Self {
        let path = format!("/api/workspaces/{workspace}/{name}");
        Self { method, path, query: Vec::new(), headers: Vec::new(), body: None }
    }

    /// A call of a record or a document.
    pub(super) fn of_node(
        method: &'static str,
        workspace: &WorkspaceId,
        collection: Collection,
        path: &NodePath,
    ) -> Self {
        let name = match collection {
            Collection::Documents => "docs/",
            Collection::Nodes => "nodes/",
        };
        let mut call = Self::of_workspace(method, workspace, name);
        percent_encode(path.as_str(), "/", &mut call.path);
        call
    }

    /// The same of a part of it.
    pub(super) fn part(mut self, name: &str) -> Self {
        self.path.push('/');
        self.path.push_str(name);
        self
    }

    /// The address, from the root.
    #[must_use]
    pub fn address(&self) -> String {
        let mut address = self.path.clone();
        for (index, (name, value)) in self.query.iter().enumerate() {
            address.push(if index == 0 { '?' } else { '&' });
            address.push_str(name);
            address.push('=');
            percent_encode(value, "", &mut address);
        }
        address
    }
}

/// Where nodes have their addresses.
#[derive(Clone, Copy)]
pub(super) enum Collection {
    Documents,
    Nodes,
}

/// What a call of the REST API answered; a refusal is a problem instead.
#[derive(Debug, Clone, Default)]
pub struct RestAnswer {
    /// The body.
    pub body: String,
    /// `ETag`: the clock of what was read or written.
    pub clock: Option<u64>,
    /// `Yrelay-Epoch`.
    pub epoch: Option<u64>,
    /// `Yrelay-Head`.
    pub head: Option<u64>,
    /// `Idempotency-Replayed`.
    pub replayed: bool,
}

impl RestAnswer {
    /// Takes what counts out of a response; `field` finds a header.
    #[must_use]
    pub fn new(body: String, field: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| field(name).and_then(|text| text.trim_matches('"').parse().ok());
        Self {
            body,
            clock: number("ETag"),
            epoch: number("Yrelay-Epoch"),
            head: number("Yrelay-Head"),
            replayed: field("Idempotency-Replayed").is_some(),
        }
    }
}

/// Appends a text as it stands in an address. `kept` are the reserved characters that stay.
pub(super) fn percent_encode(text: &str, kept: &str, address: &mut String) {
    for byte in text.bytes() {
        let character = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-._~".contains(character) || kept.contains(character) {
            address.push(character);
        } else {
            address.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::query::Query;
    use crate::api::route::{Route, route};

    #[test]
    fn an_address_leads_to_the_node_and_the_parameters_that_it_was_made_of() {
        let workspace = WorkspaceId::parse("w").unwrap();
        for name in
            ["a/b", "é 😀", "a?b#c", "100%", "a%2Fb", "edits", "a/edits", "x\\y", "+&=;", "...", "a\u{200b}"]
        {
            let path = NodePath::parse(name).unwrap();
            let nodes = RestCall::of_node("PUT", &workspace, Collection::Nodes, &path);
            let found = route(nodes.method, &nodes.address());
            assert_eq!(found, Ok(Route::PutNode(workspace.clone(), path.clone())), "{name}");
            let edits = RestCall::of_node("POST", &workspace, Collection::Documents, &path).part("edits");
            let found = route(edits.method, &edits.address());
            assert_eq!(found, Ok(Route::EditDocument(workspace.clone(), path.clone())), "{name}");
            let mut list = RestCall::of_workspace("GET", &workspace, "nodes");
            list.query = vec![("prefix", name.to_owned()), ("after", String::new())];
            let address = list.address();
            let (before, query) = address.split_once('?').unwrap();
            assert_eq!(route("GET", before), Ok(Route::ListNodes(workspace.clone())));
            let query = Query::parse(query).unwrap();
            assert_eq!((query.value("prefix"), query.value("after")), (Ok(Some(name)), Ok(Some(""))));
        }
    }

    #[test]
    fn an_answer_has_the_numbers_of_its_headers() {
        let fields = [("ETag", "\"7\""), ("Yrelay-Epoch", "2"), ("Yrelay-Head", "9")];
        let find = |name: &str| {
            let found = fields.iter().find(|(field, _)| *field == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let answer = RestAnswer::new("x".to_owned(), find);
        assert_eq!(
            (answer.clock, answer.epoch, answer.head, answer.replayed),
            (Some(7), Some(2), Some(9), false)
        );
        let bare = RestAnswer::new(String::new(), |name| (name == "Idempotency-Replayed").then(String::new));
        assert_eq!((bare.clock, bare.head, bare.replayed), (None, None, true));
    }
}
