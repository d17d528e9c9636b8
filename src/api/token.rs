//! Scope tokens: short-lived, for one workspace and one purpose, verified offline (A2).
//!
//! The Worker signs them with an Ed25519 key; a relay holds only the public key, so a relay that
//! is taken over can make none.

use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding};
use ed25519_dalek::{SigningKey, VerifyingKey};
use serde_json::json;

use super::auth::{Actor, ApiSecret, AuthError, KeyError, verify_api_token};
use super::jwt::{self, Signing, Verifier};
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

    /// Whether the token is for this workspace. The relay asks before it creates a room.
    ///
    /// # Errors
    /// [`AuthError::WrongWorkspace`].
    pub fn require_workspace(&self, workspace: &WorkspaceId) -> Result<(), AuthError> {
        if self.workspace == *workspace { Ok(()) } else { Err(AuthError::WrongWorkspace) }
    }
}

/// The Worker's signing key.
#[derive(Clone)]
pub struct ScopeSigningKey(SigningKey);

impl ScopeSigningKey {
    /// Reads the seed: 32 bytes in base64url without padding.
    ///
    /// # Errors
    /// [`KeyError::NotAKey`].
    pub fn from_seed(seed: &str) -> Result<Self, KeyError> {
        key_bytes(seed).map(|seed| Self(SigningKey::from_bytes(&seed)))
    }

    /// The key for the relays.
    #[must_use]
    pub fn public_key(&self) -> ScopePublicKey {
        ScopePublicKey(self.0.verifying_key())
    }
}

impl fmt::Debug for ScopeSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeSigningKey(..)")
    }
}

/// The key that verifies scope tokens. It is not a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopePublicKey(VerifyingKey);

impl ScopePublicKey {
    /// Reads a key: 32 bytes in base64url without padding, the `x` of its JWK.
    ///
    /// # Errors
    /// [`KeyError::NotAKey`], also for the points of small order that any signature would fit.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(&key_bytes(text)?).map_err(|_| KeyError::NotAKey)?;
        if key.is_weak() { Err(KeyError::NotAKey) } else { Ok(Self(key)) }
    }
}

impl fmt::Display for ScopePublicKey {
    /// As [`ScopePublicKey::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64UrlUnpadded::encode_string(self.0.as_bytes()))
    }
}

/// Makes a scope token.
///
/// # Errors
/// The error that the reader of this token would give.
pub fn mint_scope_token(key: &ScopeSigningKey, claims: &ScopeClaims) -> Result<String, AuthError> {
    // Not by verifying the result: that would double the work of the Worker.
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
    jwt::seal(&wire, &Signing::Ed25519(&key.0))
}

