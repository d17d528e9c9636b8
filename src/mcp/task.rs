//! What is left to do of a request: the call that the shell performs next, and what becomes of its
//! answer.

use serde_json::{Map, Value};

use super::limits::{MAX_TEXT_BYTES, WAIT_PAUSE_MAX_MS, WAIT_PAUSE_MIN_MS};
use super::resources::{self, Asked};
use super::rpc::{Envelope, told};
use super::text;
use super::{Reply, RestAnswer, RestCall, Step};
use crate::api::problem::{Problem, ProblemCode};

/// A request under way.
#[derive(Debug)]
pub struct Task {
    envelope: Envelope,
    call: RestCall,
    job: Job,
    /// The pause before the next look of a wait.
    pause_ms: u64,
}

#[derive(Debug)]
enum Job {
    Resource(Asked),
    Tool(Shape),
}

/// How the answer of a call becomes the result of a tool.
#[derive(Debug)]
pub(super) enum Shape {
    /// A page of the log past a clock; an empty one only after a wait.
    Changes { since: u64, wait_ms: u64 },
    /// Text of a document, page by page.
    Document { path: String, cursor: Option<String> },
    /// A node; a value that is too long for an answer comes as pages of its JSON text.
    Node { cursor: Option<String> },
    /// As it is, with the head.
    Headed,
    /// As it is, which has the head.
    Plain,
    /// The clock of a write.
    Written,
}

impl Task {
    pub(super) fn tool(envelope: Envelope, call: RestCall, shape: Shape) -> Self {
        Self { envelope, call, job: Job::Tool(shape), pause_ms: WAIT_PAUSE_MIN_MS }
    }

    pub(super) fn resource(envelope: Envelope, call: RestCall, asked: Asked) -> Self {
        Self { envelope, call, job: Job::Resource(asked), pause_ms: WAIT_PAUSE_MIN_MS }
    }

    /// The call to perform.
    #[must_use]
    pub const fn call(&self) -> &RestCall {
        &self.call
    }

    /// Takes the answer, `elapsed_ms` after the request came.
    #[must_use]
    pub fn handle_answer(mut self, answer: Result<RestAnswer, Problem>, elapsed_ms: u64) -> Step {
        let shape = match self.job {
            Job::Resource(asked) => return resources::finish(self.envelope, asked, answer),
            Job::Tool(ref shape) => shape,
        };
        let shown = match answer.and_then(|answer| shape.show(&answer)) {
            Ok(shown) => shown,
            Err(problem) => return Step::Reply(refused(&self.envelope, &problem)),
        };
        let left = match shape {
            Shape::Changes { wait_ms, .. } if is_empty(&shown) => wait_ms.saturating_sub(elapsed_ms),
            _ => 0,
        };
        if left > 0 {
            let after_ms = self.pause_ms.min(left);
            self.pause_ms = (self.pause_ms.saturating_mul(3) / 2).min(WAIT_PAUSE_MAX_MS);
            return Step::Perform { task: self, after_ms };
        }
        Step::Reply(tool_result(&self.envelope, &shown.to_string(), true))
    }
}

impl Shape {
    fn show(&self, answer: &RestAnswer) -> Result<Value, Problem> {
        match self {
            Self::Changes { since, .. } => {
                let mut shown = object(&answer.body)?;
                let last = shown.get("changes").and_then(Value::as_array).and_then(|changes| changes.last());
                let next = last.and_then(|change| change.get("clock")).and_then(Value::as_u64);
                shown.insert("next".to_owned(), next.unwrap_or(*since).into());
                Ok(Value::Object(shown))
            }
            Self::Document { path, cursor } => {
                let clock = answer.clock.unwrap_or(0);
                let page = text::page(&answer.body, clock, cursor.as_deref())?;
                let mut shown = with_head(Map::new(), answer.head);
                shown.insert("path".to_owned(), path.as_str().into());
                shown.insert("clock".to_owned(), clock.into());
                shown.insert("epoch".to_owned(), answer.epoch.unwrap_or(0).into());
                shown.insert(UNTRUSTED.to_owned(), page.text.into());
                shown.insert("next".to_owned(), page.next.into());
                Ok(Value::Object(shown))
            }
            Self::Node { cursor } => node(answer, cursor.as_deref()),
            Self::Headed => Ok(Value::Object(with_head(object(&answer.body)?, answer.head))),
            Self::Plain => object(&answer.body).map(Value::Object),
            Self::Written => {
                let mut shown = with_head(object(&answer.body)?, answer.clock);
                shown.insert("replayed".to_owned(), answer.replayed.into());
                Ok(Value::Object(shown))
            }
        }
    }
}

fn node(answer: &RestAnswer, cursor: Option<&str>) -> Result<Value, Problem> {
    let mut shown = with_head(object(&answer.body)?, answer.head);
    let is_long = answer.body.len() > MAX_TEXT_BYTES;
    if (is_long || cursor.is_some())
        && let Some(value) = shown.remove("value")
    {
        let value = value.to_string();
        let page = text::page(&value, answer.clock.unwrap_or(0), cursor)?;
        shown.insert(UNTRUSTED.to_owned(), page.text.into());
        shown.insert("next".to_owned(), page.next.into());
    }
    Ok(Value::Object(shown))
}

/// The member whose text others wrote: data, whatever it says.
const UNTRUSTED: &str = "untrustedText";

fn with_head(mut object: Map<String, Value>, head: Option<u64>) -> Map<String, Value> {
    object.insert("head".to_owned(), head.unwrap_or(0).into());
    object
}

/// By way of a [`Value`]: a reader of maps of its own brings 20 KB of code for its messages along.
fn object(body: &str) -> Result<Map<String, Value>, Problem> {
    match serde_json::from_str(body) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(Problem::new(ProblemCode::Internal)),
    }
}

fn is_empty(page: &Value) -> bool {
    page.get("changes").and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// A tool that was not carried out: a result, for the model to read.
pub(super) fn refused(envelope: &Envelope, problem: &Problem) -> Reply {
    tool_result(envelope, &told(problem), false)
}

/// The text stands in the result twice: for a program, and for a client that knows only text. An
/// error has no structured form, since that would have to fit the tool's schema.
fn tool_result(envelope: &Envelope, json: &str, is_structured: bool) -> Reply {
    let structured = if is_structured { format!(r#","structuredContent":{json}"#) } else { String::new() };
    let (text, is_error) = (Value::from(json), !is_structured);
    let result =
        format!(r#"{{"content":[{{"type":"text","text":{text}}}]{structured},"isError":{is_error}}}"#);
    envelope.result(&result, None)
}
