//! A person with an open document: the provider, the sync session and the walker of the client SDK.

use crate::checks::{DOCUMENTS, Mark, Violation};
use crate::network::{Connection, ConnectionId, Data, End, Relay};
use crate::people::access::Access;
use crate::people::receipts::Receipts;
use crate::people::replica::{LETTERS, Replica};
use crate::people::walker::{self, Config, Effect, Input, Phase, State};
use crate::protocol::awareness::{self, AwarenessEntry};
use crate::protocol::message::{self, Message, decode_frame};
use crate::random::Random;
use crate::room::{SessionInfo, SessionKind};
use crate::world::{Event, World};

/// A person.
pub struct Human {
    /// The document.
    pub path: &'static str,
    /// The copy of it.
    pub replica: Replica,
    /// The walker.
    pub walker: State,
    /// The epoch that the copy is of, once a receipt told.
    pub epoch: Option<u64>,
    /// What was written into this copy, in order.
    pub marks: Vec<String>,
    /// What is known to be saved.
    pub receipts: Receipts,
    /// The connection in use.
    pub connection: Option<ConnectionId>,
    /// Both sides have everything.
    pub synced: bool,
    /// What the person may do.
    pub access: Access,
    relays: Vec<Relay>,
    config: Config,
    /// The newest delay of the walker, and of its probe.
    wish: u64,
    probe_wish: u64,
    answered: bool,
    /// Something waited for what was missing when the connection began: yrs leaves that out of its step 2,
    /// where Yjs sends it.
    pub(super) held_back: bool,
    received: bool,
    client: u64,
    awareness_clock: u32,
    written: u64,
}

impl Human {
    /// A person with a document and a list of relays, maybe pinned to one (S2).
    pub fn draw(index: usize, seed: u64, random: &mut Random) -> Self {
        let pinned = random.pick(&[None, None, None, Some(0), Some(1)]);
        let config = Config { probe_ms: PROBE_MS, ..Config::new(2, pinned) };
        let client = 1_000 * (index as u64 + 1);
        Self {
            path: DOCUMENTS[usize::from(random.percent(25))],
            replica: Replica::new(client),
            walker: walker::initial(&config),
            epoch: None,
            marks: Vec::new(),
            receipts: Receipts::new(),
            connection: None,
            synced: false,
            access: Access::draw(index, seed),
            relays: vec![Relay::Cloudflare, Relay::Deno],
            config,
            wish: 0,
            probe_wish: 0,
            answered: false,
            held_back: false,
            received: false,
            client,
            awareness_clock: 0,
            written: 0,
        }
    }
}

impl Human {
    /// Whether the walker has an open connection.
    pub const fn is_connected(&self) -> bool {
        matches!(self.walker.phase, Phase::Open | Phase::Synced(_))
    }

    /// Connected, with everything there and here, or stopped for good.
    pub fn is_settled(&self) -> bool {
        match self.walker.phase {
            Phase::Stopped(_) => true,
            Phase::Synced(_) => self.synced,
            _ => false,
        }
    }
}

impl World {
    /// Something happens to a person's walker.
    pub fn walk(&mut self, human: usize, event: walker::Event) {
        let random = self.random.below(1_000) as f64 / 1_000.0;
        let person = &mut self.humans[human];
        let input = Input { config: &person.config, now: self.now.cast_signed(), random };
        let (state, effects) = walker::step(person.walker, event, input);
        crate::loud::tell(self.now, || format!("h{human} {event:?} -> {:?} {effects:?}", state.phase));
        person.walker = state;
        for effect in effects {
            self.do_effect(human, effect);
        }
    }

    fn do_effect(&mut self, human: usize, effect: Effect) {
        let wish = self.number();
        let now = self.now;
        let person = &mut self.humans[human];
        match effect {
            Effect::AdoptProbe => {
                self.hang_up(human);
                let entry = self.humans[human].walker.at.index;
                self.open_socket(human, entry);
            }
            Effect::CancelProbe => person.probe_wish = 0,
            Effect::CloseSocket => {
                person.wish = 0;
                self.hang_up(human);
            }
            Effect::Connect(_, after) => {
                person.wish = wish;
                self.at(now + after as u64, Event::WalkerDue(human, wish));
            }
            Effect::OpenSocket(entry) => self.open_socket(human, entry),
            Effect::Probe(_, after) => {
                person.probe_wish = wish;
                self.at(now + after as u64, Event::Probe(human, wish));
            }
            Effect::RefreshToken(_) => person.access.forget_token(),
            Effect::Stop(why) => {
                self.ledger.count(if why == "deleted" { "sent away" } else { "stops" });
                if why == "epoch_changed" {
                    self.load_again(human);
                }
            }
            Effect::Advance { .. } => self.ledger.count("advances"),
            Effect::CycleAllFailed => self.ledger.count("cycles"),
        }
    }

