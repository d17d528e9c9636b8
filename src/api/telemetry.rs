//! What clients tell about relays, and what is told of it (section 5).
//!
//! Events carry labels, never addresses or tokens (A3): every text in them is one of a few words, a
//! label, or a workspace id, so whatever else a client puts there is refused.

use serde_json::{Map, Value};

use super::json::{parse_object, whole};
use super::limits::{MAX_TELEMETRY_EVENTS, MAX_TELEMETRY_LABELS, MAX_TELEMETRY_RELAYS};
use super::path::WorkspaceId;
use super::problem::{Problem, ProblemCode};
use super::resource::{RelayList, RelaySummary};
use crate::protocol::Timestamp;

/// Something that happened to one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryEvent {
    /// When, by the client's clock.
    pub at: Timestamp,
    /// Where, as the client says.
    pub workspace: Option<WorkspaceId>,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The client went on to another relay of its list.
    Advance {
        /// The label of the relay that it left.
        from: String,
        /// The label of the next.
        to: String,
        /// Why: one of [`TRIGGERS`].
        trigger: &'static str,
    },
    /// Every relay of the list failed, one after another.
    CycleAllFailed {
        /// Their labels, separated by commas.
        labels: String,
    },
}

impl EventKind {
    /// The name in events and in storage.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Advance { .. } => ADVANCE,
            Self::CycleAllFailed { .. } => CYCLE_ALL_FAILED,
        }
    }
}

/// Reads the body of `POST /api/telemetry`: 1 to 20 events.
///
/// # Errors
/// Those of JSON bodies, or `bad_request` with the `index` of the event.
pub fn parse_telemetry(body: &[u8]) -> Result<Vec<TelemetryEvent>, Problem> {
    let Some(Value::Array(items)) = parse_object(body, &["events"])?.remove("events") else {
        return Err(bad("`events` has to be an array."));
    };
    if items.is_empty() || items.len() > MAX_TELEMETRY_EVENTS {
        return Err(bad(&format!("`events` holds 1 to {MAX_TELEMETRY_EVENTS} events."))
            .with("limit", MAX_TELEMETRY_EVENTS));
    }
    let mut events = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        events.push(parse_event(item).map_err(|problem| problem.with("index", index))?);
    }
    Ok(events)
}

fn parse_event(item: &Value) -> Result<TelemetryEvent, Problem> {
    let Value::Object(fields) = item else { return Err(bad("An event has to be an object.")) };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let (kind, known) = match text("name") {
        Some(ADVANCE) => (advance_of(fields)?, ["fromLabel", "toLabel", "trigger"].as_slice()),
        Some(CYCLE_ALL_FAILED) => (cycle_of(fields)?, ["labels"].as_slice()),
        _ => return Err(bad("`name` is `relay_advance` or `relay_cycle_all_failed`.")),
    };
    // Not which: it may be a secret that came here by mistake.
    if fields.keys().any(|name| !COMMON.contains(&name.as_str()) && !known.contains(&name.as_str())) {
        return Err(bad("The event has a member that an event of this name does not have."));
    }
    let at = fields.get("at").and_then(whole);
    let at = at.ok_or_else(|| bad("`at` is milliseconds since 1970, a whole number."))?;
    let workspace = match (fields.contains_key("workspace"), text("workspace").map(WorkspaceId::parse)) {
        (false, _) => None,
        (true, Some(Ok(id))) => Some(id),
        (true, _) => return Err(bad("`workspace` is not a workspace id.")),
    };
    Ok(TelemetryEvent { at, workspace, kind })
}

fn advance_of(fields: &Map<String, Value>) -> Result<EventKind, Problem> {
    let (from, to) = (label_of(fields.get("fromLabel")), label_of(fields.get("toLabel")));
    let (Some(from), Some(to)) = (from, to) else {
        return Err(bad("`fromLabel` and `toLabel` are labels: 1 to 32 of the characters a-z, 0-9 and `-`."));
    };
    let given = fields.get("trigger").and_then(Value::as_str);
    let trigger = TRIGGERS
        .into_iter()
        .find(|known| Some(*known) == given)
        .ok_or_else(|| bad(&format!("`trigger` is one of {}.", TRIGGERS.join(", "))))?;
    Ok(EventKind::Advance { from: from.to_owned(), to: to.to_owned(), trigger })
}

