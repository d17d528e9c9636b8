//! `POST /mcp`: performs the calls that [`crate::mcp`] makes of a request, as the requests to the API that
//! they are.

use std::future::Future;
use std::pin::Pin;

use worker::{Request, Response};

use super::call::Call;
use super::lazy_module::{McpRequest, Next};
use super::respond::{self, Answer, body, header, path_and_query};
use crate::api::limits::MAX_BODY_BYTES;
use crate::api::media::{JSON_TYPES, require_media};
use crate::api::query::Query;
use crate::api::route::route;

/// Answers one message.
pub async fn serve(call: &Call<'_>, request: &mut Request) -> Answer {
    let actor = call.actor()?;
    require_media(header(request, "Content-Type").as_deref(), &JSON_TYPES)?;
    let bytes = body(request, MAX_BODY_BYTES).await?;
    let asked = McpRequest::open(request.headers(), &bytes, &actor)?;
    let mut answer = None;
    loop {
        match asked.step(answer).await? {
            Next::Call(request) => answer = Some(perform(call, request).await),
            Next::Reply(response) => return Ok(response),
        }
    }
}

/// What follows on a request once it is known who calls.
async fn perform(call: &Call<'_>, mut request: Request) -> Response {
    let answer = handled(call, &mut request).await;
    answer.unwrap_or_else(|problem| respond::problem(&problem))
}

async fn handled(call: &Call<'_>, request: &mut Request) -> Answer {
    let (path, query) = path_and_query(request);
    let inner = call.within(Query::parse(&query)?);
    let route = route(&request.inner().method(), &path)?;
    // A future that contains its own kind has to be boxed.
    let handled: Pin<Box<dyn Future<Output = Answer> + '_>> =
        Box::pin(super::dispatch(&inner, request, route));
    handled.await
}
