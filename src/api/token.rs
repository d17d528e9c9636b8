//! Scope tokens: short-lived, for one workspace and one purpose, verified offline (A2).
//!
//! The Worker signs them with an Ed25519 key; a relay holds only the public key, so a relay that
//! is taken over can make none. The arithmetic is the platform's (WebCrypto): it is there anyway,
//! it is faster, and in Rust it would be 30 KB of wasm. So a token is made and read in two steps,
//! with the shell's call in between: [`scope_token_input`], sign, [`seal_scope_token`]; and
//! [`open_scope_token`], verify, [`UnverifiedScope::accept`].

use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding};
use serde_json::json;

use super::auth::{Actor, AuthError, KeyError};
use super::jwt::{self, Algorithm, Unverified};
use super::limits::SCOPE_TOKEN_SECONDS;
use super::path::WorkspaceId;
use super::problem::{Problem, ProblemCode};
use super::role::{ActorKind, Role};

/// What a scope token opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The WebSocket of a relay.
    Relay,
    /// The change stream, whose browser API cannot send a header.
    Stream,
}

impl Purpose {
    /// The `aud` of its tokens.
    const fn audience(self) -> &'static str {
        match self {
            Self::Relay => "yrelay:relay",
            Self::Stream => "yrelay:stream",
        }
    }
}

/// What a scope token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeClaims {
    /// What it opens (`aud`).
    pub purpose: Purpose,
    /// The one workspace (`ws`).
    pub workspace: WorkspaceId,
    /// Who (`sub`).
    pub sub: String,
    /// Human, agent or service.
    pub kind: ActorKind,
    /// The role in that workspace.
    pub role: Role,
    /// When it ends, in seconds since the Unix epoch.
    pub exp: u64,
    /// A unique id (`jti`), if the issuer wants to tell tokens apart.
    pub jti: Option<String>,
}

impl ScopeClaims {
    /// What the Worker grants to a caller: its role in the workspace, for 10 minutes, and never
    /// longer than the token that asked for it.
    ///
    /// # Errors
    /// `forbidden` without a role, and for an agent that asks for a relay (W10).
    pub fn grant(
        actor: &Actor,
        workspace: &WorkspaceId,
        purpose: Purpose,
        now_s: u64,
    ) -> Result<Self, Problem> {
        let role = actor.require(workspace, Role::Viewer)?;
        check_purpose(purpose, actor.kind)?;
        Ok(Self {
            purpose,
            workspace: workspace.clone(),
            sub: actor.sub.clone(),
            kind: actor.kind,
            role,
            exp: now_s.saturating_add(SCOPE_TOKEN_SECONDS).min(actor.exp),
            jti: None,
        })
    }

    /// Whether its holder may connect to other browsers: nothing is checked there, so it takes who may
    /// write, and may write over a relay (A5).
    #[must_use]
    pub fn joins_peers(&self) -> bool {
        self.purpose == Purpose::Relay && self.role >= Role::Editor
    }

    /// Whether the token is for this workspace. The relay asks before it creates a room.
    ///
    /// # Errors
    /// [`AuthError::WrongWorkspace`].
    pub fn require_workspace(&self, workspace: &WorkspaceId) -> Result<(), AuthError> {
        if self.workspace == *workspace { Ok(()) } else { Err(AuthError::WrongWorkspace) }
    }
}

/// The seed of the Worker's signing key.
#[derive(Clone)]
pub struct ScopeSeed([u8; KEY_BYTES]);

impl ScopeSeed {
    /// Reads the seed: 32 bytes in base64url without padding.
    ///
    /// # Errors
    /// [`KeyError::NotAKey`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        parse_key(text).map(Self)
    }

    /// The private key in the form that platforms import (PKCS #8 of RFC 8410).
    #[must_use]
    pub fn pkcs8(&self) -> Vec<u8> {
        [&PKCS8_PREFIX[..], &self.0[..]].concat()
    }

    /// What browsers of one workspace seal their signaling with: it says nothing about the seed, or
    /// about another workspace's.
    ///
    /// # Errors
    /// None that a seed can cause.
    pub fn peer_secret(&self, workspace: &WorkspaceId) -> Result<String, AuthError> {
        // No token is signed by HMAC with the seed, so the prefix tells uses to come apart.
        jwt::derive(&self.0, &format!("yrelay peers {}", workspace.as_str()))
    }
}

