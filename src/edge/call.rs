//! What every handler of one request shares.

use worker::{Context, Env, Request};

use super::clock;
use super::config::Config;
use super::db::Db;
use super::respond::header;
use crate::api::auth::{Actor, AuthError};
use crate::api::credentials::{bearer, query_token};
use crate::api::path::WorkspaceId;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::query::Query;
use crate::api::role::Role;
use crate::api::token::{Purpose, open_scope_token};

/// One request: its surroundings and its query.
pub struct Call<'a> {
    /// The bindings.
    pub env: &'a Env,
    /// For work after the answer.
    pub context: &'a Context,
    /// The configuration.
    pub config: &'a Config,
    /// The decoded query.
    pub query: Query,
    /// `Authorization`.
    pub authorization: Option<String>,
    actor: Result<Actor, Problem>,
}

impl<'a> Call<'a> {
    /// Reads what is shared from a request.
    pub fn new(
        env: &'a Env,
        context: &'a Context,
        config: &'a Config,
        request: &Request,
        query: &str,
    ) -> Result<Self, Problem> {
        let authorization = header(request, "Authorization");
        let actor = Err(AuthError::Missing.into());
        Ok(Self { env, context, config, query: Query::parse(query)?, authorization, actor })
    }

    /// A call that this one consists of: the same caller with another query.
    pub fn within(&self, query: Query) -> Self {
        let Self { env, context, config, .. } = *self;
        Self { env, context, config, query, authorization: None, actor: self.actor.clone() }
    }

    /// Finds out who calls, for the handlers that ask. None of them has to wait for it then.
    pub async fn authenticate(&mut self) {
        self.actor = match bearer(self.authorization.as_deref()) {
            Ok(token) => self.config.verify_api_token(token, clock::now_s()).await,
            Err(error) => Err(error.into()),
        };
    }

    /// The database.
    pub fn db(&self) -> Result<Db, Problem> {
        Db::open(self.env).ok_or_else(|| {
            worker::console_error!("the D1 binding DB is missing");
            Problem::new(ProblemCode::StorageUnavailable)
        })
    }

    /// Who calls.
    pub fn actor(&self) -> Result<Actor, Problem> {
        self.actor.clone()
    }

    /// Who calls, if it has at least this role in the workspace (A5, U07).
    pub fn authorize(&self, workspace: &WorkspaceId, role: Role) -> Result<Actor, Problem> {
        let actor = self.actor()?;
        actor.require(workspace, role)?;
        Ok(actor)
    }

    /// Whether the caller may read the workspace's stream: by API token, or by a scope token in the
    /// query, since a browser's `EventSource` cannot send a header.
    pub async fn authorize_stream(&self, workspace: &WorkspaceId) -> Result<(), Problem> {
        match (query_token(&self.query)?, &self.authorization) {
            (Some(_), Some(_)) => Err(AuthError::Malformed.into()),
            (Some(token), None) => {
                let token = open_scope_token(token, Purpose::Stream, clock::now_s())?;
                Ok(self.config.verify_scope_token(token).await?.require_workspace(workspace)?)
            }
            (None, _) => self.authorize(workspace, Role::Viewer).map(|_| ()),
        }
    }
}