fn cycle_of(fields: &Map<String, Value>) -> Result<EventKind, Problem> {
    let items = fields.get("labels").and_then(Value::as_array);
    let items = items.filter(|items| (1..=MAX_TELEMETRY_LABELS).contains(&items.len()));
    let mut labels = String::new();
    for item in items.into_iter().flatten() {
        let Some(label) = label_of(Some(item)) else { return Err(bad(NO_LABELS)) };
        if !labels.is_empty() {
            labels.push(',');
        }
        labels.push_str(label);
    }
    if labels.is_empty() { Err(bad(NO_LABELS)) } else { Ok(EventKind::CycleAllFailed { labels }) }
}

fn label_of(value: Option<&Value>) -> Option<&str> {
    let fits = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let label = value.and_then(Value::as_str)?;
    ((1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(fits)).then_some(label)
}

fn bad(detail: &str) -> Problem {
    Problem::because(ProblemCode::BadRequest, detail)
}

/// So many advances from one relay to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvanceCount {
    /// The relay that was left.
    pub from: String,
    /// The relay that came next.
    pub to: String,
    /// How often.
    pub count: u64,
    /// When last.
    pub last_at: Timestamp,
}

/// The answer of `GET /api/relays`, by label. Of too many labels those that come first in `advances`
/// are kept.
#[must_use]
pub fn summarize(advances: &[AdvanceCount], cycles_all_failed: u64, since: Timestamp) -> RelayList {
    let mut relays = Vec::new();
    for advance in advances {
        if let Some(relay) = entry(&mut relays, &advance.from, advance.last_at) {
            relay.advances_from += advance.count;
        }
        if let Some(relay) = entry(&mut relays, &advance.to, advance.last_at) {
            relay.advances_to += advance.count;
        }
    }
    RelayList { relays, cycles_all_failed, since }
}

/// The entry of a label. Each is inserted at its place: a sort would be 4 KB of the module.
fn entry<'a>(relays: &'a mut Vec<RelaySummary>, label: &str, at: Timestamp) -> Option<&'a mut RelaySummary> {
    let place = relays.iter().position(|relay| relay.label.as_str() >= label).unwrap_or(relays.len());
    if relays.get(place).is_none_or(|relay| relay.label != label) {
        if relays.len() == MAX_TELEMETRY_RELAYS {
            return None;
        }
        let label = label.to_owned();
        relays.insert(place, RelaySummary { label, advances_from: 0, advances_to: 0, last_advance_at: 0 });
    }
    let relay = relays.get_mut(place)?;
    relay.last_advance_at = relay.last_advance_at.max(at);
    Some(relay)
}

/// The name of an advance.
pub const ADVANCE: &str = "relay_advance";

/// The name of the event that every relay failed.
pub const CYCLE_ALL_FAILED: &str = "relay_cycle_all_failed";

/// Why a client goes on to another relay (S1).
pub const TRIGGERS: [&str; 5] =
    ["abnormal_closes", "close_before_open", "error_before_open", "open_timeout", "recovered"];

/// What every event has, or may have.
const COMMON: [&str; 3] = ["name", "at", "workspace"];

const NO_LABELS: &str =
    "`labels` is a list of 1 to 16 labels, each 1 to 32 of the characters a-z, 0-9 and `-`.";

