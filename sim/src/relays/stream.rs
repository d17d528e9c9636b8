//! Streams of the feed: the Worker's loop around `feed::stream`, after `src/edge/changes.rs`.

use std::rc::Rc;

use crate::bus::{Ask, Owner};
use crate::checks::Violation;
use crate::d1::WORKSPACE;
use crate::edge::clock;
use crate::edge::db::Db;
use crate::feed::cursor::Start;
use crate::feed::filter::Filter;
use crate::feed::stream::{LogPage, Output, Stream, StreamConfig};
use crate::network::{Connection, ConnectionId, Data, End, Relay};
use crate::protocol::Timestamp;
use crate::protocol::change::Change;
use crate::room::SessionInfo;
use crate::world::{Event, World};

/// Who reads a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// An agent's process, by number.
    Agent(usize),
    /// The Deno relay, with the wish that it opened it for.
    Deno(u64),
}

/// One response of the Worker.
pub struct StreamShell {
    /// The state machine.
    pub machine: Stream,
    listener: Listener,
    /// The newest read; pages of older ones are not passed on.
    read: u64,
    bridge: Option<ConnectionId>,
    arrives: Timestamp,
}

impl World {
    /// Opens a stream.
    pub fn open_stream(&mut self, listener: Listener, start: Start, filter: Filter) -> u64 {
        let id = self.number();
        let config = StreamConfig {
            jitter_ms: self.random.below(60_000).cast_signed() - 30_000,
            lifetime_ms: 60_000,
            page_limit: 5,
            ..StreamConfig::default()
        };
        let machine = Stream::new(config, start, filter, self.now);
        self.streams.insert(id, StreamShell { machine, listener, read: 0, bridge: None, arrives: 0 });
        id
    }

    /// Ends a response on the Worker's side.
    pub fn drop_stream(&mut self, id: u64) {
        self.cancel(Owner::Stream(id));
        if let Some(bridge) = self.streams.remove(&id).and_then(|stream| stream.bridge) {
            self.close_by_client(bridge);
        }
    }

    /// Does what one stream asks for. False when none does.
    pub fn perform_stream(&mut self) -> bool {
        let asked =
            self.streams.iter_mut().find_map(|(id, stream)| Some((*id, stream.machine.poll_output()?)));
        let Some((id, output)) = asked else { return false };
        match output {
            Output::CloseBridge => {
                if let Some(bridge) = self.streams.get_mut(&id).and_then(|stream| stream.bridge.take()) {
                    self.close_by_client(bridge);
                }
            }
            Output::End => {
                self.send_text_of(id, None);
                self.drop_stream(id);
            }
            Output::OpenBridge => self.open_bridge(id),
            Output::Read { since, limit } => self.read_log(id, Some((since, limit))),
            Output::ReadHead => self.read_log(id, None),
            Output::Write(text) => self.send_text_of(id, Some(text)),
        }
        true
    }

    fn send_text_of(&mut self, id: u64, text: Option<String>) {
        let at = self.now + self.delay();
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.arrives = stream.arrives.max(at);
            let (at, listener) = (stream.arrives, stream.listener);
            if self.is_heard(id, listener) {
                self.at(at, Event::StreamText(id, text));
            }
        }
    }

    fn is_heard(&self, id: u64, listener: Listener) -> bool {
        match listener {
            Listener::Agent(reader) => self.readers[reader].stream == Some(id),
            Listener::Deno(wish) => self.deno.hears(wish, id),
        }
    }

    /// Text of a stream arrives. What a reader gave up says nothing to it.
    pub fn stream_arrives(&mut self, id: u64, text: Option<String>) -> Result<(), Violation> {
        if let Some(reader) = self.readers.iter().position(|reader| reader.stream == Some(id)) {
            return self.reader_hears(reader, text.as_deref());
        }
        self.deno_hears(id, text.as_deref());
        Ok(())
    }

    fn open_bridge(&mut self, id: u64) {
        let bridge = self.number();
        let connection = Connection::new(Relay::Cloudflare, End::Bridge(id), SessionInfo::bridge());
        self.connections.insert(bridge, connection);
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.bridge = Some(bridge);
        }
        let at = self.now + self.delay();
        self.at(at, Event::Connect(bridge));
    }

    /// The room let a bridge in, or did not.
    pub fn bridge_opened(&mut self, id: u64, bridge: ConnectionId, is_let_in: bool) {
        let now = self.now;
        match self.streams.get_mut(&id).filter(|stream| stream.bridge == Some(bridge)) {
            Some(stream) if is_let_in => stream.machine.handle_bridge_open(now),
            Some(stream) => {
                stream.bridge = None;
                stream.machine.handle_bridge_closed(now);
            }
            None => self.close_by_client(bridge),
        }
    }

    /// A bridge delivers something.
    pub fn bridge_hears(&mut self, id: u64, bridge: ConnectionId, data: Data) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.bridge == Some(bridge)) else {
            return;
        };
        match data {
            Data::Binary(_) => {}
            Data::Close(_) => self.bridge_lost(id, bridge),
            Data::Text(text) => {
                let told: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
                match Change::from_json(&told) {
                    Some(change) if told.get("hint").is_none() => stream.machine.handle_live(change, now),
                    _ => stream.machine.handle_hint(now),
                }
            }
        }
    }

    /// A bridge is gone.
    pub fn bridge_lost(&mut self, id: u64, bridge: ConnectionId) {
        let now = self.now;
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.bridge == Some(bridge)) {
            stream.bridge = None;
            stream.machine.handle_bridge_closed(now);
        }
    }

    fn read_log(&mut self, id: u64, page: Option<(u64, u32)>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.read += 1;
        let (read, bus) = (stream.read, Rc::clone(&self.bus));
        let db = Db::new(Rc::clone(&self.bus));
        let work = async move {
            let read_page = match page {
                Some((since, limit)) => db
                    .page(WORKSPACE, since, limit)
                    .await
                    .map(|page| page.map(|page| (page.changes, page.head))),
                None => db.head(WORKSPACE).await.map(|head| head.map(|head| (Vec::new(), head))),
            };
            let page = read_page.ok().map(|found| match found {
                Some((changes, head)) => LogPage {
                    changes,
                    deleted: head.deleted,
                    floor: head.floor,
                    head: head.head,
                    live: head.live_until > clock::now(),
                },
                None => LogPage { deleted: true, ..LogPage::default() },
            });
            bus.say(Ask::Page { stream: id, read, page });
        };
        self.spawn(Owner::Stream(id), Box::pin(work));
    }

    /// A read of the log is answered.
    pub fn take_page(&mut self, id: u64, read: u64, page: Option<LogPage>) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.read == read) else { return };
        match page {
            Some(page) => stream.machine.handle_page(page, now),
            None => stream.machine.handle_read_failed(now),
        }
    }
}
