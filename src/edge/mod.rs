//! The Cloudflare Worker and its Durable Object: thin shells around the core. The only place that
//! names `worker`.
//!
//! A request goes through [`fetch`]: origin, route, then one handler. Each handler checks the
//! caller first, then limits, then acts. [`room_object::Room`] is the Durable Object.

mod call;
mod changes;
mod clock;
mod compaction;
mod config;
mod crypto;
mod db;
mod documents;
mod edits;
mod guard;
mod issuer;
mod lazy_module;
mod mcp;
mod moves;
mod nodes;
mod notify;
mod openapi;
mod presence;
mod refusal;
mod relay;
mod respond;
mod room_calls;
mod room_object;
mod room_storage;
mod signal;
mod socket;
mod stalled;
mod telemetry;
mod workspaces;

pub use room_object::Room;

use worker::{Context, Env, Request, Response, Result, ScheduleContext, ScheduledEvent, event};

use self::call::Call;
use self::config::Config;
use self::db::Db;
use self::nodes::Verb;
use self::respond::{Answer, header};
use crate::api::resource::Health;
use crate::api::route::{Route, allowed_methods, route};

/// Every HTTP request.
#[event(fetch)]
async fn fetch(mut request: Request, env: Env, context: Context) -> Result<Response> {
    let config = Config::read(&env);
    let origin = header(&request, "Origin");
    let answer = answer(&mut request, &env, &context, &config, origin.as_deref()).await;
    let response = answer.unwrap_or_else(|problem| respond::problem(&problem));
    // The response of an upgrade carries its socket and must go out as it is.
    if response.status_code() == 101 {
        return Ok(response);
    }
    Ok(respond::cors(response, &config, origin.as_deref()))
}

/// The hourly sweeps of the log (F6), of telemetry, and of presence and signals: batch after batch,
/// for as long as one run may take. One that fails does not keep the others from their work.
#[event(scheduled)]
async fn scheduled(_: ScheduledEvent, env: Env, _: ScheduleContext) {
    let Some(db) = Db::open(&env) else { return };
    let (batches, now) = (Config::read(&env).sweep_batches(), clock::now());
    for _batch in 0..batches {
        match db.sweep(now).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                worker::console_error!("sweep: {error:?}");
                break;
            }
        }
    }
    for _batch in 0..batches {
        match db.sweep_telemetry(now).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                worker::console_error!("sweep: telemetry: {error:?}");
                break;
            }
        }
    }
    for _batch in 0..batches {
        match db.sweep_expired(now).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return worker::console_error!("sweep: presence and signals: {error:?}"),
        }
    }
}

async fn answer(
    request: &mut Request,
    env: &Env,
    context: &Context,
    config: &Config,
    origin: Option<&str>,
) -> Answer {
    config.origins.check(origin)?;
    let (path, query) = respond::path_and_query(request);
    let path = path.as_str();
    // `Request::method` calls every method it does not know GET.
    let method = request.inner().method();
    if method == "OPTIONS" && origin.is_some() {
        return Ok(respond::preflight(allowed_methods(path)?));
    }
    let mut call = Call::new(env, context, config, request, &query)?;
    if config.dev_mode
        && let Some(rest) = path.strip_prefix("/__dev/rooms/")
    {
        let (workspace, panic) =
            rest.strip_suffix("/panic").map_or((rest, false), |workspace| (workspace, true));
        return relay::inspect(&call, workspace, panic).await;
    }
    let route = route(&method, path)?;
    if route.needs_api_token() {
        call.authenticate().await;
    }
    dispatch(&call, request, route).await
}

async fn dispatch(call: &Call<'_>, request: &mut Request, route: Route) -> Answer {
    match route {
        Route::ApplyOps(workspace) => nodes::apply(call, request, &workspace).await,
        Route::CreateWorkspace => workspaces::create(call, request).await,
        Route::DeleteNode(workspace, path) => {
            nodes::write(call, request, &workspace, &path, Verb::Delete).await
        }
        Route::DeletePresence(workspace) => presence::delete(call, request, &workspace).await,
        Route::DeleteWorkspace(workspace) => workspaces::delete(call, request, &workspace).await,
        Route::EditDocument(workspace, path) => edits::edit_document(call, request, &workspace, &path).await,
        Route::Health => respond::json(200, &Health { status: "ok" }),
        Route::ListChanges(workspace) => changes::list(call, &workspace).await,
        Route::ListPresence(workspace) => presence::list(call, &workspace).await,
        Route::ListSignals(workspace) => signal::list(call, &workspace).await,
        Route::ListRelays => telemetry::relays(call).await,
        Route::Mcp => mcp::serve(call, request).await,
        Route::ListNodes(workspace) => nodes::list(call, &workspace).await,
        Route::MintToken(workspace) => workspaces::mint(call, request, &workspace).await,
        Route::MoveNode(workspace, path) => moves::move_node(call, request, &workspace, &path).await,
        Route::OpenApi => openapi::openapi(),
        Route::PatchNode(workspace, path) => {
            nodes::write(call, request, &workspace, &path, Verb::Patch).await
        }
        Route::PostUpdate(workspace, path) => documents::append(call, request, &workspace, &path).await,
        Route::PutNode(workspace, path) => nodes::write(call, request, &workspace, &path, Verb::Put).await,
        Route::PutPresence(workspace) => presence::put(call, request, &workspace).await,
        Route::ReplaceDocument(workspace, path) => {
            edits::replace_document(call, request, &workspace, &path).await
        }
        Route::ReadDocument(workspace, path) => documents::read(call, request, &workspace, &path).await,
        Route::ReadNode(workspace, path) => nodes::read(call, request, &workspace, &path).await,
        Route::ReadWorkspace(workspace) => workspaces::read(call, &workspace).await,
        Route::Ready => ready(call).await,
        Route::Relay(workspace, document) => {
            relay::upgrade(call, request, &workspace, document.as_ref()).await
        }
        Route::ReportTelemetry => telemetry::report(call, request).await,
        Route::SendSignal(workspace) => signal::send(call, request, &workspace).await,
        Route::StreamChanges(workspace) => changes::stream(call, request, &workspace).await,
    }
}

/// Whether storage answers, too.
async fn ready(call: &Call<'_>) -> Answer {
    call.db()?.head("").await.map_err(|error| respond::storage(&error))?;
    respond::json(200, &Health { status: "ok" })
}
