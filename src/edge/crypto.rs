//! Ed25519 by the platform's WebCrypto: the keys of scope tokens, and signing and verifying.
//!
//! Nothing of a key is ever printed. The messages of the platform are not printed either, only
//! the names of its errors: what a message quotes is not ours to know.

use js_sys::{Array, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::api::token::{SIGNATURE_BYTES, ScopeSeed, parse_key};

/// The pair of keys of one seed, as the platform holds them. Keys belong to the isolate and not to
/// the request that imported them.
#[derive(Debug)]
pub struct ScopeKeys {
    private: CryptoKey,
    public: CryptoKey,
}

impl ScopeKeys {
    /// Imports a seed. WebCrypto derives no public key; but it writes one into the JWK of a private
    /// key, so the private key is imported as one that may be exported.
    ///
    /// # Errors
    /// The name of the platform's error.
    pub async fn import(seed: &ScopeSeed) -> Result<Self, String> {
        let private = import(PKCS8, &seed.pkcs8(), true, SIGN).await?;
        let jwk = settle(export_key(JWK, &private)).await?;
        let x = Reflect::get(&jwk, &JsValue::from_str("x")).ok().and_then(|x| x.as_string());
        let x = x.and_then(|x| parse_key(&x).ok()).ok_or("no public key in the JWK")?;
        Ok(Self { private, public: import(RAW, &x, false, VERIFY).await? })
    }

    /// The signature of some bytes.
    ///
    /// # Errors
    /// The name of the platform's error.
    pub async fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_BYTES], String> {
        let buffer = settle(sign(ED25519, &self.private, &Uint8Array::from(message))).await?;
        Uint8Array::new(&buffer).to_vec().try_into().map_err(|_| "a signature of another length".to_owned())
    }

    /// Whether a signature of some bytes is good.
    ///
    /// # Errors
    /// The name of the platform's error.
    pub async fn verify(&self, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> Result<bool, String> {
        let (message, signature) = (Uint8Array::from(message), Uint8Array::from(&signature[..]));
        let good = settle(verify(ED25519, &self.public, &signature, &message)).await?;
        Ok(good.as_bool() == Some(true))
    }
}

#[wasm_bindgen]
extern "C" {
    #[derive(Debug)]
    type CryptoKey;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"], js_name = importKey)]
    fn import_key(
        format: &str,
        key: &Uint8Array,
        algorithm: &str,
        extractable: bool,
        usages: &Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"], js_name = exportKey)]
    fn export_key(format: &str, key: &CryptoKey) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"])]
    fn sign(algorithm: &str, key: &CryptoKey, message: &Uint8Array) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"])]
    fn verify(
        algorithm: &str,
        key: &CryptoKey,
        signature: &Uint8Array,
        message: &Uint8Array,
    ) -> Result<Promise, JsValue>;
}

async fn import(format: &str, key: &[u8], extractable: bool, usage: &str) -> Result<CryptoKey, String> {
    let usages = Array::of1(&JsValue::from_str(usage));
    let key = import_key(format, &Uint8Array::from(key), ED25519, extractable, &usages);
    settle(key).await.map(JsCast::unchecked_into)
}

async fn settle(promise: Result<Promise, JsValue>) -> Result<JsValue, String> {
    JsFuture::from(promise.map_err(error_name)?).await.map_err(error_name)
}

fn error_name(error: JsValue) -> String {
    let name = Reflect::get(&error, &JsValue::from_str("name")).ok().and_then(|name| name.as_string());
    name.unwrap_or_else(|| "an error without a name".to_owned())
}

const ED25519: &str = "Ed25519";
const JWK: &str = "jwk";
const PKCS8: &str = "pkcs8";
const RAW: &str = "raw";
const SIGN: &str = "sign";
const VERIFY: &str = "verify";
