//! Agents: one request at a time each, under a key, asked again until there is an answer (R1, R2).

use std::cell::RefCell;
use std::rc::Rc;

use crate::api::op::Op;
use crate::api::path::NodePath;
use crate::api::precondition::Precondition;
use crate::bus::{Ask, Bus, Owner};
use crate::checks::{COUNTER, Mark, Outcome, Violation};
use crate::people::reader::RECORDS;
use crate::people::replica::Replica;
use crate::worker::{Call, Request, Response};
use crate::world::{World, call};
use serde_json::json;

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
    /// Whether it edits a document without Yjs.
    pub is_edit: bool,
    /// The clocks of the answer, and of the answer to the same request once more.
    pub clocks: Vec<u64>,
    /// What the second answer was, if it was not the first.
    pub other: Option<Response>,
}

impl Note {
    /// Of something that was not answered yet.
    pub fn new(actor: &str) -> Self {
        Self {
            actor: actor.to_owned(),
            outcome: Outcome::Unknown,
            mark: None,
            counted: false,
            is_edit: false,
            clocks: Vec::new(),
            other: None,
        }
    }

    /// The same for one that puts a mark named after its actor into a document.
    pub fn marking(actor: &str) -> Self {
        Self { mark: Some((actor.to_owned(), 0)), ..Self::new(actor) }
    }
}

/// The op that writes a record.
pub fn put_op(path: &str, value: serde_json::Value, precondition: Precondition) -> Option<Op> {
    let path = NodePath::parse(path).ok()?;
    Some(Op { path, precondition, action: crate::api::op::OpAction::Put(value) })
}

impl World {
    /// An agent writes a record of its own.
    pub fn put(&mut self, agent: usize) {
        let actor = self.actor(agent);
        let path = format!("{RECORDS}/{actor}");
        let put = put_op(&path, json!({ "n": 1 }), Precondition::None);
        self.start(agent, Call::Ops(put.into_iter().collect()), Note::new(&actor));
    }

    /// An agent appends a mark to a document.
    pub fn append(&mut self, agent: usize, path: &str) {
        let (actor, client) = (self.actor(agent), 500_000 + self.number());
        let update = Replica::new(client).write(&actor, 0);
        self.ledger.marks.insert(actor.clone(), Mark { path: path.to_owned(), ..Mark::default() });
        let append = Call::Append { path: path.to_owned(), update, epoch: None, since: None };
        self.start(agent, append, Note::marking(&actor));
    }

    /// An agent replaces a document's content.
    pub fn replace(&mut self, agent: usize, path: &str) {
        let (actor, client) = (self.actor(agent), 500_000 + self.number());
        let update = Replica::new(client).write(&actor, 0);
        self.ledger.marks.insert(actor.clone(), Mark { path: path.to_owned(), ..Mark::default() });
        let replace = Call::Replace { path: path.to_owned(), update };
        self.ledger.count("replaced");
        self.start(agent, replace, Note::marking(&actor));
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
            let put = put_op(COUNTER, json!({ "n": n + 1 }), precondition);
            let note = Note { counted: true, ..Note::new(&actor) };
            ask(&bus, Call::Ops(put.into_iter().collect()), note, &notes).await;
        };
        self.spawn(Owner::Agent(agent), Box::pin(work));
    }

    /// An agent asks.
    pub fn start(&mut self, agent: usize, call: Call, note: Note) {
        let (bus, notes) = (Rc::clone(&self.bus), Rc::clone(&self.notes));
        self.ledger.ops.insert(note.actor.clone(), Outcome::Unknown);
        let work = async move { ask(&bus, call, note, &notes).await };
        self.spawn(Owner::Agent(agent), Box::pin(work));
    }

    /// A name that no other op has: the log then tells how often it was carried out.
    pub fn actor(&mut self, agent: usize) -> String {
        self.asked[agent] += 1;
        format!("a{agent}.{}", self.asked[agent])
    }

    /// Takes over what agents were answered.
    ///
    /// # Errors
    /// R2: a request that was sent once more was answered something else.
    pub fn read_notes(&mut self) -> Result<(), Violation> {
        for (actor, precondition) in self.looked.borrow_mut().drain(..) {
            if let Some(first) = self.ledger.plans.get_mut(&actor).and_then(|plan| plan.first_mut()) {
                first.precondition = precondition;
            }
        }
        for Note { actor, outcome, mark, counted, is_edit, clocks, other } in
            self.notes.borrow_mut().drain(..)
        {
            if let Some(other) = other {
                let what = format!("{actor} was answered {clocks:?}, and the same once more {other:?}");
                return Err(Violation::new("R2", what));
            }
            self.ledger.answers.insert(actor.clone(), clocks);
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
            if is_edit && outcome == Outcome::Done {
                self.ledger.count("edits");
            }
            self.ledger.count(match outcome {
                Outcome::Done => "ops done",
                Outcome::Refused => "ops refused",
                Outcome::Unknown => "ops given up",
            });
        }
        Ok(())
    }
}

/// Asks under one key until there is an answer that says something, or patience ends.
pub async fn ask(bus: &Rc<Bus>, wanted: Call, mut note: Note, notes: &Notes) {
    let key = Some(format!("key-{}", note.actor));
    let unanswered = bus.unanswered.get();
    for attempt in 0..ATTEMPTS {
        let request = Request { actor: note.actor.clone(), key: key.clone(), call: wanted.clone() };
        match call(bus, request).await {
            Some(Response { status: 200 | 201, epoch, clock, clocks, .. }) => {
                note.outcome = Outcome::Done;
                if let Some((_, of)) = &mut note.mark {
                    *of = epoch.unwrap_or(0);
                }
                note.clocks = if clocks.is_empty() { vec![clock] } else { clocks };
                note.other = ask_again(bus, &wanted, &note, key).await;
                break;
            }
            Some(Response { status: 503, .. }) | None => {
                bus.ask(|waiter| Ask::Sleep(300 << attempt, waiter)).await;
            }
            // Once the workspace is deleted nobody is told what an earlier try did, also of the Worker's own.
            Some(Response { status: 410, .. }) => break,
            // A try that D1 did not answer may yet be carried out.
            Some(_) if bus.unanswered.get() > unanswered => break,
            Some(_) => {
                note.outcome = Outcome::Refused;
                break;
            }
        }
    }
    notes.borrow_mut().push(note);
}

/// Some send a request once more that was answered: they get the first answer. Returns another one.
async fn ask_again(bus: &Bus, wanted: &Call, note: &Note, key: Option<String>) -> Option<Response> {
    if !bus.chance().is_multiple_of(4) {
        return None;
    }
    let request = Request { actor: note.actor.clone(), key, call: wanted.clone() };
    let answer = call(bus, request).await.filter(|answer| !matches!(answer.status, 410 | 503))?;
    let clocks = if answer.clocks.is_empty() { vec![answer.clock] } else { answer.clocks.clone() };
    let is_same = answer.status == 200 && clocks == note.clocks;
    (!is_same).then_some(answer)
}

fn count_of(found: &Response) -> u64 {
    let value: serde_json::Value = serde_json::from_str(&found.value).unwrap_or_default();
    value.get("n").and_then(serde_json::Value::as_u64).unwrap_or(0)
}

/// Tries of one request.
const ATTEMPTS: u32 = 5;
