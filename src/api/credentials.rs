//! Where a token is in a request, and how it stays out of everything else (A3, U05).

use super::auth::AuthError;
use super::problem::Problem;
use super::query::{Query, decode_form};

/// The sub-protocol that says "a token follows", and the only one that is ever echoed.
pub const SUBPROTOCOL: &str = "yrelay";

/// The token of `Authorization: Bearer …`.
///
/// # Errors
/// [`AuthError::Missing`] without the header, [`AuthError::Malformed`] for another scheme or
/// several tokens.
pub fn bearer(authorization: Option<&str>) -> Result<&str, AuthError> {
    let header = authorization.map(str::trim).filter(|text| !text.is_empty()).ok_or(AuthError::Missing)?;
    let (scheme, token) = header.split_once(' ').ok_or(AuthError::Malformed)?;
    let token = token.trim_start_matches(' ');
    if scheme.eq_ignore_ascii_case("bearer") && is_token(token) {
        Ok(token)
    } else {
        Err(AuthError::Malformed)
    }
}

/// What a WebSocket upgrade brings along. Not `Debug`: it holds the token (A3).
#[derive(Clone, PartialEq, Eq)]
pub struct UpgradeCredentials {
    /// The scope token.
    pub token: String,
    /// The `Sec-WebSocket-Protocol` of the response. A browser that offered one and gets none
    /// fails the connection with 1006, so the marker must be echoed; the token never is.
    pub echo: Option<&'static str>,
}

/// Finds the token of an upgrade, in the query or in `Sec-WebSocket-Protocol`.
///
/// | `Sec-WebSocket-Protocol` | `?token=` | outcome |
/// | --- | --- | --- |
/// | `yrelay, <token>` | no | the token; `yrelay` is echoed |
/// | `yrelay` | yes | the query's token; `yrelay` is echoed |
/// | none | yes | the query's token; nothing is echoed |
/// | `yrelay`, or none | no | missing: 401 |
/// | `yrelay, <token>` | yes | malformed, 401: two tokens |
/// | anything else, such as a token alone | either | malformed, 401: nothing could be echoed |
///
/// # Errors
/// [`AuthError::Missing`] or [`AuthError::Malformed`].
pub fn upgrade_credentials(query: &Query, protocols: Option<&str>) -> Result<UpgradeCredentials, AuthError> {
    let in_query = query_token(query)?;
    let offered: Vec<&str> = protocols.unwrap_or("").split(',').map(str::trim).collect();
    let (token, echo) = match (offered.as_slice(), in_query) {
        ([""], in_query) => (in_query.ok_or(AuthError::Missing)?, None),
        ([SUBPROTOCOL], in_query) => (in_query.ok_or(AuthError::Missing)?, Some(SUBPROTOCOL)),
        ([SUBPROTOCOL, token], None) => (*token, Some(SUBPROTOCOL)),
        _ => return Err(AuthError::Malformed),
    };
    if is_token(token) {
        Ok(UpgradeCredentials { token: token.to_owned(), echo })
    } else {
        Err(AuthError::Malformed)
    }
}

/// The token of `?token=`, for a stream that cannot send a header.
///
/// # Errors
/// [`AuthError::Malformed`] when it is given twice.
pub fn query_token(query: &Query) -> Result<Option<&str>, AuthError> {
    query.value(TOKEN_PARAMETER).map(|token| token.filter(|text| !text.is_empty())).map_err(malformed)
}

/// An address as logs may have it: the value of every token parameter, and whatever looks like a
/// signed token anywhere, is replaced by `redacted` (A3).
#[must_use]
pub fn redact_url(url: &str) -> String {
    let mut redacted = String::with_capacity(url.len());
    // `#` too: some flows return tokens in the fragment.
    for (index, part) in url.split_inclusive(['?', '&', '#', ';']).enumerate() {
        let (pair, end) = match part.chars().next_back() {
            Some(end @ ('?' | '&' | '#' | ';')) => (part.trim_end_matches(end), Some(end)),
            _ => (part, None),
        };
        match pair.split_once('=') {
            Some((name, _)) if index > 0 && is_token_parameter(name) => {
                redacted.push_str(name);
                redacted.push('=');
                redacted.push_str(REDACTED);
            }
            _ => redacted.push_str(pair),
        }
        redacted.extend(end);
    }
    redact_text(&redacted)
}

/// Any text with whatever looks like a signed token replaced: a run of base64url that starts as
/// every JSON object does (`eyJ`) and goes on over a dot.
#[must_use]
pub fn redact_text(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let in_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut rest = text;
    while let Some(start) = rest.find("eyJ") {
        let Some((before, found)) = rest.split_at_checked(start) else { break };
        let end = found.find(|c| !in_token(c)).unwrap_or(found.len());
        let Some((run, after)) = found.split_at_checked(end) else { break };
        redacted.push_str(before);
        redacted.push_str(if run.contains('.') { REDACTED } else { run });
        rest = after;
    }
    redacted.push_str(rest);
    redacted
}

