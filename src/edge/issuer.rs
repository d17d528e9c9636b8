//! The issuer of API tokens that publishes its keys (A1): fetching them, and verifying with them.
//! When to fetch is decided in [`crate::api::jwks`].

use std::cell::RefCell;

use js_sys::{ArrayBuffer, JSON, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use super::clock;
use super::crypto::IssuerKey;
use crate::api::auth::{Actor, AuthError};
use crate::api::jwks::{JwksUrl, KeyCache, KeyId, Step, UnverifiedApiToken, parse_jwks};
use crate::api::limits::{JWKS_FETCH_MS, MAX_JWKS_BYTES};
use crate::api::problem::{Problem, ProblemCode};

/// Where the keys are, and those that are known. They belong to the isolate.
#[derive(Debug)]
pub struct Issuer {
    url: JwksUrl,
    cache: RefCell<KeyCache<IssuerKey>>,
}

impl Issuer {
    /// An issuer whose keys nobody has needed yet.
    #[must_use]
    pub fn new(url: JwksUrl) -> Self {
        Self { url, cache: RefCell::default() }
    }

    /// Who a token speaks for, if a key of the issuer signed it.
    pub async fn verify(&self, token: UnverifiedApiToken) -> Result<Actor, Problem> {
        loop {
            let step = self.cache.borrow_mut().step(&token, clock::now());
            match step {
                Step::Fetch => {
                    let keys = self.fetch().await;
                    self.cache.borrow_mut().handle_fetched(keys, clock::now());
                }
                Step::Refuse(error) => return Err(error.into()),
                Step::Unavailable => return Err(Problem::new(ProblemCode::KeysUnavailable)),
                Step::Verify(keys) => {
                    for key in keys {
                        if key.verify(token.input().as_bytes(), token.signature()).await {
                            return Ok(token.accept(true)?);
                        }
                    }
                    return Err(AuthError::BadSignature.into());
                }
            }
        }
    }

    async fn fetch(&self) -> Option<Vec<(KeyId, IssuerKey)>> {
        let failed = |what: &str| {
            // Not the address: it may hold a secret of the operator.
            worker::console_error!("the keys at API_JWKS_URL: {what}");
        };
        let Ok((status, body)) = get(self.url.as_str()).await else {
            failed("no answer in time");
            return None;
        };
        if status != 200 || body.length() > MAX_JWKS_BYTES as u32 {
            failed(&format!("status {status}, {} bytes", body.length()));
            return None;
        }
        let Some(found) = parse_jwks(&body.to_vec()) else {
            failed("no key set");
            return None;
        };
        let mut keys = Vec::with_capacity(found.len());
        for jwk in found {
            match IssuerKey::import(&jwk.json, jwk.id.algorithm).await {
                Ok(key) => keys.push((jwk.id, key)),
                Err(name) => failed(&format!("a key that the platform does not take: {name}")),
            }
        }
        if keys.is_empty() {
            failed("no key for EdDSA, ES256 or RS256");
        }
        Some(keys)
    }
}

/// Status and body of an address. A redirect is an answer like any other: keys come from where the
/// operator said.
async fn get(url: &str) -> Result<(u16, Uint8Array), JsValue> {
    let init = JSON::parse(r#"{"redirect":"manual","headers":{"accept":"application/json"}}"#)?;
    let signal = timeout(JWKS_FETCH_MS as f64)?;
    Reflect::set(&init, &JsValue::from_str("signal"), &signal)?;
    let response: Fetched = JsFuture::from(fetch(url, &init)?).await?.unchecked_into();
    let body: ArrayBuffer = JsFuture::from(response.array_buffer()?).await?.unchecked_into();
    Ok((response.status(), Uint8Array::new(&body)))
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch)]
    fn fetch(url: &str, init: &JsValue) -> Result<Promise, JsValue>;

    /// It ends the reading of the body, too.
    #[wasm_bindgen(catch, js_namespace = AbortSignal)]
    fn timeout(ms: f64) -> Result<JsValue, JsValue>;

    type Fetched;

    #[wasm_bindgen(method, getter)]
    fn status(this: &Fetched) -> u16;

    #[wasm_bindgen(method, catch, js_name = arrayBuffer)]
    fn array_buffer(this: &Fetched) -> Result<Promise, JsValue>;
}
