//! The body of `PUT …/docs/<path>` in each of its types becomes one Yjs update.

use super::edit::{parse_content, text_content};
use super::media::{JSON_TYPES, require_media};
use super::problem::{Problem, ProblemCode};
use super::request::check_update_size;
use crate::document::checkpoint::has_hole;
use crate::document::edit::content;
use crate::document::validate::validate_update;

/// The update of a body whose type was checked; without a type it is an update. `client` is a new Yjs
/// client, for what is made of text or JSON.
///
/// # Errors
/// `invalid_update`, or those of the format.
pub fn parse_replacement(
    content_type: Option<&str>,
    body: Vec<u8>,
    root: Option<&str>,
    client: u64,
) -> Result<Vec<u8>, Problem> {
    let is = |name: &str| content_type.is_some() && require_media(content_type, &[name]).is_ok();
    let roots = if is(JSON_TYPES[0]) {
        parse_content(&body, root)?
    } else if is("text/plain") {
        text_content(body, root)?
    } else {
        return whole_update(body);
    };
    let made = content(&roots, client).map_err(|_| Problem::new(ProblemCode::PayloadTooLarge))?;
    Ok(made.update)
}

/// An update that can stand alone.
fn whole_update(body: Vec<u8>) -> Result<Vec<u8>, Problem> {
    check_update_size(body.len())?;
    let invalid = |detail: String| Problem::because(ProblemCode::InvalidUpdate, detail);
    validate_update(&body).map_err(|error| invalid(format!("The bytes are not a Yjs update: {error}.")))?;
    match has_hole(&body) {
        Ok(false) => Ok(body),
        _ => Err(invalid("The update depends on others: send the whole document.".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::project;
    use serde_json::json;

    fn shown(content_type: &str, body: &[u8], root: Option<&str>) -> serde_json::Value {
        project::json(&parse_replacement(Some(content_type), body.to_vec(), root, 7).unwrap()).unwrap()
    }

    #[test]
    fn b07_text_json_and_updates_become_the_same_document() {
        let expected = json!({"t": "hé😀", "m": {"k": {"x": [1]}}, "a": [1, "two", null]});
        assert_eq!(shown("application/json; charset=utf-8", expected.to_string().as_bytes(), None), expected);
        assert_eq!(shown("text/plain", "hé😀".as_bytes(), Some("t")), json!({"t": "hé😀"}));
        assert_eq!(shown("application/json", b"[3]", Some("a")), json!({"a": [3]}));
        let update = parse_replacement(Some("text/plain"), b"x".to_vec(), Some("t"), 7).unwrap();
        assert_eq!(parse_replacement(None, update.clone(), None, 1), Ok(update));
    }

    #[test]
    fn elements_of_an_array_are_one_struct() {
        let many = json!(vec![1; 10_000]).to_string();
        let update = parse_replacement(Some("application/json"), many.into_bytes(), Some("a"), 7).unwrap();
        assert_eq!(validate_update(&update).unwrap().structs, 1);
    }

    #[test]
    fn an_update_that_is_not_whole_is_refused() {
        // Client 1 from clock 5 on.
        let part = [1, 1, 1, 5, 4, 1, 1, b't', 1, b'a', 0];
        for body in [&part[..], b"", b"text"] {
            let problem = parse_replacement(None, body.to_vec(), None, 7).unwrap_err();
            assert_eq!(problem.code, ProblemCode::InvalidUpdate);
        }
    }
}
