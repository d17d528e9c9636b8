//! The bindings, variables and secrets of the Worker. Nothing else reads `Env`.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::Reflect;
use wasm_bindgen::{JsCast, JsValue};
use worker::{Env, Stub};

use super::db::{Database, Db};
use crate::api::auth::ApiSecret;
use crate::api::origin::OriginList;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::token::{ScopePublicKey, ScopeSigningKey};
use crate::feed::limits;
use crate::feed::stream::StreamConfig;
use crate::room::RoomConfig;

/// D1 database with the migrations applied.
const DB: &str = "DB";
/// Durable Object namespace of the class `Room`.
const ROOM: &str = "ROOM";
/// Secret of API tokens (HS256), at least 32 bytes.
const API_JWT_SECRET: &str = "API_JWT_SECRET";
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
    /// `None` when the secret is missing or too short; every authenticated call is a 500 then.
    pub api_secret: Option<ApiSecret>,
    /// `None` when the key is missing or no key.
    pub signing_key: Option<ScopeSigningKey>,
    /// Derived from the signing key.
    pub public_key: Option<ScopePublicKey>,
    /// Who may call from a browser.
    pub origins: OriginList,
    /// Whether the development routes are open.
    pub dev_mode: bool,
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
        let signing_key = secret(SCOPE_SIGNING_KEY).and_then(|seed| ScopeSigningKey::from_seed(&seed).ok());
        let origins = OriginList::parse(&var(ALLOWED_ORIGINS).unwrap_or_default());
        if let Err(error) = &origins {
            worker::console_error!("{ALLOWED_ORIGINS}: {error}; no origin is allowed");
        }
        Self {
            public_key: signing_key.as_ref().map(ScopeSigningKey::public_key),
            api_secret,
            signing_key,
            origins: origins.unwrap_or_default(),
            dev_mode: var(DEV_MODE).as_deref() == Some("1"),
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

    /// Batches of one hourly sweep, of some twenty queries each: an invocation may make 50 queries
    /// on the free plan and 1,000 on the paid one.
    #[must_use]
    pub fn sweep_batches(&self) -> usize {
        if self.free_plan { 2 } else { 40 }
    }

    /// The secret of API tokens.
    pub fn api_secret(&self) -> Result<&ApiSecret, Problem> {
        self.api_secret.as_ref().ok_or_else(|| misconfigured(API_JWT_SECRET))
    }

    /// The key that signs scope tokens.
    pub fn signing_key(&self) -> Result<&ScopeSigningKey, Problem> {
        self.signing_key.as_ref().ok_or_else(|| misconfigured(SCOPE_SIGNING_KEY))
    }

    /// The key that verifies scope tokens.
    pub fn public_key(&self) -> Result<&ScopePublicKey, Problem> {
        self.public_key.as_ref().ok_or_else(|| misconfigured(SCOPE_SIGNING_KEY))
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