impl fmt::Debug for ScopeSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeSeed(..)")
    }
}

/// Reads the bytes of a key: 32 bytes in base64url without padding, as a seed is configured and as
/// `x` of a public JWK. Whether a public key is a point of the curve is for the platform to say.
///
/// # Errors
/// [`KeyError::NotAKey`].
pub fn parse_key(text: &str) -> Result<[u8; KEY_BYTES], KeyError> {
    let mut bytes = [0; KEY_BYTES];
    match Base64UrlUnpadded::decode(text, &mut bytes) {
        Ok(decoded) if decoded.len() == KEY_BYTES => Ok(bytes),
        _ => Err(KeyError::NotAKey),
    }
}

/// The first two segments of a scope token: the bytes to sign.
///
/// # Errors
/// The error that the reader of this token would give.
pub fn scope_token_input(claims: &ScopeClaims) -> Result<String, AuthError> {
    // Not by reading the result: that would double the work of the Worker.
    check_purpose(claims.purpose, claims.kind)?;
    if !jwt::is_subject(&claims.sub) {
        return Err(AuthError::Malformed);
    }
    let mut wire = json!({
        "aud": claims.purpose.audience(),
        "ws": claims.workspace.as_str(),
        "sub": claims.sub,
        "kind": claims.kind.as_str(),
        "role": claims.role.as_str(),
        "exp": claims.exp,
    });
    if let (Some(jti), Some(members)) = (&claims.jti, wire.as_object_mut()) {
        members.insert("jti".to_owned(), jti.as_str().into());
    }
    Ok(jwt::message(&wire, Algorithm::Ed25519))
}

/// The scope token of what [`scope_token_input`] gave and its signature.
#[must_use]
pub fn seal_scope_token(input: &str, signature: &[u8; SIGNATURE_BYTES]) -> String {
    jwt::attach(input, signature)
}

/// Takes a scope token apart for one purpose and checks everything but the signature; `now_s` is in
/// seconds. What is wrong with the claims is told by [`UnverifiedScope::accept`], after the
/// signature: a forgery does not learn what a good token would have said.
///
/// # Errors
/// What can be told without the claims: [`AuthError::Missing`], [`AuthError::Malformed`],
/// [`AuthError::WrongAlgorithm`], and [`AuthError::BadSignature`] for one of another length.
pub fn open_scope_token(token: &str, purpose: Purpose, now_s: u64) -> Result<UnverifiedScope, AuthError> {
    let unverified = Unverified::read(token, Algorithm::Ed25519)?;
    let claims = read_claims(&unverified, purpose, now_s);
    let signature = unverified.signature.try_into().map_err(|_| AuthError::BadSignature)?;
    Ok(UnverifiedScope { input: unverified.message.to_owned(), signature, claims })
}

/// A scope token whose signature is not checked yet; until then nobody sees its claims.
#[must_use]
pub struct UnverifiedScope {
    input: String,
    signature: [u8; SIGNATURE_BYTES],
    claims: Result<ScopeClaims, AuthError>,
}

impl UnverifiedScope {
    /// The bytes that are signed.
    #[must_use]
    pub const fn input(&self) -> &str {
        self.input.as_str()
    }

    /// The signature to check over [`UnverifiedScope::input`], with the public key.
    #[must_use]
    pub const fn signature(&self) -> &[u8; SIGNATURE_BYTES] {
        &self.signature
    }

    /// The claims, if the platform found the signature good. Compare the workspace next, with
    /// [`ScopeClaims::require_workspace`].
    ///
    /// # Errors
    /// [`AuthError::BadSignature`] before any other, so that an expired forgery does not ask for a
    /// fresh token; see [`AuthError`] for the others.
    pub fn accept(self, signature_is_good: bool) -> Result<ScopeClaims, AuthError> {
        if signature_is_good { self.claims } else { Err(AuthError::BadSignature) }
    }
}

