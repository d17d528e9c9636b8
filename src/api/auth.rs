//! Who asks: the API's bearer token becomes an [`Actor`] with a role for each workspace (A1).
//!
//! `Actor::require` is called before anything is read from storage. So a caller without a role
//! gets the same answer whether the workspace exists or not (U07).

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::jwt::{self, Claims};
use super::limits::MIN_SECRET_BYTES;
use super::path::{WorkspaceId, decode_segment};
use super::problem::{Problem, ProblemCode};
use super::role::{ActorKind, Role};

/// A verified caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The subject: 1 to 128 bytes, no control character. It names the actor in changes.
    pub sub: String,
    /// Human, agent or service.
    pub kind: ActorKind,
    /// Roles by workspace id; `*` is every workspace that has no entry of its own.
    pub roles: BTreeMap<String, Role>,
    /// When the token ends, in seconds since the Unix epoch.
    pub exp: u64,
}

impl Actor {
    /// The role in a workspace: its own entry if there is one, else that of `*`.
    #[must_use]
    pub fn role_in(&self, workspace: &WorkspaceId) -> Option<Role> {
        self.roles.get(workspace.as_str()).or_else(|| self.roles.get(EVERY_WORKSPACE)).copied()
    }

    /// The role in a workspace, if it is at least `needed`.
    ///
    /// # Errors
    /// `forbidden`. For a caller with no role it is the same for every workspace (U07).
    pub fn require(&self, workspace: &WorkspaceId, needed: Role) -> Result<Role, Problem> {
        match self.role_in(workspace) {
            None => Err(ProblemCode::Forbidden.into()),
            Some(role) if role < needed => Err(Problem::because(
                ProblemCode::Forbidden,
                format!("This needs the role {needed}; the token says {role}."),
            )),
            Some(role) => Ok(role),
        }
    }

    /// The workspaces that the token names, in the order of their ids. Those that only `*` covers are
    /// not known here.
    pub fn workspaces(&self) -> impl Iterator<Item = &str> {
        self.roles.keys().map(String::as_str).filter(|id| *id != EVERY_WORKSPACE)
    }

    /// Whether the token is for exactly one workspace, which then need not be named.
    #[must_use]
    pub fn is_for_one(&self) -> bool {
        self.roles.len() == 1 && !self.roles.contains_key(EVERY_WORKSPACE)
    }

    /// Who a change is by: the caller, or for a service the author that it names. A relay saves what
    /// others wrote.
    ///
    /// # Errors
    /// `forbidden` for a caller that is no service, `bad_request` for what is no subject.
    pub fn author(&self, named: Option<&str>) -> Result<String, Problem> {
        let Some(named) = named else { return Ok(self.sub.clone()) };
        if self.kind != ActorKind::Service {
            return Err(Problem::because(
                ProblemCode::Forbidden,
                format!("Only a service may send `{AUTHOR_HEADER}`: it writes for others."),
            ));
        }
        decode_segment(named).filter(|author| jwt::is_subject(author)).ok_or_else(|| {
            let detail =
                format!("`{AUTHOR_HEADER}` is not 1 to 128 percent-encoded bytes of printable text.");
            Problem::because(ProblemCode::BadRequest, detail)
        })
    }

    /// Whether the caller may create a workspace: an owner of that id may, and for an id that the
    /// server chooses an owner of `*`.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn require_create(&self, workspace: Option<&WorkspaceId>) -> Result<(), Problem> {
        match workspace {
            Some(id) => self.require(id, Role::Owner).map(|_| ()),
            None if self.roles.get(EVERY_WORKSPACE) == Some(&Role::Owner) => Ok(()),
            None => Err(Problem::because(
                ProblemCode::Forbidden,
                "To let the server choose the id, the token must own every workspace.",
            )),
        }
    }
}

/// Names the author of an update that a relay hands in, percent-encoded.
pub const AUTHOR_HEADER: &str = "Yrelay-Author";

