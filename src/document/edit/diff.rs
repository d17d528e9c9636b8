//! What to change in a text so that it becomes another, and as little as is worth finding.
//!
//! Compared by words: of two versions of a sentence the letters that happen to be the same are
//! nothing that anybody wrote. All borders are between characters.

/// A range of the old text, in bytes, and what comes in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hunk<'n> {
    pub start: usize,
    pub end: usize,
    pub text: &'n str,
}

/// The hunks that turn `old` into `new`, in order, none of them next to another.
pub(super) fn diff<'n>(old: &str, new: &'n str) -> Vec<Hunk<'n>> {
    let Some(whole) = trimmed(old, 0, new) else { return Vec::new() };
    let old_middle = old.get(whole.start..whole.end).unwrap_or_default();
    if old_middle.is_empty() || whole.text.is_empty() {
        return vec![whole];
    }
    let (old_words, new_words) = (words(old_middle), words(whole.text));
    let Some(kept) = kept_words(&old_words, &new_words) else { return vec![whole] };
    let mut hunks = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    let ends = [(old_words.len(), new_words.len())];
    let (mut old_byte, mut new_byte) = (0_usize, 0_usize);
    for (old_next, new_next) in kept.into_iter().chain(ends) {
        let old_gap = length(&old_words, old_at, old_next);
        let new_gap = length(&new_words, new_at, new_next);
        let old_part = old_middle.get(old_byte..old_byte.saturating_add(old_gap)).unwrap_or_default();
        let new_part = whole.text.get(new_byte..new_byte.saturating_add(new_gap)).unwrap_or_default();
        hunks.extend(trimmed(old_part, whole.start.saturating_add(old_byte), new_part));
        let word = old_words.get(old_next).map_or(0, |word| word.len());
        old_byte = old_byte.saturating_add(old_gap).saturating_add(word);
        new_byte = new_byte.saturating_add(new_gap).saturating_add(word);
        (old_at, new_at) = (old_next.saturating_add(1), new_next.saturating_add(1));
    }
    hunks
}

/// One hunk without the characters that both sides begin or end with; nothing if they are the same.
fn trimmed<'n>(old: &str, start: usize, new: &'n str) -> Option<Hunk<'n>> {
    let mut prefix = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    while !old.is_char_boundary(prefix) || !new.is_char_boundary(prefix) {
        prefix = prefix.saturating_sub(1);
    }
    let (old, new) = (old.get(prefix..)?, new.get(prefix..)?);
    let mut suffix = old.bytes().rev().zip(new.bytes().rev()).take_while(|(a, b)| a == b).count();
    let (mut old_end, mut new_end) = (old.len().saturating_sub(suffix), new.len().saturating_sub(suffix));
    while !old.is_char_boundary(old_end) || !new.is_char_boundary(new_end) {
        suffix = suffix.saturating_sub(1);
        (old_end, new_end) = (old.len().saturating_sub(suffix), new.len().saturating_sub(suffix));
    }
    let start = start.saturating_add(prefix);
    let hunk = Hunk { start, end: start.saturating_add(old_end), text: new.get(..new_end)? };
    (old_end > 0 || new_end > 0).then_some(hunk)
}

/// Runs of letters and digits with their combining marks, and every other character by itself. Scripts
/// that put no space between words, and emoji, come after U+2E80.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if is_letter(first) {
            rest.find(|c: char| !is_letter(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let Some((word, after)) = rest.split_at_checked(end) else { break };
        words.push(word);
        rest = after;
    }
    words
}

// Not `char::is_alphanumeric`, whose tables are larger than all of this.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || ('\u{aa}'..'\u{2000}').contains(&c)
}

fn length(words: &[&str], from: usize, to: usize) -> usize {
    words.get(from..to).unwrap_or_default().iter().map(|word| word.len()).sum()
}

/// The words that stay, as pairs of places: the greedy algorithm of Myers. Nothing when the texts
/// differ so much that finding it costs more than it is worth.
fn kept_words(old: &[&str], new: &[&str]) -> Option<Vec<(usize, usize)>> {
    let mut steps = 0_usize;
    // Of each number of differences: how far along the old words each diagonal gets. A diagonal is
    // new place minus old place, counted from its lowest.
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    for differences in 0..=MAX_DIFFERENCES {
        let mut reached = Vec::with_capacity(differences.saturating_add(1));
        for down in 0..=differences {
            let mut old_at = step(rounds.last(), down);
            let Some(mut new_at) = new_place(old_at, down, differences) else {
                reached.push(old_at);
                continue;
            };
            while old_at < old.len() && new_at < new.len() && old.get(old_at) == new.get(new_at) {
                (old_at, new_at) = (old_at.saturating_add(1), new_at.saturating_add(1));
                steps = steps.saturating_add(1);
            }
            reached.push(old_at);
            if old_at >= old.len() && new_at >= new.len() {
                rounds.push(reached);
                return Some(walk_back(&rounds, old.len(), down));
            }
        }
        steps = steps.saturating_add(differences);
        if steps > MAX_STEPS {
            return None;
        }
        rounds.push(reached);
    }
    None
}