impl fmt::Debug for UnverifiedScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnverifiedScope(..)")
    }
}

/// The answer to a relay upgrade whose token failed. Where API tokens can be verified (the Worker, not
/// a relay elsewhere), a caller who offers a good one is told that this is the wrong kind, with 403
/// and not 401: an agent that tries its only token must not fetch it again (W10).
#[must_use]
pub fn refuse_upgrade(refusal: Problem, holder: Option<ActorKind>) -> Problem {
    match holder {
        Some(ActorKind::Agent) => AuthError::AgentOnRelay.into(),
        Some(_) => AuthError::WrongAudience.into(),
        None => refusal,
    }
}

const fn check_purpose(purpose: Purpose, kind: ActorKind) -> Result<(), AuthError> {
    match (purpose, kind) {
        (Purpose::Relay, ActorKind::Agent) => Err(AuthError::AgentOnRelay),
        _ => Ok(()),
    }
}

fn read_claims(unverified: &Unverified<'_>, purpose: Purpose, now_s: u64) -> Result<ScopeClaims, AuthError> {
    let claims = unverified.claims()?;
    claims.require_audience(purpose.audience())?;
    let exp = claims.require_time(now_s)?;
    let kind = ActorKind::parse(claims.text("kind")?).ok_or(AuthError::Malformed)?;
    check_purpose(purpose, kind)?;
    Ok(ScopeClaims {
        purpose,
        workspace: WorkspaceId::parse(claims.text("ws")?).map_err(|_| AuthError::Malformed)?,
        sub: claims.subject()?.to_owned(),
        kind,
        role: Role::parse(claims.text("role")?).ok_or(AuthError::Malformed)?,
        exp,
        jti: claims.optional_text("jti")?.map(str::to_owned),
    })
}

/// Bytes of a seed and of a public key.
pub const KEY_BYTES: usize = 32;
/// Bytes of an Ed25519 signature.
pub const SIGNATURE_BYTES: usize = 64;

/// What stands before the seed in the PKCS #8 form: a sequence of version 0, the algorithm
/// 1.3.101.112, and the seed in an octet string in an octet string.
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Names a purpose in the body of `POST …/tokens`.
impl std::str::FromStr for Purpose {
    type Err = Problem;

    fn from_str(name: &str) -> Result<Self, Problem> {
        match name {
            "relay" => Ok(Self::Relay),
            "stream" => Ok(Self::Stream),
            _ => Err(Problem::because(ProblemCode::BadRequest, "`purpose` is `relay` or `stream`.")),
        }
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signature, Signer, SigningKey};

    use super::*;
    use crate::api::auth::{ApiSecret, mint_api_token, verify_api_token};

    const NOW: u64 = 1_796_000_000;
    const SEED: &str = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";

    fn key() -> SigningKey {
        SigningKey::from_bytes(&parse_key(SEED).unwrap())
    }

    /// What the platform does between the two steps of making a token.
    fn mint(claims: &ScopeClaims) -> Result<String, AuthError> {
        let input = scope_token_input(claims)?;
        Ok(seal_scope_token(&input, &key().sign(input.as_bytes()).to_bytes()))
    }

    /// What the platform does between the two steps of reading one.
    fn verify_with(
        key: &SigningKey,
        token: &str,
        purpose: Purpose,
        now_s: u64,
    ) -> Result<ScopeClaims, AuthError> {
        let unverified = open_scope_token(token, purpose, now_s)?;
        let signature = Signature::from_bytes(unverified.signature());
        let good = key.verifying_key().verify_strict(unverified.input().as_bytes(), &signature).is_ok();
        unverified.accept(good)
    }

    fn verify(token: &str, purpose: Purpose, now_s: u64) -> Result<ScopeClaims, AuthError> {
        verify_with(&key(), token, purpose, now_s)
    }

    fn workspace(text: &str) -> WorkspaceId {
        WorkspaceId::parse(text).unwrap()
    }

    fn actor(kind: ActorKind) -> Actor {
        let roles = [("w1".to_owned(), Role::Editor)].into();
        Actor { sub: "ada".to_owned(), kind, roles, exp: NOW + 3600 }
    }

