//! The state machine of one SSE response (F3, F4, F5).
//!
//! The log in D1 is the only source of order. A stream knows one number, the last clock it has
//! consumed, and consumes a change only when its clock is the next one, whether it came in a page
//! or live over the bridge. Anything later makes it read the gap; anything earlier is a repetition.
//! So nothing live has to be kept, and lost, repeated or reordered notifications cost at most a read.

use std::collections::VecDeque;

use crate::planted::{Bug, planted};
use crate::protocol::Timestamp;
use crate::protocol::change::{Change, ChangeKind};

use super::bridge::{Bridge, Command};
pub use super::config::StreamConfig;
use super::cursor::{Resume, Start, check_cursor};
use super::filter::Filter;
use super::limits;
use super::reads::{Asked, Outcome, Reads};
use super::sse;
use super::time::SteadyTime;

/// One SSE response. It has three kinds of methods:
///
/// - `handle_*` tell it what happened, with the time now;
/// - [`Self::poll_output`] says what to do. Call it until it returns nothing, after [`Self::new`]
///   and after every `handle_*`;
/// - [`Self::poll_timeout`] says when to call [`Self::handle_timeout`]. Ask again after every drain.
///
/// After [`Output::End`] every call is allowed and does nothing. Timers do not depend on answers: a
/// read that hangs delays no heartbeat and not the end.
#[derive(Debug)]
pub struct Stream {
    config: StreamConfig,
    filter: Filter,
    phase: Phase,
    reads: Reads,
    bridge: Bridge,
    outputs: VecDeque<Output>,
    /// Bytes of the writes in `outputs`.
    queued_bytes: usize,
    /// When something was last written.
    written: Timestamp,
    ends: Timestamp,
    time: SteadyTime,
}

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Output {
    /// Drop the bridge; no [`Stream::handle_bridge_closed`] is needed.
    CloseBridge,
    /// End the response. Nothing follows.
    End,
    /// Connect to the room as a listener, in place of any connection that there was; then
    /// [`Stream::handle_bridge_open`] or [`Stream::handle_bridge_closed`].
    OpenBridge,
    /// Select the changes with a clock over `since`, ascending, at most `limit`, and the rest of
    /// [`LogPage`], as of one moment and from the primary: a stale replica would show a head below
    /// `since`, which means a restored database here. The answer is [`Stream::handle_page`] or
    /// [`Stream::handle_read_failed`]. A new read replaces one that has no answer yet, whose answer
    /// must not be passed on any more.
    Read {
        /// Everything up to this clock is known.
        since: u64,
        /// At most so many rows.
        limit: u32,
    },
    /// Like [`Output::Read`], for a stream that starts now: a [`LogPage`] without changes.
    ReadHead,
    /// Write this text, which is one or more whole events, at once.
    Write(String),
}

/// The answer to a read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPage {
    /// What follows `since`, ascending.
    pub changes: Vec<Change>,
    /// Whether the workspace is deleted.
    pub deleted: bool,
    /// Clock of the newest pruned row, 0 when none was pruned.
    pub floor: u64,
    /// Clock of the newest row, 0 in a new workspace.
    pub head: u64,
    /// Whether humans hold sockets in the room, so that it tells of changes. The bridges of
    /// streams do not count, or they would keep each other open.
    pub live: bool,
}

impl Stream {
    /// A stream that begins: the opening bytes and the first read are queued.
    #[must_use]
    pub fn new(config: StreamConfig, start: Start, filter: Filter, now: Timestamp) -> Self {
        let config = config.clamped();
        let mut stream = Self {
            filter,
            phase: Phase::Starting(start),
            reads: Reads::new(config.poll_min_ms, config.poll_max_ms, now),
            bridge: Bridge::new(),
            outputs: VecDeque::new(),
            queued_bytes: 0,
            written: now,
            ends: now.saturating_add(config.lifetime_ms).saturating_add_signed(config.jitter_ms).max(now),
            time: SteadyTime::new(now),
            config,
        };
        stream.write(&sse::opening(stream.config.retry_ms), now);
        stream.advance(now);
        stream
    }

    /// The answer to a read. One that comes after its time still counts, until the next read.
    pub fn handle_page(&mut self, page: LogPage, now: Timestamp) {
        let now = self.time.at(now);
        if let Some(asked) = self.reads.take_answered() {
            self.take_page(page, asked, now);
        }
        self.advance(now);
    }

    /// A read failed. The stream stays open and tries again, later with each failure in a row.
    pub fn handle_read_failed(&mut self, now: Timestamp) {
        let now = self.time.at(now);
        self.reads.fail(now);
        self.advance(now);
    }

