//! The OpenAPI 3.1 description of the API, as `/api/openapi.json` serves it.

// The Worker serves `openapi.json` beside this file, without its whitespace. It is no part of the
// module: the build puts it into a script of its own (`xtask`), which `edge::openapi` answers with.

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::{Map, Value, json};

    use crate::api::limits::{
        DEFAULT_PAGE, DEFAULT_PRESENCE_SECONDS, MAX_OPS, MAX_PAGE, MAX_PEER_BYTES, MAX_PRESENCE_SECONDS,
        MAX_SESSION_BYTES, MAX_TELEMETRY_EVENTS, MAX_TELEMETRY_LABELS, MIN_PRESENCE_SECONDS,
    };
    use crate::api::op::parse_ops;
    use crate::api::path::{NodePath, WorkspaceId};
    use crate::api::problem::{Problem, ProblemCode};
    use crate::api::resource::{
        ChangeList, EditAnswer, Health, Node, NodeKind, NodeList, OpsAnswer, PresenceEntry, PresenceList,
        RelayList, RelaySummary, Signal, SignalAnswer, SignalList, StoredTelemetry, TokenAnswer,
        UpdateAnswer, Workspace, WriteAnswer,
    };
    use crate::api::route::{Route, allowed_methods, route};
    use crate::api::telemetry::{ADVANCE, CYCLE_ALL_FAILED, TRIGGERS};
    use crate::protocol::change::{Change, ChangeKind};

    /// The text. These tests hold it against the routes, the codes and the answers, so it is edited
    /// by hand together with them.
    const OPENAPI: &str = include_str!("openapi.json");
    const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

    fn document() -> Value {
        serde_json::from_str(OPENAPI).unwrap()
    }

    /// Every operation: method in upper case, path template, operation.
    fn operations(document: &Value) -> Vec<(String, String, &Value)> {
        let mut found = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in METHODS {
                if let Some(operation) = item.get(method) {
                    found.push((method.to_uppercase(), path.clone(), operation));
                }
            }
        }
        found
    }

    fn example(template: &str) -> String {
        template.replace("{workspaceId}", "w-1").replace("{path}", "a/b")
    }

    /// One of each route. The match makes a new variant a compile error here.
    fn every_route() -> Vec<Route> {
        let id = || WorkspaceId::parse("w-1").unwrap();
        let path = || NodePath::parse("a/b").unwrap();
        let routes = vec![
            Route::ApplyOps(id()),
            Route::CreateWorkspace,
            Route::DeleteNode(id(), path()),
            Route::DeletePresence(id()),
            Route::DeleteWorkspace(id()),
            Route::EditDocument(id(), path()),
            Route::Health,
            Route::ListChanges(id()),
            Route::ListNodes(id()),
            Route::ListPresence(id()),
            Route::ListRelays,
            Route::ListSignals(id()),
            Route::Mcp,
            Route::MintToken(id()),
            Route::MoveNode(id(), path()),
            Route::OpenApi,
            Route::PatchNode(id(), path()),
            Route::PostUpdate(id(), path()),
            Route::PutNode(id(), path()),
            Route::PutPresence(id()),
            Route::ReadDocument(id(), path()),
            Route::ReadNode(id(), path()),
            Route::ReplaceDocument(id(), path()),
            Route::ReadWorkspace(id()),
            Route::Ready,
            Route::Relay(id(), None),
            Route::Relay(id(), Some(path())),
            Route::ReportTelemetry,
            Route::SendSignal(id()),
            Route::StreamChanges(id()),
        ];
        for route in &routes {
            match route {
                Route::ApplyOps(_)
                | Route::CreateWorkspace
                | Route::DeleteNode(..)
                | Route::DeletePresence(_)
                | Route::DeleteWorkspace(_)
                | Route::EditDocument(..)
                | Route::Health
                | Route::ListChanges(_)
                | Route::ListNodes(_)
                | Route::ListPresence(_)
                | Route::ListRelays
                | Route::ListSignals(_)
                | Route::Mcp
                | Route::MintToken(_)
                | Route::MoveNode(..)
                | Route::OpenApi
                | Route::PatchNode(..)
                | Route::PostUpdate(..)
                | Route::PutNode(..)
                | Route::PutPresence(_)
                | Route::ReadDocument(..)
                | Route::ReadNode(..)
                | Route::ReplaceDocument(..)
                | Route::ReadWorkspace(_)
                | Route::Ready
                | Route::Relay(..)
                | Route::ReportTelemetry
                | Route::SendSignal(_)
                | Route::StreamChanges(_) => {}
            }
        }
        routes
    }

    fn codes_in(description: &str) -> BTreeSet<String> {
        description.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_documented_operation_routes_to_the_route_of_its_id() {
        for (method, template, operation) in operations(&document()) {
            let route = route(&method, &example(&template)).unwrap();
            assert_eq!(operation["operationId"], route.operation_id(), "{method} {template}");
        }
    }

    #[test]
    fn every_route_is_documented_once_and_no_method_is_missing() {
        let document = document();
        let operations = operations(&document);
        let documented: BTreeSet<&str> =
            operations.iter().map(|(.., operation)| operation["operationId"].as_str().unwrap()).collect();
        assert_eq!(documented.len(), operations.len(), "an id is used twice");
        assert_eq!(documented, every_route().iter().map(Route::operation_id).collect());
        let mut methods: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (method, template, _) in &operations {
            methods.entry(template).or_default().insert(method);
        }
        for (template, methods) in methods {
            // An address that ends so is the address of a document or of a node as well.
            let is_part = ["/edits", "/move", "/updates"].iter().any(|end| template.ends_with(end));
            let own = |method: &&str| !is_part || *method == "POST";
            let allowed: BTreeSet<&str> =
                allowed_methods(&example(template)).unwrap().split(", ").filter(own).collect();
            assert_eq!(methods, allowed, "{template}");
        }
    }

    #[test]
    fn every_code_is_documented_at_its_status_and_no_other() {
        let document = document();
        let statuses: BTreeMap<&str, u16> =
            ProblemCode::ALL.iter().map(|code| (code.info().name, code.info().status)).collect();
        let listed = document["components"]["schemas"]["ProblemCode"]["enum"].as_array().unwrap();
        let listed: Vec<&str> = listed.iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(listed, ProblemCode::ALL.iter().map(|code| code.info().name).collect::<Vec<_>>());
        let at_address = document["x-address-problem-codes"].as_array().unwrap();
        let mut seen: BTreeSet<String> =
            at_address.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        for (method, template, operation) in operations(&document) {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let Some(reference) = response["$ref"].as_str() else { continue };
                let shared = document.pointer(reference.trim_start_matches('#')).unwrap();
                let description = response.get("description").unwrap_or(&shared["description"]);
                let codes = codes_in(description.as_str().unwrap());
                assert!(!codes.is_empty(), "{method} {template} {status}");
                for code in &codes {
                    assert_eq!(statuses[code.as_str()].to_string(), *status, "{method} {template}: {code}");
                }
                seen.extend(codes);
            }
        }
        assert_eq!(seen, statuses.keys().map(|name| (*name).to_owned()).collect());
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_component_is_used() {
        fn collect(value: &Value, references: &mut BTreeSet<String>) {
            match value {
                Value::Object(members) => {
                    if let Some(Value::String(reference)) = members.get("$ref") {
                        references.insert(reference.trim_start_matches('#').to_owned());
                    }
                    members.values().for_each(|member| collect(member, references));
                }
                Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
                _ => {}
            }
        }
        let document = document();
        let mut references = BTreeSet::new();
        collect(&document, &mut references);
        let mut components = BTreeSet::new();
        for group in ["headers", "parameters", "responses", "schemas"] {
            let names = document["components"][group].as_object().unwrap().keys();
            components.extend(names.map(|name| format!("/components/{group}/{name}")));
        }
        assert_eq!(references, components);
    }

    #[test]
    fn the_answers_have_the_members_of_their_schemas() {
        let change =
            Change { clock: 1, kind: ChangeKind::Put, path: "a".to_owned(), actor: "ada".to_owned(), at: 1 };
        let node = Node { path: "a".to_owned(), kind: NodeKind::Record, clock: 1, value: Some(Value::Null) };
        let relay =
            RelaySummary { label: "cf".to_owned(), advances_from: 1, advances_to: 0, last_advance_at: 1 };
        let signal = Signal {
            id: 1,
            from: "a".to_owned(),
            sub: "ada".to_owned(),
            topic: "t".to_owned(),
            data: Value::Null,
        };
        let present = PresenceEntry {
            sub: "ada".to_owned(),
            kind: "human",
            session: None,
            state: None,
            expires_at: None,
            own: false,
        };
        let answers = json!({
            "Change": change,
            "ChangeList": ChangeList { changes: vec![change.clone()], head: 1, floor: 0 },
            "EditAnswer": EditAnswer { clock: 1, epoch: 0, state_vector: String::new() },
            "Health": Health { status: "ok" },
            "Node": node,
            "NodeList": NodeList { nodes: vec![node.clone()], next: None, head: 1 },
            "OpsAnswer": OpsAnswer { clocks: vec![1], clock: 1 },
            "PresenceEntry": present,
            "PresenceList": PresenceList { presence: vec![present.clone()], other_humans: 0, complete: true },
            "RelayList": RelayList { relays: vec![relay.clone()], cycles_all_failed: 0, since: 1 },
            "RelaySummary": relay,
            "Signal": signal,
            "SignalAnswer": SignalAnswer { id: 1, expires_at: 1 },
            "SignalList": SignalList { signals: vec![signal.clone()] },
            "StoredTelemetry": StoredTelemetry { stored: 1 },
            "TokenAnswer": TokenAnswer { token: "t".to_owned(), expires_at: 1, peer_secret: Some("s".to_owned()) },
            "UpdateAnswer": UpdateAnswer { clock: 1, epoch: 0, missed: Some(false) },
            "Workspace": Workspace { id: "w".to_owned(), head: 1, floor: 0 },
            "WriteAnswer": WriteAnswer { clock: 1, path: "a".to_owned() },
        });
        let document = document();
        let names = |object: &Map<String, Value>| object.keys().cloned().collect::<BTreeSet<_>>();
        for (name, answer) in answers.as_object().unwrap() {
            let properties = document["components"]["schemas"][name]["properties"].as_object().unwrap();
            assert_eq!(names(answer.as_object().unwrap()), names(properties), "{name}");
        }
        // A record may hold null, which is not the same as having no value.
        assert!(answers["Node"].as_object().unwrap().contains_key("value"));
    }

    #[test]
    fn problems_and_kinds_and_limits_are_as_the_schemas_say() {
        let document = document();
        let schemas = &document["components"]["schemas"];
        let problem = schemas["Problem"]["properties"].as_object().unwrap();
        for shown in [
            Problem::precondition_failed(Some(1), None),
            Problem::cursor_gone(2, 1),
            parse_ops(b"{\"ops\":[1]}").unwrap_err(),
            parse_ops(b"{\"ops\":[]}").unwrap_err(),
        ] {
            let body: Value = serde_json::from_str(&shown.body()).unwrap();
            assert!(body.as_object().unwrap().keys().all(|name| problem.contains_key(name)), "{body}");
        }
        let kinds: Vec<&str> = ChangeKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(schemas["Change"]["properties"]["kind"]["enum"], json!(kinds));
        assert_eq!(schemas["Ops"]["properties"]["ops"]["maxItems"], MAX_OPS);
        assert_eq!(schemas["Edits"]["properties"]["edits"]["maxItems"], MAX_OPS);
        let event = &schemas["TelemetryEvent"]["oneOf"];
        assert_eq!(event[0]["properties"]["trigger"]["enum"], json!(TRIGGERS));
        assert_eq!(event[0]["properties"]["name"]["const"], ADVANCE);
        assert_eq!(event[1]["properties"]["name"]["const"], CYCLE_ALL_FAILED);
        assert_eq!(event[1]["properties"]["labels"]["maxItems"], MAX_TELEMETRY_LABELS);
        assert_eq!(schemas["Telemetry"]["properties"]["events"]["maxItems"], MAX_TELEMETRY_EVENTS);
        let ttl = &schemas["PresenceRequest"]["properties"]["ttl"];
        assert_eq!(
            (&ttl["minimum"], &ttl["maximum"]),
            (&json!(MIN_PRESENCE_SECONDS), &json!(MAX_PRESENCE_SECONDS))
        );
        assert_eq!(ttl["default"], DEFAULT_PRESENCE_SECONDS);
        assert_eq!(schemas["PeerId"]["maxLength"], MAX_PEER_BYTES);
        assert_eq!(schemas["SessionName"]["maxLength"], MAX_SESSION_BYTES);
        let limit = &document["components"]["parameters"]["limit"]["schema"];
        assert_eq!((&limit["maximum"], &limit["default"]), (&json!(MAX_PAGE), &json!(DEFAULT_PAGE)));
    }
}
