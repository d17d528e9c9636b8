//! Tools: their definitions, their calls and how answers are shown.

use std::collections::BTreeSet;

use super::*;
use crate::api::edit::{Base, parse_edits};
use crate::api::limits::{MAX_IDEMPOTENCY_KEY_BYTES, MAX_OPS, MAX_PAGE};
use crate::api::path::{NodePath, WorkspaceId};
use crate::api::presence::parse_presence;
use crate::api::problem::{Problem, ProblemCode};
use crate::mcp::limits::{DEFAULT_TOOL_PAGE, MAX_TEXT_BYTES, MAX_TOOL_PAGE, MAX_WAIT_SECONDS};

fn one() -> Caller {
    caller(&["w"])
}

fn id() -> WorkspaceId {
    WorkspaceId::parse("w").unwrap()
}

fn path() -> NodePath {
    NodePath::parse("a/b").unwrap()
}

fn definitions() -> Vec<Value> {
    response("tools/list", &json!({}), &one())["result"]["tools"].as_array().unwrap().clone()
}

/// The problem that a call of a tool is refused with.
fn problem(tool: &str, arguments: &Value, caller: &Caller) -> Value {
    let answer = response("tools/call", &json!({ "name": tool, "arguments": arguments }), caller);
    problem_in(&answer)
}

