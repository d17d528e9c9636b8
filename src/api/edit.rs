//! The bodies of edits and of new documents, and how refused edits are told.

use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::{Map, Value};

use super::json::{parse_json, parse_object, whole};
use super::limits::{MAX_OPS, MAX_ROOT_BYTES, MAX_ROOTS};
use super::op::{bad, take, take_text};
use super::problem::{Problem, ProblemCode};
use crate::document::edit::{
    AnyValue, Attributes, Edit, EditError, Inserted, Pointer, Quote, Refusal, RootContent, Spot,
};
use crate::document::error::DocumentError;
use crate::document::validate::validate_state_vector;

/// The body of `POST …/docs/<path>/edits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditRequest {
    /// The root that is edited.
    pub root: String,
    /// What to do, in order.
    pub edits: Vec<Edit>,
    /// What the caller has read.
    pub base: Option<Base>,
}

impl EditRequest {
    /// Whether the edits do the same whatever the text is.
    #[must_use]
    pub fn only_appends(&self) -> bool {
        self.edits.iter().all(|edit| matches!(edit, Edit::Append(_)))
    }
}

/// What a caller has read of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The document at this clock.
    Clock(u64),
    /// At least what this state vector says.
    Vector(Vec<u8>),
}

/// Reads the body of `POST …/docs/<path>/edits`: 1 to 50 edits.
///
/// # Errors
/// Those of [`parse_json`], or `bad_request`, with the `index` of the edit if it is about one.
pub fn parse_edits(body: &[u8]) -> Result<EditRequest, Problem> {
    let mut fields = parse_object(body, &["root", "edits", "base"])?;
    let root = take_text(&mut fields, "root")?;
    check_root(&root)?;
    let base = fields.remove("base").map(parse_base).transpose()?;
    let Value::Array(items) = take(&mut fields, "edits")? else {
        return Err(bad("`edits` has to be an array."));
    };
    if items.is_empty() || items.len() > MAX_OPS {
        return Err(bad(&format!("`edits` holds 1 to {MAX_OPS} edits.")).with("limit", MAX_OPS));
    }
    let parse = |(index, item)| parse_edit(item).map_err(|problem: Problem| problem.with("index", index));
    let edits = items.into_iter().enumerate().map(parse).collect::<Result<_, _>>()?;
    Ok(EditRequest { root, edits, base })
}

/// Reads a JSON body of `PUT …/docs/<path>`: `{root: value}`, or the value of a root that is named.
///
/// # Errors
/// Those of [`parse_json`], or `bad_request`.
pub fn parse_content(body: &[u8], root: Option<&str>) -> Result<Vec<(String, RootContent)>, Problem> {
    let value = parse_json(body)?;
    let roots = match (root, value) {
        (Some(root), value) => vec![(root.to_owned(), value)],
        (None, Value::Object(members)) => members.into_iter().collect(),
        (None, _) => return Err(bad("Without `root` the body is an object of roots.")),
    };
    if roots.len() > MAX_ROOTS {
        return Err(bad(&format!("A document has at most {MAX_ROOTS} roots.")).with("limit", MAX_ROOTS));
    }
    let mut contents = Vec::with_capacity(roots.len());
    for (name, value) in roots {
        check_root(&name)?;
        contents.push((name, root_content(value)?));
    }
    Ok(contents)
}

/// A text body of `PUT …/docs/<path>`.
///
/// # Errors
/// `bad_request` without a root, or when the text is not UTF-8.
pub fn text_content(body: Vec<u8>, root: Option<&str>) -> Result<Vec<(String, RootContent)>, Problem> {
    let root = root.ok_or_else(|| bad("The parameter `root` names the root that holds the text."))?;
    check_root(root)?;
    let text = String::from_utf8(body).map_err(|_| bad("The body is not UTF-8."))?;
    Ok(vec![(root.to_owned(), RootContent::Text(text))])
}

