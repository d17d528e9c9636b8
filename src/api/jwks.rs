//! API tokens of an identity provider: its public keys (JWKS, RFC 7517), and when to fetch them (A1).
//!
//! A shell fetches the keys and computes signatures, with what its platform has; what is decided is
//! decided here. A key has one algorithm, which comes from its type and never from a token.

use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::{Map, Value};

use super::auth::{Actor, AuthError, KeyError, actor_of};
use super::jwt::{Algorithm, Unverified};
use super::limits::{
    JWKS_FETCH_MS, JWKS_FRESH_MS, JWKS_PAUSE_MS, JWKS_REFETCH_MS, MAX_JWKS_KEYS, MIN_RSA_BITS,
};
use crate::protocol::Timestamp;

/// The address of the keys: https, or http on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwksUrl(String);

impl JwksUrl {
    /// Checks a configured address.
    ///
    /// # Errors
    /// [`KeyError::NotAJwksUrl`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let bad = KeyError::NotAJwksUrl;
        let (scheme, rest) = text.split_once("://").ok_or(bad)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = match authority.strip_prefix('[') {
            Some(ipv6) => ipv6.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        // A user name would make another part of the text the host.
        let plain = text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\') && !authority.contains('@');
        let local = matches!(host, "127.0.0.1" | "localhost" | "::1");
        let allowed = scheme == "https" || (scheme == "http" && local);
        if plain && allowed && !host.is_empty() { Ok(Self(text.to_owned())) } else { Err(bad) }
    }

    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What selects a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyId {
    /// Its name in the set.
    pub kid: Option<String>,
    /// What it is for.
    pub algorithm: Algorithm,
}

/// A public key of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwk {
    /// What selects it.
    pub id: KeyId,
    /// Its public members as JSON, as platforms import them. Nothing else of the set's entry.
    pub json: String,
}

/// Reads a key set. Keys of other types, for other uses, or too short are left out; `None` for what
/// is no key set.
#[must_use]
pub fn parse_jwks(body: &[u8]) -> Option<Vec<Jwk>> {
    // As text, as everywhere: the reader of bytes would be another 5 KB of the module.
    let set: Value = serde_json::from_str(std::str::from_utf8(body).ok()?).ok()?;
    let mut keys = Vec::new();
    for jwk in set.get("keys")?.as_array()? {
        keys.extend(read_jwk(jwk).filter(|_| keys.len() < MAX_JWKS_KEYS));
    }
    Some(keys)
}

fn read_jwk(jwk: &Value) -> Option<Jwk> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let (algorithm, members) = match (text("kty")?, text("crv")) {
        ("OKP", Some("Ed25519")) => (Algorithm::Ed25519, ["kty", "crv", "x"].as_slice()),
        ("EC", Some("P-256")) => (Algorithm::Es256, ["kty", "crv", "x", "y"].as_slice()),
        ("RSA", _) => (Algorithm::Rs256, ["kty", "n", "e"].as_slice()),
        _ => return None,
    };
    let signs = jwk.get("use").is_none_or(|purpose| purpose == "sig")
        && jwk.get("alg").is_none_or(|alg| alg == algorithm.name())
        && jwk.get("key_ops").is_none_or(|ops| ops.as_array().is_some_and(|ops| has(ops, "verify")));
    let long = algorithm != Algorithm::Rs256 || text("n").is_some_and(|n| bits(n) >= MIN_RSA_BITS);
    if !signs || !long {
        return None;
    }
    let mut public = Map::new();
    for name in members {
        public.insert((*name).to_owned(), text(name)?.into());
    }
    let id = KeyId { kid: text("kid").map(str::to_owned), algorithm };
    Some(Jwk { id, json: Value::Object(public).to_string() })
}

fn has(list: &[Value], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted)
}

/// The length of a number in base64url.
fn bits(number: &str) -> usize {
    let Ok(bytes) = Base64UrlUnpadded::decode_vec(number) else { return 0 };
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let first = bytes.get(zeros).map_or(0, |byte| byte.leading_zeros() as usize);
    ((bytes.len() - zeros) * 8).saturating_sub(first)
}

/// An API token whose signature a key of the set has to have made; until then nobody sees its claims.
#[must_use]
pub struct UnverifiedApiToken {
    /// What its header names.
    key: KeyId,
    input: String,
    signature: Vec<u8>,
    actor: Result<Actor, AuthError>,
}

impl UnverifiedApiToken {
    /// Takes a token apart. Its claims are checked and not told.
    ///
    /// # Errors
    /// [`AuthError::WrongAlgorithm`] for one that is not EdDSA, ES256 or RS256;
    /// [`AuthError::Malformed`].
    pub fn open(token: &str, issuer: Option<&str>, now_s: u64) -> Result<Self, AuthError> {
        let (unverified, key) = Unverified::of_key_set(token)?;
        let actor = unverified.claims().and_then(|claims| actor_of(&claims, issuer, now_s));
        Ok(Self { key, input: unverified.message.to_owned(), signature: unverified.signature, actor })
    }

