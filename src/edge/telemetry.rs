//! `POST /api/telemetry` and `GET /api/relays`: what clients tell of their relays.

use worker::Request;

use super::call::Call;
use super::clock;
use super::respond::{self, Answer, body, header, storage};
use crate::api::limits::{MAX_TELEMETRY_BYTES, TELEMETRY_WINDOW_MS};
use crate::api::media::{JSON_TYPES, require_media};
use crate::api::resource::StoredTelemetry;
use crate::api::telemetry::{EventKind, TelemetryEvent, parse_telemetry, summarize};

/// `POST /api/telemetry`
pub async fn report(call: &Call<'_>, request: &mut Request) -> Answer {
    call.actor()?;
    require_media(header(request, "Content-Type").as_deref(), &JSON_TYPES)?;
    let events = parse_telemetry(&body(request, MAX_TELEMETRY_BYTES).await?)?;
    // Before they are stored: when D1 is down, too, the log shows what happens to clients.
    events.iter().for_each(log);
    let id = format!("{:x}", (js_sys::Math::random() * 4_503_599_627_370_496.0) as u64);
    let stored = call.db()?.store_telemetry(&events, &id, clock::now()).await;
    stored.map_err(|error| storage(&error))?;
    respond::json(200, &StoredTelemetry { stored: events.len() })
}

/// `GET /api/relays`
pub async fn relays(call: &Call<'_>) -> Answer {
    call.actor()?;
    let since = clock::now().saturating_sub(TELEMETRY_WINDOW_MS);
    let (advances, cycles) = call.db()?.relay_reports(since).await.map_err(|error| storage(&error))?;
    respond::json(200, &summarize(&advances, cycles, since))
}

/// One line that a log search finds by the label, which is in the relay's host name too (C.78).
/// All parts are checked words, so that a line cannot be forged.
fn log(event: &TelemetryEvent) {
    let workspace = event.workspace.as_ref().map_or("-", |id| id.as_str());
    let name = event.kind.name();
    match &event.kind {
        EventKind::Advance { from, to, trigger } => {
            worker::console_warn!("{name} from={from} to={to} trigger={trigger} workspace={workspace}");
        }
        EventKind::CycleAllFailed { labels } => {
            worker::console_error!("{name} labels={labels} workspace={workspace}");
        }
    }
}