/// The problem of edits that were not made.
#[must_use]
pub fn refused(error: &EditError) -> Problem {
    let (index, why) = match error {
        EditError::Refused { index, why } => (*index, why),
        EditError::Document(cause @ DocumentError::Unsupported(_)) => {
            return Problem::because(ProblemCode::InvalidEdit, sentence(&cause.to_string()));
        }
        _ => return Problem::new(ProblemCode::Internal),
    };
    let (code, count) = match why {
        Refusal::QuoteAmbiguous(count) => (ProblemCode::QuoteAmbiguous, Some(*count)),
        Refusal::QuoteNotFound(count) => (ProblemCode::QuoteNotFound, Some(*count)),
        Refusal::PointerNotFound => (ProblemCode::PointerNotFound, None),
        _ => (ProblemCode::InvalidEdit, None),
    };
    let problem = Problem::because(code, sentence(&why.to_string())).with("index", index);
    count.map_or(problem.clone(), |count| problem.with("count", count))
}

/// A state vector in base64url, as answers have it.
#[must_use]
pub fn encode_vector(vector: &[u8]) -> String {
    Base64UrlUnpadded::encode_string(vector)
}

fn parse_edit(item: Value) -> Result<Edit, Problem> {
    let Value::Object(mut fields) = item else { return Err(bad("An edit has to be an object.")) };
    let edit = match take_text(&mut fields, "op")?.as_str() {
        "append" => Edit::Append(take_inserted(&mut fields)?),
        "delete" => Edit::Replace(take_quote(&mut fields, "quote")?, String::new()),
        "format" => {
            let quote = take_quote(&mut fields, "quote")?;
            let attributes = take_attributes(&mut fields)?.ok_or_else(|| bad("`attributes` is missing."))?;
            Edit::Format(quote, attributes)
        }
        "insert" if fields.contains_key("pointer") => {
            Edit::InsertItem(take_pointer(&mut fields)?, take_value(&mut fields)?)
        }
        "insert" => Edit::Insert(take_spot(&mut fields)?, take_inserted(&mut fields)?),
        "put" => Edit::Put(take_pointer(&mut fields)?, take_value(&mut fields)?),
        "remove" => Edit::Remove(take_pointer(&mut fields)?),
        "replace" => Edit::Replace(take_quote(&mut fields, "quote")?, take_text(&mut fields, "with")?),
        "set" => Edit::Set(take_text(&mut fields, "text")?),
        _ => {
            return Err(bad(
                "`op` is `append`, `delete`, `format`, `insert`, `put`, `remove`, `replace` or `set`.",
            ));
        }
    };
    if fields.is_empty() { Ok(edit) } else { Err(bad("The edit has a member that its `op` does not have.")) }
}

fn take_inserted(fields: &mut Map<String, Value>) -> Result<Inserted, Problem> {
    Ok(Inserted { text: take_text(fields, "text")?, attributes: take_attributes(fields)? })
}

fn take_quote(fields: &mut Map<String, Value>, name: &str) -> Result<Quote, Problem> {
    let text = take_text(fields, name)?;
    if text.is_empty() {
        return Err(bad(&format!("`{name}` is empty.")));
    }
    let occurrence = match fields.remove("occurrence") {
        None => None,
        Some(value) => Some(
            number(&value)
                .filter(|number| *number > 0)
                .ok_or_else(|| bad("`occurrence` is a whole number from 1."))?,
        ),
    };
    Ok(Quote { text, occurrence })
}

fn take_spot(fields: &mut Map<String, Value>) -> Result<Spot, Problem> {
    let has = |name| fields.contains_key(name);
    match (has("before"), has("after"), fields.remove("at")) {
        (true, false, None) => take_quote(fields, "before").map(Spot::Before),
        (false, true, None) => take_quote(fields, "after").map(Spot::After),
        (false, false, Some(value)) => {
            number(&value).map(Spot::At).ok_or_else(|| bad("`at` is a whole number from 0."))
        }
        _ => Err(bad("`insert` has one of `before`, `after`, `at` and `pointer`.")),
    }
}

fn take_attributes(fields: &mut Map<String, Value>) -> Result<Option<Attributes>, Problem> {
    match fields.remove("attributes") {
        None => Ok(None),
        Some(Value::Object(members)) => {
            Ok(Some(members.into_iter().map(|(name, value)| (name, value.to_string())).collect()))
        }
        Some(_) => Err(bad("`attributes` has to be an object.")),
    }
}

