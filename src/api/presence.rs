//! Presence: who is in a workspace, said by each of itself, and of people by their open sockets.
//!
//! It is no part of the change log: it has no clock, nobody is told of it, and who wants to know
//! asks (S3).

use serde_json::Value;

use super::auth::Actor;
use super::json::{parse_object, whole};
use super::limits::{DEFAULT_PRESENCE_SECONDS, MAX_PRESENCE_SECONDS, MAX_PRESENCE_STATE_BYTES};
use super::limits::{MAX_SESSION_BYTES, MIN_PRESENCE_SECONDS};
use super::problem::{Problem, ProblemCode};
use super::resource::{PresenceEntry, PresenceList};
use super::role::ActorKind;
use crate::protocol::Timestamp;

/// The body of `PUT …/presence`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresenceRequest {
    /// A tab or a process, as its client names it.
    pub session: String,
    /// How long it counts, in milliseconds.
    pub ttl_ms: u64,
    /// What it tells of itself: a JSON object as text.
    pub state: Option<String>,
}

/// Reads `{"session":"…","ttl":120,"state":{…}}`; only the session is needed.
///
/// # Errors
/// Those of JSON bodies, `bad_request`, or `payload_too_large` for a state over 1 KiB.
pub fn parse_presence(body: &[u8]) -> Result<PresenceRequest, Problem> {
    let fields = parse_object(body, &["session", "ttl", "state"])?;
    let session = parse_session(fields.get("session").and_then(Value::as_str))?.to_owned();
    let seconds = match fields.get("ttl") {
        None => DEFAULT_PRESENCE_SECONDS,
        Some(ttl) => whole(ttl)
            .filter(|seconds| (MIN_PRESENCE_SECONDS..=MAX_PRESENCE_SECONDS).contains(seconds))
            .ok_or_else(|| bad("`ttl` is a whole number of seconds from 60 to 300."))?,
    };
    let state = match fields.get("state") {
        None => None,
        Some(state @ Value::Object(_)) => Some(state.to_string()),
        Some(_) => return Err(bad("`state` has to be an object.")),
    };
    if state.as_ref().is_some_and(|state| state.len() > MAX_PRESENCE_STATE_BYTES) {
        let detail = format!("`state` may have {MAX_PRESENCE_STATE_BYTES} bytes.");
        let problem = Problem::because(ProblemCode::PayloadTooLarge, detail);
        return Err(problem.with("limit", MAX_PRESENCE_STATE_BYTES));
    }
    Ok(PresenceRequest { session, ttl_ms: seconds * 1000, state })
}

/// Checks the name of a session, from a body or from `?session=`.
///
/// # Errors
/// `bad_request`.
pub fn parse_session(text: Option<&str>) -> Result<&str, Problem> {
    text.filter(|text| {
        (1..=MAX_SESSION_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
    })
    .ok_or_else(|| bad("`session` is 1 to 64 visible ASCII characters."))
}

/// The name under which the session of a relay is stored, that says of a person to be on a socket of it. No
/// client can choose it: it has a space.
#[must_use]
pub fn socket_session(session: &str) -> String {
    format!("{ON_SOCKET}{session}")
}

/// A stored row that still counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresenceRow {
    /// Who.
    pub sub: String,
    /// What it is.
    pub kind: ActorKind,
    /// Which of its tabs or processes.
    pub session: String,
    /// A JSON object as text.
    pub state: Option<String>,
    /// When it stops to count.
    pub expires_at: Timestamp,
}

