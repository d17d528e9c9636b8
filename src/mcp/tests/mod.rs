//! Requests as a client sends them, against the calls and the responses that they become.

mod protocol;
mod resources;
mod tools;

use serde_json::{Value, json};

use super::{Headers, Reply, RestAnswer, RestCall, Step, Task, open};
use crate::api::auth::Actor;
use crate::api::role::{ActorKind, Role};

fn actor(roles: &[(&str, Role)]) -> Actor {
    let roles = roles.iter().map(|(id, role)| ((*id).to_owned(), *role)).collect();
    Actor { sub: "bot".to_owned(), kind: ActorKind::Agent, roles, exp: u64::MAX }
}

/// One step of a request of the older revisions.
fn step(method: &str, params: &Value, actor: &Actor) -> Step {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    open(&Headers::default(), body.as_bytes(), actor).unwrap()
}

fn reply(step: Step) -> Reply {
    match step {
        Step::Reply(reply) => reply,
        Step::Perform { task, .. } => panic!("a call of {:?}", task.call()),
    }
}

fn json_of(reply: &Reply) -> Value {
    serde_json::from_str(reply.body.as_deref().unwrap()).unwrap()
}

/// The response to a request that needs no call.
fn response(method: &str, params: &Value, actor: &Actor) -> Value {
    json_of(&reply(step(method, params, actor)))
}

fn task(step: Step) -> Task {
    match step {
        Step::Perform { task, .. } => task,
        Step::Reply(reply) => panic!("{reply:?}"),
    }
}

/// The call that a tool makes.
fn call(tool: &str, arguments: &Value, actor: &Actor) -> RestCall {
    task(step("tools/call", &json!({ "name": tool, "arguments": arguments }), actor)).call().clone()
}

fn answered(body: &Value) -> RestAnswer {
    RestAnswer { body: body.to_string(), clock: Some(5), epoch: Some(2), head: Some(9), replayed: false }
}
