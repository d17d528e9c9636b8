//! Agents that delete and move documents, and the workspace; and what people do who are sent away for it.

use crate::api::op::{Op, OpAction};
use crate::api::path::NodePath;
use crate::api::precondition::Precondition;
use crate::checks::{DOCUMENTS, Violation};
use crate::network::ConnectionId;
use crate::people::agent::Note;
use crate::people::records::{Planned, What};
use crate::people::walker::{self, Phase};
use crate::worker::Call;
use crate::world::World;

impl World {
    /// An agent deletes a document, or with some luck all that are in one place.
    pub fn delete(&mut self, agent: usize, amount: u64) {
        let path = match amount % 8 {
            0 => self.random.pick(&ROOTS),
            1 => self.random.pick(&PLACES),
            _ => self.random.pick(&DOCUMENTS),
        };
        let actor = self.actor(agent);
        let precondition = self.seen(path);
        let op = NodePath::parse(path).map(|path| Op { path, precondition, action: OpAction::Delete });
        let planned = Planned { path: path.to_owned(), precondition, what: What::Delete };
        self.ledger.plans.insert(actor.clone(), vec![planned]);
        self.ledger.count("deletes asked");
        self.start(agent, Call::Ops(op.into_iter().collect()), Note::new(&actor));
    }

    /// An agent moves a document, or all that are in one place.
    pub fn move_documents(&mut self, agent: usize, amount: u64) {
        let places: &[&'static str] = if amount.is_multiple_of(4) { &ROOTS } else { &PLACES };
        let from = self.random.pick(places);
        let others: Vec<&str> = places.iter().copied().filter(|place| *place != from).collect();
        let to = self.random.pick(&others);
        let actor = self.actor(agent);
        let precondition = self.seen(from);
        let leaves = Planned { path: from.to_owned(), precondition, what: What::Leave };
        let what = What::Arrive(from.to_owned());
        let arrives = Planned { path: to.to_owned(), precondition: Precondition::None, what };
        self.ledger.plans.insert(actor.clone(), vec![leaves, arrives]);
        self.ledger.count("moves asked");
        let call = Call::Move { from: from.to_owned(), to: to.to_owned(), precondition };
        self.start(agent, call, Note::new(&actor));
    }

    /// An agent deletes the workspace.
    pub fn delete_workspace(&mut self, agent: usize) {
        let actor = self.actor(agent);
        self.ledger.count("workspace deletes asked");
        self.start(agent, Call::DeleteWorkspace, Note::new(&actor));
    }

    /// What some agents ask for: that the document is as they saw it.
    fn seen(&mut self, path: &str) -> Precondition {
        let seen = self.d1.documents().get(path).map(|(_, clock)| *clock);
        match (self.random.below(4), seen) {
            (0, Some(clock)) => Precondition::IfMatch(clock),
            (1, _) => Precondition::Exists,
            _ => Precondition::None,
        }
    }

    /// 4404: whoever is told that the document is deleted was on one that was, or was moved away.
    pub fn check_deleted(&self, id: ConnectionId) -> Result<(), Violation> {
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        let (path, epoch) = (&connection.info.document, connection.info.epoch.unwrap_or(0));
        match self.d1.is_deleted() || self.d1.was_removed(path, epoch) {
            true => Ok(()),
            false => Err(Violation::new("W11", format!("{path} is called deleted, and never was"))),
        }
    }

    /// Somebody who was sent away opens a document again: the one at the old path, if there is any by now, or
    /// the one that was moved, where it is. Unsaved edits were in the old copy.
    pub fn open_again(&mut self, human: usize) {
        if self.humans[human].walker.phase != Phase::Stopped("deleted") || self.d1.is_deleted() {
            return;
        }
        if self.random.percent(50) {
            let epoch = self.humans[human].epoch;
            let documents = self.d1.documents();
            let moved = PLACES
                .into_iter()
                .find(|place| documents.get(*place).is_some_and(|(of, _)| Some(*of) == epoch));
            self.humans[human].path = moved.unwrap_or(self.humans[human].path);
        }
        self.begin_copy(human);
        self.walk(human, walker::Event::Restart);
    }
}

/// Where documents may be. They begin in [`DOCUMENTS`].
pub const PLACES: [&str; 4] = [DOCUMENTS[0], DOCUMENTS[1], "old/a", "old/b"];

/// What they are below of.
const ROOTS: [&str; 2] = ["docs", "old"];
