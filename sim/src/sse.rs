//! Reading the text of a stream, after the rules of the HTML standard.

/// An event as a browser dispatches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Its data.
    pub data: String,
    /// The id that it carries itself.
    pub id: Option<u64>,
}

/// The events of a text that holds whole ones.
pub fn parse(text: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let (mut name, mut data, mut id) = (String::new(), Vec::new(), None);
    for line in text.split('\n') {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut name),
            "data" => data.push(value.to_owned()),
            "id" => id = value.parse().ok(),
            _ if !line.is_empty() => {}
            _ => {
                if !data.is_empty() {
                    events.push(Event { name: std::mem::take(&mut name), data: data.join("\n"), id });
                }
                (name, data, id) = (String::new(), Vec::new(), None);
            }
        }
    }
    events
}