    fn relay_claims() -> ScopeClaims {
        ScopeClaims::grant(&actor(ActorKind::Human), &workspace("w1"), Purpose::Relay, NOW).unwrap()
    }

    #[test]
    fn a2_a_token_holds_one_workspace_one_subject_one_role_for_ten_minutes() {
        let claims = relay_claims();
        let token = mint(&claims).unwrap();
        assert_eq!(verify(&token, Purpose::Relay, NOW + 599), Ok(claims.clone()));
        assert_eq!(verify(&token, Purpose::Relay, NOW + 600), Err(AuthError::Expired));
        assert_eq!((claims.role, claims.require_workspace(&workspace("w1"))), (Role::Editor, Ok(())));
        assert_eq!(claims.require_workspace(&workspace("w2")), Err(AuthError::WrongWorkspace));
        let with_id = ScopeClaims { jti: Some("x".to_owned()), ..claims };
        let token = mint(&with_id).unwrap();
        assert_eq!(verify(&token, Purpose::Relay, NOW), Ok(with_id));
    }

    #[test]
    fn a2_a_grant_never_outlives_the_token_that_asked() {
        let actor = Actor { exp: NOW + 20, ..actor(ActorKind::Human) };
        let claims = ScopeClaims::grant(&actor, &workspace("w1"), Purpose::Stream, NOW).unwrap();
        assert_eq!(claims.exp, NOW + 20);
        let other = ScopeClaims::grant(&actor, &workspace("w2"), Purpose::Stream, NOW).unwrap_err();
        assert_eq!(other, Problem::new(ProblemCode::Forbidden));
    }

    #[test]
    fn a5_who_cannot_write_over_a_relay_is_no_peer() {
        let claims = relay_claims();
        assert!(claims.joins_peers());
        assert!(ScopeClaims { role: Role::Owner, ..claims.clone() }.joins_peers());
        assert!(!ScopeClaims { role: Role::Viewer, ..claims.clone() }.joins_peers());
        assert!(!ScopeClaims { purpose: Purpose::Stream, ..claims }.joins_peers());
    }

    #[test]
    fn a_peer_secret_belongs_to_one_workspace_and_one_seed() {
        let seed = ScopeSeed::parse(SEED).unwrap();
        let secret = seed.peer_secret(&workspace("w1")).unwrap();
        // By another implementation: HMAC-SHA256 of `yrelay peers w1` under the 32 bytes of the seed.
        assert_eq!(secret, "3xkgPQG2rwxNriCrWV1GCKbveA882pmtkXLk4JVS88g");
        assert_ne!(secret, seed.peer_secret(&workspace("w2")).unwrap());
        let other = ScopeSeed::parse(&"A".repeat(43)).unwrap();
        assert_ne!(secret, other.peer_secret(&workspace("w1")).unwrap());
    }

    #[test]
    fn a2_purposes_and_keys_are_not_interchangeable() {
        let token = mint(&relay_claims()).unwrap();
        assert_eq!(verify(&token, Purpose::Stream, NOW), Err(AuthError::WrongAudience));
        let other = SigningKey::from_bytes(&[9; 32]);
        assert_eq!(verify_with(&other, &token, Purpose::Relay, NOW), Err(AuthError::BadSignature));
        let secret = ApiSecret::new(&[5; 32]).unwrap();
        assert_eq!(verify_api_token(&secret, None, &token, NOW), Err(AuthError::WrongAlgorithm));
        let api = mint_api_token(&secret, &actor(ActorKind::Human)).unwrap();
        assert_eq!(verify(&api, Purpose::Relay, NOW), Err(AuthError::WrongAlgorithm));
    }

