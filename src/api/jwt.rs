//! A strict reader and writer of compact JSON Web Tokens, for exactly two algorithms.
//!
//! It is small on purpose: three segments of unpadded base64url, one pinned algorithm for each
//! key, the signature before the claims, and no header that could name another key. The
//! cryptography is that of RustCrypto and dalek. Why no ready-made reader: see `Cargo.toml`.

use base64ct::{Base64UrlUnpadded, Encoding};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit, Mac};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::auth::AuthError;
use super::limits::{MAX_SUBJECT_BYTES, MAX_TOKEN_BYTES, NOT_BEFORE_LEEWAY_SECONDS};

/// A key that checks signatures of one algorithm.
pub(super) enum Verifier<'a> {
    /// EdDSA over Ed25519.
    Ed25519(&'a VerifyingKey),
    /// HS256.
    Hmac(&'a [u8]),
}

/// A key that makes signatures of one algorithm.
pub(super) enum Signing<'a> {
    /// EdDSA over Ed25519.
    Ed25519(&'a SigningKey),
    /// HS256.
    Hmac(&'a [u8]),
}

/// The claims of a token whose algorithm and signature are right. Nothing else is checked yet:
/// see [`check_times`].
pub(super) fn open<T: DeserializeOwned>(token: &str, verifier: &Verifier<'_>) -> Result<T, AuthError> {
    if token.is_empty() {
        return Err(AuthError::Missing);
    }
    if token.len() > MAX_TOKEN_BYTES {
        return Err(AuthError::Malformed);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(AuthError::Malformed)?;
    let (header, claims) = message.split_once('.').ok_or(AuthError::Malformed)?;
    let header: Header = from_json(&decode(header)?)?;
    if header.crit.is_some() || header.typ.is_some_and(|typ| !typ.eq_ignore_ascii_case("JWT")) {
        return Err(AuthError::Malformed);
    }
    if header.alg != verifier.algorithm() {
        return Err(AuthError::WrongAlgorithm);
    }
    // Decoded before the signature is checked, used after: a token must be whole to be judged.
    let claims = decode(claims)?;
    verifier.verify(message.as_bytes(), &decode(signature)?)?;
    from_json(&claims)
}

/// Makes a token of these claims.
pub(super) fn seal<T: Serialize>(claims: &T, signing: &Signing<'_>) -> Result<String, AuthError> {
    let claims = serde_json::to_vec(claims).map_err(|_| AuthError::Malformed)?;
    let algorithm = signing.algorithm();
    let header = format!("{{\"alg\":\"{algorithm}\",\"typ\":\"JWT\"}}");
    let mut token = Base64UrlUnpadded::encode_string(header.as_bytes());
    token.push('.');
    token.push_str(&Base64UrlUnpadded::encode_string(&claims));
    let signature = signing.sign(token.as_bytes())?;
    token.push('.');
    token.push_str(&Base64UrlUnpadded::encode_string(&signature));
    Ok(token)
}

/// Whether a token with these times is good now. `exp` is the first second at which it is not.
pub(super) const fn check_times(exp: u64, nbf: Option<u64>, now_s: u64) -> Result<(), AuthError> {
    if exp <= now_s {
        return Err(AuthError::Expired);
    }
    match nbf {
        Some(nbf) if nbf > now_s.saturating_add(NOT_BEFORE_LEEWAY_SECONDS) => Err(AuthError::NotYetValid),
        _ => Ok(()),
    }
}

/// Whether a subject may be stored and shown: 1 to 128 bytes, no control character.
pub(super) fn is_subject(sub: &str) -> bool {
    (1..=MAX_SUBJECT_BYTES).contains(&sub.len()) && !sub.chars().any(char::is_control)
}

/// The `aud` claim: one name or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Audience {
    /// `"aud": "x"`
    One(String),
    /// `"aud": ["x", "y"]`
    Many(Vec<String>),
}

impl Audience {
    /// Whether the token is meant for `name`.
    pub(super) fn includes(&self, name: &str) -> bool {
        match self {
            Self::One(one) => one == name,
            Self::Many(many) => many.iter().any(|one| one == name),
        }
    }
}

impl Verifier<'_> {
    const fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed25519(_) => ED25519,
            Self::Hmac(_) => HS256,
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), AuthError> {
        match self {
            Self::Ed25519(key) => {
                let signature = Signature::from_slice(signature).map_err(|_| AuthError::BadSignature)?;
                // Strict: also refuses the weak keys that make one signature fit many messages.
                key.verify_strict(message, &signature).map_err(|_| AuthError::BadSignature)
            }
            Self::Hmac(secret) => {
                // In constant time, in `verify_slice`.
                mac(secret, message)?.verify_slice(signature).map_err(|_| AuthError::BadSignature)
            }
        }
    }
}