    /// The bytes that are signed.
    #[must_use]
    pub const fn input(&self) -> &str {
        self.input.as_str()
    }

    /// The signature to check over [`UnverifiedApiToken::input`].
    #[must_use]
    pub const fn signature(&self) -> &[u8] {
        self.signature.as_slice()
    }

    /// Who it is, if the platform found the signature good with a key that [`KeyCache::step`] gave.
    ///
    /// # Errors
    /// [`AuthError::BadSignature`] before any other.
    pub fn accept(self, signature_is_good: bool) -> Result<Actor, AuthError> {
        if signature_is_good { self.actor } else { Err(AuthError::BadSignature) }
    }
}

impl fmt::Debug for UnverifiedApiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnverifiedApiToken(..)")
    }
}

/// The keys of a set as far as they are known, with what the shell imported for each.
#[derive(Debug)]
pub struct KeyCache<T> {
    keys: Vec<(KeyId, T)>,
    fetched_at: Option<Timestamp>,
    failed_at: Option<Timestamp>,
    refetch: Refetch,
}

/// The last fetch for the sake of an unknown `kid`.
#[derive(Debug)]
enum Refetch {
    Done(Timestamp),
    Never,
    Running(Timestamp),
}

/// What to do about a token.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Step<T> {
    /// Fetch the set, hand it to [`KeyCache::handle_fetched`], and ask again.
    Fetch,
    /// The token is not good.
    Refuse(AuthError),
    /// The keys are not to be had at the moment: nothing is known about the token.
    Unavailable,
    /// One of these has to have signed it.
    Verify(Vec<T>),
}

impl<T> Default for KeyCache<T> {
    fn default() -> Self {
        Self { keys: Vec::new(), fetched_at: None, failed_at: None, refetch: Refetch::Never }
    }
}

impl<T: Clone> KeyCache<T> {
    /// What to do about a token.
    pub fn step(&mut self, token: &UnverifiedApiToken, now: Timestamp) -> Step<T> {
        let within = |at: Option<Timestamp>, ms: u64| at.is_some_and(|at| now < at.saturating_add(ms));
        let failing = within(self.failed_at, JWKS_PAUSE_MS);
        if !within(self.fetched_at, JWKS_FRESH_MS) {
            return if failing { Step::Unavailable } else { Step::Fetch };
        }
        let named = |id: &KeyId| token.key.kid.is_none() || id.kid == token.key.kid;
        let mut fitting = Vec::new();
        for (id, key) in &self.keys {
            if named(id) && id.algorithm == token.key.algorithm {
                fitting.push(key.clone());
            }
        }
        if !fitting.is_empty() {
            return Step::Verify(fitting);
        }
        if self.keys.iter().any(|(id, _)| named(id)) || token.key.kid.is_none() {
            return Step::Refuse(AuthError::WrongAlgorithm);
        }
        self.step_unknown(failing, now)
    }

    /// The token names a key that is not in the set: a new one, or an invention.
    fn step_unknown(&mut self, failing: bool, now: Timestamp) -> Step<T> {
        match self.refetch {
            _ if failing => Step::Unavailable,
            // Of many tokens with a new key one fetches; the others come again.
            Refetch::Running(since) if now < since.saturating_add(JWKS_FETCH_MS) => Step::Unavailable,
            Refetch::Done(at) if now < at.saturating_add(JWKS_REFETCH_MS) => {
                Step::Refuse(AuthError::BadSignature)
            }
            Refetch::Done(_) | Refetch::Never | Refetch::Running(_) => {
                self.refetch = Refetch::Running(now);
                Step::Fetch
            }
        }
    }

