//! What happens when Rust panics all the same (D1b).
//!
//! A panic resets the WASM instance that every object of the isolate shares, and a Durable Object
//! call that was running then never answers. So the hook aborts the object whose code ran: its
//! callers get an error at once, its sockets close, and clients reconnect. It cures nothing else,
//! which is why the lints forbid whatever can panic.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use wasm_bindgen::{JsCast, JsValue};

thread_local! {
    /// The state of the object whose code runs now.
    static RUNNING: RefCell<Option<JsValue>> = const { RefCell::new(None) };
}

/// Chains the hook after the one that the platform binding installs. Once is enough.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            previous(info);
            let running =
                RUNNING.try_with(|running| running.try_borrow().ok().and_then(|state| state.clone()));
            if let Ok(Some(state)) = running {
                abort(&state);
            }
        }));
    });
}

fn abort(state: &JsValue) {
    let Ok(abort) = js_sys::Reflect::get(state, &JsValue::from_str("abort")) else { return };
    if let Some(abort) = abort.dyn_ref::<js_sys::Function>() {
        // It throws by design; the hook has nobody to tell.
        let _ = abort.call1(state, &JsValue::from_str("yrelay: panic"));
    }
}

/// Runs the work of an object that does not wait.
pub fn run<T>(state: &JsValue, work: impl FnOnce() -> T) -> T {
    let before = RUNNING.with(|running| running.replace(Some(state.clone())));
    let result = work();
    RUNNING.with(|running| *running.borrow_mut() = before);
    result
}

/// A future that says whose it is while it is polled.
pub struct Guarded<F> {
    state: JsValue,
    future: Pin<Box<F>>,
}

/// Wraps the work of an object.
pub fn guarded<F: Future>(state: JsValue, future: F) -> Guarded<F> {
    Guarded { state, future: Box::pin(future) }
}

impl<F: Future> Future for Guarded<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { state, future } = &mut *self;
        run(state, || future.as_mut().poll(context))
    }
}
