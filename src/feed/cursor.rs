//! Where a reader starts, and whether the log can still serve it.

use std::fmt;

use super::limits::MAX_CLOCK;

/// Where a stream or a list of changes starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After this clock. 0 is before the first change.
    After(u64),
    /// At the head, whatever it is: only what happens from now on.
    Now,
}

/// Whether the log holds every change after a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Resume {
    /// It does not: 410 on the list (F2), `event: reset` on the stream (F3).
    Gone,
    /// It does, also when there is none.
    Ok,
}

/// A cursor that is not a clock. The answer is 400 before a stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorError {
    /// Not a decimal number without a sign. Send an `id` of this feed, or nothing.
    NotANumber,
    /// Over 2^53 - 1, which no clock reaches.
    TooLarge,
}

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotANumber => "the cursor is not a decimal clock",
            Self::TooLarge => "the cursor is over 2^53 - 1",
        })
    }
}

impl std::error::Error for CursorError {}

/// The start that a request asks for. The header wins: a browser repeats the URL of its first
/// connection for ever, and only the header moves (S02). An empty value is no value, so an empty
/// header leaves the word to the query; with neither the reader starts now.
///
/// # Errors
///
/// The value that counts is not a clock. A bad header is not replaced by a good query: the reader
/// believes it has what the header says.
pub fn parse_cursor(last_event_id: Option<&str>, since: Option<&str>) -> Result<Start, CursorError> {
    let value = [last_event_id, since].into_iter().flatten().find(|value| !value.is_empty());
    let Some(value) = value else { return Ok(Start::Now) };
    // `parse` alone would take "+5".
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CursorError::NotANumber);
    }
    match value.parse() {
        Ok(clock) if clock <= MAX_CLOCK => Ok(Start::After(clock)),
        _ => Err(CursorError::TooLarge),
    }
}

/// Whether a reader that has everything up to `since` can go on (F2, S01). `floor` is the clock of
/// the newest pruned row (0 when none was): the log holds `floor + 1 ..= head`. A cursor above the
/// head is one of a database that was restored since.
pub const fn check_cursor(since: u64, head: u64, floor: u64) -> Resume {
    if since < floor || since > head { Resume::Gone } else { Resume::Ok }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s01_the_cursors_of_the_case_list_parse_as_documented() {
        for (value, expected) in [
            ("", Ok(Start::Now)),
            ("0", Ok(Start::After(0))),
            ("40", Ok(Start::After(40))),
            ("1000040", Ok(Start::After(1_000_040))),
            ("9007199254740991", Ok(Start::After(MAX_CLOCK))),
            ("9007199254740992", Err(CursorError::TooLarge)),
            ("99999999999999999999999999", Err(CursorError::TooLarge)),
            ("abc", Err(CursorError::NotANumber)),
            ("-1", Err(CursorError::NotANumber)),
            ("+1", Err(CursorError::NotANumber)),
            ("1.5", Err(CursorError::NotANumber)),
            (" 1", Err(CursorError::NotANumber)),
            ("0x10", Err(CursorError::NotANumber)),
            ("١", Err(CursorError::NotANumber)),
        ] {
            assert_eq!(parse_cursor(None, Some(value)), expected, "?since={value}");
            assert_eq!(parse_cursor(Some(value), None), expected, "Last-Event-ID: {value}");
        }
        assert_eq!(parse_cursor(None, None), Ok(Start::Now));
    }

    #[test]
    fn s02_the_header_wins_over_the_query_unless_it_is_empty() {
        assert_eq!(parse_cursor(Some("41"), Some("40")), Ok(Start::After(41)));
        assert_eq!(parse_cursor(Some(""), Some("40")), Ok(Start::After(40)));
        assert_eq!(parse_cursor(Some("x"), Some("40")), Err(CursorError::NotANumber));
        assert_eq!(parse_cursor(Some("41"), Some("x")), Ok(Start::After(41)));
    }

    #[test]
    fn f02_a_cursor_outside_floor_and_head_is_gone() {
        for (since, head, floor, expected) in [
            (0, 0, 0, Resume::Ok),
            (0, 10, 0, Resume::Ok),
            (10, 10, 0, Resume::Ok),
            (11, 10, 0, Resume::Gone),
            (1_000_010, 10, 0, Resume::Gone),
            (4, 10, 4, Resume::Ok),
            (3, 10, 4, Resume::Gone),
            (0, 10, 4, Resume::Gone),
        ] {
            assert_eq!(check_cursor(since, head, floor), expected, "since {since} head {head} floor {floor}");
        }
    }
}
