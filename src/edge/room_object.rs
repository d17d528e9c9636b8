//! The Durable Object of a workspace: events in, the room's actions out.
//!
//! It owns the sockets, the one timer, and nothing else. All protocol is in [`crate::room`].

#![allow(missing_docs, reason = "the macro exports the handlers without any")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::AbortHandle;
use js_sys::{ArrayBuffer, Uint8Array};
use wasm_bindgen::prelude::*;
use worker::{
    DurableObject, Env, Request, Response, Result, State, WebSocket, WebSocketRequestResponsePair,
    console_error, durable_object,
};

use super::config::Config;
use super::db::Db;
use super::socket::{Queued, Sockets};
use super::{clock, guard, room_calls, room_storage, socket};
use crate::protocol::Timestamp;
use crate::protocol::control::{PING, PONG};
use crate::room::{Action, Frame, Room as Core, SessionId, SessionInfo};

/// The Durable Object. Its class name is in `wrangler.toml`.
#[durable_object(fetch)]
pub struct Room {
    state: State,
    shell: Rc<Shell>,
}

/// What the handlers and the futures they start share.
pub(super) struct Shell {
    pub(super) workspace: String,
    pub(super) db: Option<Db>,
    /// The object's state, for the panic hook.
    pub(super) raw_state: JsValue,
    core: RefCell<Core>,
    sockets: RefCell<Sockets>,
    timer: RefCell<Option<Timer>>,
    /// What `busy` says of the object now.
    busy: Cell<bool>,
    /// Drawn when the object is constructed, so that a test can tell whether it was built anew.
    instance: String,
}

struct Timer {
    at: Timestamp,
    abort: AbortHandle,
}

impl DurableObject for Room {
    fn new(state: State, env: Env) -> Self {
        guard::install();
        if let Ok(pair) = WebSocketRequestResponsePair::new(PING, PONG) {
            state.set_websocket_auto_response(&pair);
        }
        let config = Config::read(&env);
        let (mut attachments, mut sockets) = (Vec::new(), Sockets::default());
        let raw_state = JsValue::from(state.as_raw());
        if busy::is_set(&raw_state) {
            // The WASM instance was reset under a room that owed somebody something (D1b). Nobody may
            // get a receipt for what is lost now, or wait for it: clients connect again.
            socket::restart_all(&state);
            busy::set(&raw_state, false);
        } else {
            for (attachment, socket) in socket::restore(&state) {
                sockets.insert(attachment.id, socket);
                attachments.push(attachment);
            }
        }
        let shell = Rc::new(Shell {
            workspace: state.id().name().unwrap_or_default(),
            db: Db::open(&env),
            raw_state,
            busy: Cell::new(false),
            core: RefCell::new(Core::restore(config.room(), attachments, clock::now())),
            sockets: RefCell::new(sockets),
            timer: RefCell::new(None),
            instance: format!("{:x}", (js_sys::Math::random() * 4_503_599_627_370_496.0) as u64),
        });
        Self { state, shell }
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let call = room_calls::answer(&self.state, &self.shell, request);
        guard::guarded(self.shell.raw_state.clone(), call).await
    }
}

/// The WebSocket handlers, exported by hand. The macro's are asynchronous, which costs a promise
/// and a task for each frame; forwarding a frame never waits.
#[wasm_bindgen]
impl Room {
    /// A frame from a socket.
    #[wasm_bindgen(js_name = webSocketMessage)]
    pub fn web_socket_message(&self, socket: &JsValue, message: &JsValue) {
        let Some(session) = socket::session_of(socket) else { return };
        guard::run(&self.shell.raw_state, || self.shell.receive(session, message));
    }

    /// A socket was closed.
    #[wasm_bindgen(js_name = webSocketClose)]
    pub fn web_socket_close(&self, socket: &JsValue, code: f64, reason: &JsValue, _clean: bool) {
        guard::run(&self.shell.raw_state, || self.shell.lose(socket));
        socket::answer_close(socket, code, &reason.as_string().unwrap_or_default());
    }

    /// A socket broke.
    #[wasm_bindgen(js_name = webSocketError)]
    pub fn web_socket_error(&self, socket: &JsValue, _error: &JsValue) {
        guard::run(&self.shell.raw_state, || self.shell.lose(socket));
    }
}

impl Shell {
    /// Hands an event to the room and does what it asks. The borrow ends before anything is done.
    pub(super) fn with<T>(self: &Rc<Self>, event: impl FnOnce(&mut Core, Timestamp) -> T) -> T {
        let result = event(&mut self.core.borrow_mut(), clock::now());
        self.drain(None);
        result
    }

    fn receive(self: &Rc<Self>, session: SessionId, message: &JsValue) {
        let now = clock::now();
        if let Some(text) = message.as_string() {
            self.core.borrow_mut().handle_text(session, &text, now);
            return self.drain(None);
        }
        let Some(buffer) = message.dyn_ref::<ArrayBuffer>() else { return };
        let frame = Uint8Array::new(buffer).to_vec();
        self.core.borrow_mut().handle_frame(session, &frame, now);
        self.drain(Some(buffer));
    }

    fn lose(self: &Rc<Self>, socket: &JsValue) {
        if let Some(session) = socket::session_of(socket) {
            self.sockets.borrow_mut().remove(&session);
            self.core.borrow_mut().handle_close(session, clock::now());
            self.drain(None);
        }
    }

