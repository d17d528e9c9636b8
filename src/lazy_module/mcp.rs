//! The requests of MCP: the Worker performs the calls that they consist of, see [`crate::mcp`].

use wasm_bindgen::prelude::*;
use web_sys::{Headers, Request, RequestInit, Response, ResponseInit};

use crate::api::problem::{Problem, ProblemCode};
use crate::mcp::{self, Caller, Reply, RestAnswer, RestCall, Step, open};

/// A request under way: a response, or else a call that is to be performed.
#[wasm_bindgen]
#[derive(Debug)]
pub struct McpRequest {
    state: Result<Step, Problem>,
    start: f64,
}

/// Reads a request, given its headers and its body, for a caller whose token names these workspaces.
#[wasm_bindgen(js_name = openMcp)]
pub fn open_mcp(
    headers: &Headers,
    body: &[u8],
    workspaces: Vec<String>,
    is_for_one: bool,
    now: f64,
) -> McpRequest {
    let field = |name| headers.get(name).ok().flatten();
    let (accept, version) = (field("Accept"), field("MCP-Protocol-Version"));
    let (method, name) = (field("Mcp-Method"), field("Mcp-Name"));
    let fields = mcp::Headers {
        accept: accept.as_deref(),
        protocol_version: version.as_deref(),
        method: method.as_deref(),
        name: name.as_deref(),
    };
    McpRequest { state: listed(open(&fields, body, &Caller { workspaces, is_for_one })), start: now }
}

#[wasm_bindgen]
impl McpRequest {
    /// The response; none while there is a call to perform.
    ///
    /// # Errors
    /// What the platform says of a response that it does not make. Ours it does.
    pub fn response(&self) -> Result<Option<Response>, JsValue> {
        Ok(Some(match &self.state {
            Ok(Step::Reply(Reply { status, body: None })) => platform_response::<&str>(*status, &[], None)?,
            Ok(Step::Reply(Reply { status, body })) => {
                let fields = [("Content-Type", "application/json"), ("Cache-Control", "no-store")];
                platform_response(*status, &fields, body.as_deref())?
            }
            Ok(_) => return Ok(None),
            Err(problem) => platform_response(problem.status(), &problem.headers(), Some(&problem.body()))?,
        }))
    }

    /// How long to wait before the call, in milliseconds.
    #[wasm_bindgen(getter, js_name = afterMs)]
    pub fn after_ms(&self) -> f64 {
        if let Ok(Step::Perform { after_ms, .. }) = self.state { after_ms as f64 } else { 0.0 }
    }

    /// The call to perform, as a request to the API.
    ///
    /// # Errors
    /// What the platform says of a request that it does not make. Ours it does.
    pub fn call(&self) -> Result<Request, JsValue> {
        match &self.state {
            Ok(Step::Perform { task, .. }) => platform_request(task.call()),
            _ => Err(JsValue::from_str("there is nothing to perform")),
        }
    }

    /// Takes what the call answered. An error is a problem.
    #[wasm_bindgen(js_name = handleAnswer)]
    pub fn handle_answer(&mut self, is_ok: bool, headers: &Headers, body: String, now: f64) {
        let internal = Err(Problem::new(ProblemCode::Internal));
        self.state = match std::mem::replace(&mut self.state, internal) {
            Ok(Step::Perform { task, .. }) => {
                let answer = if is_ok {
                    Ok(RestAnswer::new(body, |name| headers.get(name).ok().flatten()))
                } else {
                    Err(Problem::from_wire(&body))
                };
                listed(Ok(task.handle_answer(answer, (now - self.start) as u64)))
            }
            other => other,
        };
    }
}

/// The list of tools stands in a script beside the module.
fn listed(state: Result<Step, Problem>) -> Result<Step, Problem> {
    match state? {
        Step::List(list) => match mcp_tools() {
            Ok(definitions) => Ok(Step::Reply(list.reply(&definitions))),
            Err(_) => Err(Problem::new(ProblemCode::Internal)),
        },
        step => Ok(step),
    }
}

fn platform_request(call: &RestCall) -> Result<Request, JsValue> {
    let init = RequestInit::new();
    init.set_method(call.method);
    let headers = platform_headers(&call.headers)?;
    init.set_headers(&headers);
    if let Some(body) = &call.body {
        init.set_body(&JsValue::from_str(body));
    }
    Request::new_with_str_and_init(&format!("{ORIGIN}{}", call.address()), &init)
}

fn platform_response<V: AsRef<str>>(
    status: u16,
    fields: &[(&str, V)],
    body: Option<&str>,
) -> Result<Response, JsValue> {
    let init = ResponseInit::new();
    init.set_status(status);
    let headers = platform_headers(fields)?;
    init.set_headers(&headers);
    Response::new_with_opt_str_and_init(body, &init)
}

fn platform_headers<V: AsRef<str>>(fields: &[(&str, V)]) -> Result<Headers, JsValue> {
    let headers = Headers::new()?;
    for (name, value) in fields {
        headers.set(name, value.as_ref())?;
    }
    Ok(headers)
}

/// Nobody sees it.
const ORIGIN: &str = "https://mcp";

#[wasm_bindgen]
extern "C" {
    /// As `entry.mjs` offers it.
    #[wasm_bindgen(js_namespace = yrelayLazy, js_name = mcpTools, catch)]
    fn mcp_tools() -> Result<String, JsValue>;
}
