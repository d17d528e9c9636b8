//! The bindings, variables and secrets of the Worker. Nothing else reads `Env`.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use js_sys::Reflect;
use wasm_bindgen::{JsCast, JsValue};
use worker::{Env, Stub};

use super::crypto::ScopeKeys;
use super::db::{Database, Db};
use super::issuer::Issuer;
use crate::api::auth::{Actor, ApiSecret, AuthError, verify_api_token};
use crate::api::jwks::{JwksUrl, UnverifiedApiToken};
use crate::api::origin::OriginList;
use crate::api::path::WorkspaceId;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::token::{ScopeClaims, ScopeSeed, UnverifiedScope, scope_token_input, seal_scope_token};
use crate::feed::limits;
use crate::feed::stream::StreamConfig;
use crate::room::RoomConfig;

/// D1 database with the migrations applied.
const DB: &str = "DB";
/// Durable Object namespace of the class `Room`.
const ROOM: &str = "ROOM";
/// Secret of API tokens (HS256), at least 32 bytes.
const API_JWT_SECRET: &str = "API_JWT_SECRET";
/// Address of the public keys of an issuer of API tokens (JWKS).
const API_JWKS_URL: &str = "API_JWKS_URL";
/// The `iss` that API tokens have to have, if there is one.
const API_TOKEN_ISSUER: &str = "API_TOKEN_ISSUER";
/// Seed of the key that signs scope tokens: 32 bytes in base64url.
const SCOPE_SIGNING_KEY: &str = "SCOPE_SIGNING_KEY";
/// This relay's label in the relay list.
const RELAY_LABEL: &str = "RELAY_LABEL";
/// Origins that browsers may call from, separated by commas.
const ALLOWED_ORIGINS: &str = "ALLOWED_ORIGINS";
/// `1` opens the routes of `dev.rs`. Only `cargo xtask dev` and the tests set it.
const DEV_MODE: &str = "DEV_MODE";
/// `free` keeps a stream within the 50 queries that an invocation has on the free plan.
const PLAN: &str = "PLAN";

/// What the Worker is configured with. Read once an isolate.
#[derive(Debug)]
pub struct Config {
    /// `None` when the secret is missing or too short.
    api_secret: Option<ApiSecret>,
    /// `None` without one, `Some(None)` for an address that cannot be used.
    issuer: Option<Option<Issuer>>,
    /// What `iss` has to be.
    issuer_name: Option<String>,
    /// Who may call from a browser.
    pub origins: OriginList,
    /// Whether the development routes are open.
    pub dev_mode: bool,
    /// `None` when the seed is missing or no seed.
    seed: Option<ScopeSeed>,
    /// The keys of the seed, once a request has needed them.
    keys: OnceCell<ScopeKeys>,
    label: String,
    free_plan: bool,
}

impl Config {
    /// Reads the configuration, or returns what was read before in this isolate.
    #[must_use]
    pub fn read(env: &Env) -> Rc<Self> {
        thread_local! {
            static CONFIG: RefCell<Option<Rc<Config>>> = const { RefCell::new(None) };
        }
        CONFIG.with(|cell| Rc::clone(cell.borrow_mut().get_or_insert_with(|| Rc::new(Self::parse(env)))))
    }

    fn parse(env: &Env) -> Self {
        let var = |name: &str| env.var(name).ok().map(|value| value.to_string());
        let secret = |name: &str| env.secret(name).ok().map(|value| value.to_string());
        let api_secret = secret(API_JWT_SECRET).and_then(|text| ApiSecret::new(text.as_bytes()).ok());
        let seed = secret(SCOPE_SIGNING_KEY).and_then(|seed| ScopeSeed::parse(&seed).ok());
        let origins = OriginList::parse(&var(ALLOWED_ORIGINS).unwrap_or_default());
        if let Err(error) = &origins {
            worker::console_error!("{ALLOWED_ORIGINS}: {error}; no origin is allowed");
        }
        let issuer = var(API_JWKS_URL).filter(|url| !url.is_empty()).map(|url| match JwksUrl::parse(&url) {
            Ok(url) => Some(Issuer::new(url)),
            Err(error) => {
                worker::console_error!("{API_JWKS_URL}: {error}; tokens of its issuer get a 500");
                None
            }
        });
        Self {
            api_secret,
            issuer,
            issuer_name: var(API_TOKEN_ISSUER).filter(|name| !name.is_empty()),
            origins: origins.unwrap_or_default(),
            dev_mode: var(DEV_MODE).as_deref() == Some("1"),
            seed,
            keys: OnceCell::new(),
            label: var(RELAY_LABEL).unwrap_or_else(|| "cf".to_owned()),
            free_plan: var(PLAN).as_deref() == Some("free"),
        }
    }