/// Why a token is not accepted. It never holds any part of the token (A3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthError {
    /// A relay token of an agent: agents have no WebSocket (W10).
    AgentOnRelay,
    /// The signature does not fit the key.
    BadSignature,
    /// It was good until `exp`. Fetch a fresh one (U01).
    Expired,
    /// The bytes are not a token, or a claim is missing or not what it has to be.
    Malformed,
    /// There is no token.
    Missing,
    /// `nbf` is in the future.
    NotYetValid,
    /// Signed with another algorithm than this key is for.
    WrongAlgorithm,
    /// A good token for another purpose.
    WrongAudience,
    /// A token of another issuer than the configured one.
    WrongIssuer,
    /// A good scope token of another workspace (U07).
    WrongWorkspace,
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AgentOnRelay => "Agents use REST, MCP and the change stream; they have no WebSocket.",
            Self::BadSignature => "The signature of the token is not valid here.",
            Self::Expired => "The token has expired.",
            Self::Malformed => "The credentials cannot be read as a token.",
            Self::Missing => "There is no token.",
            Self::NotYetValid => "The token is not valid yet.",
            Self::WrongAlgorithm => "The token is signed with another algorithm than this endpoint takes.",
            Self::WrongAudience => "The token is for another purpose.",
            Self::WrongIssuer => "The token is of another issuer than this server takes.",
            Self::WrongWorkspace => "The token is for another workspace.",
        })
    }
}

impl std::error::Error for AuthError {}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        let code = match error {
            AuthError::Expired => ProblemCode::TokenExpired,
            // Bodies without a difference between a missing role and another workspace.
            AuthError::WrongWorkspace => return ProblemCode::Forbidden.into(),
            AuthError::AgentOnRelay | AuthError::WrongAudience => ProblemCode::Forbidden,
            AuthError::BadSignature
            | AuthError::Malformed
            | AuthError::Missing
            | AuthError::NotYetValid
            | AuthError::WrongAlgorithm
            | AuthError::WrongIssuer => ProblemCode::Unauthorized,
        };
        Self::because(code, error.to_string())
    }
}

/// The shared secret of API tokens.
#[derive(Clone)]
pub struct ApiSecret(Vec<u8>);

impl ApiSecret {
    /// Takes the bytes of the configured secret.
    ///
    /// # Errors
    /// [`KeyError::SecretTooShort`] below 32 bytes.
    pub fn new(secret: &[u8]) -> Result<Self, KeyError> {
        if secret.len() < MIN_SECRET_BYTES {
            Err(KeyError::SecretTooShort)
        } else {
            Ok(Self(secret.to_vec()))
        }
    }
}

impl fmt::Debug for ApiSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiSecret(..)")
    }
}

/// Why configured key material cannot be used. Found at start, not at the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// Not https, nor http on a loopback host.
    NotAJwksUrl,
    /// Not 32 bytes in unpadded base64url.
    NotAKey,
    /// An HS256 secret needs 32 bytes: make one with `openssl rand -base64 32`.
    SecretTooShort,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAJwksUrl => "the address of a key set is https, or http on a loopback host",
            Self::NotAKey => "an Ed25519 key is 32 bytes in base64url without padding",
            Self::SecretTooShort => "an API secret has at least 32 bytes",
        })
    }
}

impl std::error::Error for KeyError {}

/// Checks an API token that is signed with the shared secret: signature, then what [`actor_of`] does.
///
/// # Errors
/// See [`AuthError`].
pub fn verify_api_token(
    secret: &ApiSecret,
    issuer: Option<&str>,
    token: &str,
    now_s: u64,
) -> Result<Actor, AuthError> {
    actor_of(&jwt::open_hs256(token, &secret.0)?, issuer, now_s)
}

/// Checks the claims of an API token: audience, issuer if one is configured, times, subject and
/// roles. `now_s` is in seconds.
pub(super) fn actor_of(claims: &Claims, issuer: Option<&str>, now_s: u64) -> Result<Actor, AuthError> {
    claims.require_audience(API_AUDIENCE)?;
    if issuer.is_some() && claims.optional_text("iss")? != issuer {
        return Err(AuthError::WrongIssuer);
    }
    let exp = claims.require_time(now_s)?;
    let sub = claims.subject()?.to_owned();
    let kind = ActorKind::parse(claims.text("kind")?).ok_or(AuthError::Malformed)?;
    let role = |(id, role): (&String, &Value)| {
        let known = id == EVERY_WORKSPACE || WorkspaceId::parse(id).is_ok();
        let role = role.as_str().and_then(Role::parse).filter(|_| known);
        role.map(|role| (id.clone(), role)).ok_or(AuthError::Malformed)
    };
    let roles = claims.object("workspaces")?.iter().map(role).collect::<Result<_, _>>()?;
    Ok(Actor { sub, kind, roles, exp })
}

