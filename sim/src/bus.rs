//! What code that waits asks of the world: futures whose answers the world gives when it likes.
//!
//! Worker, Durable Object and Deno shell wait for D1, for HTTP and for time. Here each wait is a
//! value in a queue with a place for its answer; the world draws when, and whether, it is answered.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::d1::{Results, Sql};
use crate::feed::stream::LogPage;
use crate::protocol::change::Change;
use crate::random::Random;
use crate::worker::{Request, Response};

/// Names a piece of work that may wait.
pub type TaskId = u64;

/// A piece of work.
pub type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Whose work it is. It ends with its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// An agent, by number.
    Agent(usize),
    /// A Durable Object, by incarnation.
    Cloudflare(u64),
    /// A run of the Deno relay.
    Deno(u64),
    /// A stream of the feed.
    Stream(u64),
    /// A request in the Worker: it ends by itself.
    Worker,
}

/// What somebody waits for, or wants done.
pub enum Ask {
    /// A batch for D1.
    Batch(Vec<Sql>, Waiter<Result<Results, String>>),
    /// An HTTP request to the Worker. No answer within the caller's patience is `None`.
    Http(Request, Waiter<Option<Response>>),
    /// A page of the log for a stream's read.
    Page { stream: u64, read: u64, page: Option<LogPage> },
    /// Time.
    Sleep(u64, Waiter<()>),
    /// The Worker has answered a request.
    Replied(u64, Response),
    /// More work.
    Spawn(Owner, Work),
    /// Changes for the room of the Worker's relay, and the lease that spoke for it (R3).
    Tell(Change, u64),
}

/// Where an answer goes.
pub struct Waiter<T> {
    task: TaskId,
    slot: Rc<RefCell<Option<T>>>,
}

impl<T> Waiter<T> {
    /// Gives the answer; the task is to be polled then.
    pub fn fill(self, answer: T) -> TaskId {
        *self.slot.borrow_mut() = Some(answer);
        self.task
    }
}

/// An answer that comes later.
pub struct Answer<T>(Rc<RefCell<Option<T>>>);

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        self.0.borrow_mut().take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// The queue between those who wait and the world.
#[derive(Default)]
pub struct Bus {
    asks: RefCell<VecDeque<Ask>>,
    /// The task that runs now.
    running: Cell<TaskId>,
    drawn: Cell<u64>,
    /// Batches that D1 did not answer, and may commit at any later time.
    pub unanswered: Cell<u64>,
}

impl Bus {
    /// A number by chance, for code that draws while it waits for nothing.
    pub fn chance(&self) -> u64 {
        self.drawn.set(self.drawn.get() + 1);
        Random::new(self.drawn.get()).draw()
    }

    /// Asks and waits.
    pub fn ask<T>(&self, ask: impl FnOnce(Waiter<T>) -> Ask) -> Answer<T> {
        let slot = Rc::new(RefCell::new(None));
        self.say(ask(Waiter { task: self.running.get(), slot: Rc::clone(&slot) }));
        Answer(slot)
    }

    /// Asks without waiting.
    pub fn say(&self, ask: Ask) {
        self.asks.borrow_mut().push_back(ask);
    }

    /// The next thing that was asked.
    pub fn next(&self) -> Option<Ask> {
        self.asks.borrow_mut().pop_front()
    }

    /// Runs a task until it waits. True when it is done.
    pub fn poll(&self, task: TaskId, work: &mut Work) -> bool {
        self.running.set(task);
        let mut context = Context::from_waker(std::task::Waker::noop());
        work.as_mut().poll(&mut context).is_ready()
    }
}
