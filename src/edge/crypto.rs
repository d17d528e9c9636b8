//! Signatures by the platform's WebCrypto: the keys of scope tokens (Ed25519), and those of an issuer
//! of API tokens.
//!
//! Nothing of a key is ever printed. The messages of the platform are not printed either, only
//! the names of its errors: what a message quotes is not ours to know.

use js_sys::{Array, JSON, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::api::jwt::Algorithm;
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
        let (ed25519, pkcs8) = (JsValue::from_str(ED25519), Uint8Array::from(seed.pkcs8().as_slice()));
        let private = import(PKCS8, &pkcs8, &ed25519, true, SIGN).await?;
        let jwk = settle(export_key(JWK, &private)).await?;
        let x = Reflect::get(&jwk, &JsValue::from_str("x")).ok().and_then(|x| x.as_string());
        let x = x.and_then(|x| parse_key(&x).ok()).ok_or("no public key in the JWK")?;
        let public = import(RAW, &Uint8Array::from(x.as_slice()), &ed25519, false, VERIFY).await?;
        Ok(Self { private, public })
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
        is_good(&JsValue::from_str(ED25519), &self.public, message, signature).await
    }
}

/// A public key of an issuer of API tokens.
#[derive(Debug, Clone)]
pub struct IssuerKey {
    key: CryptoKey,
    /// What WebCrypto takes as algorithm, for importing and for verifying.
    algorithm: JsValue,
}

impl IssuerKey {
    /// Imports the public members of a JWK.
    ///
    /// # Errors
    /// The name of the platform's error.
    pub async fn import(jwk: &str, algorithm: Algorithm) -> Result<Self, String> {
        let algorithm = match algorithm {
            Algorithm::Ed25519 => r#"{"name":"Ed25519"}"#,
            Algorithm::Es256 => r#"{"name":"ECDSA","namedCurve":"P-256","hash":"SHA-256"}"#,
            Algorithm::Rs256 => r#"{"name":"RSASSA-PKCS1-v1_5","hash":"SHA-256"}"#,
            Algorithm::Hs256 => return Err("a secret is no public key".to_owned()),
        };
        let algorithm = JSON::parse(algorithm).map_err(error_name)?;
        let jwk = JSON::parse(jwk).map_err(error_name)?;
        Ok(Self { key: import(JWK, &jwk, &algorithm, false, VERIFY).await?, algorithm })
    }

    /// Whether a signature of some bytes is good. One that the platform cannot even read is not.
    pub async fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        is_good(&self.algorithm, &self.key, message, signature).await.unwrap_or(false)
    }
}

#[wasm_bindgen]
extern "C" {
    #[derive(Debug, Clone)]
    type CryptoKey;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"], js_name = importKey)]
    fn import_key(
        format: &str,
        key: &JsValue,
        algorithm: &JsValue,
        extractable: bool,
        usages: &Array,
    ) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"], js_name = exportKey)]
    fn export_key(format: &str, key: &CryptoKey) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"])]
    fn sign(algorithm: &str, key: &CryptoKey, message: &Uint8Array) -> Result<Promise, JsValue>;

    #[wasm_bindgen(catch, js_namespace = ["crypto", "subtle"])]
    fn verify(
        algorithm: &JsValue,
        key: &CryptoKey,
        signature: &Uint8Array,
        message: &Uint8Array,
    ) -> Result<Promise, JsValue>;
}

async fn import(
    format: &str,
    key: &JsValue,
    algorithm: &JsValue,
    extractable: bool,
    usage: &str,
) -> Result<CryptoKey, String> {
    let usages = Array::of1(&JsValue::from_str(usage));
    settle(import_key(format, key, algorithm, extractable, &usages)).await.map(JsCast::unchecked_into)
}

async fn is_good(
    algorithm: &JsValue,
    key: &CryptoKey,
    message: &[u8],
    signature: &[u8],
) -> Result<bool, String> {
    let (message, signature) = (Uint8Array::from(message), Uint8Array::from(signature));
    let good = settle(verify(algorithm, key, &signature, &message)).await?;
    Ok(good.as_bool() == Some(true))
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
