//! Signaling over HTTP: offers, answers and candidates for peers that have no WebSocket (C.69).

use serde_json::{Map, Value};

use super::json::parse_object;
use super::limits::{MAX_PEER_BYTES, MAX_SIGNAL_DATA_BYTES};
use super::problem::{Problem, ProblemCode};
use super::query::{Query, parse_clock};
use crate::protocol::limits::MAX_TOPIC_BYTES;

/// The body of `POST …/p2p/signal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalRequest {
    /// Whose inbox.
    pub to: String,
    /// Who sends it, as it calls itself.
    pub from: String,
    /// What about: a room name of y-webrtc, mostly.
    pub topic: String,
    /// Any JSON, as text.
    pub data: String,
}

/// What of an inbox is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxQuery<'a> {
    /// Whose inbox.
    pub peer: &'a str,
    /// Only this topic.
    pub topic: Option<&'a str>,
    /// Only what is newer than this id.
    pub after: u64,
}

/// Reads `{"to":"…","from":"…","topic":"…","data":…}`.
///
/// # Errors
/// Those of JSON bodies, `bad_request`, or `payload_too_large` for data over 16 KiB.
pub fn parse_signal(body: &[u8]) -> Result<SignalRequest, Problem> {
    let fields = parse_object(body, &["to", "from", "topic", "data"])?;
    let (to, from) = (peer("to", text(&fields, "to"))?, peer("from", text(&fields, "from"))?);
    let topic = topic(text(&fields, "topic"))?;
    let data = fields.get("data").ok_or_else(|| bad("`data` is missing."))?.to_string();
    if data.len() > MAX_SIGNAL_DATA_BYTES {
        let detail = format!("`data` may have {MAX_SIGNAL_DATA_BYTES} bytes.");
        let problem = Problem::because(ProblemCode::PayloadTooLarge, detail);
        return Err(problem.with("limit", MAX_SIGNAL_DATA_BYTES));
    }
    Ok(SignalRequest { to: to.to_owned(), from: from.to_owned(), topic: topic.to_owned(), data })
}

/// Reads `?peer=&topic=&after=`; only the peer is needed.
///
/// # Errors
/// `bad_request`, or `invalid_cursor` for an `after` that is no number.
pub fn parse_inbox(query: &Query) -> Result<InboxQuery<'_>, Problem> {
    Ok(InboxQuery {
        peer: peer("peer", query.value("peer")?)?,
        topic: query.value("topic")?.map(|text| topic(Some(text))).transpose()?,
        after: query.value("after")?.map(parse_clock).transpose()?.unwrap_or(0),
    })
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

fn peer<'a>(name: &str, text: Option<&'a str>) -> Result<&'a str, Problem> {
    text.filter(|text| {
        (1..=MAX_PEER_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
    })
    .ok_or_else(|| bad(&format!("`{name}` is a peer id: 1 to {MAX_PEER_BYTES} visible ASCII characters.")))
}

fn topic(text: Option<&str>) -> Result<&str, Problem> {
    text.filter(|text| (1..=MAX_TOPIC_BYTES).contains(&text.len()) && !text.chars().any(char::is_control))
        .ok_or_else(|| bad(&format!("`topic` is 1 to {MAX_TOPIC_BYTES} bytes without control characters.")))
}

fn bad(detail: &str) -> Problem {
    Problem::because(ProblemCode::BadRequest, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(body: &Value) -> Result<SignalRequest, Problem> {
        parse_signal(body.to_string().as_bytes())
    }

    fn body(name: &str, value: Value) -> Value {
        let mut body = json!({"to": "b", "from": "a", "topic": "room é", "data": {"sdp": "v=0"}});
        body[name] = value;
        body
    }

    #[test]
    fn c69_a_signal_has_both_peers_a_topic_and_any_data() {
        let read = parse(&body("data", json!({"candidate": null}))).unwrap();
        assert_eq!((read.to.as_str(), read.from.as_str(), read.topic.as_str()), ("b", "a", "room é"));
        assert_eq!(read.data, "{\"candidate\":null}");
        assert_eq!(parse(&body("data", Value::Null)).unwrap().data, "null");
        assert!(parse(&body("to", json!("x".repeat(64)))).is_ok());
    }

    #[test]
    fn r4_bad_signals_are_refused() {
        for name in ["to", "from", "topic"] {
            for value in [json!(""), json!(1), Value::Null, json!("x".repeat(257)), json!("a\nb")] {
                let refused = parse(&body(name, value.clone())).unwrap_err();
                assert_eq!(refused.code, ProblemCode::BadRequest, "{name} {value}");
            }
            let mut without = body("to", json!("b"));
            without.as_object_mut().unwrap().remove(name);
            assert_eq!(parse(&without).unwrap_err().code, ProblemCode::BadRequest, "{name}");
        }
        assert!(
            parse(&body("to", json!("x".repeat(65)))).is_err() && parse(&body("from", json!("a b"))).is_err()
        );
        assert!(parse(&body("sub", json!("eve"))).is_err() && parse(&json!({"to": "b"})).is_err());
        // 2 bytes around the text.
        let data = |bytes: usize| body("data", json!("x".repeat(bytes - 2)));
        assert!(parse(&data(MAX_SIGNAL_DATA_BYTES)).is_ok());
        let large = parse(&data(MAX_SIGNAL_DATA_BYTES + 1)).unwrap_err();
        assert_eq!((large.code, &large.extra["limit"]), (ProblemCode::PayloadTooLarge, &16_384.into()));
    }

    #[test]
    fn an_inbox_is_asked_for_by_peer_and_cursor() {
        let query = |text: &str| Query::parse(text).unwrap();
        let all = query("peer=b");
        assert_eq!(parse_inbox(&all).unwrap(), InboxQuery { peer: "b", topic: None, after: 0 });
        let some = query("peer=b&topic=r&after=7");
        assert_eq!(parse_inbox(&some).unwrap(), InboxQuery { peer: "b", topic: Some("r"), after: 7 });
        for bad in ["", "peer=", "peer=a%20b", "peer=b&topic=", "peer=b&peer=c"] {
            assert_eq!(parse_inbox(&query(bad)).unwrap_err().code, ProblemCode::BadRequest, "{bad}");
        }
        for bad in ["", "-1", "x", "01"] {
            let query = query(&format!("peer=b&after={bad}"));
            assert_eq!(parse_inbox(&query).unwrap_err().code, ProblemCode::InvalidCursor, "{bad}");
        }
    }
}
