//! JSON text frames: what a client may say, and what a relay answers.
//!
//! A relay sends JSON only to a connection that has sent text (W1), so a stock y-websocket client
//! never sees any. Unknown types are ignored, as y-webrtc does.

use serde_json::{Map, Value, json};

use super::change::Change;
use super::limits::{MAX_TEXT_BYTES, MAX_TOPIC_BYTES, MAX_TOPICS};

/// The keep-alive text that a platform answers without waking the relay (W6).
pub const PING: &str = r#"{"type":"ping"}"#;

/// The answer to [`PING`].
pub const PONG: &str = r#"{"type":"pong"}"#;

/// A text frame from a client.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Control {
    /// A client says that something changed. A hint: never data (W7).
    Change(Map<String, Value>),
    /// Asks for a receipt once everything sent before it is saved (W8).
    Flush {
        /// Returned in the answer: a string or a number.
        id: Value,
    },
    /// What the connection wants to hear.
    Hello {
        /// Whether to send the workspace's changes (W7).
        changes: bool,
    },
    /// A keep-alive that the platform did not answer, for instance because of white space.
    Ping,
    /// y-webrtc signaling: a message for everybody on a topic.
    Publish {
        /// The topic, which is a room name of y-webrtc.
        topic: String,
        /// The whole message, forwarded with the sender stamped into it.
        message: Map<String, Value>,
    },
    /// y-webrtc signaling: join topics.
    Subscribe(Vec<String>),
    /// A type that this version does not know.
    Unknown,
    /// y-webrtc signaling: leave topics.
    Unsubscribe(Vec<String>),
}

/// Why a text frame was not understood. It is answered with an `error` frame, not with a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlError {
    /// Not a JSON object with a string `type`.
    NotAnObject,
    /// A field is missing or has the wrong type.
    BadField(&'static str),
    /// More or longer topics than a connection may have.
    TooManyTopics,
}

impl ControlError {
    /// What was wrong and what would be right.
    #[must_use]
    pub fn detail(self) -> String {
        match self {
            Self::NotAnObject => "send a JSON object with a string \"type\"".to_owned(),
            Self::BadField(name) => format!("the field \"{name}\" is missing or has the wrong type"),
            Self::TooManyTopics => {
                format!("at most {MAX_TOPICS} topics of at most {MAX_TOPIC_BYTES} bytes")
            }
        }
    }
}

/// Parses a text frame of at most [`MAX_TEXT_BYTES`] (the room checks that before).
pub fn parse(text: &str) -> Result<Control, ControlError> {
    debug_assert!(text.len() <= MAX_TEXT_BYTES);
    let Ok(Value::Object(message)) = serde_json::from_str::<Value>(text) else {
        return Err(ControlError::NotAnObject);
    };
    let Some(Value::String(kind)) = message.get("type") else {
        return Err(ControlError::NotAnObject);
    };
    match kind.as_str() {
        "change" => Ok(Control::Change(message)),
        "flush" => match message.get("id") {
            Some(id @ (Value::String(_) | Value::Number(_))) => Ok(Control::Flush { id: id.clone() }),
            _ => Err(ControlError::BadField("id")),
        },
        "hello" => Ok(Control::Hello { changes: message.get("changes") == Some(&Value::Bool(true)) }),
        "ping" => Ok(Control::Ping),
        "publish" => match message.get("topic") {
            Some(Value::String(topic)) => Ok(Control::Publish { topic: topic.clone(), message }),
            _ => Err(ControlError::BadField("topic")),
        },
        "subscribe" => topics(&message).map(Control::Subscribe),
        "unsubscribe" => topics(&message).map(Control::Unsubscribe),
        _ => Ok(Control::Unknown),
    }
}

