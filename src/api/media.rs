//! `Content-Type` of request bodies.

use super::problem::{Problem, ProblemCode};

/// Bytes of a Yjs update; the generic name and the specific one mean the same.
pub const UPDATE_TYPES: [&str; 2] = ["application/octet-stream", "application/x-yjs-update"];

/// The content of a document: a Yjs update, or what one is made of.
pub const CONTENT_TYPES: [&str; 4] =
    ["application/octet-stream", "application/x-yjs-update", "text/plain", "application/json"];

/// A record's value, or the body of any other JSON endpoint.
pub const JSON_TYPES: [&str; 1] = ["application/json"];

/// A merge patch; plain JSON is understood as one.
pub const PATCH_TYPES: [&str; 2] = ["application/merge-patch+json", "application/json"];

/// Checks that a body is of one of these types. Parameters such as `charset` are ignored: JSON is
/// always UTF-8. A body without `Content-Type` is taken as the first type.
///
/// # Errors
/// `unsupported_media_type`, which names the types.
pub fn require_media(content_type: Option<&str>, accepted: &[&str]) -> Result<(), Problem> {
    let Some(header) = content_type else { return Ok(()) };
    let essence = header.split_once(';').map_or(header, |(essence, _)| essence).trim();
    if accepted.iter().any(|known| essence.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    Err(Problem::because(
        ProblemCode::UnsupportedMediaType,
        format!("This endpoint takes {}.", accepted.join(" or ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_compared_without_case_and_parameters() {
        assert!(require_media(Some("Application/JSON; charset=utf-8"), &JSON_TYPES).is_ok());
        assert!(require_media(None, &UPDATE_TYPES).is_ok());
        assert!(require_media(Some("application/x-yjs-update"), &UPDATE_TYPES).is_ok());
        assert!(require_media(Some("application/merge-patch+json"), &PATCH_TYPES).is_ok());
    }

    #[test]
    fn other_types_are_415_and_the_right_ones_are_named() {
        for bad in ["", "text/plain", "application/jsonp", "application/x-www-form-urlencoded"] {
            let problem = require_media(Some(bad), &JSON_TYPES).unwrap_err();
            assert_eq!((problem.status(), problem.detail.contains("application/json")), (415, true));
        }
        assert!(require_media(Some("application/merge-patch+json"), &JSON_TYPES).is_err());
    }
}