fn take_pointer(fields: &mut Map<String, Value>) -> Result<Pointer, Problem> {
    let text = take_text(fields, "pointer")?;
    Pointer::parse(&text).ok_or_else(|| {
        bad("`pointer` is a JSON pointer that begins with `/`; `~` is written `~0`, `/` `~1`.")
    })
}

fn take_value(fields: &mut Map<String, Value>) -> Result<AnyValue, Problem> {
    take(fields, "value").map(|value| AnyValue::of(&value))
}

fn parse_base(value: Value) -> Result<Base, Problem> {
    let wrong = || bad("`base` is a clock, or a Yjs state vector in base64url.");
    match value {
        Value::Number(_) => whole(&value).map(Base::Clock).ok_or_else(wrong),
        Value::String(text) => {
            let vector = Base64UrlUnpadded::decode_vec(text.trim_end_matches('=')).map_err(|_| wrong())?;
            validate_state_vector(&vector).map_err(|_| wrong())?;
            Ok(Base::Vector(vector))
        }
        _ => Err(wrong()),
    }
}

fn root_content(value: Value) -> Result<RootContent, Problem> {
    match value {
        Value::String(text) => Ok(RootContent::Text(text)),
        Value::Array(items) => Ok(RootContent::Array(items.iter().map(AnyValue::of).collect())),
        Value::Object(members) => Ok(RootContent::Map(
            members.into_iter().map(|(key, value)| (key, AnyValue::of(&value))).collect(),
        )),
        _ => Err(bad("A root is text, an object or an array.")),
    }
}

fn check_root(name: &str) -> Result<(), Problem> {
    if name.is_empty() || name.len() > MAX_ROOT_BYTES {
        return Err(bad(&format!("The name of a root has 1 to {MAX_ROOT_BYTES} bytes.")));
    }
    Ok(())
}

fn number(value: &Value) -> Option<u32> {
    whole(value).and_then(|number| u32::try_from(number).ok())
}

