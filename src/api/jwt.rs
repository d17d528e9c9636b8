//! A strict reader and writer of compact JSON Web Tokens, for exactly four algorithms.
//!
//! It is small on purpose: three segments of unpadded base64url, one pinned algorithm for each
//! key, the signature before the claims, and no header that could bring a key of its own. HS256 is
//! computed here; the others are computed by the shell's platform, which has them built in, so this
//! module only takes such tokens apart and puts them together. Why no ready-made reader: see
//! `Cargo.toml`.

use base64ct::{Base64UrlUnpadded, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value};
use sha2::Sha256;

use super::auth::AuthError;
use super::jwks::KeyId;
use super::limits::{MAX_SUBJECT_BYTES, MAX_TOKEN_BYTES, NOT_BEFORE_LEEWAY_SECONDS};

/// How a token is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// EdDSA over Ed25519.
    Ed25519,
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// HMAC with SHA-256.
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
}

/// A token of the right form and algorithm, whose signature nobody has checked.
pub(super) struct Unverified<'a> {
    /// What is signed: header and claims as they stand in the token.
    pub(super) message: &'a str,
    /// The bytes of the signature.
    pub(super) signature: Vec<u8>,
    claims: &'a str,
}

impl<'a> Unverified<'a> {
    /// Takes a token apart that one key of one algorithm has to have signed.
    pub(super) fn read(token: &'a str, algorithm: Algorithm) -> Result<Self, AuthError> {
        let (unverified, header) = Self::parse(token)?;
        check_header(&header, &["JWT"])?;
        match algorithm_of(&header)? {
            alg if alg == algorithm.name() => Ok(unverified),
            _ => Err(AuthError::WrongAlgorithm),
        }
    }

    /// Takes a token apart that a key of a set has to have signed, and says which: `kid` selects
    /// among the configured keys, and `alg` has to be that of the key. Such tokens may also be of the
    /// type of RFC 9068.
    pub(super) fn of_key_set(token: &'a str) -> Result<(Self, KeyId), AuthError> {
        let (unverified, header) = Self::parse(token)?;
        check_header(&header, &["JWT", "at+jwt"])?;
        let alg = algorithm_of(&header)?;
        let algorithm = [Algorithm::Ed25519, Algorithm::Es256, Algorithm::Rs256]
            .into_iter()
            .find(|algorithm| algorithm.name() == alg)
            .ok_or(AuthError::WrongAlgorithm)?;
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err(AuthError::Malformed),
        };
        Ok((unverified, KeyId { kid, algorithm }))
    }

    fn parse(token: &'a str) -> Result<(Self, Map<String, Value>), AuthError> {
        if token.is_empty() {
            return Err(AuthError::Missing);
        }
        if token.len() > MAX_TOKEN_BYTES {
            return Err(AuthError::Malformed);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(AuthError::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(AuthError::Malformed)?;
        let header = decode_object(header)?;
        Ok((Self { message, signature: decode(signature)?, claims }, header))
    }

    /// The claims. Nothing of them may leave the process before the signature is known to be good.
    pub(super) fn claims(&self) -> Result<Claims, AuthError> {
        decode_object(self.claims).map(Claims)
    }
}

/// The claims of an HS256 token whose signature is right. Nothing else is checked yet.
pub(super) fn open_hs256(token: &str, secret: &[u8]) -> Result<Claims, AuthError> {
    let unverified = Unverified::read(token, Algorithm::Hs256)?;
    // In constant time, in `verify_slice`.
    mac(secret, unverified.message.as_bytes())?
        .verify_slice(&unverified.signature)
        .map_err(|_| AuthError::BadSignature)?;
    unverified.claims()
}

/// Makes an HS256 token of these claims.
pub(super) fn seal_hs256(claims: &Value, secret: &[u8]) -> Result<String, AuthError> {
    let message = message(claims, Algorithm::Hs256);
    let signature = mac(secret, message.as_bytes())?.finalize().into_bytes();
    Ok(attach(&message, &signature))
}

/// What there is to sign: the header and these claims.
pub(super) fn message(claims: &Value, algorithm: Algorithm) -> String {
    let header = format!("{{\"alg\":\"{}\",\"typ\":\"JWT\"}}", algorithm.name());
    let mut message = Base64UrlUnpadded::encode_string(header.as_bytes());
    message.push('.');
    message.push_str(&Base64UrlUnpadded::encode_string(claims.to_string().as_bytes()));
    message
}

/// The token of a message and its signature.
pub(super) fn attach(message: &str, signature: &[u8]) -> String {
    format!("{message}.{}", Base64UrlUnpadded::encode_string(signature))
}

/// The claims of a token. They are read one by one and not by derived code, which would be 20 KB
/// of wasm more.
pub(super) struct Claims(Map<String, Value>);

impl Claims {
    /// A required claim that is text.
    pub(super) fn text(&self, name: &str) -> Result<&str, AuthError> {
        self.0.get(name).and_then(Value::as_str).ok_or(AuthError::Malformed)
    }

    /// A required claim that is an object.
    pub(super) fn object(&self, name: &str) -> Result<&Map<String, Value>, AuthError> {
        self.0.get(name).and_then(Value::as_object).ok_or(AuthError::Malformed)
    }

    /// An optional claim that is text.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&str>, AuthError> {
        self.0.get(name).map(|claim| claim.as_str().ok_or(AuthError::Malformed)).transpose()
    }

    /// Checks `aud`, which is one name or a list of names.
    pub(super) fn require_audience(&self, name: &str) -> Result<(), AuthError> {
        let included = match self.0.get("aud").ok_or(AuthError::Malformed)? {
            Value::String(one) => one == name,
            Value::Array(many) => many.iter().any(|one| one == name),
            _ => return Err(AuthError::Malformed),
        };
        if included { Ok(()) } else { Err(AuthError::WrongAudience) }
    }

    /// Checks `exp`, the first second at which the token is not good any more, and `nbf` if there
    /// is one. Gives `exp` back.
    pub(super) fn require_time(&self, now_s: u64) -> Result<u64, AuthError> {
        let exp = self.0.get("exp").and_then(Value::as_u64).ok_or(AuthError::Malformed)?;
        let nbf = match self.0.get("nbf") {
            Some(claim) => claim.as_u64().ok_or(AuthError::Malformed)?,
            None => 0,
        };
        if exp <= now_s {
            return Err(AuthError::Expired);
        }
        if nbf > now_s.saturating_add(NOT_BEFORE_LEEWAY_SECONDS) {
            return Err(AuthError::NotYetValid);
        }
        Ok(exp)
    }

    /// The subject, if it may be stored and shown.
    pub(super) fn subject(&self) -> Result<&str, AuthError> {
        self.text("sub").and_then(|sub| if is_subject(sub) { Ok(sub) } else { Err(AuthError::Malformed) })
    }
}