fn topics(message: &Map<String, Value>) -> Result<Vec<String>, ControlError> {
    let Some(Value::Array(values)) = message.get("topics") else {
        return Err(ControlError::BadField("topics"));
    };
    let mut topics = Vec::with_capacity(values.len());
    for value in values {
        topics.push(value.as_str().ok_or(ControlError::BadField("topics"))?.to_owned());
    }
    if topics.len() > MAX_TOPICS || topics.iter().any(|topic| topic.len() > MAX_TOPIC_BYTES) {
        return Err(ControlError::TooManyTopics);
    }
    Ok(topics)
}

/// The frame of a committed change (W7).
#[must_use]
pub fn change(change: &Change) -> String {
    json!({
        "type": "change", "clock": change.clock, "kind": change.kind, "path": change.path,
        "actor": change.actor, "at": change.at,
    })
    .to_string()
}

/// A client's change, marked as the hint that it is and with the sender that the relay knows (W7).
#[must_use]
pub fn hint(mut message: Map<String, Value>, actor: &str) -> String {
    message.insert("hint".to_owned(), Value::Bool(true));
    message.insert("actor".to_owned(), Value::String(actor.to_owned()));
    Value::Object(message).to_string()
}

/// Everything the connection sent before its flush is saved (W8).
#[must_use]
pub fn receipt(id: &Value, clock: u64, epoch: u64) -> String {
    json!({ "type": "receipt", "id": id, "clock": clock, "epoch": epoch }).to_string()
}

/// The flush failed; what was sent is still pending and will be tried again (W8).
#[must_use]
pub fn flush_failed(id: &Value, reason: &str) -> String {
    json!({ "type": "flush_failed", "id": id, "reason": reason }).to_string()
}

/// The answer to the flush of a connection that may read only. It tells the document's epoch, which others learn
/// from receipts; 0 while it is not known.
#[must_use]
pub fn flush_forbidden(id: &Value, epoch: u64) -> String {
    json!({ "type": "flush_failed", "id": id, "reason": "forbidden", "epoch": epoch }).to_string()
}

/// The text frame was not understood or not allowed; the connection stays open.
#[must_use]
pub fn error(code: &str, detail: &str) -> String {
    json!({ "type": "error", "code": code, "detail": detail }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p01_w02_malformed_text_is_an_error_not_a_panic() {
        for text in ["", "{", "[]", "null", "..`", "\"x\"", "{\"type\":1}", "{}"] {
            assert_eq!(parse(text), Err(ControlError::NotAnObject), "{text}");
        }
        assert_eq!(parse("{\"type\":\"publish\"}"), Err(ControlError::BadField("topic")));
        assert_eq!(parse("{\"type\":\"subscribe\",\"topics\":\"x\"}"), Err(ControlError::BadField("topics")));
        assert_eq!(parse("{\"type\":\"flush\"}"), Err(ControlError::BadField("id")));
        let nested = format!("{{\"type\":\"x\",\"a\":{}", "[".repeat(60_000));
        assert_eq!(parse(&nested), Err(ControlError::NotAnObject));
    }

    #[test]
    fn topics_are_bounded() {
        let topics: Vec<String> = (0..=MAX_TOPICS).map(|n| n.to_string()).collect();
        let text = json!({ "type": "subscribe", "topics": topics }).to_string();
        assert_eq!(parse(&text), Err(ControlError::TooManyTopics));
    }

    #[test]
    fn an_unknown_type_is_ignored() {
        assert_eq!(parse("{\"type\":\"later\"}"), Ok(Control::Unknown));
    }

    #[test]
    fn w6_ping_is_the_text_that_parses_as_ping() {
        assert_eq!(parse(PING), Ok(Control::Ping));
    }

    #[test]
    fn w7_a_hint_cannot_forge_its_actor() {
        let Ok(Control::Change(message)) = parse("{\"type\":\"change\",\"clock\":9,\"actor\":\"boss\"}")
        else {
            panic!("a change");
        };
        let sent: Value = serde_json::from_str(&hint(message, "ann")).unwrap();
        assert_eq!((&sent["hint"], &sent["actor"]), (&json!(true), &json!("ann")));
    }
}
