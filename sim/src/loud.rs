//! What happens in a world, line by line, for whoever replays a trace.

use std::cell::Cell;

thread_local! {
    static LOUD: Cell<bool> = const { Cell::new(false) };
}

/// Prints what happens in the worlds of this thread, or no more.
pub fn set(is_loud: bool) {
    LOUD.set(is_loud);
}

/// Prints a line if somebody wants to read it.
pub fn tell(now: u64, line: impl FnOnce() -> String) {
    if LOUD.get() {
        println!("{:>9} {}", now - crate::world::START, line());
    }
}