    /// The delay of a walker is over.
    pub fn walker_due(&mut self, human: usize, wish: u64) {
        if self.humans[human].wish == wish {
            self.walk(human, walker::Event::Due);
        }
    }

    /// A walker looks at an earlier relay beside the one in use.
    pub fn probe(&mut self, human: usize, wish: u64) {
        let person = &self.humans[human];
        if person.probe_wish != wish {
            return;
        }
        let answers = self.relay_is_up(person.relays[person.walker.at.probe]);
        self.walk(human, if answers { walker::Event::ProbeSynced } else { walker::Event::ProbeFailed });
    }

    fn open_socket(&mut self, human: usize, entry: usize) {
        let (id, lasts) = (self.number(), self.token_ms + self.random.below(self.token_ms));
        let at = self.now + self.delay();
        let now = self.now;
        let person = &mut self.humans[human];
        if !person.access.fetch_token(now, lasts) && person.walker.phase == Phase::Connecting {
            return self.walk(human, walker::Event::TokenFailed(true));
        }
        let info = SessionInfo {
            sub: format!("h{human}"),
            kind: SessionKind::Client,
            can_write: person.access.token_writes(),
            expires_at: person.access.token_ends(),
            document: person.path.to_owned(),
            epoch: person.epoch,
        };
        person.connection = Some(id);
        (person.synced, person.held_back) = (false, person.replica.has_hole());
        let connection = Connection::new(person.relays[entry], End::Human(human), info);
        self.receipts_ended(human);
        self.note_copy(human);
        self.connections.insert(id, connection);
        self.at(at, Event::Connect(id));
    }

    fn hang_up(&mut self, human: usize) {
        let person = &mut self.humans[human];
        person.synced = false;
        if let Some(id) = person.connection.take() {
            self.close_by_client(id);
        }
        self.receipts_ended(human);
    }

    /// The upgrade was answered.
    pub fn human_connected(&mut self, human: usize, id: ConnectionId, is_let_in: bool) {
        if self.humans[human].connection != Some(id) {
            return self.close_by_client(id);
        }
        if !is_let_in {
            return self.human_lost(human, id, false, 0);
        }
        self.ledger.count("connections");
        self.walk(human, walker::Event::Opened);
        let wants_changes = self.random.percent(50);
        let person = &mut self.humans[human];
        (person.answered, person.received) = (false, false);
        let vector = person.replica.vector();
        self.send_to_relay(id, Data::Binary(message::sync_step_1(&vector)));
        self.wave(human);
        if wants_changes {
            self.send_to_relay(id, Data::Text(r#"{"type":"hello","changes":true}"#.to_owned()));
        }
    }

    /// The connection is gone.
    pub fn human_lost(&mut self, human: usize, id: ConnectionId, was_open: bool, code: u16) {
        let person = &mut self.humans[human];
        if person.connection != Some(id) {
            return;
        }
        person.connection = None;
        person.synced = false;
        let is_adopted = matches!(person.walker.phase, Phase::Synced(_));
        self.receipts_ended(human);
        let event = match was_open || is_adopted {
            true => walker::Event::Closed { code: if was_open { code } else { 1006 }, offline: false },
            false => walker::Event::Failed("close_before_open"),
        };
        self.walk(human, event);
    }

    /// A frame arrives.
    pub fn human_hears(&mut self, human: usize, id: ConnectionId, data: Data) -> Result<(), Violation> {
        if self.humans[human].connection != Some(id) {
            return Ok(());
        }
        match data {
            Data::Binary(frame) => {
                let messages = decode_frame(&frame).map_err(|error| {
                    Violation::new("W4", format!("a relay sent bytes that are no frame: {error}"))
                })?;
                for message in messages {
                    self.human_reads(human, id, message);
                }
            }
            Data::Close(code) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.client_open = false;
                }
                self.human_lost(human, id, true, code);
            }
            Data::Text(text) => self.human_is_told(human, &text),
        }
        Ok(())
    }