impl Signing<'_> {
    const fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed25519(_) => ED25519,
            Self::Hmac(_) => HS256,
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, AuthError> {
        Ok(match self {
            Self::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
            Self::Hmac(secret) => mac(secret, message)?.finalize().into_bytes().to_vec(),
        })
    }
}

fn mac(secret: &[u8], message: &[u8]) -> Result<Hmac<Sha256>, AuthError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| AuthError::BadSignature)?;
    mac.update(message);
    Ok(mac)
}

/// What is read of the header. Hints at keys (`jwk`, `jku`, `kid`, `x5c`) are ignored.
#[derive(Deserialize)]
struct Header {
    alg: String,
    typ: Option<String>,
    // Extensions that a reader has to know to be allowed to accept the token: we know none.
    crit: Option<IgnoredAny>,
}

fn decode(segment: &str) -> Result<Vec<u8>, AuthError> {
    Base64UrlUnpadded::decode_vec(segment).map_err(|_| AuthError::Malformed)
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, AuthError> {
    serde_json::from_slice(bytes).map_err(|_| AuthError::Malformed)
}

const ED25519: &str = "EdDSA";
const HS256: &str = "HS256";

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn forge(header: &str, claims: &str) -> String {
        let message =
            [header, claims].map(|part| Base64UrlUnpadded::encode_string(part.as_bytes())).join(".");
        let signature = mac(SECRET, message.as_bytes()).unwrap().finalize().into_bytes();
        format!("{message}.{}", Base64UrlUnpadded::encode_string(&signature))
    }

    fn read(token: &str) -> Result<serde_json::Value, AuthError> {
        open(token, &Verifier::Hmac(SECRET))
    }

    #[test]
    fn the_example_of_rfc_7515_verifies() {
        let key = Base64UrlUnpadded::decode_vec(
            "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
        )
        .unwrap();
        let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let claims: serde_json::Value = open(token, &Verifier::Hmac(&key)).unwrap();
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
        let signature = Signing::Ed25519(&key).sign(message.as_bytes()).unwrap();
        assert_eq!(
            Base64UrlUnpadded::encode_string(&signature),
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
        );
        assert_eq!(Verifier::Ed25519(&key.verifying_key()).verify(message.as_bytes(), &signature), Ok(()));
    }

    #[test]
    fn the_algorithm_is_pinned_by_the_key_and_never_by_the_token() {
        for alg in ["none", "None", "HS512", "EdDSA", "RS256", "hs256", ""] {
            let token = forge(&format!("{{\"alg\":\"{alg}\"}}"), "{}");
            assert_eq!(read(&token), Err(AuthError::WrongAlgorithm), "{alg}");
        }
        // The classic confusion: an HS256 token made with the bytes of a public key as its secret.
        let public = SigningKey::from_bytes(&[7; 32]).verifying_key();
        let token = seal(&serde_json::json!({}), &Signing::Hmac(public.as_bytes())).unwrap();
        let opened = open::<serde_json::Value>(&token, &Verifier::Ed25519(&public));
        assert_eq!(opened, Err(AuthError::WrongAlgorithm));
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
            forge("{\"alg\":\"HS256\",\"alg\":\"none\"}", "{}"),
            forge("{\"alg\":\"HS256\",\"crit\":[\"exp\"]}", "{}"),
            forge("{\"alg\":\"HS256\",\"typ\":\"JOSE\"}", "{}"),
            forge("{\"alg\":\"HS256\"}", "not json"),
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
        assert_eq!(check_times(100, None, 99), Ok(()));
        assert_eq!(check_times(100, None, 100), Err(AuthError::Expired));
        assert_eq!(check_times(u64::MAX, Some(160), 100), Ok(()));
        assert_eq!(check_times(u64::MAX, Some(161), 100), Err(AuthError::NotYetValid));
        assert_eq!(check_times(0, None, u64::MAX), Err(AuthError::Expired));
    }
}
