//! The text of a stream: every function returns whole events, so nothing can fall inside one (S06).
//!
//! Only an event that vouches for every clock up to N carries `id: N` (F3): `change`, `reset` and
//! `head`. `bye` and `deleted` leave the reader's cursor alone. Every event has a data line, since
//! a browser drops an event without one.

use serde::Serialize;

use crate::protocol::change::Change;

/// The first bytes of a stream (F4): how long the reader waits before it connects again, and a
/// comment, so that they make no event.
#[must_use]
pub fn opening(retry_ms: u64) -> String {
    format!("retry: {retry_ms}\n: ok\n\n")
}

/// A change. Its JSON is one line whatever the path holds: line ends are escaped in it.
#[must_use]
pub fn change_event(change: &Change) -> String {
    event("change", Some(change.clock), &json(change))
}

/// The cursor cannot be resumed (S01): the reader fetches the state anew and goes on from `head`.
#[must_use]
pub fn reset_event(head: u64, floor: u64) -> String {
    event("reset", Some(head), &format!("{{\"head\":{head},\"floor\":{floor}}}"))
}

/// Moves the cursor of a reader that has seen, or filtered out, everything up to `head`.
#[must_use]
pub fn head_event(head: u64) -> String {
    event("head", Some(head), &format!("{{\"head\":{head}}}"))
}

/// The stream ends on purpose (F4); the reader connects again after `retry_ms`.
#[must_use]
pub fn bye_event(retry_ms: u64) -> String {
    format!("retry: {retry_ms}\n{}", event("bye", None, &format!("{{\"retry\":{retry_ms}}}")))
}

/// The workspace is gone (F7): terminal, another attempt is answered with 404.
#[must_use]
pub fn deleted_event(head: u64) -> String {
    event("deleted", None, &format!("{{\"head\":{head}}}"))
}

/// Bytes that are no event: they keep proxies from cutting a quiet stream, and show a lost reader.
#[must_use]
pub fn comment() -> String {
    ": still here\n\n".to_owned()
}

fn event(name: &str, id: Option<u64>, data: &str) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: {name}\n{id}data: {data}\n\n")
}

fn json(value: &impl Serialize) -> String {
    // Numbers, strings and unit variants always encode.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::protocol::change::ChangeKind;

    /// An event as a browser dispatches it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Event {
        pub name: String,
        pub data: String,
        pub last_event_id: String,
    }

    /// A reader after the rules of the HTML standard, for a stream that begins with this text.
    #[derive(Debug, Default)]
    pub struct Reader {
        pub last_event_id: String,
        pub retry: Option<u64>,
        pub comments: usize,
    }

    impl Reader {
        pub fn read(&mut self, text: &str) -> Vec<Event> {
            let mut events = Vec::new();
            let (mut name, mut data) = (String::new(), Vec::new());
            for line in text.replace("\r\n", "\n").split(['\n', '\r']) {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "" if line.is_empty() => {
                        if !data.is_empty() {
                            let last_event_id = self.last_event_id.clone();
                            events.push(Event { name: name.clone(), data: data.join("\n"), last_event_id });
                        }
                        name.clear();
                        data.clear();
                    }
                    "" => self.comments += 1,
                    "event" => name = value.to_owned(),
                    "data" => data.push(value.to_owned()),
                    "id" => self.last_event_id = value.to_owned(),
                    "retry" => self.retry = value.parse().ok(),
                    other => panic!("unknown field {other:?}"),
                }
            }
            assert!(name.is_empty() && data.is_empty(), "the text ends inside an event: {text:?}");
            events
        }
    }

    fn put(path: &str) -> Change {
        Change { clock: 7, kind: ChangeKind::Put, path: path.into(), actor: "ana".into(), at: 5 }
    }

    #[test]
    fn f03_a_change_is_three_lines_with_its_clock_as_id() {
        assert_eq!(
            change_event(&put("jobs/42")),
            "event: change\nid: 7\n\
             data: {\"clock\":7,\"kind\":\"put\",\"path\":\"jobs/42\",\"actor\":\"ana\",\"at\":5}\n\n"
        );
    }

    #[test]
    fn f03_a_path_cannot_break_out_of_its_data_line() {
        for path in [
            "/notes/a\nevent: reset\ndata: {}",
            "/notes/a\rid: 999999",
            "/notes/a\r\n\r\nid: 999999",
            "/notes/\u{2028}line",
            "/notes/\u{1F600}",
            "\u{feff}\"\\\0",
        ] {
            let text = change_event(&put(path));
            let mut reader = Reader::default();
            let events = reader.read(&text);
            assert_eq!(events.len(), 1, "{path:?}");
            assert_eq!(events[0].name, "change");
            assert_eq!(Change::from_json(&serde_json::from_str(&events[0].data).unwrap()), Some(put(path)));
            assert_eq!(reader.last_event_id, "7", "{path:?}");
        }
        assert!(change_event(&put("a\u{2028}b")).contains('\u{2028}'), "U+2028 goes out as it is");
    }

    #[test]
    fn f03_only_events_that_vouch_for_a_clock_carry_an_id() {
        let mut reader = Reader::default();
        for (text, name, data, id) in [
            (reset_event(9, 4), "reset", r#"{"head":9,"floor":4}"#, "9"),
            (bye_event(2000), "bye", r#"{"retry":2000}"#, "9"),
            (head_event(12), "head", r#"{"head":12}"#, "12"),
            (deleted_event(12), "deleted", r#"{"head":12}"#, "12"),
        ] {
            let event = Event { name: name.into(), data: data.into(), last_event_id: id.into() };
            assert_eq!(reader.read(&text), [event], "{text:?}");
        }
        assert!(!bye_event(2000).contains("id:") && !deleted_event(1).contains("id:"));
        assert_eq!(reader.retry, Some(2000));
    }

    #[test]
    fn s06_the_opening_and_the_comment_are_no_events() {
        let mut reader = Reader::default();
        assert_eq!(reader.read(&(opening(1500) + &comment())), []);
        assert_eq!((reader.retry, reader.comments), (Some(1500), 2));
        assert!(opening(1500).starts_with("retry: 1500\n: ok\n"));
    }
}