    /// The set as fetched; `None` when it was not to be had.
    pub fn handle_fetched(&mut self, keys: Option<Vec<(KeyId, T)>>, now: Timestamp) {
        let Some(keys) = keys else {
            self.failed_at = Some(now);
            self.refetch = Refetch::Never;
            return;
        };
        self.keys = keys;
        self.fetched_at = Some(now);
        self.failed_at = None;
        if matches!(self.refetch, Refetch::Running(_)) {
            self.refetch = Refetch::Done(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: u64 = 1_796_000_000;
    const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

    fn modulus(bytes: usize, first: u8) -> String {
        let mut number = vec![0xff; bytes];
        number[0] = first;
        Base64UrlUnpadded::encode_string(&number)
    }

    fn rsa(n: &str) -> Value {
        json!({"kty": "RSA", "kid": "r", "n": n, "e": "AQAB"})
    }

    fn parsed(keys: &Value) -> Vec<Jwk> {
        parse_jwks(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn token(header: &Value) -> Result<UnverifiedApiToken, AuthError> {
        let claims =
            json!({"aud": "yrelay", "sub": "ada", "kind": "human", "exp": NOW + 1, "workspaces": {}});
        let parts =
            [header, &claims].map(|part| Base64UrlUnpadded::encode_string(part.to_string().as_bytes()));
        UnverifiedApiToken::open(&format!("{}.AAAA", parts.join(".")), None, NOW)
    }

    #[test]
    fn a1_an_address_of_keys_is_https_or_local() {
        for good in [
            "https://idp.example/.well-known/jwks.json",
            "https://idp.example:8443/a?b=c",
            "http://127.0.0.1:9000/jwks",
            "http://localhost/jwks",
            "http://[::1]:1/x",
        ] {
            assert_eq!(JwksUrl::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "idp.example",
            "https://",
            "https:///x",
            "http://idp.example/jwks",
            "http://127.0.0.1.example/jwks",
            "http://127.0.0.1@evil.example/jwks",
            "https://user:secret@idp.example/",
            "http://localhost\\@evil.example/",
            "ftp://127.0.0.1/x",
            "https://idp.example/ x",
            "HTTPS://idp.example/é",
            "file:///etc/passwd",
        ] {
            assert_eq!(JwksUrl::parse(bad), Err(KeyError::NotAJwksUrl), "{bad}");
        }
    }

    #[test]
    fn a1_a_key_has_the_algorithm_of_its_type_and_only_its_public_members_are_kept() {
        let keys = parsed(&json!([
            {"kty": "OKP", "crv": "Ed25519", "x": X, "kid": "e", "use": "sig", "alg": "EdDSA", "d": "secret"},
            {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "key_ops": ["verify"], "x5c": ["secret"]},
            rsa(&modulus(256, 0x80)),
        ]));
        let ids: Vec<_> = keys.iter().map(|key| (key.id.kid.as_deref(), key.id.algorithm)).collect();
        let expected =
            [(Some("e"), Algorithm::Ed25519), (None, Algorithm::Es256), (Some("r"), Algorithm::Rs256)];
        assert_eq!(ids, expected);
        assert!(keys.iter().all(|key| !key.json.contains("secret")));
        let public: Value = serde_json::from_str(&keys[0].json).unwrap();
        assert_eq!(public, json!({"kty": "OKP", "crv": "Ed25519", "x": X}));
    }

    #[test]
    fn a1_keys_for_something_else_are_left_out() {
        let okp = json!({"kty": "OKP", "crv": "Ed25519", "x": X});
        let with = |name: &str, value: Value| {
            let mut key = okp.clone();
            key[name] = value;
            key
        };
        assert_eq!(parsed(&json!([okp])).len(), 1);
        let left_out = json!([
            with("use", json!("enc")),
            with("alg", json!("RS256")),
            with("alg", json!(null)),
            with("key_ops", json!(["sign"])),
            with("key_ops", json!("verify")),
            with("crv", json!("X25519")),
            with("x", json!(1)),
            with("kty", json!("oct")),
            {"kty": "oct", "k": "c2VjcmV0"},
            {"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"},
            {"kty": "EC", "crv": "P-256", "x": "AA"},
            {"kty": "RSA", "n": modulus(256, 0x80)},
            rsa(&modulus(255, 0xff)),
            rsa(&modulus(256, 0x7f)),
            // Zeros in front do not make it longer.
            rsa(&Base64UrlUnpadded::encode_string(&[vec![0; 128], vec![0xff; 128]].concat())),
            rsa("not base64!"),
            1,
            null,
        ]);
        assert_eq!(parsed(&left_out), []);
        assert_eq!(parsed(&json!(vec![okp; 100])).len(), MAX_JWKS_KEYS);
        for none in ["", "{}", "[]", "{\"keys\":{}}", "<html>", "null"] {
            assert_eq!(parse_jwks(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn a1_a_token_of_a_key_set_names_one_of_three_algorithms_and_nothing_critical() {
        for alg in ["EdDSA", "ES256", "RS256"] {
            assert!(token(&json!({"alg": alg})).is_ok());
            assert!(token(&json!({"alg": alg, "typ": "at+jwt", "kid": "k", "jku": "https://evil"})).is_ok());
            let bad = [
                json!({"alg": alg, "crit": []}),
                json!({"alg": alg, "kid": 1}),
                json!({"alg": alg, "typ": "JWE"}),
            ];
            for header in bad {
                assert_eq!(token(&header).err(), Some(AuthError::Malformed), "{header}");
            }
        }
        for alg in ["none", "HS256", "RS512", "PS256", "ES384", "eddsa", ""] {
            assert_eq!(token(&json!({"alg": alg})).err(), Some(AuthError::WrongAlgorithm), "{alg}");
        }
        let good = token(&json!({"alg": "EdDSA"})).unwrap();
        assert_eq!(format!("{good:?}"), "UnverifiedApiToken(..)");
        assert_eq!(good.accept(false), Err(AuthError::BadSignature));
        assert_eq!(token(&json!({"alg": "EdDSA"})).unwrap().accept(true).unwrap().sub, "ada");
    }

    fn named(kid: Option<&str>, alg: &str) -> UnverifiedApiToken {
        let mut header = json!({ "alg": alg });
        if let Some(kid) = kid {
            header["kid"] = kid.into();
        }
        token(&header).unwrap()
    }

    fn keys(ids: &[(&str, Algorithm)]) -> Option<Vec<(KeyId, usize)>> {
        let key = |(n, (kid, algorithm)): (usize, &(&str, Algorithm))| {
            (KeyId { kid: Some((*kid).to_owned()), algorithm: *algorithm }, n)
        };
        Some(ids.iter().enumerate().map(key).collect())
    }

    #[test]
    fn a1_keys_are_fetched_once_in_ten_minutes() {
        let mut cache = KeyCache::default();
        let token = named(Some("a"), "EdDSA");
        assert_eq!(cache.step(&token, 0), Step::Fetch);
        assert_eq!(cache.step(&token, 0), Step::Fetch, "a request that gave up holds nobody back");
        cache.handle_fetched(keys(&[("a", Algorithm::Ed25519)]), 10);
        assert_eq!(cache.step(&token, 10 + JWKS_FRESH_MS - 1), Step::Verify(vec![0]));
        assert_eq!(cache.step(&token, 10 + JWKS_FRESH_MS), Step::Fetch);
    }

    #[test]
    fn a1_the_algorithm_has_to_be_that_of_the_key() {
        let mut cache = KeyCache::default();
        cache.handle_fetched(
            keys(&[("a", Algorithm::Ed25519), ("b", Algorithm::Rs256), ("c", Algorithm::Rs256)]),
            0,
        );
        assert_eq!(cache.step(&named(Some("b"), "RS256"), 1), Step::Verify(vec![1]));
        assert_eq!(cache.step(&named(None, "RS256"), 1), Step::Verify(vec![1, 2]));
        for confused in [named(Some("a"), "RS256"), named(Some("b"), "EdDSA"), named(None, "ES256")] {
            assert_eq!(cache.step(&confused, 1), Step::Refuse(AuthError::WrongAlgorithm));
        }
    }

    #[test]
    fn a1_an_unknown_key_causes_one_fetch_in_thirty_seconds() {
        let mut cache = KeyCache::default();
        cache.handle_fetched(keys(&[("a", Algorithm::Ed25519)]), 0);
        let new = named(Some("b"), "EdDSA");
        assert_eq!(cache.step(&new, 1), Step::Fetch);
        assert_eq!(cache.step(&new, 2), Step::Unavailable, "while it is fetched, nothing is known");
        assert_eq!(cache.step(&named(Some("a"), "EdDSA"), 2), Step::Verify(vec![0]));
        cache.handle_fetched(keys(&[("a", Algorithm::Ed25519), ("b", Algorithm::Ed25519)]), 3);
        assert_eq!(cache.step(&new, 4), Step::Verify(vec![1]));
        let invented = named(Some("x"), "EdDSA");
        assert_eq!(cache.step(&invented, 3 + JWKS_REFETCH_MS - 1), Step::Refuse(AuthError::BadSignature));
        assert_eq!(cache.step(&invented, 3 + JWKS_REFETCH_MS), Step::Fetch);
        // A request that never came back does not block the next.
        assert_eq!(cache.step(&invented, 3 + JWKS_REFETCH_MS + JWKS_FETCH_MS), Step::Fetch);
    }

    #[test]
    fn a1_an_unreachable_set_says_nothing_about_a_token() {
        let mut cache = KeyCache::default();
        let token = named(Some("a"), "EdDSA");
        cache.handle_fetched(None, 0);
        assert_eq!(cache.step(&token, JWKS_PAUSE_MS - 1), Step::<usize>::Unavailable);
        assert_eq!(cache.step(&token, JWKS_PAUSE_MS), Step::Fetch);
        cache.handle_fetched(keys(&[("a", Algorithm::Ed25519)]), 5_000);
        let new = named(Some("b"), "EdDSA");
        assert_eq!(cache.step(&new, 5_001), Step::Fetch);
        cache.handle_fetched(None, 5_002);
        assert_eq!(cache.step(&new, 5_003), Step::Unavailable);
        assert_eq!(cache.step(&token, 5_003), Step::Verify(vec![0]), "what is known is used on");
        assert_eq!(
            cache.step(&new, 5_002 + JWKS_PAUSE_MS),
            Step::Fetch,
            "a failed fetch is not the one of 30 s"
        );
    }
}
