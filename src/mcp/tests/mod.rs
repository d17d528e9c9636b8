//! Requests as a client sends them, against the calls and the responses that they become.

mod protocol;
mod resources;
mod tools;

use serde_json::{Value, json};

use super::{Caller, Headers, Reply, RestAnswer, RestCall, Step, Task, open};
use crate::api::route::{Route, route};

const DEFINITIONS: &str = include_str!("../tools.json");

/// Who has a token for these workspaces; `*` stands for all of them.
fn caller(ids: &[&str]) -> Caller {
    let workspaces: Vec<String> = ids.iter().filter(|id| **id != "*").map(|id| (*id).to_owned()).collect();
    Caller { is_for_one: ids.len() == 1 && workspaces.len() == 1, workspaces }
}

/// One step of a request of the older revisions.
fn step(method: &str, params: &Value, caller: &Caller) -> Step {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    open(&Headers::default(), body.as_bytes(), caller).unwrap()
}

fn reply(step: Step) -> Reply {
    match step {
        Step::List(list) => list.reply(DEFINITIONS),
        Step::Reply(reply) => reply,
        Step::Perform { task, .. } => panic!("a call of {:?}", task.call()),
    }
}

fn json_of(reply: &Reply) -> Value {
    serde_json::from_str(reply.body.as_deref().unwrap()).unwrap()
}

/// The response to a request that needs no call.
fn response(method: &str, params: &Value, caller: &Caller) -> Value {
    json_of(&reply(step(method, params, caller)))
}

fn task(step: Step) -> Task {
    match step {
        Step::Perform { task, .. } => task,
        other => panic!("{other:?}"),
    }
}

/// The call that a tool makes.
fn call(tool: &str, arguments: &Value, caller: &Caller) -> RestCall {
    task(step("tools/call", &json!({ "name": tool, "arguments": arguments }), caller)).call().clone()
}

/// The endpoint that a call's address is.
fn route_of(call: &RestCall) -> Route {
    route(call.method, &call.address()).unwrap()
}

fn answered(body: &Value) -> RestAnswer {
    RestAnswer { body: body.to_string(), clock: Some(5), epoch: Some(2), head: Some(9), replayed: false }
}
