//! The allow-list of origins, the same for WebSocket, SSE, REST and MCP on every relay (A3).

use super::problem::{Problem, ProblemCode};

/// Origins that may send requests from a browser. Compared byte for byte: no wildcard, no prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OriginList(Vec<String>);

impl OriginList {
    /// Reads a list separated by commas or white space. Each entry is as a browser sends it:
    /// `scheme://host[:port]` in lower case, without a path; or `null` for sandboxed pages and
    /// local files.
    ///
    /// # Errors
    /// The first entry that no browser could send, such as one that ends in `/`.
    pub fn parse(list: &str) -> Result<Self, String> {
        let entries = list.split([',', ' ', '\t', '\n', '\r']).filter(|entry| !entry.is_empty());
        entries
            .map(|entry| if is_origin(entry) { Ok(entry.to_owned()) } else { Err(entry.to_owned()) })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether a request with this `Origin` is allowed. One without it is: it does not come from
    /// a page of another site, and the token still has to be good.
    ///
    /// # Errors
    /// `origin_not_allowed`. `null` is refused unless it is listed.
    pub fn check(&self, origin: Option<&str>) -> Result<(), Problem> {
        match origin {
            Some(origin) if !self.0.iter().any(|listed| listed == origin) => {
                Err(ProblemCode::OriginNotAllowed.into())
            }
            _ => Ok(()),
        }
    }
}

fn is_origin(entry: &str) -> bool {
    let Some((scheme, host)) = entry.split_once("://") else { return entry == "null" };
    let host_ok =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b':' | b'[' | b']');
    !scheme.is_empty()
        && scheme
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.'))
        && !host.is_empty()
        && host.bytes().all(host_ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a3_origins_match_exactly() {
        let list = OriginList::parse("https://app.example, http://localhost:8787").unwrap();
        assert_eq!(list.check(Some("https://app.example")), Ok(()));
        assert_eq!(list.check(Some("http://localhost:8787")), Ok(()));
        assert_eq!(list.check(None), Ok(()));
        let refused = [
            "https://app.example.evil.example",
            "https://evil-app.example",
            "http://app.example",
            "https://app.example:443",
            "https://app.example/",
            "https://APP.example",
            "http://localhost",
            "null",
            "",
        ];
        for origin in refused {
            assert_eq!(list.check(Some(origin)).unwrap_err().status(), 403, "{origin}");
        }
    }

    #[test]
    fn null_is_allowed_only_when_listed_and_an_empty_list_allows_no_page() {
        assert!(OriginList::parse("null").unwrap().check(Some("null")).is_ok());
        let empty = OriginList::parse(" ").unwrap();
        assert!(empty.check(Some("https://app.example")).is_err() && empty.check(None).is_ok());
    }

    #[test]
    fn entries_that_no_browser_sends_are_mistakes() {
        for bad in [
            "https://app.example/",
            "*",
            "https://*.example",
            "app.example",
            "https://App.example",
            "https://",
        ] {
            assert_eq!(OriginList::parse(bad), Err(bad.to_owned()));
        }
        assert!(OriginList::parse("tauri://localhost http://[::1]:80").is_ok());
    }
}