    /// The room's configuration.
    #[must_use]
    pub fn room(&self) -> RoomConfig {
        RoomConfig { label: self.label.clone(), ..RoomConfig::default() }
    }

    /// A stream's configuration. `random` is from 0 to 1 and spreads the ends of streams.
    #[must_use]
    pub fn stream(&self, random: f64) -> StreamConfig {
        let max_reads = if self.free_plan { limits::MAX_READS_FREE } else { limits::MAX_READS_PAID };
        let jitter = (limits::LIFETIME_MS / 10) as f64;
        StreamConfig {
            jitter_ms: ((random * 2.0 - 1.0) * jitter) as i64,
            max_reads,
            ..StreamConfig::default()
        }
    }

    /// Batches of each hourly sweep. One of the log is some twenty queries, one of telemetry is one:
    /// an invocation may make 50 queries on the free plan and 1,000 on the paid one.
    #[must_use]
    pub fn sweep_batches(&self) -> usize {
        if self.free_plan { 2 } else { 40 }
    }

    /// Who an API token speaks for (A1): one of the issuer's algorithms is verified with its keys, and
    /// nothing else is; HS256 is verified with the secret.
    pub async fn verify_api_token(&self, token: &str, now_s: u64) -> Result<Actor, Problem> {
        let issuer_name = self.issuer_name.as_deref();
        if let Some(issuer) = &self.issuer {
            match UnverifiedApiToken::open(token, issuer_name, now_s) {
                Err(AuthError::WrongAlgorithm) if self.api_secret.is_some() => {}
                Err(error) => return Err(error.into()),
                Ok(token) => {
                    let issuer = issuer.as_ref().ok_or_else(|| Problem::new(ProblemCode::Internal))?;
                    return issuer.verify(token).await;
                }
            }
        }
        let secret = self.api_secret.as_ref().ok_or_else(|| misconfigured(API_JWT_SECRET))?;
        Ok(verify_api_token(secret, issuer_name, token, now_s)?)
    }

    /// Makes a scope token.
    pub async fn mint_scope_token(&self, claims: &ScopeClaims) -> Result<String, Problem> {
        let input = scope_token_input(claims)?;
        let signature = self.scope_keys().await?.sign(input.as_bytes()).await.map_err(unusable)?;
        Ok(seal_scope_token(&input, &signature))
    }

    /// What the browsers of a workspace seal their signaling with.
    pub fn peer_secret(&self, workspace: &WorkspaceId) -> Result<String, Problem> {
        let seed = self.seed.as_ref().ok_or_else(|| misconfigured(SCOPE_SIGNING_KEY))?;
        Ok(seed.peer_secret(workspace)?)
    }

    /// What a scope token says, if its signature is good.
    pub async fn verify_scope_token(&self, token: UnverifiedScope) -> Result<ScopeClaims, Problem> {
        let keys = self.scope_keys().await?;
        let good = keys.verify(token.input().as_bytes(), token.signature()).await.map_err(unusable)?;
        Ok(token.accept(good)?)
    }

    /// Two requests that come first at once both import; the keys are the same.
    async fn scope_keys(&self) -> Result<&ScopeKeys, Problem> {
        if let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let seed = self.seed.as_ref().ok_or_else(|| misconfigured(SCOPE_SIGNING_KEY))?;
        let imported = ScopeKeys::import(seed).await.map_err(unusable)?;
        Ok(self.keys.get_or_init(|| imported))
    }
}

impl Db {
    /// The database, if it is bound.
    #[must_use]
    pub fn open(env: &Env) -> Option<Self> {
        let binding = Reflect::get(env, &JsValue::from_str(DB)).ok()?;
        binding.is_object().then(|| Self::new(binding.unchecked_into::<Database>()))
    }
}

/// The room of a workspace. `None` without the binding: everything but the relay works then.
#[must_use]
pub fn room_stub(env: &Env, workspace: &str) -> Option<Stub> {
    env.durable_object(ROOM).ok()?.get_by_name(workspace).ok()
}

fn misconfigured(name: &str) -> Problem {
    worker::console_error!(
        "the secret {name} is missing or unusable; set it with `wrangler secret put {name}`"
    );
    Problem::new(ProblemCode::Internal)
}

fn unusable(error: String) -> Problem {
    worker::console_error!("the platform cannot use the key of the secret {SCOPE_SIGNING_KEY}: {error}");
    Problem::new(ProblemCode::Internal)
}