    fn human_reads(&mut self, human: usize, id: ConnectionId, message: Message<'_>) {
        let person = &mut self.humans[human];
        match message {
            Message::SyncStep1(vector) => {
                let Some(lacking) = person.replica.lacking(vector) else { return };
                person.answered = true;
                person.held_back |= person.replica.has_hole();
                self.send_to_relay(id, Data::Binary(message::sync_step_2(&lacking)));
                self.check_synced(human);
            }
            Message::SyncStep2(update) => {
                person.replica.apply(update);
                person.received = true;
                self.check_synced(human);
            }
            Message::Update(update) => person.replica.apply(update),
            Message::QueryAwareness => self.wave(human),
            Message::Awareness(payload) => {
                let own = person.client;
                let entries = awareness::decode(payload).unwrap_or_default();
                // Who is called gone raises the clock and says so (W5).
                if entries.iter().any(|entry| entry.client == own && entry.is_gone()) {
                    self.wave(human);
                }
            }
            _ => {}
        }
    }

    fn check_synced(&mut self, human: usize) {
        let person = &mut self.humans[human];
        if person.synced || !person.received || !person.answered {
            return;
        }
        person.synced = true;
        self.walk(human, walker::Event::Synced);
        self.receipts_synced(human);
    }

    /// Tells awareness.
    pub fn wave(&mut self, human: usize) {
        let person = &mut self.humans[human];
        let Some(id) = person.connection else { return };
        person.awareness_clock += 1;
        let state = format!(r#"{{"at":{}}}"#, person.awareness_clock);
        let entry = AwarenessEntry { client: person.client, clock: person.awareness_clock, state: &state };
        let frame = message::awareness(&awareness::encode(&[entry]));
        if self.connections.get(&id).is_some_and(|connection| connection.client_open) {
            self.send_to_relay(id, Data::Binary(frame));
        }
    }

    /// Writes something.
    pub fn edit(&mut self, human: usize, place: u64) {
        let now = self.now;
        let person = &mut self.humans[human];
        person.written += 1;
        let mark = format!("h{human}.{}", person.written);
        let update = person.replica.write(&mark, place);
        person.marks.push(mark.clone());
        let known = Mark {
            path: person.path.to_owned(),
            epoch: person.epoch,
            forbidden: !person.access.may_write(now),
            ..Mark::default()
        };
        self.ledger.marks.insert(mark, known);
        self.send_update(human, &update);
    }

    /// Removes something, whoever wrote it.
    pub fn erase(&mut self, human: usize, place: u64) {
        let Some((mark, update)) = self.humans[human].replica.erase(place) else { return };
        let may_write = self.humans[human].access.may_write(self.now);
        if let Some(known) = self.ledger.marks.get_mut(&mark) {
            known.erased |= may_write;
            known.hidden |= !may_write;
        }
        self.send_update(human, &update);
    }

    /// Types letters.
    pub fn type_letters(&mut self, human: usize, place: u64) {
        let letters: String = (0..=self.random.index(4))
            .map(|_| char::from(LETTERS[self.random.index(LETTERS.len())]))
            .collect();
        let update = self.humans[human].replica.type_letters(&letters, place);
        self.send_update(human, &update);
    }

    /// Deletes letters, whoever typed them.
    pub fn strike(&mut self, human: usize, place: u64) {
        let most = 1 + self.random.index(6);
        if let Some(update) = self.humans[human].replica.strike(place, most) {
            self.ledger.count("struck");
            self.send_update(human, &update);
        }
    }

    fn send_update(&mut self, human: usize, update: &[u8]) {
        let now = self.now;
        let person = &mut self.humans[human];
        person.access.note_edit(now);
        if let Some(id) = person.connection.filter(|_| person.answered) {
            self.send_to_relay(id, Data::Binary(message::update(update)));
        }
        self.note_edit(human);
    }

    /// The document was replaced: a new copy, without what the old one had (W11).
    fn load_again(&mut self, human: usize) {
        self.begin_copy(human);
        self.ledger.count("reloads");
        self.walk(human, walker::Event::Restart);
    }

    /// A copy of what is stored at the person's path, to be loaded.
    pub(super) fn begin_copy(&mut self, human: usize) {
        let knows_epoch = self.random.percent(50);
        let path = self.humans[human].path;
        let epoch = self.d1.document(path).map(|stored| stored.epoch).filter(|_| knows_epoch);
        let person = &mut self.humans[human];
        person.client += 1;
        person.replica = Replica::new(person.client);
        person.epoch = epoch;
        person.marks.clear();
        person.receipts = Receipts::new();
        person.access.begin_copy();
        person.awareness_clock = 0;
    }
}

/// Looks at earlier relays of a world; five minutes in earnest.
const PROBE_MS: f64 = 15_000.0;
