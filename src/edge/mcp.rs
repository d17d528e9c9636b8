//! `POST /mcp`: performs what [`crate::mcp`] asks for, through the handlers of the REST API.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use worker::{Delay, Request, Response, ResponseBuilder};

use super::call::Call;
use super::respond::{Answer, body, header, headers};
use super::{clock, room_calls};
use crate::api::limits::MAX_BODY_BYTES;
use crate::api::media::{JSON_TYPES, require_media};
use crate::api::precondition::parse_etag;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::query::Query;
use crate::api::route::Route;
use crate::mcp::{Headers, Reply, RestAnswer, RestCall, Step, open};

/// Answers one message.
pub async fn serve(call: &Call<'_>, request: &mut Request) -> Answer {
    let actor = call.actor()?;
    require_media(header(request, "Content-Type").as_deref(), &JSON_TYPES)?;
    let bytes = body(request, MAX_BODY_BYTES).await?;
    let field = |name| header(request, name);
    let (accept, version) = (field("Accept"), field("MCP-Protocol-Version"));
    let (method, name) = (field("Mcp-Method"), field("Mcp-Name"));
    let fields = Headers {
        accept: accept.as_deref(),
        protocol_version: version.as_deref(),
        method: method.as_deref(),
        name: name.as_deref(),
    };
    let mut step = open(&fields, &bytes, &actor)?;
    let start = clock::now();
    loop {
        match step {
            Step::Reply(reply) => return Ok(sent(reply)),
            Step::Perform { task, after_ms } => {
                if after_ms > 0 {
                    Delay::from(Duration::from_millis(after_ms)).await;
                }
                let answer = perform(call, task.call()).await;
                step = task.handle_answer(answer, clock::now().saturating_sub(start));
            }
        }
    }
}

fn sent(reply: Reply) -> Response {
    let response = ResponseBuilder::new().with_status(reply.status);
    match reply.body {
        Some(text) => response
            .with_headers(headers(&[("Content-Type", "application/json"), ("Cache-Control", "no-store")]))
            .fixed(text.into_bytes()),
        None => response.empty(),
    }
}

/// Calls the handler of a route, as a request to its address would.
async fn perform(call: &Call<'_>, asked: &RestCall) -> Result<RestAnswer, Problem> {
    let inner = call.within(Query::of(&asked.query));
    let fields: Vec<(&str, &str)> =
        asked.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let method = method_of(&asked.route);
    let mut request = room_calls::request(ADDRESS, method, &fields, asked.body.as_deref())
        .map_err(|error| failed(&error))?;
    // A future that contains its own kind has to be boxed.
    let handled: Pin<Box<dyn Future<Output = Answer> + '_>> =
        Box::pin(super::dispatch(&inner, &mut request, asked.route.clone()));
    let mut response = handled.await?;
    let bytes = response.bytes().await.map_err(|error| failed(&error))?;
    let field = |name: &str| response.headers().get(name).ok().flatten();
    let number = |name: &str| field(name).and_then(|text| text.parse().ok());
    Ok(RestAnswer {
        clock: field("ETag").as_deref().and_then(parse_etag),
        epoch: number("Yrelay-Epoch"),
        head: number("Yrelay-Head"),
        replayed: field("Idempotency-Replayed").is_some(),
        body: String::from_utf8(bytes).map_err(|_| Problem::new(ProblemCode::Internal))?,
    })
}

/// What the platform wants of a request; which handler it meets is decided already.
const fn method_of(route: &Route) -> &'static str {
    match route {
        Route::PutNode(..) | Route::PutPresence(_) => "PUT",
        Route::PatchNode(..) => "PATCH",
        Route::DeleteNode(..) => "DELETE",
        Route::EditDocument(..) => "POST",
        _ => "GET",
    }
}

fn failed(error: &worker::Error) -> Problem {
    worker::console_error!("mcp: {error}");
    Problem::new(ProblemCode::Internal)
}

/// Nobody sees it.
const ADDRESS: &str = "https://mcp/";
