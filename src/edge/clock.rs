//! The one clock of the Worker. The core takes its time from here, as an argument.

use crate::protocol::Timestamp;

/// Milliseconds since the Unix epoch.
#[must_use]
pub fn now() -> Timestamp {
    js_sys::Date::now() as Timestamp
}

/// Seconds since the Unix epoch, as tokens count.
#[must_use]
pub fn now_s() -> u64 {
    now() / 1000
}
