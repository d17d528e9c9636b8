//! Query strings: find a parameter, decode it, refuse it when it is given twice.

use super::limits::{DEFAULT_PAGE, MAX_PAGE, MAX_QUERY_BYTES};
use super::problem::{Problem, ProblemCode};
use crate::protocol::change::ChangeKind;
use crate::protocol::limits::MAX_PATH_BYTES;

/// The parameters of an address. Names are looked up exactly; unknown ones are ignored.
#[derive(Clone, PartialEq, Eq)]
pub struct Query {
    // Not `Debug`: a token may be among them (A3).
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Decodes what follows `?`, without it. `+` is a space, as forms write it.
    ///
    /// # Errors
    /// `bad_request` for a broken escape, text that is not UTF-8, or an oversized query.
    pub fn parse(query: &str) -> Result<Self, Problem> {
        if query.len() > MAX_QUERY_BYTES {
            return Err(Problem::because(ProblemCode::BadRequest, "The query string is too long."));
        }
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decode_form(name), decode_form(value)) {
                (Some(name), Some(value)) => pairs.push((name, value)),
                _ => {
                    return Err(Problem::because(
                        ProblemCode::BadRequest,
                        "The query string has a broken escape or is not UTF-8.",
                    ));
                }
            }
        }
        Ok(Self { pairs })
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// `bad_request` when it is given more than once: two readers would pick different ones.
    pub fn value(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(bad_parameter(name, "is given more than once")),
            (value, None) => Ok(value),
        }
    }

    /// `limit`: from 1 to 1000, 100 when absent.
    ///
    /// # Errors
    /// `bad_request`.
    pub fn limit(&self) -> Result<u32, Problem> {
        let Some(text) = self.value("limit")? else { return Ok(DEFAULT_PAGE) };
        decimal(text)
            .and_then(|limit| u32::try_from(limit).ok())
            .filter(|limit| (1..=MAX_PAGE).contains(limit))
            .ok_or_else(|| bad_parameter("limit", "is not a number from 1 to 1000"))
    }

    /// `since`: a clock (F2). `None` when absent or empty.
    ///
    /// # Errors
    /// `invalid_cursor`.
    pub fn since(&self) -> Result<Option<u64>, Problem> {
        self.value("since")?.filter(|text| !text.is_empty()).map(parse_clock).transpose()
    }

    /// `epoch`: the epoch of the document that the caller has (W11).
    ///
    /// # Errors
    /// `bad_request`.
    pub fn epoch(&self) -> Result<Option<u64>, Problem> {
        let Some(text) = self.value("epoch")? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| bad_parameter("epoch", "is not a number"))
    }

    /// A parameter that holds the beginning or the whole of a path: `prefix` or `after`. It need
    /// not be a valid path (`jobs/` is a useful prefix), only short and printable.
    ///
    /// # Errors
    /// `invalid_path`.
    pub fn path_text(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.value(name)?.filter(|text| !text.is_empty()) {
            Some(text) if text.len() > MAX_PATH_BYTES || text.chars().any(char::is_control) => {
                Err(Problem::because(ProblemCode::InvalidPath, format!("`{name}` cannot begin a path.")))
            }
            other => Ok(other),
        }
    }

    /// `kinds`: names of change kinds, separated by commas. `None` means all of them.
    ///
    /// # Errors
    /// `bad_request` for an unknown name.
    pub fn kinds(&self) -> Result<Option<Vec<ChangeKind>>, Problem> {
        let Some(text) = self.value("kinds")?.filter(|text| !text.is_empty()) else { return Ok(None) };
        let kind =
            |name| ChangeKind::parse(name).ok_or_else(|| bad_parameter("kinds", "has an unknown name"));
        text.split(',').map(kind).collect::<Result<_, _>>().map(Some)
    }
}

/// A clock in decimal digits, at most 2^53 - 1 so that JavaScript keeps it exact.
///
/// # Errors
/// `invalid_cursor`.
pub fn parse_clock(text: &str) -> Result<u64, Problem> {
    decimal(text).ok_or_else(|| ProblemCode::InvalidCursor.into())
}

/// Digits only, without the sign and the leading zeros that `str::parse` would let through.
pub(super) fn decimal(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten().filter(|number| *number <= MAX_SAFE_INTEGER)
}

/// The largest whole number that JavaScript holds exactly.
pub(super) const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Decodes one name or value of a query: `+` is a space, `%XX` a byte.
pub(super) fn decode_form(text: &str) -> Option<String> {
    super::path::decode_segment(&text.replace('+', " "))
}

fn bad_parameter(name: &str, what: &str) -> Problem {
    Problem::because(ProblemCode::BadRequest, format!("The parameter `{name}` {what}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(text).unwrap()
    }

    #[test]
    fn values_are_decoded_and_found_by_exact_name() {
        let query = query("a=1&b=x%20y+z&&c&d=e=f&%61%62=2");
        assert_eq!(query.value("a").unwrap(), Some("1"));
        assert_eq!(query.value("b").unwrap(), Some("x y z"));
        assert_eq!(query.value("c").unwrap(), Some(""));
        assert_eq!(query.value("d").unwrap(), Some("e=f"));
        assert_eq!(query.value("ab").unwrap(), Some("2"));
        assert_eq!(query.value("A").unwrap(), None);
    }

    #[test]
    fn a_parameter_given_twice_is_refused() {
        assert_eq!(query("a=1&a=1").value("a").unwrap_err().code, ProblemCode::BadRequest);
        assert!(Query::parse("a=%f").is_err() && Query::parse("a=%ff").is_err());
        assert!(Query::parse(&"a".repeat(MAX_QUERY_BYTES + 1)).is_err());
    }

    #[test]
    fn limits_and_cursors_are_plain_decimal_numbers() {
        assert_eq!(query("").limit().unwrap(), 100);
        assert_eq!(query("limit=1000").limit().unwrap(), 1000);
        for bad in ["0", "1001", "-1", "+1", "1e2", "", "01", " 1"] {
            assert!(query(&format!("limit={}", bad.replace('+', "%2B"))).limit().is_err(), "{bad}");
        }
        assert_eq!(query("since=0").since().unwrap(), Some(0));
        assert_eq!(query("since=").since().unwrap(), None);
        assert_eq!(query("since=9007199254740991").since().unwrap(), Some(MAX_SAFE_INTEGER));
        for bad in ["9007199254740992", "18446744073709551616", "-1", "abc", "1.0", "007"] {
            let problem = query(&format!("since={bad}")).since().unwrap_err();
            assert_eq!(problem.code, ProblemCode::InvalidCursor, "{bad}");
        }
    }

    #[test]
    fn kinds_and_prefixes_are_checked() {
        assert_eq!(
            query("kinds=put,delete").kinds().unwrap(),
            Some(vec![ChangeKind::Put, ChangeKind::Delete])
        );
        assert_eq!(query("kinds=").kinds().unwrap(), None);
        assert!(query("kinds=put,").kinds().is_err() && query("kinds=Put").kinds().is_err());
        assert_eq!(query("prefix=jobs/").path_text("prefix").unwrap(), Some("jobs/"));
        assert!(query("prefix=a%00").path_text("prefix").is_err());
    }
}
