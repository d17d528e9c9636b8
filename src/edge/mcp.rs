//! `POST /mcp`: performs the calls that [`crate::mcp`] makes of a request, as the requests to the API that
//! they are.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use worker::{Delay, Request};

use super::call::Call;
use super::clock;
use super::lazy_module::McpRequest;
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
    let start = clock::now();
    loop {
        if let Some(response) = asked.response()? {
            return Ok(response);
        }
        let after_ms = asked.after_ms();
        if after_ms > 0 {
            Delay::from(Duration::from_millis(after_ms)).await;
        }
        let answer = perform(call, asked.call()?).await;
        let answer = answer.unwrap_or_else(|problem| respond::problem(&problem));
        asked.handle_response(answer, clock::now().saturating_sub(start)).await?;
    }
}

/// What follows on a request once it is known who calls.
async fn perform(call: &Call<'_>, mut request: Request) -> Answer {
    let (path, query) = path_and_query(&request);
    let inner = call.within(Query::parse(&query)?);
    let route = route(&request.inner().method(), &path)?;
    // A future that contains its own kind has to be boxed.
    let handled: Pin<Box<dyn Future<Output = Answer> + '_>> =
        Box::pin(super::dispatch(&inner, &mut request, route));
    handled.await
}
