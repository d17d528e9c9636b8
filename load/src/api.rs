//! The few calls of the HTTP API that a run needs. Errors never show a token.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use crate::Result;

/// The Worker itself gives storage 8 s, three times.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// A stored document is at most 16 MiB; twice that, in case the limit grows.
const MAX_DOCUMENT_BYTES: u64 = 32 * 1024 * 1024;

/// The API of a deployment.
pub struct Api {
    base: String,
    agent: Agent,
}

impl Api {
    /// The API at an address.
    pub fn new(base: &str) -> Self {
        let config = Agent::config_builder().timeout_global(Some(CALL_LIMIT)).http_status_as_error(false);
        Self { base: base.to_owned(), agent: config.build().into() }
    }

    /// Makes a workspace.
    pub fn create(&self, token: &str, workspace: &str) -> Result {
        self.post("/api/workspaces", token, &json!({ "id": workspace })).map(drop)
    }

    /// A fresh token for the relay.
    pub fn relay_token(&self, token: &str, workspace: &str) -> Result<String> {
        let answer =
            self.post(&format!("/api/workspaces/{workspace}/tokens"), token, &json!({ "purpose": "relay" }))?;
        answer["token"].as_str().map(str::to_owned).ok_or_else(|| "POST …/tokens gave no token".to_owned())
    }

    /// What is stored of a document, as a Yjs update; `None` when there is nothing.
    pub fn document(&self, token: &str, workspace: &str, path: &str) -> Result<Option<Vec<u8>>> {
        let url = format!("{}/api/workspaces/{workspace}/docs/{path}", self.base);
        let call = self.agent.get(&url).header("authorization", format!("Bearer {token}"));
        let mut answer = call
            .header("accept", "application/octet-stream")
            .call()
            .map_err(|error| format!("GET …/docs/{path}: {error}"))?;
        match answer.status().as_u16() {
            200 => {
                let body = answer.body_mut().with_config().limit(MAX_DOCUMENT_BYTES).read_to_vec();
                body.map(Some).map_err(|error| format!("GET …/docs/{path}: {error}"))
            }
            404 => Ok(None),
            status => Err(format!("GET …/docs/{path} answered {status}")),
        }
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> Result<Value> {
        let call = self.agent.post(format!("{}{path}", self.base));
        let mut answer = call
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .send(body.to_string())
            .map_err(|error| format!("POST {path}: {error}"))?;
        let text = answer.body_mut().read_to_string().map_err(|error| format!("POST {path}: {error}"))?;
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        match answer.status().as_u16() {
            200..=299 => Ok(value),
            status => {
                Err(format!("POST {path} answered {status} {}", value["code"].as_str().unwrap_or_default()))
            }
        }
    }
}
