//! Text cut in two.

use std::borrow::Cow;

/// Both sides of a cut after `offset` UTF-16 code units. A character that is cut becomes U+FFFD
/// on both sides, as in Yjs. What is borrowed is not copied.
pub(super) fn split_text(text: Cow<'_, str>, offset: u32) -> (Cow<'_, str>, Cow<'_, str>) {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let (mut at, mut units) = if text.is_ascii() { (offset.min(text.len()), offset) } else { (0, 0) };
    let mut chars = text.get(at..).unwrap_or_default().chars();
    while units < offset {
        let Some(next) = chars.next() else { break };
        units = units.saturating_add(next.len_utf16());
        if units > offset {
            let before = text.get(..at).unwrap_or_default();
            return (format!("{before}\u{fffd}").into(), format!("\u{fffd}{}", chars.as_str()).into());
        }
        at = at.saturating_add(next.len_utf8());
    }
    match text {
        Cow::Borrowed(text) => {
            let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
            (before.into(), after.into())
        }
        Cow::Owned(text) => {
            let after = text.get(at..).unwrap_or_default().to_owned();
            let mut before = text;
            before.truncate(at);
            (before.into(), after.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_in_utf16_code_units_and_borrowed_text_stays_borrowed() {
        let cut = |offset| {
            let (borrowed, owned) =
                (split_text("aé😀z".into(), offset), split_text("aé😀z".to_owned().into(), offset));
            assert_eq!(borrowed, owned);
            borrowed
        };
        assert_eq!(cut(0), ("".into(), "aé😀z".into()));
        assert_eq!(cut(2), ("aé".into(), "😀z".into()));
        assert_eq!(cut(3), ("aé\u{fffd}".into(), "\u{fffd}z".into()));
        assert_eq!(cut(4), ("aé😀".into(), "z".into()));
        assert_eq!(cut(9), ("aé😀z".into(), "".into()));
        assert!(matches!(cut(2), (Cow::Borrowed(_), Cow::Borrowed(_))));
        assert_eq!(split_text("abc".into(), 2), ("ab".into(), "c".into()));
        assert_eq!(split_text("abc".into(), 9), ("abc".into(), "".into()));
    }
}
