//! A world: virtual time, what is under way, and everybody who lives in it.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::bus::{Answer, Ask, Bus, Owner, TaskId, Waiter, Work};
use crate::checks::{Ledger, Violation};
use crate::d1::{D1, Results, Sql};
use crate::edge::clock;
use crate::edge::db::NO_ANSWER;
use crate::loud;
use crate::network::{Connection, ConnectionId, Data, Relay};
use crate::people::agent::Notes;
use crate::people::human::Human;
use crate::people::reader::Reader;
use crate::people::records::Looked;
use crate::protocol::Timestamp;
use crate::protocol::change::Change;
use crate::random::Random;
use crate::relays::cloudflare::Cloudflare;
use crate::relays::deno::Deno;
use crate::relays::stream::StreamShell;
use crate::schedule::Schedule;
use crate::worker::{self, Request, Response};

/// Everything.
pub struct World {
    /// The time.
    pub(crate) now: Timestamp,
    /// Chance, begun anew by each step.
    pub(crate) random: Random,
    pub(crate) bus: Rc<Bus>,
    pub(crate) d1: D1,
    pub(crate) faults: Faults,
    pub(crate) ledger: Ledger,
    pub(crate) cloudflare: Cloudflare,
    pub(crate) deno: Deno,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    pub(crate) streams: BTreeMap<u64, StreamShell>,
    pub(crate) humans: Vec<Human>,
    pub(crate) readers: Vec<Reader>,
    /// How often each agent has asked for something.
    pub(crate) asked: Vec<u64>,
    queue: BTreeMap<(Timestamp, u64), Event>,
    tasks: BTreeMap<TaskId, (Owner, Work)>,
    http: BTreeMap<u64, Waiter<Option<Response>>>,
    numbers: u64,
    pub(crate) notes: Notes,
    /// What agents asked for once they had looked, by actor.
    pub(crate) looked: Looked,
    /// How long a scope token lasts at least.
    pub(crate) token_ms: u64,
}

/// What goes wrong at the moment, in percent where it is a number.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// D1 fails before it commits.
    pub d1_before: u64,
    /// D1 commits and reports a failure.
    pub d1_after: u64,
    /// D1 does not answer, and may commit late.
    pub d1_stall: u64,
    /// A request to the Worker, or its answer, gets lost.
    pub http: u64,
    /// What the Worker tells the room gets lost.
    pub tell: u64,
}

/// What happens at its time.
pub enum Event {
    /// D1 gives an answer.
    Answer(Waiter<Result<Results, String>>, Result<Results, String>),
    /// A client's side of a connection learns that it is gone.
    ClientLost(ConnectionId),
    /// A relay is asked to let a connection in.
    Connect(ConnectionId),
    /// A run of the Deno relay ends after its drain.
    DenoStops(u64),
    /// The spool of the Deno relay takes what gathered, in that run of it.
    DenoSpools(u64),
    /// D1 runs a batch; without a waiter nobody hears of it.
    Execute(Vec<Sql>, Option<Waiter<Result<Results, String>>>, bool),
    /// A fault ends.
    FaultEnds(FaultKind),
    /// A person's wait to ask for a receipt is over, if this is the newest.
    FlushDue(usize, u64),
    /// The Durable Object hibernates if nothing happened since.
    Hibernate,
    /// A request reaches the Worker.
    HttpArrives(u64, Request),
    /// An answer, or the end of patience, reaches who asked.
    HttpEnds(u64, Option<Response>),
    /// The upgrade is answered: the connection is open at the client, or refused.
    Opened(ConnectionId, bool),
    /// The Deno relay opens its feed, if this wish is its newest.
    OpenFeed(u64),
    /// A person's walker looks at an earlier relay.
    Probe(usize, u64),
    /// A reader connects again.
    Read(usize),
    /// A relay learns that a connection is gone.
    RelayLost(ConnectionId),
    /// A client takes what waited.
    Resume(ConnectionId),
    /// Text of a stream reaches its reader; `None` is its end.
    StreamText(u64, Option<String>),
    /// The room is told of a change; the number counts the tries.
    Tell(Change, u64, u32),
    /// A frame reaches a client.
    ToClient(ConnectionId, Data),
    /// A frame reaches a relay.
    ToRelay(ConnectionId, Data),
    /// Time that a task waited for has passed.
    Wake(Waiter<()>),
    /// The delay of a person's walker is over, if it is its newest.
    WalkerDue(usize, u64),
}

