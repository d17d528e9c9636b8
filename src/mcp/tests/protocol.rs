//! JSON-RPC, revisions, headers.

use super::*;
use crate::mcp::revision::{LEGACY, MODERN};
use crate::mcp::rpc::{self, RpcError};

fn nobody() -> Caller {
    caller(&[])
}

fn raw(headers: Headers<'_>, body: &str) -> Reply {
    reply(open(&headers, body.as_bytes(), &nobody()).unwrap())
}

/// A request of the current revision; `change` makes it a wrong one.
fn modern(change: impl Fn(&mut Value, &mut Headers<'_>)) -> (u16, Value) {
    let mut body = json!({
        "jsonrpc": "2.0", "id": "é1", "method": "tools/list", "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}
        }}
    });
    let mut headers =
        Headers { accept: None, protocol_version: Some(MODERN), method: Some("tools/list"), name: None };
    change(&mut body, &mut headers);
    let reply = raw(headers, &body.to_string());
    (reply.status, json_of(&reply))
}

#[test]
fn a_request_of_the_current_revision_gets_its_type_its_server_and_how_long_it_keeps() {
    let (status, answer) = modern(|_, _| ());
    assert_eq!((status, &answer["id"]), (200, &json!("é1")));
    let result = &answer["result"];
    assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("public")));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "yrelay");
    let (_, answer) = modern(|body, headers| {
        body["method"] = "server/discover".into();
        headers.method = Some("server/discover");
    });
    assert_eq!(answer["result"]["supportedVersions"], json!(["2026-07-28", "2025-11-25", "2025-06-18"]));
    assert!(answer["result"]["capabilities"]["tools"].is_object());
}

#[test]
fn m02_headers_that_do_not_say_what_the_body_says_are_refused() {
    const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    let code = |change: &dyn Fn(&mut Value, &mut Headers<'_>)| {
        let (status, answer) = modern(change);
        assert_eq!(status, 400, "{answer}");
        answer["error"]["code"].as_i64().unwrap()
    };
    assert_eq!(code(&|_, headers| headers.protocol_version = None), -32020);
    assert_eq!(code(&|_, headers| headers.protocol_version = Some("2025-11-25")), -32020);
    assert_eq!(code(&|_, headers| headers.method = None), -32020);
    assert_eq!(code(&|_, headers| headers.method = Some("tools/call")), -32020);
    assert_eq!(code(&|body, _| body["params"] = json!({})), -32602);
    assert_eq!(
        code(&|body, _| body["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": MODERN})),
        -32602
    );
    let other = |body: &mut Value, headers: &mut Headers<'_>| {
        body["params"]["_meta"][VERSION] = "1900-01-01".into();
        headers.protocol_version = Some("1900-01-01");
    };
    assert_eq!(code(&other), -32022);
    let (_, answer) = modern(other);
    assert_eq!(answer["error"]["data"]["requested"], "1900-01-01");
    assert_eq!(answer["error"]["data"]["supported"][0], MODERN);
}

#[test]
fn m02_the_name_of_a_tool_or_resource_stands_in_its_header_too() {
    let named = |method: &'static str, member: &str, value: &str, name: Option<&'static str>| {
        modern(|body, headers| {
            body["method"] = method.into();
            body["params"][member] = value.into();
            headers.method = Some(method);
            headers.name = name;
        })
        .1["error"]["code"]
            .clone()
    };
    // The right name passes, and there is no such tool.
    assert_eq!(named("tools/call", "name", "x", Some("x")), -32602);
    assert_eq!(named("tools/call", "name", "x", Some("y")), -32020);
    assert_eq!(named("tools/call", "name", "x", None), -32020);
    assert_eq!(named("resources/read", "uri", "é", Some("=?base64?w6k=?=")), -32602);
    for wrong in ["=?base64?w6k?=", "=?base64?%%%?=", "=?base64?/w==?=", ""] {
        assert_eq!(named("resources/read", "uri", "é", Some(wrong)), -32020, "{wrong}");
    }
}

#[test]
fn a_method_is_of_its_era() {
    let code = |answer: &Value| answer["error"]["code"].clone();
    for method in ["server/discover", "prompts/list", "subscriptions/listen", "resources/subscribe", ""] {
        let reply = reply(step(method, &json!({}), &nobody()));
        assert_eq!((reply.status, code(&json_of(&reply))), (200, json!(-32601)), "{method}");
    }
    for method in ["initialize", "ping", "logging/setLevel"] {
        let (status, answer) = modern(|body, headers| {
            body["method"] = method.into();
            headers.method = Some(method);
        });
        assert_eq!((status, code(&answer)), (404, json!(-32601)), "{method}");
    }
    assert_eq!(response("ping", &json!({}), &nobody())["result"], json!({}));
}

