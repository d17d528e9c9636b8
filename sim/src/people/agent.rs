//! Agents: one request at a time each, under a key, asked again until there is an answer (R1, R2).

use std::cell::RefCell;
use std::rc::Rc;

use crate::api::precondition::Precondition;
use crate::bus::{Ask, Bus, Owner};
use crate::checks::{COUNTER, Mark, Outcome};
use crate::people::reader::RECORDS;
use crate::people::replica::Replica;
use crate::worker::{Call, Request, Response};
use crate::world::{World, call};

/// What agents write down of their answers; the ledger takes it over.
pub type Notes = Rc<RefCell<Vec<Note>>>;

/// An answer.
#[derive(Debug)]
pub struct Note {
    /// The op, by its actor.
    pub actor: String,
    /// What was answered.
    pub outcome: Outcome,
    /// The mark that it put into a document, and the epoch of the answer.
    pub mark: Option<(String, u64)>,
    /// Whether it counted.
    pub counted: bool,
}

impl World {
    /// An agent writes a record of its own.
    pub fn put(&mut self, agent: usize) {
        let actor = self.actor(agent);
        let path = format!("{RECORDS}/{actor}");
        let put = Call::Put { path, value: r#"{"n":1}"#.to_owned(), precondition: Precondition::None };
        let note = Note { actor: actor.clone(), outcome: Outcome::Unknown, mark: None, counted: false };
        self.start(agent, put, note);
    }

    /// An agent appends a mark to a document.
    pub fn append(&mut self, agent: usize, path: &str) {
        let (actor, client) = (self.actor(agent), 500_000 + self.number());
        let update = Replica::new(client).write(&actor, 0);
        self.ledger.marks.insert(actor.clone(), Mark { path: path.to_owned(), ..Mark::default() });
        let append = Call::Append { path: path.to_owned(), update, epoch: None, since: None };
        let mark = Some((actor.clone(), 0));
        self.start(agent, append, Note { actor, outcome: Outcome::Unknown, mark, counted: false });
    }

    /// An agent replaces a document's content.
    pub fn replace(&mut self, agent: usize, path: &str) {
        let (actor, client) = (self.actor(agent), 500_000 + self.number());
        let update = Replica::new(client).write(&actor, 0);
        self.ledger.marks.insert(actor.clone(), Mark { path: path.to_owned(), ..Mark::default() });
        let mark = Some((actor.clone(), 0));
        let replace = Call::Replace { path: path.to_owned(), update };
        self.ledger.count("replaced");
        self.start(agent, replace, Note { actor, outcome: Outcome::Unknown, mark, counted: false });
    }

    /// An agent counts a record up: reads it, and writes one more if nobody did meanwhile.
    pub fn increment(&mut self, agent: usize) {
        let actor = self.actor(agent);
        let (bus, notes) = (Rc::clone(&self.bus), Rc::clone(&self.notes));
        self.ledger.ops.insert(actor.clone(), Outcome::Unknown);
        let work = async move {
            let read = Request {
                actor: actor.clone(),
                key: None,
                call: Call::ReadNode { path: COUNTER.to_owned() },
            };
            let Some(found) = call(&bus, read).await else { return };
            let (n, precondition) = match found.status {
                200 => (count_of(&found), Precondition::IfMatch(found.clock)),
                404 => (0, Precondition::IfNoneMatch),
                _ => return,
            };
            let value = format!(r#"{{"n":{}}}"#, n + 1);
            let put = Call::Put { path: COUNTER.to_owned(), value, precondition };
            let note = Note { actor, outcome: Outcome::Unknown, mark: None, counted: true };
            ask(&bus, put, note, &notes).await;
        };
        self.spawn(Owner::Agent(agent), Box::pin(work));
    }

    fn start(&mut self, _agent: usize, call: Call, note: Note) {
        let (bus, notes) = (Rc::clone(&self.bus), Rc::clone(&self.notes));
        self.ledger.ops.insert(note.actor.clone(), Outcome::Unknown);
        let work = async move { ask(&bus, call, note, &notes).await };
        self.spawn(Owner::Agent(_agent), Box::pin(work));
    }

    /// A name that no other op has: the log then tells how often it was carried out.
    fn actor(&mut self, agent: usize) -> String {
        self.asked[agent] += 1;
        format!("a{agent}.{}", self.asked[agent])
    }

    /// Takes over what agents were answered.
    pub fn read_notes(&mut self) {
        for Note { actor, outcome, mark, counted } in self.notes.borrow_mut().drain(..) {
            self.ledger.ops.insert(actor, outcome);
            if let (Some((mark, epoch)), Outcome::Done) = (mark, outcome)
                && let Some(known) = self.ledger.marks.get_mut(&mark)
            {
                known.saved = Some(epoch);
            }
            match outcome {
                Outcome::Done if counted => self.ledger.increments.0 += 1,
                Outcome::Unknown if counted => self.ledger.increments.1 += 1,
                _ => {}
            }
            self.ledger.count(match outcome {
                Outcome::Done => "ops done",
                Outcome::Refused => "ops refused",
                Outcome::Unknown => "ops given up",
            });
        }
    }
}

/// Asks under one key until there is an answer that says something, or patience ends.
async fn ask(bus: &Rc<Bus>, wanted: Call, mut note: Note, notes: &Notes) {
    let key = Some(format!("key-{}", note.actor));
    for attempt in 0..ATTEMPTS {
        let request = Request { actor: note.actor.clone(), key: key.clone(), call: wanted.clone() };
        match call(bus, request).await {
            Some(Response { status: 200 | 201, epoch, .. }) => {
                note.outcome = Outcome::Done;
                if let Some((_, of)) = &mut note.mark {
                    *of = epoch.unwrap_or(0);
                }
                break;
            }
            Some(Response { status: 503, .. }) | None => {
                bus.ask(|waiter| Ask::Sleep(300 << attempt, waiter)).await;
            }
            Some(_) => {
                note.outcome = Outcome::Refused;
                break;
            }
        }
    }
    notes.borrow_mut().push(note);
}

fn count_of(found: &Response) -> u64 {
    let value: serde_json::Value = serde_json::from_str(&found.value).unwrap_or_default();
    value.get("n").and_then(serde_json::Value::as_u64).unwrap_or(0)
}

/// Tries of one request.
const ATTEMPTS: u32 = 5;