/// Which fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// All of D1's.
    D1,
    /// The Deno relay cannot be reached.
    Deno,
    /// The Durable Object cannot be reached.
    Cloudflare,
    /// HTTP loses something.
    Http,
    /// Notifications get lost.
    Tell,
}

impl World {
    /// The world of a seed before anything happened.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        clock::set(START);
        let mut random = Random::new(seed ^ 0x5EED);
        let bus = Rc::new(Bus::default());
        let humans = (0..2 + random.index(4)).map(|index| Human::draw(index, seed, &mut random)).collect();
        let readers = (0..1 + random.index(2)).map(|index| Reader::new(index == 1)).collect();
        let mut world = Self {
            now: START,
            cloudflare: Cloudflare::new(&bus),
            deno: Deno::new(),
            d1: D1::new(),
            faults: Faults::default(),
            ledger: Ledger::default(),
            connections: BTreeMap::new(),
            streams: BTreeMap::new(),
            humans,
            readers,
            asked: vec![0; 1 + random.index(3)],
            queue: BTreeMap::new(),
            tasks: BTreeMap::new(),
            http: BTreeMap::new(),
            numbers: 0,
            notes: Notes::default(),
            looked: Looked::default(),
            token_ms: TOKEN_MS,
            random,
            bus,
        };
        for reader in 0..world.readers.len() {
            world.at(START, Event::Read(reader));
        }
        world
    }

    /// Does all of a schedule, then heals the world and looks at what became of it.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn run(mut self, schedule: &Schedule) -> Result<Ledger, Violation> {
        for step in &schedule.steps {
            self.random = Random::new(step.draw);
            self.pass(step.wait)?;
            loud::tell(self.now, || format!("step {:?} {} {}", step.kind, step.who, step.amount));
            self.act(step)?;
            self.settle()?;
            self.read_notes()?;
        }
        self.random = Random::new(schedule.seed);
        self.end()?;
        Ok(self.ledger)
    }

    /// Lets time pass, with all that happens in it.
    pub(crate) fn pass(&mut self, by: u64) -> Result<(), Violation> {
        let end = self.now + by;
        let mut at_once = 0_u32;
        loop {
            self.settle()?;
            let event = self.queue.first_key_value().map(|((at, _), _)| *at);
            let timer = self.next_timer();
            let Some(next) = event.into_iter().chain(timer).min().filter(|at| *at <= end) else { break };
            at_once = if next > self.now { 0 } else { at_once + 1 };
            if at_once > MAX_AT_ONCE {
                return Err(Violation::new("D1a", "something goes on without time passing".to_owned()));
            }
            self.now = self.now.max(next);
            clock::set(self.now);
            if timer.is_some_and(|at| at <= self.now) {
                self.fire_timers();
            } else if let Some((_, event)) = self.queue.pop_first() {
                self.happen(event)?;
            }
        }
        self.now = end;
        clock::set(end);
        self.settle()
    }

    /// Arranges for something to happen.
    pub(crate) fn at(&mut self, at: Timestamp, event: Event) {
        self.numbers += 1;
        self.queue.insert((at.max(self.now), self.numbers), event);
    }

    /// A number that nothing else has.
    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Starts a piece of work.
    pub(crate) fn spawn(&mut self, owner: Owner, work: Work) {
        let task = self.number();
        self.tasks.insert(task, (owner, work));
        self.poll(task);
    }

    /// Ends all work of an owner, wherever it is. What it asked of D1 goes on.
    pub(crate) fn cancel(&mut self, owner: Owner) {
        self.tasks.retain(|_, (of, _)| *of != owner);
    }

    /// Whether an owner has work under way.
    pub(crate) fn works(&self, owner: Owner) -> bool {
        self.tasks.values().any(|(of, _)| *of == owner)
    }

    fn poll(&mut self, task: TaskId) {
        let Some((owner, mut work)) = self.tasks.remove(&task) else { return };
        if !self.bus.poll(task, &mut work) {
            self.tasks.insert(task, (owner, work));
        }
    }

    /// Serves everything that was asked, until nobody asks for more.
    pub(crate) fn settle(&mut self) -> Result<(), Violation> {
        loop {
            if let Some(ask) = self.bus.next() {
                self.serve(ask);
            } else if !self.perform_next()? {
                return self.check_queues();
            }
        }
    }

    fn serve(&mut self, ask: Ask) {
        match ask {
            Ask::Batch(batch, waiter) => self.take_batch(batch, waiter),
            Ask::Http(request, waiter) => self.take_request(request, waiter),
            Ask::Page { stream, read, page } => self.take_page(stream, read, page),
            Ask::Replied(id, response) => {
                let at = self.now + self.delay();
                if !self.random.percent(self.faults.http) {
                    self.at(at, Event::HttpEnds(id, Some(response)));
                }
            }
            Ask::Sleep(ms, waiter) => self.at(self.now + ms, Event::Wake(waiter)),
            Ask::Spawn(owner, work) => self.spawn(owner, work),
            Ask::Tell(change, lease) => {
                let at = self.now + self.delay();
                self.at(at, Event::Tell(change, lease, 1));
            }
        }
    }

    /// Draws what becomes of a batch.
    fn take_batch(&mut self, batch: Vec<Sql>, waiter: Waiter<Result<Results, String>>) {
        let (arrives, gives_up) = (self.now + self.delay() / 2, self.now + D1_DEADLINE_MS);
        let Faults { d1_before, d1_after, d1_stall, .. } = self.faults;
        if self.random.percent(d1_before) {
            self.at(
                arrives,
                Event::Answer(
                    waiter,
                    Err("D1_ERROR: D1 DB is overloaded. Requests queued for too long.".to_owned()),
                ),
            );
        } else if self.random.percent(d1_stall) {
            self.bus.unanswered.set(self.bus.unanswered.get() + 1);
            self.at(gives_up, Event::Answer(waiter, Err(NO_ANSWER.to_owned())));
            if self.random.percent(70) {
                let late = self.now + self.random.below(2 * D1_DEADLINE_MS);
                self.at(late, Event::Execute(batch, None, false));
            }
        } else {
            let fails = self.random.percent(d1_after);
            self.at(arrives, Event::Execute(batch, Some(waiter), fails));
        }
    }

    fn take_request(&mut self, request: Request, waiter: Waiter<Option<Response>>) {
        let id = self.number();
        self.http.insert(id, waiter);
        self.at(self.now + HTTP_PATIENCE_MS, Event::HttpEnds(id, None));
        let at = self.now + self.delay();
        if !self.random.percent(self.faults.http) {
            self.at(at, Event::HttpArrives(id, request));
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Answer(waiter, result) => self.fill(waiter, result),
            Event::ClientLost(id) => self.client_loses(id),
            Event::Connect(id) => self.let_in(id),
            Event::DenoSpools(run) => return self.deno_spools(run),
            Event::DenoStops(run) => return self.deno_stops(run),
            Event::Execute(batch, waiter, fails) => return self.execute(&batch, waiter, fails),
            Event::FaultEnds(kind) => self.end_fault(kind),
            Event::FlushDue(human, wish) => self.flush_due(human, wish),
            Event::Hibernate => self.hibernate(),
            Event::HttpArrives(id, request) => {
                let (bus, reply) = (Rc::clone(&self.bus), Rc::clone(&self.bus));
                let work = async move {
                    let response = worker::answer(bus, request).await;
                    reply.say(Ask::Replied(id, response));
                };
                self.spawn(Owner::Worker, Box::pin(work));
            }
            Event::HttpEnds(id, response) => {
                if let Some(waiter) = self.http.remove(&id) {
                    self.fill(waiter, response);
                }
            }
            Event::Opened(id, is_let_in) => self.connection_opened(id, is_let_in),
            Event::OpenFeed(wish) => self.open_feed(wish),
            Event::Probe(human, wish) => self.probe(human, wish),
            Event::Read(reader) => self.open_reader(reader),
            Event::RelayLost(id) => self.relay_loses(id),
            Event::Resume(id) => return self.resume(id),
            Event::StreamText(stream, text) => return self.stream_arrives(stream, text),
            Event::Tell(change, lease, attempt) => self.tell_room(change, lease, attempt),
            Event::ToClient(id, data) => return self.arrive_at_client(id, data),
            Event::ToRelay(id, data) => self.arrive_at_relay(id, data),
            Event::Wake(waiter) => self.fill(waiter, ()),
            Event::WalkerDue(human, wish) => self.walker_due(human, wish),
        }
        Ok(())
    }

    fn fill<T>(&mut self, waiter: Waiter<T>, answer: T) {
        let task = waiter.fill(answer);
        self.poll(task);
    }

    fn execute(
        &mut self,
        batch: &[Sql],
        waiter: Option<Waiter<Result<Results, String>>>,
        fails: bool,
    ) -> Result<(), Violation> {
        let before = self.d1.journal.len();
        let result = self.d1.run(batch);
        let is_write = |sql: &Sql| !sql.text.starts_with("SELECT");
        if let Some(sql) = batch.iter().find(|sql| is_write(sql)) {
            loud::tell(self.now, || {
                let words: Vec<&str> = sql.text.split_whitespace().take(3).collect();
                let ok = result.as_ref().map(|_| self.d1.journal.len());
                format!("d1 {} {:?} {ok:?}", words.join(" "), sql.binds)
            });
        }
        self.d1.check_log()?;
        if self.d1.journal.len() > before {
            if waiter.is_none() {
                self.note_late(before);
            }
            self.ledger.count("changes");
        }
        if let Some(waiter) = waiter {
            let result = if fails { Err("D1_ERROR: Network connection lost.".to_owned()) } else { result };
            let at = self.now + self.delay() / 2;
            self.at(at, Event::Answer(waiter, result));
        }
        Ok(())
    }

    fn end_fault(&mut self, kind: FaultKind) {
        match kind {
            FaultKind::Cloudflare => self.cloudflare.up = true,
            FaultKind::D1 => {
                self.faults = Faults { http: self.faults.http, tell: self.faults.tell, ..Faults::default() };
            }
            FaultKind::Deno => self.deno.up = true,
            FaultKind::Http => self.faults.http = 0,
            FaultKind::Tell => self.faults.tell = 0,
        }
    }

    /// When the first timer of a room or a stream is due.
    fn next_timer(&self) -> Option<Timestamp> {
        let rooms = self.cloudflare.timeout().into_iter().chain(self.deno.timeout());
        let streams = self.streams.values().filter_map(|stream| stream.machine.poll_timeout());
        rooms.chain(streams).min()
    }

    fn fire_timers(&mut self) {
        let now = self.now;
        if self.cloudflare.timeout().is_some_and(|at| at <= now) {
            self.cloudflare.shell().with(|core, now| core.handle_timeout(now));
        }
        if self.deno.timeout().is_some_and(|at| at <= now)
            && let Some(shell) = self.deno.shell()
        {
            shell.with(|core, now| core.handle_timeout(now));
        }
        for stream in self.streams.values_mut() {
            if stream.machine.poll_timeout().is_some_and(|at| at <= now) {
                stream.machine.handle_timeout(now);
            }
        }
    }

    /// Which room a connection belongs to.
    pub(crate) fn relay_is_up(&self, relay: Relay) -> bool {
        match relay {
            Relay::Cloudflare => self.cloudflare.up,
            Relay::Deno => self.deno.up,
        }
    }
}

/// Asks the Worker, as an agent or a relay does over HTTP.
pub fn call(bus: &Bus, request: Request) -> Answer<Option<Response>> {
    bus.ask(|waiter| Ask::Http(request, waiter))
}

/// Far from 0, so that a time that was forgotten shows.
pub const START: Timestamp = 1_700_000_000_000;

/// As `edge::db::D1_DEADLINE_MS`.
const D1_DEADLINE_MS: u64 = 8_000;

/// As `STORAGE_DEADLINE` of the Deno relay; agents are as patient.
const HTTP_PATIENCE_MS: u64 = 8_000;

/// Scope tokens of a world; ten minutes in earnest.
const TOKEN_MS: u64 = 45_000;

/// Events without time passing after which a world is taken for one that never ends.
const MAX_AT_ONCE: u32 = 20_000;