    /// The bridge is open. One read finds what was committed before it was.
    pub fn handle_bridge_open(&mut self, now: Timestamp) {
        let now = self.time.at(now);
        if !self.has_ended() {
            let command = self.bridge.handle_open(now);
            self.perform(command);
            self.reads.request(u64::MAX, now);
        }
        self.advance(now);
    }

    /// The bridge closed or did not open. The stream polls at once, then at its own pace.
    pub fn handle_bridge_closed(&mut self, now: Timestamp) {
        let now = self.time.at(now);
        if self.bridge.handle_closed(now) {
            self.reads.quicken();
            self.reads.request(u64::MAX, now);
        }
        self.advance(now);
    }

    /// The room told of a committed change.
    pub fn handle_live(&mut self, change: Change, now: Timestamp) {
        let now = self.time.at(now);
        if let Phase::Following(position) = self.phase
            && change.clock > position.last
        {
            // For a slow reader the log keeps the change; a queue here would have no bound.
            let has_space = self.queued_bytes <= limits::MAX_QUEUED_BYTES;
            if change.clock - position.last == 1 && has_space {
                self.consume(&change, now);
            } else {
                self.reads.request(change.clock, now);
            }
        }
        self.advance(now);
    }

    /// The room passed on a hint (W7): not data, but a reason to look at the log now.
    pub fn handle_hint(&mut self, now: Timestamp) {
        let now = self.time.at(now);
        self.reads.quicken();
        self.reads.request(u64::MAX, now);
        self.advance(now);
    }

    /// The time of [`Self::poll_timeout`] has come. Too early or too late does no harm.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let now = self.time.at(now);
        self.advance(now);
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if let Some(Output::Write(text)) = &output {
            self.queued_bytes = self.queued_bytes.saturating_sub(text.len());
        }
        output
    }

    /// When to call [`Self::handle_timeout`]; never again after the end.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let head = match self.phase {
            Phase::Starting(_) => None,
            Phase::Following(position) => position.head_event_due(),
            Phase::Ended => return None,
        };
        let always = self.ends.min(self.heartbeat_due()).min(self.reads.timeout());
        let earliest = [head, self.bridge.timeout()].into_iter().flatten().fold(always, Timestamp::min);
        Some(self.time.to_wall(earliest))
    }
}

impl Stream {
    /// Does everything that is due. Every `handle_*` ends here.
    fn advance(&mut self, now: Timestamp) {
        if !self.has_ended() && self.ends <= now {
            self.say_bye(now);
        }
        if self.has_ended() {
            return;
        }
        self.reads.expire(now);
        if let Some(command) = self.bridge.expire(now) {
            self.perform(Some(command));
            self.reads.quicken();
        }
        if self.reads.is_due(now) && !self.start_read(now) {
            return self.say_bye(now);
        }
        if let Phase::Following(position) = self.phase
            && position.head_event_due().is_some_and(|due| due <= now)
        {
            self.write_head(position.last, now);
        }
        if self.heartbeat_due() <= now {
            // Text that still waits says the same, and must not pile up behind a reader that stalls.
            match self.queued_bytes {
                0 => match self.phase {
                    Phase::Following(position) if planted(Bug::CursorMovedByHeartbeat) => {
                        self.write(&sse::head_event(position.last + 1), now);
                    }
                    _ => self.write(&sse::comment(), now),
                },
                _ => self.written = now,
            }
        }
    }

    /// False when the stream has no reads left.
    fn start_read(&mut self, now: Timestamp) -> bool {
        if self.reads.sent() >= self.config.max_reads {
            return false;
        }
        let asked = match self.phase {
            Phase::Starting(Start::After(since)) => Asked::After(since),
            Phase::Starting(Start::Now) => Asked::Head,
            Phase::Following(position) => Asked::After(position.last),
            Phase::Ended => return true,
        };
        self.reads.start(asked, now);
        self.outputs.push_back(match asked {
            Asked::After(since) => Output::Read { since, limit: self.config.page_limit },
            Asked::Head => Output::ReadHead,
        });
        true
    }

    fn take_page(&mut self, page: LogPage, asked: Asked, now: Timestamp) {
        let head = page.head.max(page.floor);
        let Some(before) = self.take_position(&page, asked, now) else { return };
        for change in &page.changes {
            // A row that does not follow is not consumed, even in a page: a hole never passes.
            if self.phase.last().is_some_and(|last| last < change.clock && change.clock - last == 1) {
                self.consume(change, now);
            }
        }
        let Some(last) = self.phase.last() else { return };
        let is_full = page.changes.len() >= usize::try_from(self.config.page_limit).unwrap_or(usize::MAX);
        let outcome = match (last > before, last < head) {
            (true, behind) if behind || is_full => Outcome::More,
            (true, _) => Outcome::Moved,
            (false, true) => Outcome::Stuck,
            (false, false) => Outcome::Quiet,
        };
        // What was committed before the end is told before the end.
        if page.deleted && outcome != Outcome::More {
            return self.say_deleted(head, now);
        }
        let command = self.bridge.follow(page.live, now);
        self.perform(command);
        self.reads.settle(outcome, last, self.bridge.is_open(), now);
    }

