//! The world's time, for code that reads a clock.

use std::cell::Cell;

use crate::protocol::Timestamp;

thread_local! {
    static NOW: Cell<Timestamp> = const { Cell::new(0) };
}

/// The time in the world of this thread.
pub fn now() -> Timestamp {
    NOW.get()
}

/// Moves it.
pub fn set(now: Timestamp) {
    NOW.set(now);
}