/// The answer to `actor`: the rows of sessions, then people who have none and are connected, to the room or
/// to a relay that says so. `people` is `None` when a room that should be live did not answer.
#[must_use]
pub fn list_presence(
    rows: Vec<PresenceRow>,
    people: Option<Vec<String>>,
    actor: &Actor,
    session: Option<&str>,
) -> PresenceList {
    let complete = people.is_some();
    let mut presence: Vec<PresenceEntry> = Vec::with_capacity(rows.len());
    let (on_sockets, rows): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| row.session.starts_with(ON_SOCKET));
    for row in rows {
        let own = row.sub == actor.sub && row.kind == actor.kind;
        presence.push(PresenceEntry {
            own: own && Some(row.session.as_str()) == session,
            sub: row.sub,
            kind: row.kind.as_str(),
            session: Some(row.session),
            state: row.state.and_then(|text| serde_json::from_str(&text).ok()),
            expires_at: Some(row.expires_at),
        });
    }
    for sub in people.into_iter().flatten().chain(on_sockets.into_iter().map(|row| row.sub)) {
        if !presence.iter().any(|entry| entry.kind == HUMAN && entry.sub == sub) {
            let (session, state, expires_at) = (None, None, None);
            presence.push(PresenceEntry { sub, kind: HUMAN, session, state, expires_at, own: false });
        }
    }
    let other_humans = count_other_humans(&presence, actor);
    PresenceList { presence, other_humans, complete }
}

/// Persons apart from the caller: tabs of one person are one, and agents are none (A09).
fn count_other_humans(presence: &[PresenceEntry], actor: &Actor) -> usize {
    let mine = |sub: &str| actor.kind == ActorKind::Human && actor.sub == sub;
    let mut subs: Vec<&str> = Vec::new();
    for entry in presence {
        if entry.kind == HUMAN && !mine(&entry.sub) && !subs.contains(&entry.sub.as_str()) {
            subs.push(&entry.sub);
        }
    }
    subs.len()
}

fn bad(detail: &str) -> Problem {
    Problem::because(ProblemCode::BadRequest, detail)
}

const HUMAN: &str = ActorKind::Human.as_str();

