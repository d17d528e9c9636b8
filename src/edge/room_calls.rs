//! What the Worker asks of a room: let a socket in, open a bridge, hear of changes.

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use js_sys::{Object, Reflect};
use serde_json::{Value, json};
use wasm_bindgen::{JsCast, JsValue};
use worker::{Request, Response, Result, State, Stub, WebSocket, WebSocketPair};

use super::respond;
use super::room_object::Shell;
use crate::api::problem::{Problem, ProblemCode};
use crate::protocol::change::Change;
use crate::room::{Refusal, SessionInfo};

const CONNECT: &str = "https://room/connect";
const CHANGED: &str = "https://room/changed";
const INSPECT: &str = "https://room/inspect";
const PANIC: &str = "https://room/panic";
const PEOPLE: &str = "https://room/people";
/// The room's answer to changes when somebody is there to hear.
const LIVE: &str = "live";
/// The room's answer to changes when nobody is.
const EMPTY: &str = "empty";
/// Who connects: a [`SessionInfo`] as JSON in base64, since a path may hold any character. The
/// Worker sets it; a room is reached in no other way.
const SESSION: &str = "yrelay-session";
/// Whether the one who connects is a person: services connect as well and are no presence.
const PERSON: &str = "yrelay-person";
/// The sub-protocol to echo.
const ECHO: &str = "yrelay-echo";

/// Hands an upgrade to the room.
pub async fn connect(
    stub: &Stub,
    info: &SessionInfo,
    is_person: bool,
    echo: Option<&str>,
) -> Result<Response> {
    let session = BASE64.encode(serde_json::to_vec(info)?);
    let mut fields = vec![("Upgrade", "websocket"), (SESSION, session.as_str())];
    if is_person {
        fields.push((PERSON, "1"));
    }
    fields.extend(echo.map(|echo| (ECHO, echo)));
    stub.fetch_with_request(request(CONNECT, "GET", &fields, None)?).await
}

/// Opens a bridge for a stream.
pub async fn bridge(stub: &Stub) -> Result<WebSocket> {
    let response = connect(stub, &SessionInfo::bridge(), false, None).await?;
    response.websocket().ok_or_else(|| worker::Error::RustError("the room refused the bridge".to_owned()))
}

/// Tells a room of committed changes. Returns whether anybody is there to hear.
pub async fn tell(stub: &Stub, changes: &[Change]) -> Result<bool> {
    let body = serde_json::to_string(changes)?;
    let mut response = stub.fetch_with_request(request(CHANGED, "POST", &[], Some(&body))?).await?;
    Ok(response.text().await? == LIVE)
}

/// The people who are connected to a room, each once.
pub async fn people(stub: &Stub) -> Result<Vec<String>> {
    let mut response = stub.fetch_with_str(PEOPLE).await?;
    let told: Value = serde_json::from_str(&response.text().await?)?;
    let subs = told.as_array().into_iter().flatten();
    Ok(subs.filter_map(|sub| sub.as_str().map(str::to_owned)).collect())
}

/// Looks into a room, for tests.
pub async fn inspect(stub: &Stub) -> Result<Response> {
    stub.fetch_with_str(INSPECT).await
}

/// Makes a room panic, for the test of D1b.
pub async fn panic(stub: &Stub) -> Result<Response> {
    stub.fetch_with_str(PANIC).await
}

/// A request to the room. The platform crate's builder carries every option of `fetch` along.
fn request(url: &str, method: &str, headers: &[(&str, &str)], body: Option<&str>) -> Result<Request> {
    let (fields, init) = (Object::new(), Object::new());
    for (name, value) in headers {
        Reflect::set(&fields, &JsValue::from_str(name), &JsValue::from_str(value))?;
    }
    Reflect::set(&init, &JsValue::from_str("method"), &JsValue::from_str(method))?;
    Reflect::set(&init, &JsValue::from_str("headers"), &fields)?;
    if let Some(body) = body {
        Reflect::set(&init, &JsValue::from_str("body"), &JsValue::from_str(body))?;
    }
    let request = web_sys::Request::new_with_str_and_init(url, init.unchecked_ref::<web_sys::RequestInit>())?;
    Ok(Request::from(request))
}

/// The room's side of the calls.
pub(super) async fn answer(state: &State, shell: &Rc<Shell>, mut request: Request) -> Result<Response> {
    match request.path().as_str() {
        "/connect" => accept(state, shell, &request),
        "/changed" => {
            let told: Value = serde_json::from_str(&request.text().await?)?;
            for change in told.as_array().into_iter().flatten().filter_map(Change::from_json) {
                shell.with(|core, now| core.handle_change(&change, now));
            }
            Response::ok(if shell.core().clients() > 0 { LIVE } else { EMPTY })
        }
        // `instance` is another one after each construction of the object.
        "/inspect" => Response::ok(
            json!({ "clients": shell.core().clients(), "instance": shell.instance() }).to_string(),
        ),
        "/people" => {
            // Who is there by an expired token only is closed first, as by any event.
            shell.with(|core, now| core.handle_timeout(now));
            Response::ok(Value::from(shell.people(state)).to_string())
        }
        "/panic" => shell.panic(),
        _ => Response::error("no such call", 404),
    }
}

fn accept(state: &State, shell: &Rc<Shell>, request: &Request) -> Result<Response> {
    let header = request.headers().get(SESSION)?.unwrap_or_default();
    let bytes = BASE64.decode(header).map_err(|error| worker::Error::RustError(error.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| worker::Error::RustError(error.to_string()))?;
    let value: Value = serde_json::from_str(text)?;
    let unreadable = || worker::Error::RustError("a session of another version".to_owned());
    let info = SessionInfo::from_json(&value).ok_or_else(unreadable)?;
    if let Err(refusal) = shell.core().admits(&info) {
        let detail = match refusal {
            Refusal::RoomFull => "The workspace has as many connections as it can have.",
            Refusal::TooManyConnections => "You have too many connections to this workspace; close some.",
        };
        return Ok(respond::problem(&Problem::because(ProblemCode::RateLimited, detail)));
    }
    let WebSocketPair { client, server } = WebSocketPair::new()?;
    match request.headers().get(PERSON)? {
        Some(_) => state.accept_websocket_with_tags(&server, &[&info.sub]),
        None => state.accept_web_socket(&server),
    }
    shell.open(info, server);
    let response = Response::from_websocket(client)?;
    match request.headers().get(ECHO)? {
        Some(echo) => Ok(respond::with_header(response, "Sec-WebSocket-Protocol", &echo)),
        None => Ok(response),
    }
}