/// Where the `down`th diagonal of a round begins: from the round before, either by an old word that
/// goes (from the same `down`) or by a new one that comes (from one less), whichever is further.
fn step(before: Option<&Vec<usize>>, down: usize) -> usize {
    let Some(before) = before else { return 0 };
    let removed = before.get(down).map(|at| at.saturating_add(1));
    let added = down.checked_sub(1).and_then(|down| before.get(down)).copied();
    removed.max(added).unwrap_or(0)
}

/// The new place that belongs to an old one: after `differences` of which `down` are new words, it is
/// ahead by those and behind by the others.
fn new_place(old_at: usize, down: usize, differences: usize) -> Option<usize> {
    old_at.saturating_add(down).checked_sub(differences.saturating_sub(down))
}

/// From the end of the last round to the beginning, collecting the words that were passed.
fn walk_back(rounds: &[Vec<usize>], old_len: usize, mut down: usize) -> Vec<(usize, usize)> {
    let mut kept = Vec::new();
    let mut old_at = old_len;
    for differences in (0..rounds.len()).rev() {
        let before = differences.checked_sub(1).and_then(|round| rounds.get(round));
        let start = step(before, down);
        while old_at > start {
            old_at = old_at.saturating_sub(1);
            kept.extend(new_place(old_at, down, differences).map(|new_at| (old_at, new_at)));
        }
        let Some(before) = before else { break };
        let removed = before.get(down).map(|at| at.saturating_add(1));
        let added = down.checked_sub(1).and_then(|down| before.get(down)).copied();
        if removed >= added {
            old_at = old_at.saturating_sub(1);
        } else {
            down = down.saturating_sub(1);
        }
    }
    kept.reverse();
    kept
}

/// Words that may come or go before the rest is replaced as one. The rounds are kept for the way
/// back, half of the square of this; and each hunk cuts the text once or twice more.
const MAX_DIFFERENCES: usize = 128;

/// Words that may be compared: some milliseconds.
const MAX_STEPS: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn apply(old: &str, hunks: &[Hunk<'_>]) -> String {
        let mut text = old.to_owned();
        for hunk in hunks.iter().rev() {
            text.replace_range(hunk.start..hunk.end, hunk.text);
        }
        text
    }

    #[test]
    fn what_is_the_same_stays() {
        assert_eq!(diff("same", "same"), []);
        assert_eq!(diff("", ""), []);
        assert_eq!(diff("ab", "axb"), [Hunk { start: 1, end: 1, text: "x" }]);
        assert_eq!(diff("the old dog", "the dog"), [Hunk { start: 4, end: 8, text: "" }]);
        let hunks = diff("one two three four five", "one 2 three four 5");
        assert_eq!(hunks, [Hunk { start: 4, end: 7, text: "2" }, Hunk { start: 19, end: 23, text: "5" }]);
    }

    #[test]
    fn r5_borders_are_between_characters() {
        // The two share their first three bytes.
        assert_eq!(diff("a😀b", "a😁b"), [Hunk { start: 1, end: 5, text: "😁" }]);
        assert_eq!(diff("é", "è"), [Hunk { start: 0, end: 2, text: "è" }]);
        // The same last byte.
        assert_eq!(diff("xé", "x\u{129}"), [Hunk { start: 1, end: 3, text: "\u{129}" }]);
    }

    #[test]
    fn texts_that_have_little_in_common_are_replaced_as_one() {
        let text = |seed: usize| (0..5_000).map(|n| format!("{} ", n * seed)).collect::<String>();
        let (old, new) = (text(7), text(11));
        let hunks = diff(&old, &new);
        assert_eq!(hunks.len(), 1);
        assert_eq!(apply(&old, &hunks), new);
    }

    proptest! {
        #[test]
        fn the_hunks_make_the_new_text(old in "[ab é😀😁]{0,40}", new in "[ab é😀😁]{0,40}") {
            let hunks = diff(&old, &new);
            prop_assert!(hunks.windows(2).all(|pair| pair[0].end <= pair[1].start));
            prop_assert_eq!(apply(&old, &hunks), new);
        }

        #[test]
        fn one_changed_word_is_one_hunk(words in proptest::collection::vec("[a-z]{1,6}", 3..30), at in 0..30_usize) {
            let old = words.join(" ");
            let mut changed = words.clone();
            let at = at % words.len();
            changed[at] = "CHANGED".to_owned();
            let new = changed.join(" ");
            let hunks = diff(&old, &new);
            prop_assert_eq!(hunks.len(), 1);
            prop_assert_eq!(hunks[0].end - hunks[0].start, words[at].len());
        }
    }
}