/// Whether a subject may be stored and shown: 1 to 128 bytes, no control character.
pub(super) fn is_subject(sub: &str) -> bool {
    (1..=MAX_SUBJECT_BYTES).contains(&sub.len()) && !sub.chars().any(char::is_control)
}

impl Algorithm {
    /// The `alg` of its tokens.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ed25519 => "EdDSA",
            Self::Es256 => "ES256",
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
        }
    }
}

/// The text that only the secret's holder can make of a message, for other uses than tokens.
pub(super) fn derive(secret: &[u8], message: &str) -> Result<String, AuthError> {
    Ok(Base64UrlUnpadded::encode_string(&mac(secret, message.as_bytes())?.finalize().into_bytes()))
}

fn mac(secret: &[u8], message: &[u8]) -> Result<Hmac<Sha256>, AuthError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| AuthError::BadSignature)?;
    mac.update(message);
    Ok(mac)
}

/// Keys that a token brings along (`jwk`, `jku`, `x5c`) are ignored. `crit` lists extensions that a
/// reader has to know to be allowed to accept the token: we know none.
fn check_header(header: &Map<String, Value>, types: &[&str]) -> Result<(), AuthError> {
    let typ = header.get("typ").map_or(Some("JWT"), Value::as_str);
    let known = typ.is_some_and(|typ| types.iter().any(|known| typ.eq_ignore_ascii_case(known)));
    if known && !header.contains_key("crit") { Ok(()) } else { Err(AuthError::Malformed) }
}

fn algorithm_of(header: &Map<String, Value>) -> Result<&str, AuthError> {
    header.get("alg").and_then(Value::as_str).ok_or(AuthError::Malformed)
}

fn decode(segment: &str) -> Result<Vec<u8>, AuthError> {
    Base64UrlUnpadded::decode_vec(segment).map_err(|_| AuthError::Malformed)
}