    /// Lets a socket in. It is accepted for hibernation already.
    pub(super) fn open(self: &Rc<Self>, info: SessionInfo, socket: WebSocket) {
        let session = self.core.borrow_mut().handle_open(info, clock::now());
        socket::name(&socket, session);
        self.sockets.borrow_mut().insert(session, socket);
        self.drain(None);
    }

    pub(super) fn core(&self) -> std::cell::Ref<'_, Core> {
        self.core.borrow()
    }

    /// The people who are connected, each once.
    pub(super) fn people(&self, state: &State) -> Vec<String> {
        socket::people(state, &self.sockets.borrow())
    }

    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    /// Does everything that the room asks, then arms the timer. `input` is the frame just handed in.
    fn drain(self: &Rc<Self>, input: Option<&ArrayBuffer>) {
        let mut flushes = Vec::new();
        loop {
            let next = self.core.borrow_mut().poll_action();
            match next {
                Some(Action::Persist(flush)) => flushes.push(flush),
                Some(action) => self.perform(action, input),
                None => break,
            }
        }
        for together in flushes.chunks(FLUSHED_TOGETHER) {
            self.spawn(room_storage::save_all(Rc::clone(self), together.to_vec()));
        }
        self.arm();
    }

    fn perform(self: &Rc<Self>, action: Action, input: Option<&ArrayBuffer>) {
        match action {
            Action::Attach { session, attachment } => {
                if let Some(socket) = self.sockets.borrow().get(&session) {
                    socket::attach(socket, &attachment);
                }
            }
            Action::Close { session, code, reason } => {
                let socket = self.sockets.borrow_mut().remove(&session);
                if let Some(socket) = socket {
                    socket::close(&socket, code, reason);
                }
            }
            Action::SendBinary { to, frame } => match (frame, input) {
                // The very buffer that came in goes out again, without a copy.
                (Frame::Input, Some(buffer)) => {
                    let queued = socket::send_binary(&self.sockets.borrow(), &to, buffer);
                    self.note_queued(&queued);
                }
                (Frame::Input, None) => {}
                // One copy out of WASM memory for all receivers.
                (Frame::Bytes(bytes), _) => {
                    let buffer = Uint8Array::from(bytes.as_slice()).buffer();
                    let queued = socket::send_binary(&self.sockets.borrow(), &to, &buffer);
                    self.note_queued(&queued);
                }
            },
            Action::SendText { to, text } => {
                let queued = socket::send_text(&self.sockets.borrow(), &to, &text);
                self.note_queued(&queued);
            }
            // A Durable Object has no spool: clients bring back what it lost.
            Action::Keep(_) | Action::Release { .. } | Action::Spool => {}
            Action::Lease { .. } | Action::Load { .. } | Action::Persist(_) | Action::Pull { .. } => {
                self.spawn(room_storage::run(Rc::clone(self), action));
            }
        }
    }

    /// Tells the room who does not keep up. What it asks for is done by the running `drain`.
    fn note_queued(&self, queued: &[Queued]) {
        for (session, bytes) in queued {
            self.core.borrow_mut().handle_queued(*session, *bytes, clock::now());
        }
    }

    /// One timer, for the earliest thing that is due (D1a). A later one is replaced.
    fn arm(self: &Rc<Self>) {
        let due = self.core.borrow().poll_timeout();
        let busy = self.core.borrow().owes_something();
        if self.busy.replace(busy) != busy {
            busy::set(&self.raw_state, busy);
        }
        let mut timer = self.timer.borrow_mut();
        match (due, timer.as_ref()) {
            (None, None) => return,
            (Some(due), Some(armed)) if armed.at <= due => return,
            _ => {}
        }
        if let Some(armed) = timer.take() {
            armed.abort.abort();
        }
        let Some(at) = due else { return };
        let wait = Duration::from_millis(at.saturating_sub(clock::now()));
        let (sleep, abort) = futures_util::future::abortable(worker::Delay::from(wait));
        *timer = Some(Timer { at, abort });
        let shell = Rc::clone(self);
        let fire = async move {
            if sleep.await.is_ok() {
                shell.timer.borrow_mut().take();
                shell.with(Core::handle_timeout);
            }
        };
        self.spawn(fire);
    }

    fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        wasm_bindgen_futures::spawn_local(guard::guarded(self.raw_state.clone(), work));
    }

    /// Panics on purpose: the test of D1b asks for it through the development route.
    #[allow(clippy::panic, clippy::panic_in_result_fn)]
    pub(super) fn panic(&self) -> Result<Response> {
        panic!("asked to panic");
    }

    pub(super) fn log(&self, what: &str, error: &dyn std::fmt::Debug) {
        console_error!("room {}: {what}: {error:?}", self.workspace);
    }
}

/// Documents whose updates are stored in one transaction: three statements each.
const FLUSHED_TOGETHER: usize = 20;

/// A mark on the object's state that says that the room owes somebody something. The state outlives a
/// reset of the WASM instance and does not outlive hibernation, which a busy room does not enter.
mod busy {
    use js_sys::Reflect;
    use wasm_bindgen::JsValue;

    const MARK: &str = "yrelayBusy";

    pub fn is_set(state: &JsValue) -> bool {
        Reflect::get(state, &JsValue::from_str(MARK)).is_ok_and(|mark| mark.is_truthy())
    }

    pub fn set(state: &JsValue, busy: bool) {
        let _ = Reflect::set(state, &JsValue::from_str(MARK), &JsValue::from_bool(busy));
    }
}
