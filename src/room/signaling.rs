//! y-webrtc signaling: topics within one room. A stock y-webrtc client can use a relay's URL.

use serde_json::{Map, Value};

use crate::protocol::limits::{MAX_TOPIC_BYTES, MAX_TOPICS};

/// Adds topics to a connection's list; `false` when that would be more than it may have (P02).
pub(super) fn subscribe(topics: &mut Vec<String>, wanted: Vec<String>) -> bool {
    for topic in wanted {
        if topics.contains(&topic) {
            continue;
        }
        if topics.len() >= MAX_TOPICS || topic_bytes(topics) + topic.len() > MAX_ALL_TOPIC_BYTES {
            return false;
        }
        topics.push(topic);
    }
    true
}

/// Removes topics from a connection's list.
pub(super) fn unsubscribe(topics: &mut Vec<String>, unwanted: &[String]) {
    topics.retain(|topic| !unwanted.contains(topic));
}

/// The message as the subscribers get it: with how many they are, as y-webrtc expects, and with
/// the sender that the relay knows, whatever the message claimed (P02).
pub(super) fn published(mut message: Map<String, Value>, receivers: usize, sender: &str) -> String {
    message.insert("clients".to_owned(), Value::from(receivers));
    message.insert("sender".to_owned(), Value::from(sender));
    Value::Object(message).to_string()
}

fn topic_bytes(topics: &[String]) -> usize {
    topics.iter().map(String::len).sum()
}

/// Bytes of all topics of a connection: they live in its attachment.
const MAX_ALL_TOPIC_BYTES: usize = 8 * MAX_TOPIC_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p02_topics_of_a_connection_are_bounded_and_freed() {
        let mut topics = Vec::new();
        for n in 0..100_000 {
            assert!(subscribe(&mut topics, vec![format!("t{n}")]));
            unsubscribe(&mut topics, &[format!("t{n}")]);
        }
        assert!(topics.is_empty());
        assert!(subscribe(&mut topics, (0..MAX_TOPICS).map(|n| n.to_string()).collect()));
        assert!(!subscribe(&mut topics, vec!["more".to_owned()]));
        assert!(subscribe(&mut topics, vec!["1".to_owned()]), "a topic it is on costs nothing");
    }

    #[test]
    fn p02_the_sender_is_stamped() {
        let mut message = Map::new();
        message.insert("sender".to_owned(), Value::from("boss"));
        let sent: Value = serde_json::from_str(&published(message, 3, "ann")).unwrap();
        assert_eq!((&sent["clients"], &sent["sender"]), (&Value::from(3), &Value::from("ann")));
    }
}
