//! Ends a response whose reader does not read.
//!
//! The platform asks a response for more only when the reader has taken what came before. Until
//! then the response is not polled at all: it cannot look at its own time, and what it owns, such as
//! a bridge to a room and what the room says over it, stays for as long as the reader likes. So a
//! task beside it looks at it, and drops it.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::{AbortHandle, abortable};
use worker::Delay;

use super::clock;
use crate::protocol::Timestamp;

/// A stream that ends once nobody has asked it for anything for [`STALL_MS`]. What it wraps has to
/// wake more often than that while it waits for anything but its reader.
pub struct Attended<S> {
    shared: Rc<Shared<S>>,
    /// The task ends with the stream: the platform may never fire the timers of an ended request.
    task: AbortHandle,
}

struct Shared<S> {
    /// Nothing once it is over, and while it is polled.
    stream: Cell<Option<Pin<Box<S>>>>,
    polled: Cell<Timestamp>,
}

impl<S: Stream + 'static> Attended<S> {
    /// Wraps a stream that is about to be sent.
    pub fn new(stream: S) -> Self {
        let stream = Cell::new(Some(Box::pin(stream)));
        let shared = Rc::new(Shared { stream, polled: Cell::new(clock::now()) });
        let (watch, task) = abortable(watch(Rc::downgrade(&shared)));
        wasm_bindgen_futures::spawn_local(async {
            // Either it dropped the stream, or the stream is over.
            let _ = watch.await;
        });
        Self { shared, task }
    }
}

async fn watch<S>(shared: Weak<Shared<S>>) {
    loop {
        Delay::from(Duration::from_millis(LOOK_MS)).await;
        let Some(shared) = shared.upgrade() else { return };
        if shared.polled.get().saturating_add(STALL_MS) <= clock::now() {
            drop(shared.stream.take());
            return;
        }
    }
}

impl<S: Stream> Stream for Attended<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let Some(mut stream) = self.shared.stream.take() else { return Poll::Ready(None) };
        self.shared.polled.set(clock::now());
        let next = stream.as_mut().poll_next(context);
        if !matches!(next, Poll::Ready(None)) {
            self.shared.stream.set(Some(stream));
        }
        next
    }
}

impl<S> Drop for Attended<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A stream of changes that waits for the room, for D1 or for time is polled every 30 s at least.
/// One that was not for twice as long waits for its reader.
const STALL_MS: u64 = 60_000;

/// Pause between two looks.
const LOOK_MS: u64 = 30_000;
