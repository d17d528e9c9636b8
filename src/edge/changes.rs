//! `GET …/changes` and `GET …/changes/stream`: the feed over HTTP.

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::{FutureExt, LocalBoxFuture, pending};
use futures_util::stream::{LocalBoxStream, StreamExt};
use serde_json::Value;
use worker::{Delay, Env, Request, ResponseBuilder, WebsocketEvent};

use super::call::Call;
use super::config::room_stub;
use super::db::Db;
use super::respond::{self, Answer, header, headers, storage};
use super::stalled::Attended;
use super::{clock, room_calls};
use crate::api::path::WorkspaceId;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::resource;
use crate::api::role::Role;
use crate::feed::cursor::{Resume, check_cursor, parse_cursor};
use crate::feed::filter::Filter;
use crate::feed::stream::{LogPage, Output, Stream};
use crate::protocol::change::Change;

/// `GET /api/workspaces/:id/changes`
pub async fn list(call: &Call<'_>, workspace: &WorkspaceId) -> Answer {
    call.authorize(workspace, Role::Viewer)?;
    let since = call.query.since()?.unwrap_or(0);
    let limit = call.query.limit()?;
    let page = call.db()?.page(workspace.as_str(), since, limit).await.map_err(|error| storage(&error))?;
    let page = page.ok_or_else(|| Problem::new(ProblemCode::WorkspaceNotFound))?;
    let (head, floor) = (page.head.head, page.head.floor);
    if page.head.deleted {
        return Err(Problem::new(ProblemCode::WorkspaceDeleted));
    }
    match check_cursor(since, head, floor) {
        Resume::Gone => Err(Problem::cursor_gone(head, floor)),
        Resume::Ok => respond::json(200, &resource::ChangeList { changes: page.changes, head, floor }),
    }
}

/// `GET /api/workspaces/:id/changes/stream`
pub async fn stream(call: &Call<'_>, request: &Request, workspace: &WorkspaceId) -> Answer {
    call.authorize_stream(workspace).await?;
    let bad = |code: ProblemCode, error: String| Problem::because(code, error);
    let last_event_id = header(request, "Last-Event-ID");
    let start = parse_cursor(last_event_id.as_deref(), call.query.value("since")?)
        .map_err(|error| bad(ProblemCode::InvalidCursor, error.to_string()))?;
    let filter = Filter::parse(call.query.value("prefix")?, call.query.value("kinds")?)
        .map_err(|error| bad(ProblemCode::BadRequest, error.to_string()))?;
    super::workspaces::living(call, workspace).await?;
    let machine = Stream::new(call.config.stream(js_sys::Math::random()), start, filter, clock::now());
    let shell = StreamShell {
        machine,
        db: call.db()?,
        env: call.env.clone(),
        workspace: workspace.as_str().to_owned(),
        read: pending().boxed_local(),
        bridge: None,
    };
    let fields = [
        ("Content-Type", "text/event-stream; charset=utf-8"),
        ("Cache-Control", "no-store, no-transform"),
        ("X-Accel-Buffering", "no"),
    ];
    let response =
        ResponseBuilder::new().with_headers(headers(&fields)).from_stream(Attended::new(shell.run()));
    response.map_err(|error| {
        worker::console_error!("stream: {error}");
        Problem::new(ProblemCode::Internal)
    })
}

/// Drives one [`Stream`]: reads from D1, the bridge to the room, the timer.
struct StreamShell {
    machine: Stream,
    db: Db,
    env: Env,
    workspace: String,
    /// The read that is outstanding; a new one replaces it.
    read: LocalBoxFuture<'static, Option<LogPage>>,
    bridge: Option<LocalBoxStream<'static, Bridged>>,
}

/// What a bridge delivers.
enum Bridged {
    Open,
    Change(Change),
    /// Somebody says that something changed (W7).
    Hint,
    Closed,
}

/// What woke the shell.
enum Woken {
    Page(Option<LogPage>),
    Bridge(Bridged),
    Timeout,
}

impl StreamShell {
    fn run(mut self) -> impl futures_util::Stream<Item = worker::Result<Vec<u8>>> {
        async_stream::stream! {
            loop {
                while let Some(output) = self.machine.poll_output() {
                    match output {
                        Output::Write(text) => yield Ok(text.into_bytes()),
                        Output::End => return,
                        other => self.start(other),
                    }
                }
                let now = clock::now();
                match self.wait(now).await {
                    Woken::Page(page) => {
                        self.read = pending().boxed_local();
                        match page {
                            Some(page) => self.machine.handle_page(page, clock::now()),
                            None => self.machine.handle_read_failed(clock::now()),
                        }
                    }
                    Woken::Bridge(event) => self.on_bridge(event),
                    Woken::Timeout => self.machine.handle_timeout(clock::now()),
                }
            }
        }
    }