/// Begins the stored session of a person on a socket.
const ON_SOCKET: &str = "socket ";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn actor(sub: &str, kind: ActorKind) -> Actor {
        Actor { sub: sub.to_owned(), kind, roles: Default::default(), exp: 0 }
    }

    fn row(sub: &str, kind: ActorKind, session: &str) -> PresenceRow {
        let (sub, session) = (sub.to_owned(), session.to_owned());
        PresenceRow { sub, kind, session, state: None, expires_at: 9 }
    }

    fn parse(body: &Value) -> Result<PresenceRequest, Problem> {
        parse_presence(body.to_string().as_bytes())
    }

    #[test]
    fn a_body_needs_a_session_and_has_a_default_time() {
        let least = parse(&json!({"session": "t1"})).unwrap();
        assert_eq!(least, PresenceRequest { session: "t1".to_owned(), ttl_ms: 120_000, state: None });
        let full = parse(&json!({"session": "t1", "ttl": 60, "state": {"path": "a/b"}})).unwrap();
        assert_eq!((full.ttl_ms, full.state.as_deref()), (60_000, Some("{\"path\":\"a/b\"}")));
        assert_eq!(parse(&json!({"session": "x".repeat(64), "ttl": 300})).unwrap().ttl_ms, 300_000);
    }

    #[test]
    fn r4_bad_bodies_are_refused() {
        let bodies = [
            json!({}),
            json!([]),
            json!({"session": ""}),
            json!({"session": 1}),
            json!({"session": "a b"}),
            json!({"session": "é"}),
            json!({"session": "x".repeat(65)}),
            json!({"session": "a", "ttl": 59}),
            json!({"session": "a", "ttl": 301}),
            json!({"session": "a", "ttl": 60.5}),
            json!({"session": "a", "ttl": "60"}),
            json!({"session": "a", "ttl": null}),
            json!({"session": "a", "state": null}),
            json!({"session": "a", "state": "x"}),
            json!({"session": "a", "state": []}),
            json!({"session": "a", "kind": "human"}),
            json!({"session": "a", "sub": "bob"}),
        ];
        for body in bodies {
            assert_eq!(parse(&body).unwrap_err().code, ProblemCode::BadRequest, "{body}");
        }
        // 8 bytes around the text.
        let state = |bytes: usize| json!({"session": "a", "state": {"a": "x".repeat(bytes - 8)}});
        assert!(parse(&state(MAX_PRESENCE_STATE_BYTES)).is_ok());
        let large = parse(&state(MAX_PRESENCE_STATE_BYTES + 1)).unwrap_err();
        assert_eq!((large.code, &large.extra["limit"]), (ProblemCode::PayloadTooLarge, &1024.into()));
        assert!(parse_session(None).is_err());
    }

    #[test]
    fn a09_who_is_on_a_socket_of_any_relay_is_one_person_without_a_session() {
        let on_deno = |sub: &str| row(sub, ActorKind::Human, &socket_session("deno"));
        let rows = vec![on_deno("ann"), row("ann", ActorKind::Human, "tab"), on_deno("bob"), on_deno("cy")];
        let people = Some(vec!["bob".to_owned(), "dee".to_owned()]);
        let list = list_presence(rows, people, &actor("ann", ActorKind::Human), Some("tab"));
        let seen: Vec<_> =
            list.presence.iter().map(|entry| (entry.sub.as_str(), entry.session.as_deref())).collect();
        assert_eq!(seen, [("ann", Some("tab")), ("bob", None), ("dee", None), ("cy", None)]);
        assert_eq!((list.other_humans, list.presence.iter().filter(|entry| entry.own).count()), (3, 1));
        assert!(list.presence.iter().all(|entry| entry.session.is_some() || entry.expires_at.is_none()));
        assert!(parse_session(Some(&socket_session("deno"))).is_err(), "no client can say so");
    }

    #[test]
    fn a09_three_tabs_of_one_person_and_an_agent_are_no_other_human() {
        let mut rows: Vec<_> = ["1", "2", "3"].map(|tab| row("ann", ActorKind::Human, tab)).into();
        rows.push(row("bot", ActorKind::Agent, "p"));
        // The same name, but it is no human.
        rows.push(row("bob", ActorKind::Service, "p"));
        let others = |rows: &[PresenceRow], people: &[&str], asks: Actor| {
            let people = people.iter().map(|sub| (*sub).to_owned()).collect();
            list_presence(rows.to_vec(), Some(people), &asks, None).other_humans
        };
        let ann = || actor("ann", ActorKind::Human);
        assert_eq!(others(&rows, &[], ann()), 0);
        assert_eq!(others(&rows, &["ann"], ann()), 0, "her own socket");
        assert_eq!(others(&rows, &[], actor("bob", ActorKind::Human)), 1, "ann once");
        assert_eq!(others(&rows, &[], actor("ann", ActorKind::Agent)), 1, "an agent is not the person");
        assert_eq!(others(&rows, &["bob", "cat"], ann()), 2);
        rows.push(row("bob", ActorKind::Human, "1"));
        assert_eq!(others(&rows, &["bob", "cat"], ann()), 2, "a row and a socket are one person");
    }

    #[test]
    fn sockets_are_listed_after_rows_and_the_own_session_is_marked() {
        let mut first = row("ann", ActorKind::Human, "1");
        first.state = Some("{\"color\":\"red\"}".to_owned());
        let rows = vec![first, row("ann", ActorKind::Human, "2"), row("bob", ActorKind::Human, "1")];
        let people = vec!["bob".to_owned(), "cat".to_owned()];
        let asks = actor("ann", ActorKind::Human);
        let list = list_presence(rows.clone(), Some(people), &asks, Some("1"));
        let entry = |sub: &str, session: Value, state: Value, expires: Value, own: bool| json!({"sub": sub, "kind": "human", "session": session, "state": state, "expiresAt": expires, "self": own});
        let expected = json!({
            "presence": [
                entry("ann", json!("1"), json!({"color": "red"}), json!(9), true),
                entry("ann", json!("2"), Value::Null, json!(9), false),
                entry("bob", json!("1"), Value::Null, json!(9), false),
                entry("cat", Value::Null, Value::Null, Value::Null, false),
            ],
            "otherHumans": 2,
            "complete": true,
        });
        assert_eq!(serde_json::to_value(list).unwrap(), expected);
        let silent = list_presence(rows, None, &asks, None);
        assert_eq!((silent.complete, silent.other_humans), (false, 1));
        assert!(silent.presence.iter().all(|entry| !entry.own));
    }
}