#[test]
fn initialize_agrees_on_a_revision_of_its_era() {
    let version = |asked: Value| {
        let answer = response("initialize", &json!({ "protocolVersion": asked }), &nobody());
        assert!(answer["result"].get("resultType").is_none());
        assert!(answer["result"]["capabilities"]["resources"].is_object());
        assert_eq!(answer["result"]["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        answer["result"]["protocolVersion"].clone()
    };
    for known in LEGACY {
        assert_eq!(version(known.into()), known);
    }
    for other in [json!("2024-11-05"), json!(MODERN), json!(null), json!(1)] {
        assert_eq!(version(other), LEGACY[0]);
    }
}

#[test]
fn what_is_no_message_is_refused_with_400() {
    let cases = [
        ("", -32700, json!(null)),
        ("{", -32700, json!(null)),
        (&"[".repeat(70), -32700, json!(null)),
        ("[]", -32600, json!(null)),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, json!(null)),
        ("1", -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, json!(1)),
        (r#"{"id":1,"method":"ping"}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":"a","method":7}"#, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, -32600, json!(1)),
    ];
    for (body, code, id) in cases {
        let reply = raw(Headers::default(), body);
        let answer = json_of(&reply);
        assert_eq!((reply.status, &answer["error"]["code"]), (400, &json!(code)), "{body}");
        assert_eq!(answer["id"], id, "{body}");
        // An id that is not known is left out, and never null.
        assert_eq!(answer.get("id").is_some(), !id.is_null(), "{body}");
    }
}

#[test]
fn a_notification_is_taken_without_an_answer() {
    let body = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(raw(Headers::default(), body), Reply { status: 202, body: None });
    let version = Headers { protocol_version: Some("1900-01-01"), ..Headers::default() };
    assert_eq!(raw(version, body).status, 400);
}

#[test]
fn m02_accept_may_be_absent_or_wide_but_not_without_json() {
    let body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let status = |accept| {
        let headers = Headers { accept, ..Headers::default() };
        open(&headers, body, &nobody()).map_or_else(|problem| problem.status(), |step| reply(step).status)
    };
    for good in [None, Some(""), Some("*/*"), Some("application/json"), Some("application/*;q=0.1")] {
        assert_eq!(status(good), 200, "{good:?}");
    }
    assert_eq!(status(Some("application/json, text/event-stream")), 200);
    for bad in ["text/event-stream", "text/html, application/json;q=0", "*/*, application/json;q=0"] {
        assert_eq!(status(Some(bad)), 406, "{bad}");
    }
}

#[test]
fn p8_no_message_ends_the_process() {
    let fragments =
        ["null", "1", "\"a\"", "[]", "{}", "-1", "1e99", "\"*\"", "\"../a\"", "\"workspace://w/a\""];
    let methods = ["tools/call", "resources/read", "resources/list", "initialize", "tools/list"];
    let tools = ["list_nodes", "write_node", "wait_for_changes", "read_document", "nothing"];
    for (method, value) in methods.iter().flat_map(|m| fragments.iter().map(move |f| (m, f))) {
        for (tool, name) in tools.iter().flat_map(|t| ["path", "since", "value", "workspace"].map(|n| (t, n)))
        {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"uri":{value},"cursor":{value},"protocolVersion":{value},"_meta":{value},"name":"{tool}","arguments":{{"{name}":{value}}}}}}}"#
            );
            assert!(open(&Headers::default(), body.as_bytes(), &nobody()).is_ok());
        }
    }
}

#[test]
fn problems_of_resources_are_errors_of_the_protocol_with_code_and_cure() {
    use crate::api::problem::{Problem, ProblemCode};
    use crate::mcp::revision::Revision;
    let told = |code: ProblemCode, revision| {
        json_of(&RpcError::of(&Problem::new(code), revision).reply(Some(&json!(1))))["error"].clone()
    };
    assert_eq!(told(ProblemCode::NodeNotFound, Revision::Legacy)["code"], rpc::RESOURCE_NOT_FOUND);
    assert_eq!(told(ProblemCode::NodeNotFound, Revision::Modern)["code"], rpc::INVALID_PARAMS);
    let failed = told(ProblemCode::StorageUnavailable, Revision::Modern);
    assert_eq!((&failed["code"], &failed["data"]["code"]), (&json!(-32603), &json!("storage_unavailable")));
    assert!(failed["data"]["cure"].as_str().unwrap().contains("Retry"));
}
