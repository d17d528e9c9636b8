//! WebSockets as the room knows them: a session number kept on the JavaScript object and in the
//! attachment, and sends that copy a frame once.

use js_sys::{ArrayBuffer, Reflect};
use wasm_bindgen::prelude::*;
use worker::{State, WebSocket};

use crate::protocol::close::CloseCode;
use crate::protocol::sorted::SortedMap;
use crate::room::{Attachment, SessionId};

/// The open sockets of a room.
pub type Sockets = SortedMap<SessionId, WebSocket>;

#[wasm_bindgen]
extern "C" {
    /// A socket's attachment methods. The platform crate's go through serde; ours is a string.
    type Attachable;

    #[wasm_bindgen(method, catch, js_name = serializeAttachment)]
    fn serialize_attachment(this: &Attachable, text: &str) -> std::result::Result<(), JsValue>;

    #[wasm_bindgen(method, catch, js_name = deserializeAttachment)]
    fn deserialize_attachment(this: &Attachable) -> std::result::Result<JsValue, JsValue>;
}

/// Sockets that are open after a wake-up, with their attachments. A socket whose attachment is of
/// another version is closed with 1012: its client reconnects.
pub fn restore(state: &State) -> Vec<(Attachment, WebSocket)> {
    let mut restored = Vec::new();
    for socket in state.get_websockets() {
        match attachment(socket.as_ref().as_ref()) {
            Some(attachment) => {
                name(&socket, attachment.id);
                restored.push((attachment, socket));
            }
            None => {
                close(&socket, CloseCode::Restart, "restarted");
            }
        }
    }
    restored
}

/// The people whose sockets are open, each once. A person's socket has its subject as tag (see
/// `room_calls`), which survives hibernation like an attachment.
pub fn people(state: &State, sockets: &Sockets) -> Vec<String> {
    let mut people: Vec<String> = Vec::new();
    for socket in sockets.values() {
        for sub in state.get_tags(socket) {
            if !people.contains(&sub) {
                people.push(sub);
            }
        }
    }
    people
}

/// Closes every open socket with 1012: clients come back at once.
pub fn restart_all(state: &State) {
    for socket in state.get_websockets() {
        close(&socket, CloseCode::Restart, "restarted");
    }
}

/// Closes a socket for good. The platform goes on delivering its messages until the other side has
/// answered, and returns it after hibernation: so it is made nobody's first.
pub fn close(socket: &WebSocket, code: CloseCode, reason: &str) {
    name(socket, NOBODY);
    attach(socket, "");
    let _ = socket.close(Some(code.number()), Some(reason));
}

/// The session of a socket. The property is there as long as the object lives in memory; after
/// that the attachment has it.
pub fn session_of(socket: &JsValue) -> Option<SessionId> {
    match Reflect::get(socket, &key()).ok().and_then(|value| value.as_f64()) {
        Some(number) => Some(number as SessionId),
        None => attachment(socket).map(|attachment| attachment.id),
    }
}

/// Notes the session of a socket on the object itself: reading an attachment costs a deserialization
/// for each message.
pub fn name(socket: &WebSocket, session: SessionId) {
    let raw: &JsValue = socket.as_ref().as_ref();
    let _ = Reflect::set(raw, &key(), &JsValue::from_f64(f64::from(session)));
}

/// Keeps a text with a socket across hibernation.
pub fn attach(socket: &WebSocket, text: &str) {
    let raw: &Attachable = socket.as_ref().unchecked_ref();
    let _ = raw.serialize_attachment(text);
}

/// Sends a frame to several sockets, and returns which of them have how much in their queues. One
/// that is closing fails alone (R05).
pub fn send_binary(sockets: &Sockets, to: &[SessionId], frame: &ArrayBuffer) -> Vec<Queued> {
    send(sockets, to, |socket| socket.send_with_array_buffer(frame))
}

/// Sends a text to several sockets, likewise.
pub fn send_text(sockets: &Sockets, to: &[SessionId], text: &str) -> Vec<Queued> {
    send(sockets, to, |socket| socket.send_with_str(text))
}

/// A socket and the bytes that it has not taken yet.
pub type Queued = (SessionId, u64);

fn send(
    sockets: &Sockets,
    to: &[SessionId],
    send: impl Fn(&web_sys::WebSocket) -> std::result::Result<(), JsValue>,
) -> Vec<Queued> {
    let mut queued = Vec::new();
    for session in to {
        let Some(socket) = sockets.get(session) else { continue };
        let raw: &web_sys::WebSocket = socket.as_ref();
        let _ = send(raw);
        // A queue of some frames is how a burst looks; only a growing one is worth the room's time.
        let bytes = u64::from(raw.buffered_amount());
        if bytes > WORTH_TELLING {
            queued.push((*session, bytes));
        }
    }
    queued
}

/// Queued bytes from which the room is told.
const WORTH_TELLING: u64 = 1024 * 1024;

/// Answers a client's close frame, which the platform leaves to us. Without it the client waits
/// until the object hibernates, and then reports 1006 for a clean close.
pub fn answer_close(socket: &JsValue, code: f64, reason: &str) {
    let raw: &web_sys::WebSocket = socket.unchecked_ref();
    let code = code as u16;
    // 1005 says that the client named no code; it must not be sent. A socket that is closed
    // already, or was lost, refuses: nothing is left to answer.
    let _ = if code == NO_CODE { raw.close() } else { raw.close_with_code_and_reason(code, reason) };
}

fn attachment(socket: &JsValue) -> Option<Attachment> {
    let raw: &Attachable = socket.unchecked_ref();
    Attachment::decode(&raw.deserialize_attachment().ok()?.as_string()?)
}

/// The number of no session: rooms count from 1.
const NOBODY: SessionId = 0;

/// The code of a close frame without one.
const NO_CODE: u16 = 1005;

fn key() -> JsValue {
    thread_local! {
        // Made once: a string that crosses into JavaScript is decoded each time.
        static KEY: JsValue = JsValue::from_str("yrelaySession");
    }
    KEY.with(JsValue::clone)
}