/// Whether the text can be a bearer token at all (`b64token` of RFC 6750, without padding).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_token_parameter(name: &str) -> bool {
    let name = decode_form(name).unwrap_or_default();
    TOKEN_PARAMETERS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn malformed(_: Problem) -> AuthError {
    AuthError::Malformed
}

/// The parameter that holds our token.
const TOKEN_PARAMETER: &str = "token";

/// Its name, and names that clients use by mistake.
const TOKEN_PARAMETERS: [&str; 4] = [TOKEN_PARAMETER, "access_token", "authorization", "jwt"];

const REDACTED: &str = "redacted";

#[cfg(test)]
mod tests {
    use super::*;

    fn upgrade(query: &str, protocols: Option<&str>) -> Result<(String, Option<&'static str>), AuthError> {
        upgrade_credentials(&Query::parse(query).unwrap(), protocols).map(|found| (found.token, found.echo))
    }

    #[test]
    fn a_bearer_token_is_one_word_after_the_scheme() {
        assert_eq!(bearer(Some("Bearer a.b-_c")), Ok("a.b-_c"));
        assert_eq!(bearer(Some("bearer  abc ")), Ok("abc"));
        for missing in [None, Some(""), Some("  ")] {
            assert_eq!(bearer(missing), Err(AuthError::Missing));
        }
        for bad in
            ["Bearer", "Bearer ", "abc", "Basic abc", "Bearer a b", "Bearer a,b", "Bearer a=", "Bearer é"]
        {
            assert_eq!(bearer(Some(bad)), Err(AuthError::Malformed), "{bad}");
        }
    }

    #[test]
    fn u05_only_the_marker_is_echoed() {
        let marked = Some(SUBPROTOCOL);
        assert_eq!(upgrade("", Some("yrelay, a.b.c")), Ok(("a.b.c".to_owned(), marked)));
        assert_eq!(upgrade("", Some("yrelay,a.b.c")), Ok(("a.b.c".to_owned(), marked)));
        assert_eq!(upgrade("token=a.b.c", Some("yrelay")), Ok(("a.b.c".to_owned(), marked)));
        assert_eq!(upgrade("epoch=1&token=a.b.c", None), Ok(("a.b.c".to_owned(), None)));
    }

    #[test]
    fn u05_marker_only_token_only_and_nothing_are_refused() {
        assert_eq!(upgrade("", Some("yrelay")), Err(AuthError::Missing));
        assert_eq!(upgrade("", None), Err(AuthError::Missing));
        assert_eq!(upgrade("token=", None), Err(AuthError::Missing));
        for protocols in ["a.b.c", "a.b.c, yrelay", "yrelay, a.b.c, x", "yrelay,", "chat", "YRELAY, a.b.c"] {
            assert_eq!(upgrade("", Some(protocols)), Err(AuthError::Malformed), "{protocols}");
        }
        assert_eq!(upgrade("token=x", Some("yrelay, y")), Err(AuthError::Malformed));
        assert_eq!(upgrade("token=x", Some("chat")), Err(AuthError::Malformed));
        assert_eq!(upgrade("token=x&token=y", None), Err(AuthError::Malformed));
        assert_eq!(upgrade("token=a%20b", None), Err(AuthError::Malformed));
    }

    #[test]
    fn a3_tokens_are_removed_from_addresses() {
        let cases = [
            ("wss://r.example/ws/w?token=abc&epoch=1", "wss://r.example/ws/w?token=redacted&epoch=1"),
            ("/ws/w?epoch=1&TOKEN=abc", "/ws/w?epoch=1&TOKEN=redacted"),
            ("/x?%74oken=abc", "/x?%74oken=redacted"),
            ("/x?token=a=b=c", "/x?token=redacted"),
            ("/x?a#access_token=abc", "/x?a#access_token=redacted"),
            ("/x?a;token=abc", "/x?a;token=redacted"),
            ("/x?token=", "/x?token=redacted"),
            ("/x/eyJhbGciOiJI.eyJz.sig-_/y", "/x/redacted/y"),
            ("/x?q=eyJhbGciOiJI.eyJz.sig", "/x?q=redacted"),
            ("/x?tokens=abc&since=3", "/x?tokens=abc&since=3"),
            ("/x/token=abc/é?limit=1", "/x/token=abc/é?limit=1"),
            ("/eyJust/a", "/eyJust/a"),
            ("", ""),
        ];
        for (url, expected) in cases {
            assert_eq!(redact_url(url), expected);
        }
    }
}
