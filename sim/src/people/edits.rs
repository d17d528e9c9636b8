//! Agents that edit documents without Yjs: by what they read, at the end, and by pointer.

use std::rc::Rc;

use serde_json::{Value, json};

use crate::bus::{Bus, Owner};
use crate::checks::{Mark, Outcome};
use crate::people::agent::{Note, ask};
use crate::people::replica::{LETTERS, MAP, Replica, TEXT};
use crate::worker::{Call, Request};
use crate::world::{World, call};

impl World {
    /// An agent edits a document, so that it has a mark of the agent's afterwards.
    pub fn rewrite(&mut self, agent: usize, path: &str, amount: u64) {
        let actor = self.actor(agent);
        self.ledger.ops.insert(actor.clone(), Outcome::Unknown);
        self.ledger.marks.insert(actor.clone(), Mark { path: path.to_owned(), ..Mark::default() });
        let (bus, notes, path) = (Rc::clone(&self.bus), Rc::clone(&self.notes), path.to_owned());
        let work = async move {
            let body = match amount % 5 {
                0 => body_of(TEXT, json!({ "op": "append", "text": format!("<{actor}>") })),
                1 => body_of(MAP, json!({ "op": "put", "pointer": format!("/{actor}"), "value": 1 })),
                2 => body_of("marks", json!({ "op": "insert", "pointer": "/-", "value": actor })),
                way => match by_quote(&bus, &path, &actor, way == 4).await {
                    Some(body) => body,
                    None => return,
                },
            };
            let edit = Call::Edit { path, body: body.to_string() };
            let note = Note { is_edit: true, ..Note::marking(&actor) };
            ask(&bus, edit, note, &notes).await;
        };
        self.spawn(Owner::Agent(agent), Box::pin(work));
    }
}

fn body_of(root: &str, edit: Value) -> Value {
    json!({ "root": root, "edits": [edit] })
}

/// An edit where the agent saw something: after a mark, before one, or in place of a letter.
async fn by_quote(bus: &Rc<Bus>, path: &str, actor: &str, has_base: bool) -> Option<Value> {
    let read = Call::Read { path: path.to_owned(), since: None };
    let found = call(bus, Request { actor: actor.to_owned(), key: None, call: read }).await?;
    let text = Replica::of(&[found.update]).text();
    let chance = bus.chance();
    let mark =
        text.split_inclusive('>').filter_map(|part| part.find('<').map(|start| &part[start..])).next_back();
    let letter = text.bytes().find(|byte| LETTERS.contains(byte)).map(char::from);
    let own = format!("<{actor}>");
    let edit = match (mark, letter) {
        (Some(mark), _) if chance.is_multiple_of(3) => json!({ "op": "insert", "after": mark, "text": own }),
        (Some(mark), _) if chance % 3 == 1 => {
            json!({ "op": "replace", "quote": mark, "with": format!("{own}{mark}") })
        }
        (_, Some(letter)) => {
            json!({ "op": "replace", "quote": letter.to_string(), "occurrence": 1, "with": own })
        }
        _ => json!({ "op": "append", "text": own }),
    };
    let mut body = body_of(TEXT, edit);
    if has_base {
        body["base"] = found.clock.into();
    }
    Some(body)
}