/// A message of the core as a detail: a capital letter and a full stop.
fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    format!("{}{}.", first.map(String::from).unwrap_or_default(), chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn edits(items: &Value) -> Result<Vec<Edit>, Problem> {
        parse_edits(json!({"root": "t", "edits": items}).to_string().as_bytes()).map(|read| read.edits)
    }

    fn quote(text: &str, occurrence: Option<u32>) -> Quote {
        Quote { text: text.to_owned(), occurrence }
    }

    fn plain(text: &str) -> Inserted {
        Inserted { text: text.to_owned(), attributes: None }
    }

    #[test]
    fn every_edit_is_read() {
        let bold = Some(vec![("bold".to_owned(), "true".to_owned())]);
        let pointer = |text| Pointer::parse(text).unwrap();
        let read = edits(&json!([
            {"op": "append", "text": "a"},
            {"op": "delete", "quote": "b", "occurrence": 2},
            {"op": "format", "quote": "c", "attributes": {"bold": true}},
            {"op": "insert", "at": 0, "text": "d", "attributes": {"bold": true}},
            {"op": "insert", "before": "e", "text": "f"},
            {"op": "insert", "after": "g", "occurrence": 1, "text": "h"},
            {"op": "insert", "pointer": "/list/-", "value": 1},
            {"op": "put", "pointer": "/k", "value": null},
            {"op": "remove", "pointer": "/k"},
            {"op": "replace", "quote": "i", "with": "j"},
            {"op": "set", "text": ""},
        ]));
        let expected = vec![
            Edit::Append(plain("a")),
            Edit::Replace(quote("b", Some(2)), String::new()),
            Edit::Format(quote("c", None), bold.clone().unwrap()),
            Edit::Insert(Spot::At(0), Inserted { text: "d".to_owned(), attributes: bold }),
            Edit::Insert(Spot::Before(quote("e", None)), plain("f")),
            Edit::Insert(Spot::After(quote("g", Some(1))), plain("h")),
            Edit::InsertItem(pointer("/list/-"), AnyValue::of(&json!(1))),
            Edit::Put(pointer("/k"), AnyValue::of(&Value::Null)),
            Edit::Remove(pointer("/k")),
            Edit::Replace(quote("i", None), "j".to_owned()),
            Edit::Set(String::new()),
        ];
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn a_bad_edit_is_named_by_its_index() {
        let good = json!({"op": "append", "text": "a"});
        for item in [
            json!(1),
            json!({"op": "move"}),
            json!({"op": "append"}),
            json!({"op": "append", "text": 1}),
            json!({"op": "append", "text": "a", "at": 1}),
            json!({"op": "replace", "quote": "", "with": "x"}),
            json!({"op": "replace", "quote": "a"}),
            json!({"op": "delete", "quote": "a", "occurrence": 0}),
            json!({"op": "delete", "quote": "a", "occurrence": "2"}),
            json!({"op": "insert", "text": "a"}),
            json!({"op": "insert", "text": "a", "at": 1, "before": "b"}),
            json!({"op": "insert", "text": "a", "at": -1}),
            json!({"op": "insert", "text": "a", "at": 4_294_967_296_u64}),
            json!({"op": "insert", "pointer": "/a"}),
            json!({"op": "put", "pointer": "a", "value": 1}),
            json!({"op": "put", "pointer": "", "value": 1}),
            json!({"op": "remove", "pointer": "/~"}),
            json!({"op": "format", "quote": "a"}),
            json!({"op": "format", "quote": "a", "attributes": []}),
        ] {
            let problem = edits(&json!([good, item])).unwrap_err();
            assert_eq!(
                (problem.code, &problem.extra["index"]),
                (ProblemCode::BadRequest, &1.into()),
                "{item}"
            );
        }
        assert_eq!(edits(&json!(vec![good; 51])).unwrap_err().extra["limit"], 50);
        assert!(edits(&json!([])).is_err());
    }

    #[test]
    fn a_base_is_a_clock_or_a_state_vector() {
        let base = |base: Value| {
            let body = json!({"root": "t", "edits": [{"op": "set", "text": ""}], "base": base});
            parse_edits(body.to_string().as_bytes()).map(|read| read.base)
        };
        assert_eq!(base(json!(7)), Ok(Some(Base::Clock(7))));
        assert_eq!(base(json!("AQUD")), Ok(Some(Base::Vector(vec![1, 5, 3]))));
        assert_eq!(base(json!("AA==")), Ok(Some(Base::Vector(vec![0]))));
        for bad in [json!(-1), json!(1.5), json!("!"), json!("AQ"), json!(null), json!([])] {
            assert_eq!(base(bad.clone()).unwrap_err().code, ProblemCode::BadRequest, "{bad}");
        }
    }

    #[test]
    fn content_is_read_root_by_root() {
        let read = parse_content(br#"{"t":"x","m":{"k":1},"a":[true]}"#, None).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(
            parse_content(b"\"x\"", Some("t")),
            Ok(vec![("t".to_owned(), RootContent::Text("x".to_owned()))])
        );
        assert_eq!(text_content(b"x".to_vec(), Some("t")), parse_content(b"\"x\"", Some("t")));
        for bad in [&b"[]"[..], b"1", b"{\"t\":1}", b"{\"t\":null}", b"{\"\":\"x\"}"] {
            assert_eq!(parse_content(bad, None).unwrap_err().code, ProblemCode::BadRequest);
        }
        assert!(text_content(b"x".to_vec(), None).is_err() && text_content(vec![0xff], Some("t")).is_err());
        let many: Map<String, Value> = (0..=MAX_ROOTS).map(|n| (n.to_string(), json!(""))).collect();
        assert_eq!(
            parse_content(json!(many).to_string().as_bytes(), None).unwrap_err().extra["limit"],
            MAX_ROOTS
        );
    }

    #[test]
    fn a_refusal_says_which_edit_and_how_many_quotes() {
        let problem = refused(&EditError::Refused { index: 3, why: Refusal::QuoteAmbiguous(2) });
        assert_eq!(
            (problem.status(), &problem.extra["index"], &problem.extra["count"]),
            (409, &3.into(), &2.into())
        );
        assert_eq!(problem.detail, "The quote is there 2 times: name the occurrence, or quote more.");
        let problem = refused(&EditError::Refused { index: 0, why: Refusal::SplitsCharacter });
        assert_eq!((problem.status(), problem.extra.contains_key("count")), (422, false));
    }
}
