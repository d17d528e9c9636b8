//! What a WebSocket upgrade asks for, before and after its token is verified. The same on every
//! relay: everything is refused before a room exists (section 3).

use super::credentials::{UpgradeCredentials, upgrade_credentials};
use super::path::{NodePath, WorkspaceId};
use super::problem::{Problem, ProblemCode};
use super::query::Query;
use super::role::{ActorKind, Role};
use super::token::ScopeClaims;

/// The document that binary frames on the workspace channel belong to.
pub const DEFAULT_DOCUMENT: &str = "main";

/// An upgrade whose token is not verified yet. Not `Debug`: it holds the token (A3).
#[derive(Clone)]
pub struct Upgrade {
    /// The room that it wants.
    pub workspace: WorkspaceId,
    /// Its token, and the sub-protocol to echo.
    pub credentials: UpgradeCredentials,
    document: String,
    epoch: Result<Option<u64>, Problem>,
}

/// A connection that may enter a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Who.
    pub sub: String,
    /// Whether it is a person: services connect as well and are no presence.
    pub is_person: bool,
    /// Whether it may change documents (A5).
    pub can_write: bool,
    /// When its token ends, in milliseconds since the Unix epoch.
    pub expires_at: u64,
    /// The document that its binary frames belong to.
    pub document: String,
    /// The epoch that it states (W11).
    pub epoch: Option<u64>,
}

impl Upgrade {
    /// Reads the `Upgrade` and `Sec-WebSocket-Protocol` headers and the query of a relay's address.
    ///
    /// # Errors
    /// 426 `upgrade_required`, or 401 for credentials that are missing or cannot be read.
    pub fn read(
        upgrade: Option<&str>,
        protocols: Option<&str>,
        query: &Query,
        (workspace, document): (&WorkspaceId, Option<&NodePath>),
    ) -> Result<Self, Problem> {
        if upgrade.is_none_or(|upgrade| !upgrade.eq_ignore_ascii_case("websocket")) {
            return Err(Problem::new(ProblemCode::UpgradeRequired));
        }
        Ok(Self {
            workspace: workspace.clone(),
            credentials: upgrade_credentials(query, protocols)?,
            document: document.map_or(DEFAULT_DOCUMENT, NodePath::as_str).to_owned(),
            // Told only to who holds a good token.
            epoch: query.epoch(),
        })
    }

    /// Lets the holder of a verified token in.
    ///
    /// # Errors
    /// 403 for the token of another workspace, 400 for an epoch that is no number.
    pub fn admit(&self, claims: ScopeClaims) -> Result<Admission, Problem> {
        claims.require_workspace(&self.workspace)?;
        Ok(Admission {
            is_person: claims.kind == ActorKind::Human,
            can_write: claims.role >= Role::Editor,
            expires_at: claims.exp.saturating_mul(1000),
            document: self.document.clone(),
            epoch: self.epoch.clone()?,
            sub: claims.sub,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::token::Purpose;

    fn read(upgrade: Option<&str>, protocols: Option<&str>, query: &str) -> Result<Upgrade, Problem> {
        let workspace = WorkspaceId::parse("w").unwrap();
        Upgrade::read(upgrade, protocols, &Query::parse(query).unwrap(), (&workspace, None))
    }

    fn claims(workspace: &str) -> ScopeClaims {
        ScopeClaims {
            purpose: Purpose::Relay,
            workspace: WorkspaceId::parse(workspace).unwrap(),
            sub: "ada".to_owned(),
            kind: ActorKind::Human,
            role: Role::Viewer,
            exp: 7,
            jti: None,
        }
    }

    #[test]
    fn n02_what_is_no_websocket_upgrade_is_426() {
        for upgrade in [None, Some(""), Some("h2c"), Some("websocket, h2c")] {
            let problem = read(upgrade, Some("yrelay, a.b.c"), "").err().unwrap();
            assert_eq!(problem.code, ProblemCode::UpgradeRequired, "{upgrade:?}");
        }
        assert!(read(Some("WebSocket"), Some("yrelay, a.b.c"), "").is_ok());
    }

    #[test]
    fn a2_the_holder_of_a_token_enters_its_workspace_alone() {
        let upgrade = read(Some("websocket"), None, "token=a.b.c&epoch=3").ok().unwrap();
        let admission = upgrade.admit(claims("w")).unwrap();
        assert_eq!(
            admission,
            Admission {
                sub: "ada".to_owned(),
                is_person: true,
                can_write: false,
                expires_at: 7_000,
                document: DEFAULT_DOCUMENT.to_owned(),
                epoch: Some(3),
            }
        );
        assert_eq!(upgrade.admit(claims("other")).unwrap_err().code, ProblemCode::Forbidden);
    }

    #[test]
    fn a_bad_epoch_is_told_after_the_token() {
        let upgrade = read(Some("websocket"), None, "token=a.b.c&epoch=x").ok().unwrap();
        assert_eq!(upgrade.admit(claims("other")).unwrap_err().code, ProblemCode::Forbidden);
        assert_eq!(upgrade.admit(claims("w")).unwrap_err().code, ProblemCode::BadRequest);
    }
}
