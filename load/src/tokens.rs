//! API tokens: signed with the key of a local stack, one subject a client, or from a list.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use yrelay::api::auth::{Actor, ApiSecret, mint_api_token};
use yrelay::api::role::{ActorKind, Role};

use crate::Result;

/// How long a token lasts beyond now, in seconds: longer than any run.
const TTL: u64 = 2 * 86_400;

/// Where the API tokens of clients come from.
pub enum Tokens {
    /// From a file; clients share them in turn.
    Listed(Vec<String>),
    /// From the stack's own key.
    Signed(ApiSecret),
}

impl Tokens {
    /// One token a line.
    pub fn listed(text: &str) -> Result<Self> {
        let lines: Vec<String> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if lines.is_empty() {
            Err("--tokens: the file has no token".to_owned())
        } else {
            Ok(Self::Listed(lines))
        }
    }

    /// The secrets of a stack, as its data folder has them.
    pub fn signed(secrets: &Value) -> Result<Self> {
        let secret = secrets["API_JWT_SECRET"].as_str().ok_or("secrets.json has no API_JWT_SECRET")?;
        ApiSecret::new(secret.as_bytes()).map(Self::Signed).map_err(|error| error.to_string())
    }

    /// How many there are; `None` when each client has its own.
    pub fn count(&self) -> Option<usize> {
        match self {
            Self::Listed(list) => Some(list.len()),
            Self::Signed(_) => None,
        }
    }

    /// The token of a client.
    pub fn of_client(&self, client: usize, workspace: &str) -> Result<String> {
        match self {
            Self::Listed(list) => Ok(list.get(client % list.len().max(1)).cloned().unwrap_or_default()),
            Self::Signed(secret) => sign(secret, &format!("load-{client}"), workspace, Role::Editor),
        }
    }

    /// The token of who makes the workspace and reads what is stored.
    pub fn of_owner(&self, workspace: &str) -> Result<String> {
        match self {
            Self::Listed(_) => self.of_client(0, workspace),
            Self::Signed(secret) => sign(secret, "load", workspace, Role::Owner),
        }
    }
}

fn sign(secret: &ApiSecret, sub: &str, workspace: &str, role: Role) -> Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let actor = Actor {
        sub: sub.to_owned(),
        kind: ActorKind::Human,
        roles: BTreeMap::from([(workspace.to_owned(), role)]),
        exp: now + TTL,
    };
    mint_api_token(secret, &actor).map_err(|error| format!("token: {error}"))
}
