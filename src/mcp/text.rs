//! Long text page by page. A cursor names the clock of what is read, so that pages of two versions
//! are never put together.

use super::limits::MAX_TEXT_BYTES;
use crate::api::problem::{Problem, ProblemCode};

/// One page of a text, and the cursor of the next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextPage<'a> {
    pub text: &'a str,
    pub next: Option<String>,
}

/// Cuts the page that a cursor asks for: the first without one. `clock` is that of the text.
pub(super) fn page<'a>(text: &'a str, clock: u64, cursor: Option<&str>) -> Result<TextPage<'a>, Problem> {
    let unknown =
        || Problem::because(ProblemCode::BadRequest, "`cursor` is not one that this text gave as `next`.");
    let start = match cursor {
        None => 0,
        Some(cursor) => {
            let (read, start) = cursor.split_once(':').ok_or_else(unknown)?;
            let (read, start) = (read.parse::<u64>(), start.parse::<usize>());
            let (Ok(read), Ok(start)) = (read, start) else { return Err(unknown()) };
            if read != clock {
                return Err(Problem::because(ProblemCode::PreconditionFailed, CHANGED).with("clock", clock));
            }
            start
        }
    };
    let end = text.floor_char_boundary(start.saturating_add(MAX_TEXT_BYTES));
    let text_of_page = text.get(start..end).ok_or_else(unknown)?;
    Ok(TextPage { text: text_of_page, next: (end < text.len()).then(|| format!("{clock}:{end}")) })
}

const CHANGED: &str = "It changed after the page before was read: begin again without `cursor`.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_put_together_are_the_text_and_split_no_character() {
        let text = "a😀é".repeat(40_000);
        let (mut cursor, mut read, mut pages) = (None::<String>, String::new(), 0);
        loop {
            let page = page(&text, 7, cursor.as_deref()).unwrap();
            assert!(page.text.len() <= MAX_TEXT_BYTES && !page.text.is_empty());
            read.push_str(page.text);
            pages += 1;
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!((read == text, pages), (true, 5));
        assert_eq!(page("", 0, None), Ok(TextPage { text: "", next: None }));
    }

    #[test]
    fn a_cursor_of_another_version_or_of_nobody_is_refused() {
        let code = |cursor| page("é", 7, Some(cursor)).unwrap_err().code;
        assert_eq!(code("6:0"), ProblemCode::PreconditionFailed);
        for bad in
            ["", "7", "7:", "7:1", "7:3", "7:-1", "x:0", "7:99999999999999999999", "7:18446744073709551615"]
        {
            assert_eq!(code(bad), ProblemCode::BadRequest, "{bad}");
        }
    }
}