/// Checks a scope token for one purpose; `now_s` is in seconds. Compare the workspace next, with
/// [`ScopeClaims::require_workspace`].
///
/// # Errors
/// See [`AuthError`].
pub fn verify_scope_token(
    key: &ScopePublicKey,
    token: &str,
    purpose: Purpose,
    now_s: u64,
) -> Result<ScopeClaims, AuthError> {
    let claims = jwt::open(token, &Verifier::Ed25519(&key.0))?;
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

/// The answer to a relay upgrade whose token failed. Where the API secret is at hand (the Worker,
/// not a relay elsewhere), a caller who offers a good API token is told that this is the wrong
/// kind, with 403 and not 401: an agent that tries its only token must not fetch it again (W10).
#[must_use]
pub fn refuse_upgrade(error: AuthError, token: &str, secret: &ApiSecret, now_s: u64) -> Problem {
    match error {
        AuthError::WrongAlgorithm => match verify_api_token(secret, token, now_s) {
            Ok(Actor { kind: ActorKind::Agent, .. }) => AuthError::AgentOnRelay.into(),
            Ok(_) => AuthError::WrongAudience.into(),
            Err(_) => error.into(),
        },
        _ => error.into(),
    }
}

const fn check_purpose(purpose: Purpose, kind: ActorKind) -> Result<(), AuthError> {
    match (purpose, kind) {
        (Purpose::Relay, ActorKind::Agent) => Err(AuthError::AgentOnRelay),
        _ => Ok(()),
    }
}

fn key_bytes(text: &str) -> Result<[u8; 32], KeyError> {
    let mut bytes = [0; 32];
    match Base64UrlUnpadded::decode(text, &mut bytes) {
        Ok(decoded) if decoded.len() == 32 => Ok(bytes),
        _ => Err(KeyError::NotAKey),
    }
}

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
    use super::*;
    use crate::api::auth::mint_api_token;

    const NOW: u64 = 1_796_000_000;

    fn key() -> ScopeSigningKey {
        ScopeSigningKey::from_seed("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap()
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

    fn verify(token: &str, purpose: Purpose, now_s: u64) -> Result<ScopeClaims, AuthError> {
        verify_scope_token(&key().public_key(), token, purpose, now_s)
    }

    #[test]
    fn a2_a_token_holds_one_workspace_one_subject_one_role_for_ten_minutes() {
        let claims = relay_claims();
        let token = mint_scope_token(&key(), &claims).unwrap();
        assert_eq!(verify(&token, Purpose::Relay, NOW + 599), Ok(claims.clone()));
        assert_eq!(verify(&token, Purpose::Relay, NOW + 600), Err(AuthError::Expired));
        assert_eq!((claims.role, claims.require_workspace(&workspace("w1"))), (Role::Editor, Ok(())));
        assert_eq!(claims.require_workspace(&workspace("w2")), Err(AuthError::WrongWorkspace));
        let with_id = ScopeClaims { jti: Some("x".to_owned()), ..claims };
        let token = mint_scope_token(&key(), &with_id).unwrap();
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
    fn a2_purposes_and_keys_are_not_interchangeable() {
        let token = mint_scope_token(&key(), &relay_claims()).unwrap();
        assert_eq!(verify(&token, Purpose::Stream, NOW), Err(AuthError::WrongAudience));
        let other = ScopeSigningKey(SigningKey::from_bytes(&[9; 32])).public_key();
        assert_eq!(verify_scope_token(&other, &token, Purpose::Relay, NOW), Err(AuthError::BadSignature));
        let secret = ApiSecret::new(&[5; 32]).unwrap();
        assert_eq!(verify_api_token(&secret, &token, NOW), Err(AuthError::WrongAlgorithm));
        let api = mint_api_token(&secret, &actor(ActorKind::Human)).unwrap();
        assert_eq!(verify(&api, Purpose::Relay, NOW), Err(AuthError::WrongAlgorithm));
    }

    #[test]
    fn w10_agents_get_no_relay_token_and_403_with_any_token_they_have() {
        let agent = actor(ActorKind::Agent);
        let refused = ScopeClaims::grant(&agent, &workspace("w1"), Purpose::Relay, NOW).unwrap_err();
        assert_eq!(refused.status(), 403);
        let forged = ScopeClaims { kind: ActorKind::Agent, ..relay_claims() };
        assert_eq!(mint_scope_token(&key(), &forged), Err(AuthError::AgentOnRelay));
        let stream = ScopeClaims::grant(&agent, &workspace("w1"), Purpose::Stream, NOW).unwrap();
        let stream = mint_scope_token(&key(), &stream).unwrap();
        let secret = ApiSecret::new(&[5; 32]).unwrap();
        let api = mint_api_token(&secret, &agent).unwrap();
        for token in [stream, api] {
            let error = verify(&token, Purpose::Relay, NOW).unwrap_err();
            assert_eq!(refuse_upgrade(error, &token, &secret, NOW).status(), 403);
        }
        let none = refuse_upgrade(AuthError::WrongAlgorithm, "eyJhbGciOiJub25lIn0.e30.", &secret, NOW);
        assert_eq!(none.status(), 401);
    }

    #[test]
    fn every_changed_character_of_a_token_is_noticed() {
        let token = mint_scope_token(&key(), &relay_claims()).unwrap();
        for (at, original) in token.char_indices() {
            let changed = if original == 'A' { 'B' } else { 'A' };
            let mut forged = token.clone();
            forged.replace_range(at..=at, &changed.to_string());
            assert!(verify(&forged, Purpose::Relay, NOW).is_err(), "at {at}");
        }
    }

    #[test]
    fn keys_are_read_strictly_and_secrets_are_not_printed() {
        let public = key().public_key();
        assert_eq!(public.to_string(), "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
        assert_eq!(ScopePublicKey::parse(&public.to_string()), Ok(public));
        let zero = "A".repeat(43);
        for bad in ["", "AAAA", &"A".repeat(44), &format!("{zero}="), &"!".repeat(43)] {
            assert_eq!(ScopePublicKey::parse(bad), Err(KeyError::NotAKey), "{bad}");
            assert!(ScopeSigningKey::from_seed(bad).is_err(), "{bad}");
        }
        // A point of small order: everything would verify under it.
        assert_eq!(ScopePublicKey::parse(&zero), Err(KeyError::NotAKey));
        assert_eq!(format!("{:?}", key()), "ScopeSigningKey(..)");
    }
}
