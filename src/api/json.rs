//! JSON bodies: size and nesting are checked before anything is built (R4).

use serde_json::{Map, Value};

use super::limits::{MAX_BODY_BYTES, MAX_JSON_DEPTH};
use super::problem::{Problem, ProblemCode};
use super::query::MAX_SAFE_INTEGER;

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

/// A whole number from 0 to 2^53 - 1, the largest that JavaScript holds exactly. What counts is the value, not
/// how it is written: `60`, `60.0` and `6e1` are the same number, in JSON as in JSON Schema, and some languages
/// write a whole number in the second way.
#[must_use]
pub fn whole(value: &Value) -> Option<u64> {
    match value.as_u64() {
        Some(number) => Some(number).filter(|number| *number <= MAX_SAFE_INTEGER),
        None => value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && (0.0..=MAX_EXACT_FLOAT).contains(number))
            .map(|number| number as u64),
    }
}

/// Up to here a number with a point or an exponent is read exactly: with one digit after the point it has no
/// more digits than a double holds. No clock and no time is larger.
const MAX_EXACT_FLOAT: f64 = 900_000_000_000_000.0;

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
    use crate::api::edit::{Base, parse_edits};
    use crate::api::op::parse_ops;
    use crate::api::precondition::Precondition;
    use crate::api::presence::parse_presence;
    use crate::api::telemetry::parse_telemetry;

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

    /// How numbers are written, and what they are.
    const WRITTEN: [(&str, Option<u64>); 21] = [
        ("0", Some(0)),
        ("60", Some(60)),
        ("60.0", Some(60)),
        ("60.000", Some(60)),
        ("6e1", Some(60)),
        ("6E+1", Some(60)),
        ("600e-1", Some(60)),
        ("0.6e2", Some(60)),
        ("-0", Some(0)),
        ("-0.0", Some(0)),
        ("9007199254740991", Some(MAX_SAFE_INTEGER)),
        ("900000000000000.0", Some(900_000_000_000_000)),
        ("9007199254740991.0", None),
        ("9007199254740992", None),
        ("9007199254740993.0", None),
        ("1e300", None),
        ("60.5", None),
        ("59.99999999999999", None),
        ("-60", None),
        ("\"60\"", None),
        ("null", None),
    ];

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        for (written, number) in WRITTEN {
            assert_eq!(whole(&parse_json(written.as_bytes()).unwrap()), number, "{written}");
        }
    }

    #[test]
    fn every_body_that_asks_for_a_whole_number_takes_it_however_it_is_written() {
        type Read = fn(&[u8]) -> Option<u64>;
        let entrances: [(&str, Read); 6] = [
            (r#"{"session":"a","ttl":N}"#, |body| Some(parse_presence(body).ok()?.ttl_ms / 1000)),
            (r#"{"ops":[{"op":"delete","path":"a","ifMatch":N}]}"#, |body| {
                match parse_ops(body).ok()?.first()?.precondition {
                    Precondition::IfMatch(clock) => Some(clock),
                    _ => None,
                }
            }),
            (r#"{"root":"t","base":N,"edits":[{"op":"append","text":"a"}]}"#, |body| {
                match parse_edits(body).ok()?.base? {
                    Base::Clock(clock) => Some(clock),
                    Base::Vector(_) => None,
                }
            }),
            (r#"{"root":"t","edits":[{"op":"insert","text":"a","at":N}]}"#, |body| {
                parse_edits(body).ok().map(|_| 60)
            }),
            (r#"{"root":"t","edits":[{"op":"delete","quote":"a","occurrence":N}]}"#, |body| {
                parse_edits(body).ok().map(|_| 60)
            }),
            (r#"{"events":[{"name":"relay_cycle_all_failed","labels":["cf"],"at":N}]}"#, |body| {
                Some(parse_telemetry(body).ok()?.first()?.at)
            }),
        ];
        for (body, read) in entrances {
            for (written, number) in WRITTEN {
                let read = read(body.replace('N', written).as_bytes());
                match number {
                    Some(60) => assert_eq!(read, Some(60), "{body} with {written}"),
                    None => assert_eq!(read, None, "{body} with {written}"),
                    // Whether it is within bounds is another matter.
                    Some(_) => {}
                }
            }
        }
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