/// Makes an API token, for `cargo xtask token`, relays' service tokens and tests.
///
/// # Errors
/// [`AuthError::Malformed`] for an actor that the reader would refuse.
pub fn mint_api_token(secret: &ApiSecret, actor: &Actor) -> Result<String, AuthError> {
    let roles = actor.roles.iter().map(|(id, role)| (id.clone(), role.as_str().into()));
    let claims = json!({
        "aud": API_AUDIENCE,
        "sub": actor.sub,
        "kind": actor.kind.as_str(),
        "exp": actor.exp,
        "workspaces": Value::Object(roles.collect()),
    });
    let token = jwt::seal_hs256(&claims, &secret.0)?;
    verify_api_token(secret, None, &token, 0).map(|_| token)
}

/// The `aud` of API tokens.
const API_AUDIENCE: &str = "yrelay";

/// The entry of `workspaces` that stands for all of them. No workspace can have it as its id.
const EVERY_WORKSPACE: &str = "*";

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_796_000_000;

    fn secret() -> ApiSecret {
        ApiSecret::new(&[5; 32]).unwrap()
    }

    fn workspace(text: &str) -> WorkspaceId {
        WorkspaceId::parse(text).unwrap()
    }

    fn actor(roles: &[(&str, Role)]) -> Actor {
        let roles = roles.iter().map(|(id, role)| ((*id).to_owned(), *role)).collect();
        Actor { sub: "ada".to_owned(), kind: ActorKind::Human, roles, exp: NOW + 10 }
    }

    fn sealed(claims: &serde_json::Value) -> Result<Actor, AuthError> {
        let token = jwt::seal_hs256(claims, &secret().0).unwrap();
        verify_api_token(&secret(), None, &token, NOW)
    }

    #[test]
    fn a1_a_minted_token_gives_back_its_actor() {
        let actor = actor(&[("w1", Role::Editor), ("*", Role::Viewer)]);
        let token = mint_api_token(&secret(), &actor).unwrap();
        assert_eq!(verify_api_token(&secret(), None, &token, NOW), Ok(actor));
        assert_eq!(verify_api_token(&secret(), None, &token, NOW + 10), Err(AuthError::Expired));
        let other = ApiSecret::new(&[6; 32]).unwrap();
        // A wrong signature is told first: an expired forgery does not ask for a fresh token.
        assert_eq!(verify_api_token(&other, None, &token, NOW + 10), Err(AuthError::BadSignature));
    }

    #[test]
    fn a1_every_claim_is_required_and_checked() {
        let good = serde_json::json!({
            "aud": "yrelay", "sub": "ada", "kind": "agent", "exp": NOW + 1, "workspaces": {"w": "owner"},
            "iss": "https://idp.example", "iat": 1
        });
        assert_eq!(sealed(&good).unwrap().kind, ActorKind::Agent);
        for claim in ["aud", "sub", "kind", "exp", "workspaces"] {
            let mut claims = good.clone();
            claims.as_object_mut().unwrap().remove(claim);
            assert_eq!(sealed(&claims), Err(AuthError::Malformed), "without {claim}");
        }
        let bad = [
            ("sub", serde_json::json!("")),
            ("sub", serde_json::json!("a\nb")),
            ("sub", serde_json::json!("x".repeat(129))),
            ("kind", serde_json::json!("root")),
            ("exp", serde_json::json!("soon")),
            ("exp", serde_json::json!(-1)),
            ("workspaces", serde_json::json!({"w": "admin"})),
            ("workspaces", serde_json::json!({"a/b": "owner"})),
            ("workspaces", serde_json::json!(["w"])),
        ];
        for (claim, value) in bad {
            let mut claims = good.clone();
            claims[claim] = value;
            assert_eq!(sealed(&claims), Err(AuthError::Malformed), "{claims}");
        }
    }

    #[test]
    fn a1_the_audience_is_exact() {
        let with = |aud: serde_json::Value| {
            sealed(&serde_json::json!({
                "aud": aud, "sub": "a", "kind": "human", "exp": NOW + 1, "workspaces": {}
            }))
            .map(|actor| actor.sub)
        };
        assert!(with("yrelay".into()).is_ok() && with(serde_json::json!(["x", "yrelay"])).is_ok());
        for aud in ["yrelay:relay", "yrelay:stream", "YRELAY", ""] {
            assert_eq!(with(aud.into()), Err(AuthError::WrongAudience), "{aud}");
        }
        assert_eq!(with(serde_json::json!([])), Err(AuthError::WrongAudience));
    }

    #[test]
    fn a1_a_configured_issuer_is_compared_exactly() {
        let with = |iss: serde_json::Value, issuer| {
            let claims = serde_json::json!({
                "aud": "yrelay", "sub": "a", "kind": "human", "exp": NOW + 1, "workspaces": {}, "iss": iss
            });
            let token = jwt::seal_hs256(&claims, &secret().0).unwrap();
            verify_api_token(&secret(), issuer, &token, NOW).map(|_| ())
        };
        let idp = "https://idp.example/";
        assert_eq!((with(idp.into(), Some(idp)), with(idp.into(), None)), (Ok(()), Ok(())));
        for other in ["https://idp.example", "https://idp.example/x", ""] {
            assert_eq!(with(other.into(), Some(idp)), Err(AuthError::WrongIssuer), "{other}");
        }
        assert_eq!(with(serde_json::json!([idp]), Some(idp)), Err(AuthError::Malformed));
        let mut actor = actor(&[]);
        actor.exp = NOW + 1;
        let token = mint_api_token(&secret(), &actor).unwrap();
        assert_eq!(verify_api_token(&secret(), Some(idp), &token, NOW), Err(AuthError::WrongIssuer));
    }

    #[test]
    fn roles_are_ordered_and_an_own_entry_wins_over_the_star() {
        let actor = actor(&[("w1", Role::Viewer), ("*", Role::Owner)]);
        assert_eq!(actor.role_in(&workspace("w1")), Some(Role::Viewer));
        assert_eq!(actor.require(&workspace("w2"), Role::Editor), Ok(Role::Owner));
        let refused = actor.require(&workspace("w1"), Role::Editor).unwrap_err();
        assert_eq!(refused.status(), 403);
        assert!(Role::Viewer < Role::Editor && Role::Editor < Role::Owner);
    }

    #[test]
    fn a_workspace_need_not_be_named_when_the_token_has_exactly_one() {
        assert!(actor(&[("w1", Role::Viewer)]).is_for_one());
        for several in [&[][..], &[("*", Role::Owner)], &[("w1", Role::Viewer), ("*", Role::Viewer)]] {
            assert!(!actor(several).is_for_one());
        }
        let actor = actor(&[("w2", Role::Viewer), ("*", Role::Viewer), ("w1", Role::Owner)]);
        assert_eq!(actor.workspaces().collect::<Vec<_>>(), ["w1", "w2"]);
    }

    #[test]
    fn u07_another_workspace_is_refused_in_the_same_words_whether_it_exists_or_not() {
        let actor = actor(&[("w1", Role::Owner)]);
        let existing = actor.require(&workspace("w2"), Role::Viewer).unwrap_err();
        let missing = actor.require(&workspace("nothing-here"), Role::Owner).unwrap_err();
        assert_eq!(existing, missing);
        assert_eq!(existing, Problem::from(AuthError::WrongWorkspace));
        assert_eq!((existing.status(), existing.body().contains("w2")), (403, false));
    }

    #[test]
    fn creating_needs_ownership_of_the_id_or_of_everything() {
        let named = actor(&[("w1", Role::Owner)]);
        assert!(named.require_create(Some(&workspace("w1"))).is_ok());
        assert!(named.require_create(Some(&workspace("w2"))).is_err());
        assert!(named.require_create(None).is_err());
        assert!(actor(&[("*", Role::Owner)]).require_create(None).is_ok());
        assert!(actor(&[("*", Role::Editor)]).require_create(None).is_err());
    }

    #[test]
    fn a3_secrets_are_long_enough_and_never_printed() {
        assert_eq!(ApiSecret::new(&[1; 31]).unwrap_err(), KeyError::SecretTooShort);
        assert_eq!(
            format!("{:?}", ApiSecret::new(b"do not print me, not in any log!").unwrap()),
            "ApiSecret(..)"
        );
    }

    #[test]
    fn u01_only_an_expired_token_asks_for_a_fresh_one() {
        let code = |error: AuthError| Problem::from(error).code;
        assert_eq!(code(AuthError::Expired), ProblemCode::TokenExpired);
        for error in
            [AuthError::Missing, AuthError::Malformed, AuthError::BadSignature, AuthError::NotYetValid]
        {
            assert_eq!(code(error), ProblemCode::Unauthorized);
        }
        for error in [AuthError::WrongAudience, AuthError::WrongWorkspace, AuthError::AgentOnRelay] {
            assert_eq!(code(error), ProblemCode::Forbidden);
        }
    }
}
