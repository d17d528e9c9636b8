//! What `src/edge/room_storage.rs` knows of a relay's shell: a room, and a way to hand it events.
//! Both relays of a world use it; what the room asks is done by the world.

use std::cell::{Ref, RefCell};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::rc::Rc;

use super::clock;
use super::db::Db;
use crate::protocol::Timestamp;
use crate::room::{Action, Frame, Room as Core};

/// A room and what it asked for.
pub struct Shell {
    /// The workspace.
    pub workspace: String,
    /// The database, of a room that reaches it itself.
    pub db: Option<Db>,
    core: RefCell<Core>,
    asked: RefCell<VecDeque<Vec<Action>>>,
}

impl Shell {
    /// A shell around a room.
    pub fn new(workspace: &str, db: Option<Db>, core: Core) -> Rc<Self> {
        let shell = Self {
            workspace: workspace.to_owned(),
            db,
            core: RefCell::new(core),
            asked: RefCell::new(VecDeque::new()),
        };
        shell.drain(None);
        Rc::new(shell)
    }

    /// Hands an event to the room.
    pub fn with<T>(self: &Rc<Self>, event: impl FnOnce(&mut Core, Timestamp) -> T) -> T {
        let result = event(&mut self.core.borrow_mut(), clock::now());
        self.drain(None);
        result
    }

    /// Hands a frame to the room, which may ask to send it on as it came.
    pub fn receive(self: &Rc<Self>, event: impl FnOnce(&mut Core, Timestamp), frame: &[u8]) {
        event(&mut self.core.borrow_mut(), clock::now());
        self.drain(Some(frame));
    }

    /// The room, to look at.
    pub fn core(&self) -> Ref<'_, Core> {
        self.core.borrow()
    }

    /// What the room asked for after one event, in its order.
    pub fn next_actions(&self) -> Option<Vec<Action>> {
        self.asked.borrow_mut().pop_front()
    }

    /// Errors that the Worker logs are no errors of the simulator.
    pub fn log(&self, _: &str, _: &dyn Debug) {}

    fn drain(&self, input: Option<&[u8]>) {
        let mut actions = Vec::new();
        while let Some(action) = self.core.borrow_mut().poll_action() {
            actions.push(match (action, input) {
                (Action::SendBinary { to, frame: Frame::Input }, Some(input)) => {
                    Action::SendBinary { to, frame: Frame::Bytes(input.to_vec()) }
                }
                (action, _) => action,
            });
        }
        if !actions.is_empty() {
            self.asked.borrow_mut().push_back(actions);
        }
    }
}
