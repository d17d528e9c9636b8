//! Agents that change a tree of records: writes, merge patches, deletes and moves of subtrees, and batches,
//! some on the condition that nothing changed since they looked.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::api::op::{Op, OpAction};
use crate::api::path::NodePath;
use crate::api::precondition::Precondition;
use crate::bus::Owner;
use crate::checks::Outcome;
use crate::people::agent::{Note, ask};
use crate::protocol::change::{ChangeKind, is_within};
use crate::random::Random;
use crate::worker::{Call, Request};
use crate::world::{World, call};

/// One change that an agent wants: it is a row of the log if it is done.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Where.
    pub path: String,
    /// What has to be true of the node.
    pub precondition: Precondition,
    /// What happens to it.
    pub what: What,
}

/// What happens to a node.
#[derive(Debug, Clone)]
pub enum What {
    /// It comes from there, with all below it.
    Arrive(String),
    /// It goes, with all below it.
    Delete,
    /// It leaves for another place.
    Leave,
    /// It is changed by a merge patch.
    Patch(Value),
    /// It is written.
    Put(Value),
}

/// What agents asked for once they had looked, by actor.
pub type Looked = Rc<RefCell<Vec<(String, Precondition)>>>;

impl Planned {
    /// The kind of the change.
    pub const fn kind(&self) -> ChangeKind {
        match self.what {
            What::Arrive(_) => ChangeKind::Move,
            What::Delete | What::Leave => ChangeKind::Delete,
            What::Patch(_) => ChangeKind::Patch,
            What::Put(_) => ChangeKind::Put,
        }
    }
}

impl World {
    /// An agent changes the tree.
    pub fn change_tree(&mut self, agent: usize, amount: u64) {
        let actor = self.actor(agent);
        let random = &mut self.random;
        let (mut wanted, plan) = match amount % 5 {
            0 => a_move(random),
            1 | 2 => a_batch(&actor, random, 1),
            _ => {
                let count = 2 + random.index(4);
                a_batch(&actor, random, count)
            }
        };
        let looks = random.percent(40);
        self.ledger.ops.insert(actor.clone(), Outcome::Unknown);
        self.ledger.plans.insert(actor.clone(), plan);
        self.ledger.count("tree requests");
        let (bus, notes) = (Rc::clone(&self.bus), Rc::clone(&self.notes));
        let looked = Rc::clone(&self.looked);
        let work = async move {
            let path = first_path(&wanted);
            if looks && let Some(path) = path {
                let read = Request { actor: actor.clone(), key: None, call: Call::ReadNode { path } };
                let Some(found) = call(&bus, read).await else { return };
                let precondition = match found.status {
                    200 => Precondition::IfMatch(found.clock),
                    404 if matches!(wanted, Call::Ops(_)) => Precondition::IfNoneMatch,
                    _ => Precondition::None,
                };
                require(&mut wanted, precondition);
                looked.borrow_mut().push((actor.clone(), precondition));
            }
            ask(&bus, wanted, Note::new(&actor), &notes).await;
        };
        self.spawn(Owner::Agent(agent), Box::pin(work));
    }
}

fn first_path(call: &Call) -> Option<String> {
    match call {
        Call::Move { from, .. } => Some(from.clone()),
        Call::Ops(ops) => ops.first().map(|op| op.path.as_str().to_owned()),
        _ => None,
    }
}

fn require(call: &mut Call, wanted: Precondition) {
    match call {
        Call::Move { precondition, .. } => *precondition = wanted,
        Call::Ops(ops) => {
            if let Some(op) = ops.first_mut() {
                op.precondition = wanted;
            }
        }
        _ => {}
    }
}

fn a_move(random: &mut Random) -> (Call, Vec<Planned>) {
    let from = random.pick(&PATHS);
    let free: Vec<&str> = PATHS.into_iter().filter(|to| !is_within(to, from)).collect();
    let to = free[random.index(free.len())];
    let planned =
        |path: &str, what| Planned { path: path.to_owned(), precondition: Precondition::None, what };
    let plan = vec![planned(from, What::Leave), planned(to, What::Arrive(from.to_owned()))];
    (Call::Move { from: from.to_owned(), to: to.to_owned(), precondition: Precondition::None }, plan)
}

fn a_batch(actor: &str, random: &mut Random, count: usize) -> (Call, Vec<Planned>) {
    let mut ops = Vec::new();
    let mut plan = Vec::new();
    for index in 0..count {
        let path = random.pick(&PATHS);
        let key = ["a", "b"][random.index(2)];
        let (action, what) = match random.below(10) {
            0..6 => {
                let value = json!({ "by": actor, "index": index, "in": { key: 1 } });
                (OpAction::Put(value.clone()), What::Put(value))
            }
            6..9 => {
                let patch = json!({ "patched": actor, "by": null, "in": { key: random.index(3), "c": {} } });
                (OpAction::Patch(patch.clone()), What::Patch(patch))
            }
            _ => (OpAction::Delete, What::Delete),
        };
        let Ok(node) = NodePath::parse(path) else { continue };
        ops.push(Op { path: node, precondition: Precondition::None, action });
        plan.push(Planned { path: path.to_owned(), precondition: Precondition::None, what });
    }
    (Call::Ops(ops), plan)
}

/// Few places, so that agents meet there, above and below each other. One is a prefix of another's name.
const PATHS: [&str; 8] =
    ["tree/a", "tree/a/b", "tree/a/b/c", "tree/a.b", "tree/ab", "tree/c", "tree/c/a", "tree/é/a"];
