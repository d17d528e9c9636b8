//! A bounded check that text is JSON, without building a value and without recursion.

use serde::de::IgnoredAny;

use super::error::DecodeError;

/// Whether `text` is one JSON value nested at most `max_depth` deep.
///
/// Clients parse what a relay forwards, and a parse that throws in a browser takes the handler
/// with it, so the relay looks first (W4).
pub fn check(text: &str, max_depth: usize) -> Result<(), DecodeError> {
    if depth(text) > max_depth {
        return Err(DecodeError::TooLarge);
    }
    // serde_json skips a value with an explicit stack, so depth costs no call stack here.
    serde_json::from_str::<IgnoredAny>(text).map(|_| ()).map_err(|_| DecodeError::NotJson)
}

/// Deepest nesting of brackets outside strings. An upper bound for text that is not JSON.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_pass_and_other_text_does_not() {
        for text in ["null", "{}", "[1,\"]]]]\"]", "{\"a\":{\"b\":[]}}", " 1 "] {
            assert_eq!(check(text, 3), Ok(()), "{text}");
        }
        for text in ["", "{", "nul", "[1,]", "1 2", "undefined"] {
            assert_eq!(check(text, 3), Err(DecodeError::NotJson), "{text}");
        }
    }

    #[test]
    fn w06_a_nesting_bomb_is_refused_without_recursion() {
        let bomb = "[".repeat(1_000_000);
        assert_eq!(check(&bomb, 64), Err(DecodeError::TooLarge));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(check(&deep, 200_000), Ok(()));
    }
}