/// Characters of a relay's label, as in the relay list of clients.
const MAX_LABEL_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::query::MAX_SAFE_INTEGER;
    use serde_json::json;

    fn advance() -> Value {
        json!({"name": "relay_advance", "fromLabel": "cf", "toLabel": "deno", "trigger": "open_timeout", "at": 5})
    }

    fn cycle() -> Value {
        json!({"name": "relay_cycle_all_failed", "labels": ["cf", "deno"], "at": 6, "workspace": "demo"})
    }

    fn parse(events: &Value) -> Result<Vec<TelemetryEvent>, Problem> {
        parse_telemetry(json!({ "events": events }).to_string().as_bytes())
    }

    #[test]
    fn s1_both_events_are_read() {
        let read = parse(&json!([advance(), cycle()])).unwrap();
        let kind =
            EventKind::Advance { from: "cf".to_owned(), to: "deno".to_owned(), trigger: "open_timeout" };
        assert_eq!(read[0], TelemetryEvent { at: 5, workspace: None, kind });
        let labels = "cf,deno".to_owned();
        let workspace = WorkspaceId::parse("demo").ok();
        assert_eq!(read[1], TelemetryEvent { at: 6, workspace, kind: EventKind::CycleAllFailed { labels } });
        assert_eq!((read[0].kind.name(), read[1].kind.name()), (ADVANCE, CYCLE_ALL_FAILED));
    }

    #[test]
    fn a3_whatever_is_no_label_no_word_and_no_id_is_refused_and_not_repeated() {
        let with = |event: Value, name: &str, value: Value| {
            let mut event = event;
            event[name] = value;
            event
        };
        let without = |event: Value, name: &str| {
            let mut event = event;
            event.as_object_mut().unwrap().remove(name);
            event
        };
        let secret = "wss://secret.example/ws?token=eyJ";
        let mut refused = vec![json!(1), json!({}), json!([]), with(advance(), "name", json!("other"))];
        for name in ["name", "fromLabel", "toLabel", "trigger", "at"] {
            refused.push(without(advance(), name));
            refused.push(with(advance(), name, json!(secret)));
            refused.push(with(advance(), name, Value::Null));
        }
        for label in ["", "CF", "c f", "é", secret, &"x".repeat(33)] {
            refused.push(with(advance(), "toLabel", json!(label)));
            refused.push(with(cycle(), "labels", json!(["cf", label])));
        }
        for labels in [json!([]), json!("cf"), json!(null), json!(vec!["cf"; MAX_TELEMETRY_LABELS + 1])] {
            refused.push(with(cycle(), "labels", labels));
        }
        for at in [json!(-1), json!(1.5), json!("5"), json!(MAX_SAFE_INTEGER + 1)] {
            refused.push(with(advance(), "at", at));
        }
        for workspace in [json!("a/b"), json!(1), json!(null), json!(secret)] {
            refused.push(with(advance(), "workspace", workspace));
        }
        refused.push(with(advance(), "url", json!(secret)));
        refused.push(with(advance(), secret, json!(1)));
        refused.push(with(cycle(), "fromLabel", json!("cf")));
        for event in refused {
            let problem = parse(&json!([advance(), event])).unwrap_err();
            assert_eq!(
                (problem.code, &problem.extra["index"]),
                (ProblemCode::BadRequest, &1.into()),
                "{event}"
            );
            assert!(!problem.body().contains("secret"), "{event}");
        }
    }

    #[test]
    fn r4_a_report_has_1_to_20_events_and_nothing_else() {
        assert_eq!(parse(&json!(vec![advance(); 20])).unwrap().len(), 20);
        assert_eq!(parse(&json!(vec![advance(); 21])).unwrap_err().extra["limit"], 20);
        for body in ["{}", "[]", "{\"events\":1}", "{\"events\":[]}", "null"] {
            assert_eq!(parse_telemetry(body.as_bytes()).unwrap_err().code, ProblemCode::BadRequest, "{body}");
        }
        let mut body = json!({"events": [advance()], "token": "secret"});
        assert_eq!(parse_telemetry(body.to_string().as_bytes()).unwrap_err().code, ProblemCode::BadRequest);
        body.as_object_mut().unwrap().remove("token");
        assert!(parse_telemetry(body.to_string().as_bytes()).is_ok());
    }

    #[test]
    fn the_roll_up_counts_by_label() {
        let count = |from: &str, to: &str, count, last_at| AdvanceCount {
            from: from.to_owned(),
            to: to.to_owned(),
            count,
            last_at,
        };
        let list = summarize(
            &[count("deno", "cf", 1, 30), count("cf", "deno", 4, 20), count("cf", "x", 2, 10)],
            3,
            9,
        );
        let shown: Vec<_> = list
            .relays
            .iter()
            .map(|relay| {
                (relay.label.as_str(), relay.advances_from, relay.advances_to, relay.last_advance_at)
            })
            .collect();
        assert_eq!(shown, [("cf", 6, 1, 30), ("deno", 1, 4, 30), ("x", 0, 2, 10)]);
        assert_eq!((list.cycles_all_failed, list.since), (3, 9));
        let many: Vec<_> = (0..100).map(|n| count(&format!("a{n}"), &format!("b{n}"), 1, 1)).collect();
        assert_eq!(summarize(&many, 0, 0).relays.len(), MAX_TELEMETRY_RELAYS);
    }
}