fn decode_object(segment: &str) -> Result<Map<String, Value>, AuthError> {
    let bytes = decode(segment)?;
    match std::str::from_utf8(&bytes).ok().and_then(|text| serde_json::from_str(text).ok()) {
        Some(Value::Object(object)) => Ok(object),
        _ => Err(AuthError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::{Signature, Signer, SigningKey};
    use serde_json::json;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn forge(header: &str, claims: &str) -> String {
        let message =
            [header, claims].map(|part| Base64UrlUnpadded::encode_string(part.as_bytes())).join(".");
        let signature = mac(SECRET, message.as_bytes()).unwrap().finalize().into_bytes();
        format!("{message}.{}", Base64UrlUnpadded::encode_string(&signature))
    }

    fn read(token: &str) -> Result<Value, AuthError> {
        open_hs256(token, SECRET).map(|claims| Value::Object(claims.0))
    }

    #[test]
    fn the_example_of_rfc_7515_verifies() {
        let key = Base64UrlUnpadded::decode_vec(
            "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
        )
        .unwrap();
        let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let claims = open_hs256(token, &key).unwrap().0;
        assert_eq!((&claims["iss"], &claims["exp"]), (&"joe".into(), &1_300_819_380.into()));
    }

    #[test]
    fn the_example_of_rfc_8037_verifies_and_is_reproduced() {
        let seed: [u8; 32] = Base64UrlUnpadded::decode_vec("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
            .unwrap()
            .try_into()
            .unwrap();
        let key = SigningKey::from_bytes(&seed);
        let message = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
        let signature = key.sign(message.as_bytes());
        let token = attach(message, &signature.to_bytes());
        assert_eq!(
            token.rsplit_once('.').unwrap().1,
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
        );
        let unverified = Unverified::read(&token, Algorithm::Ed25519).unwrap();
        let signature = Signature::from_slice(&unverified.signature).unwrap();
        let verifying = key.verifying_key();
        assert!(verifying.verify_strict(unverified.message.as_bytes(), &signature).is_ok());
        // Its payload is a sentence, which is no set of claims.
        assert_eq!(unverified.claims().err(), Some(AuthError::Malformed));
    }

    #[test]
    fn the_algorithm_is_pinned_by_the_key_and_never_by_the_token() {
        for alg in ["none", "None", "HS512", "EdDSA", "RS256", "hs256", ""] {
            let token = forge(&format!("{{\"alg\":\"{alg}\"}}"), "{}");
            assert_eq!(read(&token), Err(AuthError::WrongAlgorithm), "{alg}");
        }
        // The classic confusion: an HS256 token made with the bytes of a public key as its secret.
        let public = SigningKey::from_bytes(&[7; 32]).verifying_key();
        let token = seal_hs256(&json!({}), public.as_bytes()).unwrap();
        let opened = Unverified::read(&token, Algorithm::Ed25519);
        assert_eq!(opened.err(), Some(AuthError::WrongAlgorithm));
    }

    #[test]
    fn malformed_tokens_are_told_from_wrong_signatures() {
        let good = forge("{\"alg\":\"HS256\"}", "{\"a\":1}");
        assert!(read(&good).is_ok());
        let parts: Vec<&str> = good.split('.').collect();
        let (header, claims, signature) = (parts[0], parts[1], parts[2]);
        let malformed = [
            "x".to_owned(),
            "..".to_owned(),
            format!("{header}.{claims}"),
            format!("{good}.x"),
            format!("{good}="),
            format!("{header}.{claims}.+/"),
            format!(" {good}"),
            format!("{header}.{claims}.é"),
            forge("{}", "{}"),
            forge("[]", "{}"),
            forge("{\"alg\":1}", "{}"),
            forge("{\"alg\":\"HS256\",\"typ\":null}", "{}"),
            forge("{\"alg\":\"HS256\",\"crit\":[\"exp\"]}", "{}"),
            forge("{\"alg\":\"HS256\",\"typ\":\"JOSE\"}", "{}"),
            forge("{\"alg\":\"HS256\"}", "not json"),
            forge("{\"alg\":\"HS256\"}", "[]"),
            "a".repeat(MAX_TOKEN_BYTES + 1),
        ];
        for token in malformed {
            assert_eq!(read(&token), Err(AuthError::Malformed), "{token}");
        }
        assert_eq!(read(""), Err(AuthError::Missing));
        for bad in ["", "AA", &Base64UrlUnpadded::encode_string(&[0; 32])] {
            assert_eq!(read(&format!("{header}.{claims}.{bad}")), Err(AuthError::BadSignature), "{bad}");
        }
        assert_eq!(
            read(&format!("{header}.{}.{signature}", Base64UrlUnpadded::encode_string(b"{\"a\":2}"))),
            Err(AuthError::BadSignature)
        );
    }

    #[test]
    fn times_are_compared_with_the_now_that_is_passed_in() {
        let at = |claims: Value, now_s| {
            let Value::Object(claims) = claims else { panic!("not an object") };
            Claims(claims).require_time(now_s)
        };
        assert_eq!(at(json!({"exp": 100}), 99), Ok(100));
        assert_eq!(at(json!({"exp": 100}), 100), Err(AuthError::Expired));
        assert_eq!(at(json!({"exp": u64::MAX, "nbf": 160}), 100), Ok(u64::MAX));
        assert_eq!(at(json!({"exp": u64::MAX, "nbf": 161}), 100), Err(AuthError::NotYetValid));
        assert_eq!(at(json!({"exp": 0}), u64::MAX), Err(AuthError::Expired));
        for bad in [json!({}), json!({"exp": "1"}), json!({"exp": 1.5}), json!({"exp": 100, "nbf": null})] {
            assert_eq!(at(bad.clone(), 0), Err(AuthError::Malformed), "{bad}");
        }
    }
}
