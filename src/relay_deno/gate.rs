//! What the relay checks of a request before there is a room.

use serde_json::json;
use wasm_bindgen::prelude::*;

use super::{fault, integer};
use crate::api::auth::AuthError;
use crate::api::origin::OriginList;
use crate::api::problem::{Problem, ProblemCode};
use crate::api::query::Query;
use crate::api::route::{Route, route};
use crate::api::token::{Purpose, UnverifiedScope, open_scope_token};
use crate::api::upgrade::Upgrade;

/// The checks before an upgrade.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Gate {
    origins: OriginList,
}

/// What came of a check: a problem to answer with, or a token to verify. `free` it.
#[wasm_bindgen]
pub struct Admission {
    outcome: Result<Pending, Problem>,
    person: Option<String>,
    expires_at: u64,
}

/// An upgrade that waits for the platform to verify its token's signature.
struct Pending {
    upgrade: Upgrade,
    token: Option<UnverifiedScope>,
}

#[wasm_bindgen]
impl Gate {
    /// `origins` is a comma-separated list of exact origins, as the Worker's `ALLOWED_ORIGINS`.
    ///
    /// # Errors
    /// For a list that cannot be read.
    #[wasm_bindgen(constructor)]
    pub fn new(origins: &str) -> Result<Gate, JsError> {
        let origins = OriginList::parse(origins).map_err(|error| fault(&error))?;
        Ok(Self { origins })
    }

    /// Looks at a request for a WebSocket: origin, address, credentials. `target` is its path and
    /// query; headers that it does not have are undefined.
    pub fn check(
        &self,
        method: &str,
        target: &str,
        origin: Option<String>,
        upgrade: Option<String>,
        protocols: Option<String>,
        now_seconds: f64,
    ) -> Admission {
        let headers = (origin.as_deref(), upgrade.as_deref(), protocols.as_deref());
        let outcome = self.open(method, target, headers, integer(now_seconds));
        Admission { outcome, person: None, expires_at: 0 }
    }

    fn open(
        &self,
        method: &str,
        target: &str,
        (origin, upgrade, protocols): (Option<&str>, Option<&str>, Option<&str>),
        now_s: u64,
    ) -> Result<Pending, Problem> {
        self.origins.check(origin)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = Query::parse(query)?;
        let Route::Relay(workspace, document) = route(method, path)? else {
            return Err(Problem::because(ProblemCode::NotFound, "A relay has no API; see its Worker."));
        };
        let upgrade = Upgrade::read(upgrade, protocols, &query, (&workspace, document.as_ref()))?;
        let token = open_scope_token(&upgrade.credentials.token, Purpose::Relay, now_s).map_err(told)?;
        Ok(Pending { upgrade, token: Some(token) })
    }
}

#[wasm_bindgen]
impl Admission {
    /// The body of the refusal, as `application/problem+json`.
    #[wasm_bindgen(getter)]
    pub fn problem(&self) -> Option<String> {
        self.outcome.as_ref().err().map(Problem::body)
    }

    /// The status of the refusal; 101 without one.
    #[wasm_bindgen(getter)]
    pub fn status(&self) -> u16 {
        self.outcome.as_ref().err().map_or(101, Problem::status)
    }

    /// The headers of the refusal, names and values in turn.
    #[wasm_bindgen(getter)]
    pub fn headers(&self) -> Vec<String> {
        let headers = self.outcome.as_ref().err().map(Problem::headers).unwrap_or_default();
        headers.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    /// The room that the connection wants.
    #[wasm_bindgen(getter)]
    pub fn workspace(&self) -> String {
        self.pending().map(|pending| pending.upgrade.workspace.as_str().to_owned()).unwrap_or_default()
    }

    /// Who it is, of a person; services connect as well and are no presence. Known after `accept`.
    #[wasm_bindgen(getter)]
    pub fn person(&self) -> Option<String> {
        self.person.clone()
    }

    /// When its token ends, in ms. Known after `accept`.
    #[wasm_bindgen(getter, js_name = expiresAt)]
    pub fn expires_at(&self) -> f64 {
        self.expires_at as f64
    }

    /// The sub-protocol to echo.
    #[wasm_bindgen(getter)]
    pub fn echo(&self) -> Option<String> {
        self.pending()?.upgrade.credentials.echo.map(str::to_owned)
    }

    /// The bytes that the token's signature covers.
    #[wasm_bindgen(getter)]
    pub fn message(&self) -> Vec<u8> {
        self.token().map(|token| token.input().as_bytes().to_vec()).unwrap_or_default()
    }

    /// The token's signature.
    #[wasm_bindgen(getter)]
    pub fn signature(&self) -> Vec<u8> {
        self.token().map(|token| token.signature().to_vec()).unwrap_or_default()
    }

    /// Takes in whether the signature is good. The answer is a session for `Room.open`; undefined
    /// is a refusal, which `problem` then has.
    pub fn accept(&mut self, signature_is_good: bool) -> Option<String> {
        let pending = self.outcome.as_mut().ok()?;
        let token = pending.token.take()?;
        let admission = token.accept(signature_is_good).map_err(Problem::from);
        match admission.and_then(|claims| pending.upgrade.admit(claims)) {
            Ok(admission) => {
                self.person = admission.is_person.then(|| admission.sub.clone());
                self.expires_at = admission.expires_at;
                let session = json!({
                    "sub": admission.sub,
                    "kind": "client",
                    "can_write": admission.can_write,
                    "expires_at": admission.expires_at,
                    "document": admission.document,
                    "epoch": admission.epoch,
                });
                Some(session.to_string())
            }
            Err(problem) => {
                self.outcome = Err(problem);
                None
            }
        }
    }

    fn pending(&self) -> Option<&Pending> {
        self.outcome.as_ref().ok()
    }

    fn token(&self) -> Option<&UnverifiedScope> {
        self.pending()?.token.as_ref()
    }
}

/// The body of a refusal of the shell's own.
///
/// # Errors
/// For a code that there is not.
#[wasm_bindgen]
pub fn problem(code: &str, detail: Option<String>) -> Result<String, JsError> {
    Ok(Problem { detail: detail.unwrap_or_default(), ..Problem::new(known(code)?) }.body())
}

/// The status that goes with a code.
///
/// # Errors
/// For a code that there is not.
#[wasm_bindgen(js_name = problemStatus)]
pub fn problem_status(code: &str) -> Result<u16, JsError> {
    Ok(Problem::new(known(code)?).status())
}

/// No API token opens a relay, and this relay has no key to verify one with: that it is for another
/// purpose is true of each, and keeps an agent from fetching it again (W10).
fn told(error: AuthError) -> AuthError {
    if error == AuthError::WrongAlgorithm { AuthError::WrongAudience } else { error }
}

fn known(code: &str) -> Result<ProblemCode, JsError> {
    let known = ProblemCode::ALL.iter().find(|known| known.info().name == code);
    known.copied().ok_or_else(|| fault("there is no such problem code"))
}