    fn start(&mut self, output: Output) {
        match output {
            Output::Read { since, limit } => {
                self.read = read(self.db.clone(), self.workspace.clone(), Some((since, limit)))
            }
            Output::ReadHead => self.read = read(self.db.clone(), self.workspace.clone(), None),
            Output::OpenBridge => self.bridge = Some(bridge(self.env.clone(), self.workspace.clone())),
            Output::CloseBridge => self.bridge = None,
            Output::Write(_) | Output::End => {}
        }
    }

    fn on_bridge(&mut self, event: Bridged) {
        let now = clock::now();
        match event {
            Bridged::Open => self.machine.handle_bridge_open(now),
            Bridged::Change(change) => self.machine.handle_live(change, now),
            Bridged::Hint => self.machine.handle_hint(now),
            Bridged::Closed => {
                self.bridge = None;
                self.machine.handle_bridge_closed(now);
            }
        }
    }

    async fn wait(&mut self, now: u64) -> Woken {
        let wait =
            self.machine.poll_timeout().map_or(MAX_WAIT_MS, |at| at.saturating_sub(now).min(MAX_WAIT_MS));
        let mut timeout = Box::pin(Delay::from(Duration::from_millis(wait))).fuse();
        let mut read = self.read.as_mut().fuse();
        let mut nothing = futures_util::stream::pending().boxed_local();
        let bridge: Pin<&mut _> = self.bridge.as_mut().unwrap_or(&mut nothing).as_mut();
        let mut event = bridge.into_future();
        futures_util::select_biased! {
            page = read => Woken::Page(page),
            (event, _) = event => Woken::Bridge(event.unwrap_or(Bridged::Closed)),
            () = timeout => Woken::Timeout,
        }
    }
}

/// Reads the log, or only where it stands. A workspace that is not there reads as deleted.
fn read(db: Db, workspace: String, page: Option<(u64, u32)>) -> LocalBoxFuture<'static, Option<LogPage>> {
    async move {
        let read = match page {
            Some((since, limit)) => {
                db.page(&workspace, since, limit).await.map(|p| p.map(|p| (p.changes, p.head)))
            }
            None => db.head(&workspace).await.map(|head| head.map(|head| (Vec::new(), head))),
        };
        match read {
            Ok(Some((changes, head))) => Some(LogPage {
                changes,
                deleted: head.deleted,
                floor: head.floor,
                head: head.head,
                live: head.live_until > clock::now(),
            }),
            Ok(None) => Some(LogPage { deleted: true, ..LogPage::default() }),
            Err(error) => {
                worker::console_error!("workspace {workspace}: stream: {error:?}");
                None
            }
        }
    }
    .boxed_local()
}

/// A listener connection to the room, as a stream that ends with `Closed`. Dropping it closes it.
fn bridge(env: Env, workspace: String) -> LocalBoxStream<'static, Bridged> {
    async_stream::stream! {
        let Some(stub) = room_stub(&env, &workspace) else {
            yield Bridged::Closed;
            return;
        };
        let Ok(socket) = room_calls::bridge(&stub).await else {
            yield Bridged::Closed;
            return;
        };
        let socket = CloseOnDrop(socket);
        // Listening starts before accepting, or the first events are lost.
        let Ok(mut events) = socket.0.events() else { return };
        if socket.0.accept().is_err() {
            return;
        }
        yield Bridged::Open;
        while let Some(Ok(event)) = events.next().await {
            match event {
                WebsocketEvent::Message(message) => {
                    let told: Value = message.text().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
                    match Change::from_json(&told) {
                        Some(change) if told.get("hint").is_none() => yield Bridged::Change(change),
                        _ => yield Bridged::Hint,
                    }
                }
                WebsocketEvent::Close(_) => break,
            }
        }
        yield Bridged::Closed;
    }
    .boxed_local()
}

/// A reader that is gone is noticed when its stream is dropped; the room must learn of it.
struct CloseOnDrop(worker::WebSocket);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let _ = self.0.close(Some(1000), Some("the stream ended"));
    }
}

/// Longest sleep between two looks at the machine; well below what `stalled` takes for a reader that
/// does not read.
const MAX_WAIT_MS: u64 = 30_000;
