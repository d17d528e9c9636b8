//! What clients tell about relays, and what is told of it (section 5).
//!
//! Events carry labels, never addresses or tokens (A3): every text in them is one of a few words, a
//! label, or a workspace id, so whatever else a client puts there is refused.

use serde_json::{Map, Value};

use super::json::parse_object;
use super::limits::{MAX_TELEMETRY_EVENTS, MAX_TELEMETRY_LABELS, MAX_TELEMETRY_RELAYS};
use super::path::WorkspaceId;
use super::problem::{Problem, ProblemCode};
use super::query::MAX_SAFE_INTEGER;
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
    let parse = |(index, item)| parse_event(item).map_err(|problem: Problem| problem.with("index", index));
    items.into_iter().enumerate().map(parse).collect()
}

fn parse_event(item: Value) -> Result<TelemetryEvent, Problem> {
    let Value::Object(mut fields) = item else { return Err(bad("An event has to be an object.")) };
    let name = fields.remove("name");
    let kind = match name.as_ref().and_then(Value::as_str) {
        Some(ADVANCE) => EventKind::Advance {
            from: take_label(&mut fields, "fromLabel")?,
            to: take_label(&mut fields, "toLabel")?,
            trigger: take_trigger(&mut fields)?,
        },
        Some(CYCLE_ALL_FAILED) => EventKind::CycleAllFailed { labels: take_labels(&mut fields)? },
        _ => return Err(bad(&format!("`name` is `{ADVANCE}` or `{CYCLE_ALL_FAILED}`."))),
    };
    let at = fields.remove("at").and_then(|at| at.as_u64()).filter(|at| *at <= MAX_SAFE_INTEGER);
    let at = at.ok_or_else(|| bad("`at` is milliseconds since 1970, a whole number."))?;
    let workspace = match fields.remove("workspace") {
        None => None,
        Some(Value::String(id)) => Some(WorkspaceId::parse(&id).map_err(|_| bad(NO_WORKSPACE))?),
        Some(_) => return Err(bad(NO_WORKSPACE)),
    };
    if !fields.is_empty() {
        // Not which: it may be a secret that came here by mistake.
        return Err(bad("The event has a member that an event of this name does not have."));
    }
    Ok(TelemetryEvent { at, workspace, kind })
}

fn take_label(fields: &mut Map<String, Value>, name: &str) -> Result<String, Problem> {
    fields
        .remove(name)
        .and_then(into_label)
        .ok_or_else(|| bad(&format!("`{name}` is a label: 1 to 32 of the characters a-z, 0-9 and `-`.")))
}

fn take_labels(fields: &mut Map<String, Value>) -> Result<String, Problem> {
    let labels = match fields.remove("labels") {
        Some(Value::Array(items)) if (1..=MAX_TELEMETRY_LABELS).contains(&items.len()) => {
            items.into_iter().map(into_label).collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    labels.map(|labels| labels.join(",")).ok_or_else(|| {
        bad(&format!(
            "`labels` is a list of 1 to {MAX_TELEMETRY_LABELS} labels, each 1 to 32 of the characters a-z, 0-9 and `-`."
        ))
    })
}

fn into_label(value: Value) -> Option<String> {
    let Value::String(label) = value else { return None };
    let fits = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-');
    ((1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(fits)).then_some(label)
}

fn take_trigger(fields: &mut Map<String, Value>) -> Result<&'static str, Problem> {
    let trigger = fields.remove("trigger");
    let known = TRIGGERS.into_iter().find(|known| trigger.as_ref().is_some_and(|trigger| trigger == known));
    known.ok_or_else(|| bad(&format!("`trigger` is one of: {}.", TRIGGERS.join(", "))))
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
    let mut relays: Vec<RelaySummary> = Vec::new();
    for advance in advances {
        let (from, to) = ((&advance.from, advance.count, 0), (&advance.to, 0, advance.count));
        for (label, advances_from, advances_to) in [from, to] {
            let last_advance_at = advance.last_at;
            match relays.iter_mut().find(|relay| relay.label == *label) {
                Some(relay) => {
                    relay.advances_from += advances_from;
                    relay.advances_to += advances_to;
                    relay.last_advance_at = relay.last_advance_at.max(last_advance_at);
                }
                None => relays.push(RelaySummary {
                    label: label.clone(),
                    advances_from,
                    advances_to,
                    last_advance_at,
                }),
            }
        }
    }
    relays.truncate(MAX_TELEMETRY_RELAYS);
    relays.sort_by(|a, b| a.label.cmp(&b.label));
    RelayList { relays, cycles_all_failed, since }
}

/// The name of an advance.
pub const ADVANCE: &str = "relay_advance";

/// The name of the event that every relay failed.
pub const CYCLE_ALL_FAILED: &str = "relay_cycle_all_failed";

/// Why a client goes on to another relay (S1).
pub const TRIGGERS: [&str; 4] = ["open_failed", "open_timeout", "abnormal_closes", "probe"];

const NO_WORKSPACE: &str = "`workspace` is not a workspace id.";

/// Characters of a relay's label, as in the relay list of clients.
const MAX_LABEL_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
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