fn problem_in(answer: &Value) -> Value {
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    assert!(result.get("structuredContent").is_none());
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

/// A value that the schema of an argument allows.
fn example(name: &str) -> Value {
    match name {
        "since" | "ifMatch" | "limit" | "timeoutSeconds" | "base" | "epoch" => json!(3),
        "edits" => json!([{"op": "append", "text": "a"}]),
        "ifNoneMatch" => json!("*"),
        "format" => json!("json"),
        "ttl" => json!(60),
        "value" | "patch" | "state" => json!({"x": null}),
        _ => json!("a"),
    }
}

#[test]
fn the_schemas_name_exactly_the_arguments_that_are_read() {
    for tool in definitions() {
        let name = tool["name"].as_str().unwrap();
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        let all: Value = properties.keys().map(|name| (name.clone(), example(name))).collect();
        call(name, &all, &one());
        let mut more = all.clone();
        more["surplus"] = json!(1);
        assert!(problem(name, &more, &one())["detail"].as_str().unwrap().contains("surplus"));
        let required: BTreeSet<&str> = tool["inputSchema"]["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for left_out in properties.keys() {
            let mut fewer = all.clone();
            fewer.as_object_mut().unwrap().remove(left_out);
            let step = step("tools/call", &json!({ "name": name, "arguments": fewer }), &one());
            let is_needed = matches!(step, Step::Reply(_));
            assert_eq!(is_needed, required.contains(left_out.as_str()), "{name} without {left_out}");
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false);
        if let Some(edits) = properties.get("edits") {
            assert_eq!(edits["maxItems"], MAX_OPS);
        }
        let limits = &properties.get("limit").cloned().unwrap_or_default();
        assert!(
            limits.is_null() || limits["maximum"] == MAX_TOOL_PAGE && limits["default"] == DEFAULT_TOOL_PAGE
        );
        let wait = &properties.get("timeoutSeconds").cloned().unwrap_or_default();
        assert!(wait.is_null() || wait["maximum"] == MAX_WAIT_SECONDS && wait["default"] == MAX_WAIT_SECONDS);
        assert!(tool["outputSchema"]["required"].as_array().unwrap().contains(&json!("head")), "{name}");
    }
    assert!(MAX_TOOL_PAGE <= u64::from(MAX_PAGE));
}

#[test]
fn annotations_are_those_of_the_calls() {
    for tool in definitions() {
        let name = tool["name"].as_str().unwrap();
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        let all: Value = properties.keys().map(|name| (name.clone(), example(name))).collect();
        let writes = matches!(
            route_of(&call(name, &all, &one())),
            Route::PutNode(..) | Route::PatchNode(..) | Route::DeleteNode(..) | Route::EditDocument(..)
        );
        let sets_own = name == "set_presence";
        let repeats = !writes || name == "delete_node";
        let expected = json!({
            "readOnlyHint": !writes && !sets_own, "destructiveHint": writes, "idempotentHint": repeats,
            "openWorldHint": false
        });
        assert_eq!(tool["annotations"], expected, "{name}");
    }
}

#[test]
fn a_write_is_the_put_of_rest_with_its_headers() {
    let arguments = json!({
        "workspace": "w", "path": "a/b", "value": null, "ifMatch": 7, "idempotencyKey": "k-1"
    });
    let made = call("write_node", &arguments, &caller(&["w", "v"]));
    assert_eq!((route_of(&made), made.body.as_deref()), (Route::PutNode(id(), path()), Some("null")));
    let headers: Vec<(&str, &str)> = made.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    assert_eq!(
        headers,
        [("If-Match", "\"7\""), ("Idempotency-Key", "k-1"), ("Content-Type", "application/json")]
    );
    let star = call("delete_node", &json!({"path": "a/b", "ifMatch": "*"}), &one());
    assert_eq!(star.headers, [("If-Match", "*".to_owned())]);
    assert_eq!((route_of(&star), star.body), (Route::DeleteNode(id(), path()), None));
    let missing = call("write_node", &json!({"path": "a/b", "value": 1, "ifNoneMatch": "*"}), &one());
    assert!(missing.headers.contains(&("If-None-Match", "*".to_owned())));
}

#[test]
fn reads_are_those_of_rest() {
    let made = call("list_nodes", &json!({"prefix": "a b", "after": "é", "limit": 200}), &one());
    assert_eq!(route_of(&made), Route::ListNodes(id()));
    assert_eq!(
        made.query,
        [("limit", "200".to_owned()), ("prefix", "a b".to_owned()), ("after", "é".to_owned())]
    );
    let made = call("read_document", &json!({"path": "a/b", "root": "t"}), &one());
    assert_eq!(route_of(&made), Route::ReadDocument(id(), path()));
    assert_eq!(
        (made.query, made.headers),
        (vec![("root", "t".to_owned())], vec![("Accept", "text/plain".to_owned())])
    );
    let made = call("list_changes", &json!({}), &one());
    assert_eq!(made.query, [("since", "0".to_owned()), ("limit", "50".to_owned())]);
}

#[test]
fn an_edit_has_the_body_that_rest_reads() {
    let edits = json!([{"op": "replace", "quote": "a", "with": "b"}]);
    let arguments = json!({
        "path": "a/b", "root": "t", "edits": edits, "base": 4, "epoch": 2, "idempotencyKey": "k"
    });
    let made = call("edit_document", &arguments, &one());
    assert_eq!(
        (route_of(&made), made.query),
        (Route::EditDocument(id(), path()), vec![("epoch", "2".to_owned())])
    );
    assert_eq!(made.headers[0], ("Idempotency-Key", "k".to_owned()));
    let read = parse_edits(made.body.unwrap().as_bytes()).unwrap();
    assert_eq!((read.root.as_str(), read.edits.len(), read.base), ("t", 1, Some(Base::Clock(4))));
    let names = |tool: &Value| {
        tool["inputSchema"]["properties"]["edits"]["items"]["properties"]["op"]["enum"].clone()
    };
    let ops = definitions().iter().map(names).find(|names| !names.is_null()).unwrap();
    for op in ops.as_array().unwrap() {
        // Each is known: what is wrong is that the rest of the edit is missing.
        let body = json!({"root": "t", "edits": [{"op": op}]}).to_string();
        assert!(!parse_edits(body.as_bytes()).unwrap_err().detail.contains("`op` is"), "{op}");
    }
}

#[test]
fn presence_has_the_body_that_rest_reads() {
    let made = call("set_presence", &json!({"session": "p", "ttl": 60, "state": {"at": "a/b"}}), &one());
    assert_eq!(route_of(&made), Route::PutPresence(id()));
    let read = parse_presence(made.body.unwrap().as_bytes()).unwrap();
    assert_eq!((read.session.as_str(), read.ttl_ms), ("p", 60_000));
    let made = call("list_presence", &json!({"session": "p"}), &one());
    assert_eq!((route_of(&made), made.query), (Route::ListPresence(id()), vec![("session", "p".to_owned())]));
    let list = json!({"presence": [], "otherHumans": 0, "complete": true});
    assert_eq!(shown("list_presence", &json!({}), answered(&list))["head"], 9);
}

#[test]
fn m06_arguments_that_are_wrong_are_told_to_the_model_and_reach_nothing() {
    let cases = [
        ("read_node", json!({"path": "../w2/x"}), "invalid_path", "path"),
        ("read_node", json!({"path": ""}), "invalid_path", ""),
        ("read_node", json!({"path": 1}), "bad_request", "path"),
        ("read_node", json!({"workspace": "a/b", "path": "x"}), "invalid_workspace_id", ""),
        ("list_nodes", json!({"limit": 0}), "bad_request", "limit"),
        ("list_nodes", json!({"limit": 201}), "bad_request", "200"),
        ("list_nodes", json!({"limit": "5"}), "bad_request", "limit"),
        ("write_node", json!({"path": "a"}), "bad_request", "value"),
        ("write_node", json!({"path": "a", "value": 1, "ifMatch": "7"}), "bad_request", "ifMatch"),
        ("write_node", json!({"path": "a", "value": 1, "ifMatch": -1}), "bad_request", "ifMatch"),
        ("write_node", json!({"path": "a", "value": 1, "ifNoneMatch": "x"}), "bad_request", "ifNoneMatch"),
        ("write_node", json!({"path": "a", "value": 1, "idempotencyKey": "é"}), "bad_request", "ASCII"),
        ("write_node", json!({"path": "a", "value": 1, "idempotencyKey": ""}), "bad_request", "ASCII"),
        ("delete_node", json!({"path": "a", "ifNoneMatch": "*"}), "bad_request", "ifNoneMatch"),
        ("wait_for_changes", json!({}), "bad_request", "since"),
        ("wait_for_changes", json!({"since": 0, "timeoutSeconds": 21}), "bad_request", "20"),
        ("wait_for_changes", json!({"since": 9_007_199_254_740_992_u64}), "bad_request", "since"),
        ("read_document", json!({"path": "a", "format": "xml"}), "bad_request", "format"),
    ];
    for (tool, arguments, code, named) in cases {
        let problem = problem(tool, &arguments, &one());
        assert_eq!(problem["code"], code, "{tool} {arguments}");
        assert!(problem["detail"].as_str().unwrap().contains(named), "{problem}");
        assert!(problem["cure"].as_str().is_some_and(|cure| !cure.is_empty()), "{problem}");
    }
    let long = "k".repeat(MAX_IDEMPOTENCY_KEY_BYTES + 1);
    let problem = problem("write_node", &json!({"path": "a", "value": 1, "idempotencyKey": long}), &one());
    assert_eq!(problem["code"], "bad_request");
}

#[test]
fn without_exactly_one_workspace_it_has_to_be_named() {
    for ids in [&["v", "w"][..], &["*"], &["w", "*"], &[]] {
        let problem = problem("list_nodes", &json!({}), &caller(ids));
        assert_eq!(problem["code"], "bad_request");
        let known: Vec<&str> = ids.iter().copied().filter(|id| *id != "*").collect();
        assert_eq!(problem["workspaces"], json!(known));
    }
    // Whether the caller may is for the handler to say, as in REST.
    assert_eq!(
        route_of(&call("list_nodes", &json!({"workspace": "x"}), &one())).workspace().unwrap().as_str(),
        "x"
    );
}

#[test]
fn an_unknown_tool_and_a_call_that_is_none_are_errors_of_the_protocol() {
    for params in [json!({"name": "drop_table"}), json!({}), json!({"name": "list_nodes", "arguments": []})] {
        assert_eq!(response("tools/call", &params, &one())["error"]["code"], -32602, "{params}");
    }
}

/// The structured result of a tool for an answer of REST; the text says the same.
fn shown(tool: &str, arguments: &Value, answer: RestAnswer) -> Value {
    let task = task(step("tools/call", &json!({ "name": tool, "arguments": arguments }), &one()));
    let answer = json_of(&reply(task.handle_answer(Ok(answer), u64::MAX)));
    let result = &answer["result"];
    assert_eq!(result["isError"], false, "{answer}");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
    text
}

#[test]
fn c_15_every_answer_has_the_head() {
    let written = shown(
        "write_node",
        &json!({"path": "a/b", "value": 1}),
        answered(&json!({"clock": 5, "path": "a/b"})),
    );
    assert_eq!(written, json!({"clock": 5, "path": "a/b", "replayed": false, "head": 5}));
    let node = json!({"path": "a/b", "kind": "record", "clock": 5, "value": null});
    assert_eq!(shown("read_node", &json!({"path": "a/b"}), answered(&node))["head"], 9);
    let mut document = answered(&json!(null));
    document.body = "hi".to_owned();
    assert_eq!(
        shown("read_document", &json!({"path": "a/b"}), document),
        json!({"path": "a/b", "clock": 5, "epoch": 2, "untrustedText": "hi", "next": null, "head": 9})
    );
    let page = json!({"changes": [{"clock": 4}, {"clock": 5}], "head": 9, "floor": 0});
    assert_eq!(shown("list_changes", &json!({"since": 3}), answered(&page))["next"], 5);
    let empty = json!({"changes": [], "head": 3, "floor": 0});
    assert_eq!(shown("list_changes", &json!({"since": 3}), answered(&empty))["next"], 3);
}

#[test]
fn a_long_record_comes_in_pages_of_its_text() {
    let node = json!({"path": "a/b", "kind": "record", "clock": 5, "value": "x".repeat(MAX_TEXT_BYTES)});
    let first = shown("read_node", &json!({"path": "a/b"}), answered(&node));
    assert_eq!((first.get("value"), &first["next"]), (None, &json!(format!("5:{MAX_TEXT_BYTES}"))));
    let second = shown("read_node", &json!({"path": "a/b", "cursor": first["next"]}), answered(&node));
    let text = [&first, &second].map(|page| page["untrustedText"].as_str().unwrap()).concat();
    assert_eq!(
        (serde_json::from_str::<Value>(&text).unwrap(), &second["next"]),
        (node["value"].clone(), &json!(null))
    );
}

#[test]
fn a_refusal_of_rest_is_a_result_with_code_and_cure_of_bounded_size() {
    let refused = |problem| {
        let task =
            task(step("tools/call", &json!({"name": "read_node", "arguments": {"path": "a/b"}}), &one()));
        problem_in(&json_of(&reply(task.handle_answer(Err(problem), 0))))
    };
    let told = refused(Problem::precondition_failed(Some(8), Some(json!({"by": "ana"}))));
    assert_eq!(
        (&told["clock"], &told["value"]["by"], &told["status"]),
        (&json!(8), &json!("ana"), &json!(412))
    );
    assert!(told["cure"].as_str().unwrap().contains("Merge"));
    let long = refused(Problem::precondition_failed(Some(8), Some("x".repeat(MAX_TEXT_BYTES).into())));
    assert_eq!((long.get("value"), &long["clock"]), (None, &json!(8)));
    assert_eq!(refused(Problem::new(ProblemCode::Forbidden))["code"], "forbidden");
}

#[test]
fn m07_a_wait_looks_a_few_times_and_ends_by_itself() {
    let empty = || answered(&json!({"changes": [], "head": 3, "floor": 0}));
    let arguments = json!({"name": "wait_for_changes", "arguments": {"since": 3}});
    let (mut work, mut elapsed, mut looks) = (task(step("tools/call", &arguments, &one())), 0, 0);
    let end = loop {
        looks += 1;
        match work.handle_answer(Ok(empty()), elapsed) {
            Step::Perform { task, after_ms } => {
                assert!(after_ms > 0);
                elapsed += after_ms;
                work = task;
            }
            end => break json_of(&reply(end)),
        }
    };
    assert_eq!((elapsed, looks), (MAX_WAIT_SECONDS * 1000, 10));
    assert_eq!(end["result"]["structuredContent"], json!({"changes": [], "next": 3, "head": 3, "floor": 0}));
    // Something is there: no wait. So it is with a refusal.
    let first = task(step("tools/call", &arguments, &one()));
    let page = json!({"changes": [{"clock": 4}], "head": 4, "floor": 0});
    assert_eq!(json_of(&reply(first.handle_answer(Ok(answered(&page)), 0)))["result"]["isError"], false);
    let second = task(step("tools/call", &arguments, &one()));
    let gone = json_of(&reply(second.handle_answer(Err(Problem::cursor_gone(9, 5)), 0)));
    assert_eq!(problem_in(&gone)["head"], 9);
}

#[test]
fn a_whole_number_is_one_however_it_is_written() {
    let limit = |written: &str| {
        let arguments: Value = serde_json::from_str(&format!("{{\"limit\":{written}}}")).unwrap();
        call("list_nodes", &arguments, &one()).query
    };
    for written in ["60", "60.0", "6e1"] {
        assert_eq!(limit(written), [("limit", "60".to_owned())], "{written}");
    }
    for arguments in
        ["{\"path\":\"a\",\"value\":1,\"ifMatch\":7.0}", "{\"path\":\"a\",\"value\":1,\"ifMatch\":7}"]
    {
        let made = call("write_node", &serde_json::from_str(arguments).unwrap(), &one());
        assert!(made.headers.contains(&("If-Match", "\"7\"".to_owned())), "{arguments}");
    }
    for written in ["60.5", "\"60\"", "-60"] {
        let arguments = serde_json::from_str(&format!("{{\"limit\":{written}}}")).unwrap();
        assert_eq!(problem("list_nodes", &arguments, &one())["code"], "bad_request", "{written}");
    }
}
