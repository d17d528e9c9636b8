//! Nodes as resources.

use super::*;
use crate::api::problem::{Problem, ProblemCode};
use crate::mcp::limits::{MAX_SHOWN_URI_BYTES, MAX_TEXT_BYTES};

fn two() -> Caller {
    caller(&["v", "w", "*"])
}

fn page(cursor: &Value, answer: Result<RestAnswer, Problem>) -> (RestCall, Value) {
    let task = task(step("resources/list", &json!({ "cursor": cursor }), &two()));
    let call = task.call().clone();
    (call, json_of(&reply(task.handle_answer(answer, 0)))["result"].clone())
}

#[test]
fn a_list_goes_through_the_workspaces_that_the_token_names() {
    let nodes = |paths: &[&str], next: Option<&str>| {
        let nodes: Vec<Value> =
            paths.iter().map(|path| json!({"path": path, "kind": "record", "clock": 1})).collect();
        Ok(answered(&json!({ "nodes": nodes, "next": next, "head": 1 })))
    };
    let (call, first) = page(&json!(null), nodes(&["a", "b/é ?"], Some("b/é ?")));
    assert_eq!(route_of(&call).workspace().unwrap().as_str(), "v");
    assert_eq!(first["resources"][1]["uri"], "workspace://v/b/%C3%A9%20%3F");
    let (call, second) = page(&first["nextCursor"], nodes(&["c"], None));
    assert_eq!(call.query[0], ("after", "b/é ?".to_owned()));
    let (call, third) = page(&second["nextCursor"], Err(ProblemCode::WorkspaceDeleted.into()));
    assert_eq!(route_of(&call).workspace().unwrap().as_str(), "w");
    assert_eq!(third, json!({"resources": []}));
    assert_eq!(response("resources/list", &json!({}), &caller(&["*"]))["result"]["resources"], json!([]));
}

#[test]
fn a_cursor_of_another_token_or_of_nobody_is_refused() {
    for cursor in [json!("x/a"), json!("v"), json!(""), json!(7), json!("*/a")] {
        let answer = response("resources/list", &json!({ "cursor": cursor }), &two());
        assert_eq!(answer["error"]["code"], -32602, "{cursor}");
    }
    for method in ["tools/list", "resources/templates/list"] {
        assert_eq!(response(method, &json!({"cursor": "x"}), &two())["error"]["code"], -32602);
    }
}

/// Reads a resource to its end; `answers` are those of the calls, in order.
fn content(uri: &str, answers: Vec<Result<RestAnswer, Problem>>) -> Value {
    let mut next = step("resources/read", &json!({ "uri": uri }), &two());
    for answer in answers {
        next = task(next).handle_answer(answer, 0);
    }
    json_of(&reply(next))
}

#[test]
fn a_record_is_its_value_and_a_document_the_json_of_its_roots() {
    let record = json!({"path": "é/a b", "kind": "record", "clock": 1, "value": [1]});
    let uri = "workspace://w/%C3%A9/a%20b";
    let shown = &content(uri, vec![Ok(answered(&record))])["result"]["contents"][0];
    assert_eq!(shown, &json!({"uri": uri, "mimeType": "application/json", "text": "[1]"}));
    let node = json!({"path": "d", "kind": "document", "clock": 1});
    let text = json!({"content": "hi"});
    let shown = content("workspace://w/d", vec![Ok(answered(&node)), Ok(answered(&text))]);
    assert_eq!(shown["result"]["contents"][0]["text"], text.to_string());
    let first = task(step("resources/read", &json!({"uri": "workspace://w/d"}), &two()));
    let second = task(first.handle_answer(Ok(answered(&node)), 0));
    assert!(matches!(route_of(second.call()), Route::ReadDocument(..)));
}

#[test]
fn what_cannot_be_read_is_an_error_with_its_code() {
    let missing = content("workspace://w/a", vec![Err(ProblemCode::NodeNotFound.into())]);
    assert_eq!(
        (&missing["error"]["code"], &missing["error"]["data"]["code"]),
        (&json!(-32002), &json!("node_not_found"))
    );
    assert_eq!(missing["error"]["data"]["uri"], "workspace://w/a");
    let long = json!({"path": "a", "kind": "record", "clock": 1, "value": "x".repeat(MAX_TEXT_BYTES)});
    let long = content("workspace://w/a", vec![Ok(answered(&long))]);
    assert_eq!(long["error"]["data"]["code"], "payload_too_large");
    assert!(long["error"]["message"].as_str().unwrap().contains("read_node"));
    let endless = content(&format!("file:///{}", "a".repeat(MAX_SHOWN_URI_BYTES)), vec![]);
    assert_eq!(endless["error"]["data"].get("uri"), None);
    for uri in [
        "",
        "file:///etc/passwd",
        "workspace://w",
        "workspace://w/",
        "workspace://w/../x",
        "workspace://w/a%2Fb",
        "workspace:///a",
    ] {
        let error = &content(uri, vec![])["error"];
        assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!(uri)));
    }
}
