//! Content negotiation of documents (RFC 9110, section 12.5.1).

use super::problem::{Problem, ProblemCode};

/// How a document is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFormat {
    /// The JSON of one root or of all.
    Json,
    /// The text of one root.
    Text,
    /// A Yjs update: all of it, or what a state vector lacks.
    Update,
}

/// What the response will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Representation {
    /// How the document is shown.
    pub format: DocumentFormat,
    /// The `Content-Type`, by the name the client asked for.
    pub content_type: &'static str,
}

/// Chooses by `Accept`. The highest `q` wins, then what the client wrote first; a wildcard stands
/// for a Yjs update where it can. Without the header it is a Yjs update. A range that cannot be
/// read is skipped.
///
/// # Errors
/// `not_acceptable` when nothing fits.
pub fn negotiate(accept: Option<&str>) -> Result<Representation, Problem> {
    let Some(header) = accept.filter(|header| !header.trim().is_empty()) else { return Ok(OFFERS[0].shown) };
    let ranges: Vec<Range<'_>> = header.split(',').filter_map(Range::parse).collect();
    let mut best: Option<(u16, usize, Representation)> = None;
    for offer in &OFFERS {
        // The most specific range decides about an offer, wherever it stands.
        let matching = ranges.iter().enumerate().filter(|(_, range)| range.precision(offer).is_some());
        let decisive = matching.max_by_key(|(index, range)| (range.precision(offer), usize::MAX - index));
        let Some((position, range)) = decisive else { continue };
        let better = best.is_none_or(|(q, at, _)| range.q > q || (range.q == q && position < at));
        if range.q > 0 && better {
            best = Some((range.q, position, offer.shown));
        }
    }
    best.map(|(_, _, shown)| shown).ok_or_else(|| ProblemCode::NotAcceptable.into())
}

/// Whether the client takes JSON: it says so, by name or by a wildcard, or says nothing.
#[must_use]
pub fn takes_json(accept: Option<&str>) -> bool {
    let Some(header) = accept.filter(|header| !header.trim().is_empty()) else { return true };
    let [.., json] = &OFFERS;
    let ranges = header.split(',').filter_map(Range::parse);
    let decisive = ranges.filter(|range| range.precision(json).is_some()).max_by_key(|r| r.precision(json));
    decisive.is_some_and(|range| range.q > 0)
}

/// A media type that a document has, in the order in which the server prefers them.
struct Offer {
    kind: &'static str,
    subtype: &'static str,
    shown: Representation,
}

const OFFERS: [Offer; 4] = [
    Offer {
        kind: "application",
        subtype: "octet-stream",
        shown: Representation { format: DocumentFormat::Update, content_type: "application/octet-stream" },
    },
    Offer {
        kind: "application",
        subtype: "x-yjs-update",
        shown: Representation { format: DocumentFormat::Update, content_type: "application/x-yjs-update" },
    },
    Offer {
        kind: "text",
        subtype: "plain",
        shown: Representation { format: DocumentFormat::Text, content_type: "text/plain; charset=utf-8" },
    },
    Offer {
        kind: "application",
        subtype: "json",
        shown: Representation { format: DocumentFormat::Json, content_type: "application/json" },
    },
];

/// One element of `Accept`.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    /// In thousandths.
    q: u16,
}

impl<'a> Range<'a> {
    fn parse(element: &'a str) -> Option<Self> {
        let mut parts = element.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut q = 1000;
        for parameter in parts {
            if let Some((name, value)) = parameter.split_once('=')
                && name.trim().eq_ignore_ascii_case("q")
            {
                q = parse_q(value.trim())?;
            }
        }
        Some(Self { kind, subtype, q })
    }

    /// How exactly the range names the offer: 2 the type, 1 its family, 0 anything.
    fn precision(&self, offer: &Offer) -> Option<u8> {
        let kind = self.kind.eq_ignore_ascii_case(offer.kind);
        match (self.kind, self.subtype) {
            ("*", "*") => Some(0),
            (_, "*") if kind => Some(1),
            (_, subtype) if kind && subtype.eq_ignore_ascii_case(offer.subtype) => Some(2),
            _ => None,
        }
    }
}

/// `0`, `1`, or either with up to three decimals, in thousandths.
fn parse_q(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let thousandths: u16 = format!("{decimals:0<3}").parse().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(accept: &str) -> Option<&'static str> {
        negotiate(Some(accept)).ok().map(|shown| shown.content_type)
    }

    const UPDATE: Option<&str> = Some("application/octet-stream");
    const YJS: Option<&str> = Some("application/x-yjs-update");
    const TEXT: Option<&str> = Some("text/plain; charset=utf-8");
    const JSON: Option<&str> = Some("application/json");

    #[test]
    fn each_format_is_reached_by_its_names() {
        for (accept, expected) in [
            ("application/octet-stream", UPDATE),
            ("application/x-yjs-update", YJS),
            ("text/plain", TEXT),
            ("TEXT/Plain;charset=utf-8", TEXT),
            ("text/*", TEXT),
            ("application/json", JSON),
            ("application/*", UPDATE),
            ("*/*", UPDATE),
            ("", UPDATE),
        ] {
            assert_eq!(chosen(accept), expected, "{accept}");
        }
        assert_eq!(negotiate(None).unwrap().format, DocumentFormat::Update);
    }

    #[test]
    fn the_highest_q_wins_then_what_is_written_first() {
        for (accept, expected) in [
            ("text/plain;q=0.5, application/json;q=0.9", JSON),
            ("application/json, text/plain", JSON),
            ("text/plain, application/json", TEXT),
            ("text/plain, */*", TEXT),
            ("*/*;q=0.1, text/plain;q=0.2", TEXT),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", UPDATE),
            ("application/*;q=0.3, application/json;q=0.4", JSON),
            ("application/json;q=0.999, text/plain;q=1.000", TEXT),
        ] {
            assert_eq!(chosen(accept), expected, "{accept}");
        }
    }

    #[test]
    fn q_zero_excludes_also_from_a_wildcard() {
        assert_eq!(chosen("application/octet-stream;q=0, */*"), YJS);
        assert_eq!(chosen("application/*;q=0, */*"), TEXT);
        assert_eq!(chosen("text/plain;q=0"), None);
        assert_eq!(chosen("*/*;q=0"), None);
    }

    #[test]
    fn nothing_that_fits_is_406() {
        for accept in
            ["image/png", "text/html", "*/plain", "text", "text/plain;q=2", "text/plain;q=0.1234", ","]
        {
            assert_eq!(negotiate(Some(accept)).unwrap_err().status(), 406, "{accept}");
        }
    }
}
