//! The Worker's second module, as `entry.mjs` offers it. See `crate::lazy_module`.

use js_sys::Array;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use worker::{Headers, Request, Response};

use crate::api::auth::Actor;
use crate::api::problem::{Problem, ProblemCode};

/// An update made of edits. Empty when they change nothing.
pub struct Edited {
    /// The Yjs update.
    pub update: Vec<u8>,
    /// The state vector of the document with it.
    pub vector: Vec<u8>,
    /// Whether it is the same whatever came in between.
    pub only_appends: bool,
}

/// A document as text.
pub fn show_text(whole: &[u8], root: Option<&str>) -> Result<Vec<u8>, Problem> {
    Ok(take(js::show_text(whole, root))?.0.bytes())
}

/// A document as JSON.
pub fn show_json(whole: &[u8], root: Option<&str>) -> Result<Vec<u8>, Problem> {
    Ok(take(js::show_json(whole, root))?.0.bytes())
}

/// Checks a body of edits, before anything is read.
pub fn check_edits(body: &[u8]) -> Result<(), Problem> {
    take(js::check_edits(body)).map(drop)
}

/// Makes edits on the stored updates of a document at a clock.
pub fn edit(body: &[u8], stored: &[&[u8]], clock: u64, client: u64) -> Result<Edited, Problem> {
    let lengths = stored.iter().map(|update| update.len() as u32).collect();
    let outcome = take(js::edit(body, &stored.concat(), lengths, clock as f64, client as f64))?;
    let made = &outcome.0;
    Ok(Edited { update: made.bytes(), vector: made.vector(), only_appends: made.only_appends() })
}

/// The update of a new content.
pub fn replacement(
    content_type: Option<&str>,
    body: &[u8],
    root: Option<&str>,
    client: u64,
) -> Result<Vec<u8>, Problem> {
    Ok(take(js::replacement(content_type, body, root, client as f64))?.0.bytes())
}

/// A request of MCP under way.
pub struct McpRequest(js::McpRequest);

/// What comes next of it.
pub enum Next {
    /// A call of the API to perform.
    Call(Request),
    /// Its response.
    Reply(Response),
}

impl McpRequest {
    /// Reads a request.
    pub fn open(headers: &Headers, body: &[u8], actor: &Actor) -> Result<Self, Problem> {
        let workspaces = Array::new();
        for id in actor.workspaces() {
            workspaces.push(&JsValue::from_str(id));
        }
        done(js::open_mcp(&headers.0, body, &workspaces, actor.is_for_one())).map(Self)
    }

    /// Takes what the call before answered, if there was one, and waits as long as it has to.
    pub async fn step(&self, answer: Option<Response>) -> Result<Next, Problem> {
        let answer = answer.map_or(JsValue::UNDEFINED, |answer| web_sys::Response::from(answer).into());
        let next = done(JsFuture::from(js::step_mcp(&self.0, &answer)).await)?;
        Ok(match next.dyn_into::<web_sys::Response>() {
            Ok(response) => Next::Reply(response.into()),
            Err(call) => Next::Call(call.unchecked_into::<web_sys::Request>().into()),
        })
    }
}

/// What came of a call. Its memory is the module's, which the platform's collector does not see.
struct Outcome(js::Outcome);

impl Drop for Outcome {
    fn drop(&mut self) {
        let _ = self.0.free();
    }
}

fn take(result: Result<js::Outcome, JsValue>) -> Result<Outcome, Problem> {
    let outcome = Outcome(done(result)?);
    match outcome.0.problem() {
        Some(wire) => Err(Problem::from_wire(&wire)),
        None => Ok(outcome),
    }
}

/// A trap of the module is a defect; it is caught here and nothing else is hurt.
fn done<T>(result: Result<T, JsValue>) -> Result<T, Problem> {
    result.map_err(|error| {
        worker::console_error!("lazy module: {error:?}");
        Problem::new(ProblemCode::Internal)
    })
}

#[allow(missing_docs)]
mod js {
    use js_sys::{Array, Promise};
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        pub type Outcome;

        #[wasm_bindgen(method, getter)]
        pub fn problem(this: &Outcome) -> Option<String>;
        #[wasm_bindgen(method, getter)]
        pub fn bytes(this: &Outcome) -> Vec<u8>;
        #[wasm_bindgen(method, getter)]
        pub fn vector(this: &Outcome) -> Vec<u8>;
        #[wasm_bindgen(method, getter, js_name = onlyAppends)]
        pub fn only_appends(this: &Outcome) -> bool;
        #[wasm_bindgen(method, catch)]
        pub fn free(this: &Outcome) -> Result<(), JsValue>;

        pub type McpRequest;

        #[wasm_bindgen(js_namespace = yrelayLazy, js_name = openMcp, catch)]
        pub fn open_mcp(
            headers: &web_sys::Headers,
            body: &[u8],
            workspaces: &Array,
            is_for_one: bool,
        ) -> Result<McpRequest, JsValue>;
        #[wasm_bindgen(js_namespace = yrelayLazy, js_name = stepMcp)]
        pub fn step_mcp(request: &McpRequest, answer: &JsValue) -> Promise;

        #[wasm_bindgen(js_namespace = yrelayLazy, js_name = showText, catch)]
        pub fn show_text(update: &[u8], root: Option<&str>) -> Result<Outcome, JsValue>;
        #[wasm_bindgen(js_namespace = yrelayLazy, js_name = showJson, catch)]
        pub fn show_json(update: &[u8], root: Option<&str>) -> Result<Outcome, JsValue>;
        #[wasm_bindgen(js_namespace = yrelayLazy, js_name = checkEdits, catch)]
        pub fn check_edits(body: &[u8]) -> Result<Outcome, JsValue>;
        #[wasm_bindgen(js_namespace = yrelayLazy, catch)]
        pub fn edit(
            body: &[u8],
            packed: &[u8],
            lengths: Vec<u32>,
            clock: f64,
            client: f64,
        ) -> Result<Outcome, JsValue>;
        #[wasm_bindgen(js_namespace = yrelayLazy, catch)]
        pub fn replacement(
            content_type: Option<&str>,
            body: &[u8],
            root: Option<&str>,
            client: f64,
        ) -> Result<Outcome, JsValue>;
    }
}