    #[test]
    fn w10_agents_get_no_relay_token_and_403_with_any_token_they_have() {
        let agent = actor(ActorKind::Agent);
        let refused = ScopeClaims::grant(&agent, &workspace("w1"), Purpose::Relay, NOW).unwrap_err();
        assert_eq!(refused.status(), 403);
        let forged = ScopeClaims { kind: ActorKind::Agent, ..relay_claims() };
        assert_eq!(mint(&forged), Err(AuthError::AgentOnRelay));
        let stream = ScopeClaims::grant(&agent, &workspace("w1"), Purpose::Stream, NOW).unwrap();
        let stream = mint(&stream).unwrap();
        let secret = ApiSecret::new(&[5; 32]).unwrap();
        let api = mint_api_token(&secret, &agent).unwrap();
        for token in [stream, api] {
            let refusal = Problem::from(verify(&token, Purpose::Relay, NOW).unwrap_err());
            let holder = verify_api_token(&secret, None, &token, NOW).ok();
            assert_eq!(refuse_upgrade(refusal, holder.map(|actor| actor.kind)).status(), 403);
        }
        let refused = |holder| refuse_upgrade(AuthError::WrongAlgorithm.into(), holder).status();
        assert_eq!((refused(None), refused(Some(ActorKind::Human))), (401, 403));
    }

    #[test]
    fn every_changed_character_of_a_token_is_noticed() {
        let token = mint(&relay_claims()).unwrap();
        for (at, original) in token.char_indices() {
            let changed = if original == 'A' { 'B' } else { 'A' };
            let mut forged = token.clone();
            forged.replace_range(at..=at, &changed.to_string());
            assert!(verify(&forged, Purpose::Relay, NOW).is_err(), "at {at}");
        }
    }

    #[test]
    fn a_bad_signature_is_told_before_anything_that_the_claims_say() {
        let token = mint(&relay_claims()).unwrap();
        let (message, _) = token.rsplit_once('.').unwrap();
        let forged = seal_scope_token(message, &[1; SIGNATURE_BYTES]);
        for (purpose, now_s) in [(Purpose::Relay, NOW), (Purpose::Relay, u64::MAX), (Purpose::Stream, NOW)] {
            assert_eq!(verify(&forged, purpose, now_s), Err(AuthError::BadSignature));
        }
        assert_eq!(verify(&token, Purpose::Relay, u64::MAX), Err(AuthError::Expired));
        // Claims that cannot be read are no different.
        let unreadable = format!("{}.e30x", message.split_once('.').unwrap().0);
        let forged = seal_scope_token(&unreadable, &[1; SIGNATURE_BYTES]);
        assert_eq!(verify(&forged, Purpose::Relay, NOW), Err(AuthError::BadSignature));
        let signed = seal_scope_token(&unreadable, &key().sign(unreadable.as_bytes()).to_bytes());
        assert_eq!(verify(&signed, Purpose::Relay, NOW), Err(AuthError::Malformed));
        // Platforms refuse to look at a signature of another length.
        for length in [0, 32, 63, 65] {
            let short = jwt::attach(message, &vec![1; length]);
            assert_eq!(verify(&short, Purpose::Relay, NOW), Err(AuthError::BadSignature), "{length}");
        }
        let opened = open_scope_token(&token, Purpose::Relay, NOW).unwrap();
        assert_eq!(format!("{opened:?}"), "UnverifiedScope(..)");
    }

    #[test]
    fn keys_are_read_strictly_and_secrets_are_not_printed() {
        let public = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        assert_eq!(parse_key(public), Ok(key().verifying_key().to_bytes()));
        let zero = "A".repeat(43);
        for bad in ["", "AAAA", &"A".repeat(44), &format!("{zero}="), &"!".repeat(43)] {
            assert_eq!(parse_key(bad), Err(KeyError::NotAKey), "{bad}");
            assert!(ScopeSeed::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(format!("{:?}", ScopeSeed::parse(SEED).unwrap()), "ScopeSeed(..)");
    }

    #[test]
    fn the_example_key_of_rfc_8410_has_the_pkcs8_form_of_the_rfc() {
        // Section 10.3 of the RFC, the key without attributes.
        let expected = "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp-K06_nwoy_HU--CXqI9EdVhC";
        let seed = ScopeSeed::parse("1O5y2_kTWErVttjx92n4rTr-fCjL8dT74Jeoj0R1WEI").unwrap();
        assert_eq!(Base64UrlUnpadded::encode_string(&seed.pkcs8()), expected);
    }
}