    /// The clock after which the page begins, once the page has confirmed, given or reset the
    /// position. Nothing when the stream is over.
    fn take_position(&mut self, page: &LogPage, asked: Asked, now: Timestamp) -> Option<u64> {
        let (head, floor) = (page.head.max(page.floor), page.floor);
        let resume = match (self.phase, asked) {
            (Phase::Ended, _) => return None,
            (Phase::Starting(Start::Now), _) => {
                self.phase = Phase::Following(Position { last: head, told: head, told_at: now });
                // Without an id, a reader whose stream is cut before the first change would start
                // at a later "now" and miss what lay between (S02).
                self.write_head(head, now);
                return Some(head);
            }
            (Phase::Starting(Start::After(since)), _) => {
                self.phase = Phase::Following(Position { last: since, told: since, told_at: now });
                check_cursor(since, head, floor)
            }
            // Live changes may have moved the position past the head of a page that was read before
            // them, so the head is compared with what was known when the read went out.
            (Phase::Following(position), Asked::After(since)) if since <= head => {
                check_cursor(position.last, u64::MAX, floor)
            }
            (Phase::Following(_), _) => Resume::Gone,
        };
        if resume == Resume::Ok {
            return match asked {
                Asked::After(since) => Some(since),
                Asked::Head => self.phase.last(),
            };
        }
        if page.deleted {
            self.say_deleted(head, now);
            return None;
        }
        self.phase = Phase::Following(Position { last: head, told: head, told_at: now });
        self.write(&sse::reset_event(head, floor), now);
        self.reads.quicken();
        Some(head)
    }

    /// Takes the change that follows the last one.
    fn consume(&mut self, change: &Change, now: Timestamp) {
        let Phase::Following(position) = &mut self.phase else { return };
        position.last = change.clock;
        if self.filter.matches(change) {
            (position.told, position.told_at) = (change.clock, now);
            self.write(&sse::change_event(change), now);
        }
        if change.kind == ChangeKind::DeleteWorkspace {
            self.say_deleted(change.clock, now);
        }
    }

    fn say_bye(&mut self, now: Timestamp) {
        if let Phase::Following(position) = self.phase
            && position.told < position.last
        {
            self.write_head(position.last, now);
        }
        self.write(&sse::bye_event(self.config.retry_ms), now);
        self.end(now);
    }

    fn say_deleted(&mut self, head: u64, now: Timestamp) {
        self.write(&sse::deleted_event(head), now);
        self.end(now);
    }

    fn end(&mut self, now: Timestamp) {
        let command = self.bridge.close(now);
        self.perform(command);
        self.phase = Phase::Ended;
        self.outputs.push_back(Output::End);
    }

    const fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    fn perform(&mut self, command: Option<Command>) {
        self.outputs.extend(command.map(|command| match command {
            Command::Close => Output::CloseBridge,
            Command::Open => Output::OpenBridge,
        }));
    }

    fn write_head(&mut self, head: u64, now: Timestamp) {
        if let Phase::Following(position) = &mut self.phase {
            (position.told, position.told_at) = (head, now);
        }
        self.write(&sse::head_event(head), now);
    }

    fn write(&mut self, text: &str, now: Timestamp) {
        self.written = now;
        self.queued_bytes = self.queued_bytes.saturating_add(text.len());
        match self.outputs.back_mut() {
            Some(Output::Write(last)) if last.len() + text.len() <= limits::WRITE_CHUNK_BYTES => {
                last.push_str(text)
            }
            _ => self.outputs.push_back(Output::Write(text.to_owned())),
        }
    }

    const fn heartbeat_due(&self) -> Timestamp {
        self.written.saturating_add(self.config.heartbeat_ms)
    }
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// No page has come: the reader's cursor is not confirmed, or the head not known.
    Starting(Start),
    Following(Position),
    Ended,
}

impl Phase {
    const fn last(&self) -> Option<u64> {
        match self {
            Self::Following(position) => Some(position.last),
            Self::Starting(_) | Self::Ended => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Position {
    /// Every clock up to this one was written, filtered out, or covered by a reset.
    last: u64,
    /// The last id that the reader has.
    told: u64,
    told_at: Timestamp,
}

impl Position {
    /// When the cursor of a filtered reader has to be moved (F3); never while it is exact.
    const fn head_event_due(&self) -> Option<Timestamp> {
        if self.told < self.last { Some(self.told_at.saturating_add(limits::HEAD_EVENT_MS)) } else { None }
    }
}
