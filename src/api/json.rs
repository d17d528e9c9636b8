//! JSON bodies: size and nesting are checked before anything is built (R4).

use serde_json::{Map, Value};

use super::limits::{MAX_BODY_BYTES, MAX_JSON_DEPTH};
use super::problem::{Problem, ProblemCode};

/// Reads a whole body. Of a repeated member the last one counts, as in JavaScript; numbers are
/// kept as JavaScript would keep them, except that whole numbers of 64 bits stay exact.
///
/// # Errors
/// `payload_too_large` or `invalid_json`.
pub fn parse_json(body: &[u8]) -> Result<Value, Problem> {
    check_size(body.len())?;
    if !depth_is_within(body, MAX_JSON_DEPTH) {
        return Err(Problem::because(
            ProblemCode::InvalidJson,
            format!("The body is nested deeper than {MAX_JSON_DEPTH} levels."),
        ));
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| Problem::because(ProblemCode::InvalidJson, "The body is not UTF-8."))?;
    serde_json::from_str(text).map_err(|error| {
        // Only the position: serde's message may quote the body, and a detail ends up in logs.
        Problem::because(
            ProblemCode::InvalidJson,
            format!("The body is not JSON, at line {} column {}.", error.line(), error.column()),
        )
    })
}

/// Refuses a body by its length, which a shell knows from `Content-Length` before it reads.
///
/// # Errors
/// `payload_too_large`.
pub fn check_size(bytes: usize) -> Result<(), Problem> {
    if bytes > MAX_BODY_BYTES {
        return Err(Problem::new(ProblemCode::PayloadTooLarge).with("limit", MAX_BODY_BYTES));
    }
    Ok(())
}

/// Reads a body that has to be an object with only known members.
///
/// # Errors
/// `payload_too_large`, `invalid_json` or `bad_request`.
pub(super) fn parse_object(body: &[u8], known: &[&str]) -> Result<Map<String, Value>, Problem> {
    let Value::Object(object) = parse_json(body)? else {
        return Err(Problem::because(ProblemCode::BadRequest, "The body has to be a JSON object."));
    };
    match object.keys().find(|name| !known.contains(&name.as_str())) {
        Some(_) => Err(Problem::because(
            ProblemCode::BadRequest,
            format!("The body has a member that is not one of: {}.", known.join(", ")),
        )),
        None => Ok(object),
    }
}

/// Whether no bracket opens deeper than `limit`. Looks only at brackets outside of strings, so it
/// never recurses; what is not JSON at all is left to the parser.
fn depth_is_within(body: &[u8], limit: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in body {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'[' | b'{') => {
                depth = depth.saturating_add(1);
                if depth > limit {
                    return false;
                }
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Vec<u8> {
        format!("{}1{}", "[".repeat(depth), "]".repeat(depth)).into_bytes()
    }

    #[test]
    fn r4_64_levels_are_read_and_65_are_refused_before_parsing() {
        assert!(parse_json(&nested(64)).is_ok());
        let refused = parse_json(&nested(65)).unwrap_err();
        assert_eq!((refused.code, refused.detail.contains("64")), (ProblemCode::InvalidJson, true));
        // Half a megabyte of open brackets: the scan stops at the 65th.
        assert!(parse_json(&vec![b'['; 500_000]).is_err());
        assert!(parse_json(&b"{\"a\":".repeat(10_000)).is_err());
    }

    #[test]
    fn brackets_inside_strings_are_not_nesting() {
        let text = serde_json::to_vec(&"[{\"\\".repeat(100)).unwrap();
        assert_eq!(parse_json(&text).unwrap(), Value::from("[{\"\\".repeat(100)));
        assert!(
            parse_json(format!("[\"\\\\\",{}]", String::from_utf8(nested(63)).unwrap()).as_bytes()).is_ok()
        );
        assert!(
            parse_json(format!("[\"\\\\\",{}]", String::from_utf8(nested(64)).unwrap()).as_bytes()).is_err()
        );
    }

    #[test]
    fn d04_a_body_over_one_mebibyte_is_413() {
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2)).into_bytes();
        assert!(parse_json(&text(MAX_BODY_BYTES)).is_ok());
        assert_eq!(parse_json(&text(MAX_BODY_BYTES + 1)).unwrap_err().status(), 413);
        assert_eq!(check_size(2_100_000).unwrap_err().extra["limit"], 1_048_576);
    }

    #[test]
    fn what_is_not_json_is_400_without_quoting_it() {
        for body in ["", "{", "nope secret", "[1,]", "1 2", "\"\\ud800\"", "NaN", "1e999", "\u{feff}1"] {
            let problem = parse_json(body.as_bytes()).unwrap_err();
            assert_eq!(problem.code, ProblemCode::InvalidJson, "{body}");
            assert!(!problem.body().contains("secret"));
        }
        assert!(parse_json(b"\"\xff\"").is_err());
    }

    #[test]
    fn objects_take_only_known_members() {
        assert!(parse_object(b"{\"id\":1}", &["id"]).is_ok());
        assert_eq!(parse_object(b"{\"x\":1}", &["id"]).unwrap_err().code, ProblemCode::BadRequest);
        assert_eq!(parse_object(b"[]", &["id"]).unwrap_err().code, ProblemCode::BadRequest);
    }
}
