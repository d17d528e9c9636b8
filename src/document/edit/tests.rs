use proptest::prelude::*;
use serde_json::{Value, json};
use yrs::updates::decoder::Decode;
use yrs::{Doc, GetString, Map, OffsetKind, Options, ReadTxn, StateVector, Text, Transact, Update};

use super::*;
use crate::document::checkpoint::{merge, state_vector};
use crate::document::project;
use crate::document::validate::validate_update;

/// A document that is edited, as the server stores it.
struct Stored {
    update: Vec<u8>,
    edits: u64,
}

impl Stored {
    fn new() -> Self {
        Self { update: EMPTY_UPDATE.to_vec(), edits: 0 }
    }

    /// A text of one person.
    fn text(text: &str) -> Self {
        let mut stored = Self::new();
        stored.edit(&[Edit::Append(plain(text))]).unwrap();
        stored
    }

    fn edit(&mut self, edits: &[Edit]) -> Result<Edited, EditError> {
        self.edits += 1;
        let edited = edit(&[&self.update], &[("content", edits)], 1_000 + self.edits)?;
        self.keep(&edited);
        Ok(edited)
    }

    fn keep(&mut self, edited: &Edited) {
        validate_update(&edited.update).unwrap();
        self.update = merge(&[&self.update, &edited.update]).unwrap();
        assert_eq!(sorted(&edited.vector), sorted(&state_vector(&self.update).unwrap()));
    }

    fn shown(&self) -> String {
        project::text(&self.update, Some("content")).unwrap()
    }

    fn json(&self) -> Value {
        project::json(&self.update).unwrap()["content"].clone()
    }

    fn load(&self, client: u64) -> Doc {
        let doc = Doc::with_options(Options {
            offset_kind: OffsetKind::Utf16,
            ..Options::with_client_id(yrs::block::ClientID::new(client))
        });
        doc.get_or_insert_text("content");
        doc.transact_mut().apply_update(Update::decode_v1(&self.update).unwrap()).unwrap();
        doc
    }
}

fn sorted(vector: &[u8]) -> StateVector {
    StateVector::decode_v1(vector).unwrap()
}

fn plain(text: &str) -> Inserted {
    Inserted { text: text.to_owned(), attributes: None }
}

fn quote(text: &str) -> Quote {
    Quote { text: text.to_owned(), occurrence: None }
}

fn nth(text: &str, occurrence: u32) -> Quote {
    Quote { text: text.to_owned(), occurrence: Some(occurrence) }
}

fn replace(old: &str, new: &str) -> Edit {
    Edit::Replace(quote(old), new.to_owned())
}

fn put(pointer: &str, value: &Value) -> Edit {
    Edit::Put(Pointer::parse(pointer).unwrap(), AnyValue::of(value))
}

fn insert(pointer: &str, value: &Value) -> Edit {
    Edit::InsertItem(Pointer::parse(pointer).unwrap(), AnyValue::of(value))
}

fn remove(pointer: &str) -> Edit {
    Edit::Remove(Pointer::parse(pointer).unwrap())
}

fn refusal(result: Result<Edited, EditError>) -> (usize, Refusal) {
    match result {
        Err(EditError::Refused { index, why }) => (index, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn text_edits_do_what_they_say() {
    let mut stored = Stored::text("one two three");
    stored
        .edit(&[
            replace("two", "2"),
            Edit::Insert(Spot::Before(quote("three")), plain("and ")),
            Edit::Insert(Spot::After(quote("one")), plain(",")),
            Edit::Insert(Spot::At(0), plain("> ")),
            Edit::Append(plain("!")),
            replace(" 2", ""),
        ])
        .unwrap();
    assert_eq!(stored.shown(), "> one, and three!");
    stored.edit(&[Edit::Set("> one, or three?".to_owned())]).unwrap();
    assert_eq!(stored.shown(), "> one, or three?");
    let nothing = stored.edit(&[Edit::Set(stored.shown()), replace("one", "one")]).unwrap();
    assert!(nothing.is_empty());
}

#[test]
fn a_quote_has_to_name_one_place() {
    let mut stored = Stored::text("a b a b a");
    assert_eq!(refusal(stored.edit(&[replace("b", "c")])), (0, Refusal::QuoteAmbiguous(2)));
    let second = Edit::Replace(nth("a", 2), "x".to_owned());
    assert_eq!(refusal(stored.edit(&[second.clone(), replace("z", "")])), (1, Refusal::QuoteNotFound(0)));
    assert_eq!(stored.shown(), "a b a b a", "nothing is half made");
    let fourth = Edit::Replace(nth("a", 4), String::new());
    assert_eq!(refusal(stored.edit(&[fourth])), (0, Refusal::QuoteNotFound(3)));
    stored.edit(&[second]).unwrap();
    assert_eq!(stored.shown(), "a b x b a");
    assert_eq!(refusal(stored.edit(&[replace("", "c")])), (0, Refusal::QuoteNotFound(0)));
}

#[test]
fn r5_offsets_are_utf16_and_never_inside_a_character() {
    let at = |offset| [Edit::Insert(Spot::At(offset), plain("|"))];
    let mut stored = Stored::text("a😀e\u{301}");
    assert_eq!(refusal(stored.edit(&at(2))), (0, Refusal::SplitsCharacter));
    assert_eq!(refusal(stored.edit(&at(6))), (0, Refusal::OutOfRange(5)));
    stored.edit(&at(4)).unwrap();
    stored.edit(&at(3)).unwrap();
    stored.edit(&at(1)).unwrap();
    assert_eq!(stored.shown(), "a|😀|e|\u{301}");
    stored.edit(&[replace("😀", "👷‍♀️"), replace("\u{301}", "")]).unwrap();
    assert_eq!(stored.shown(), "a|👷‍♀️|e|");
}

#[test]
fn a_quote_is_found_across_formats_and_past_what_was_deleted() {
    let mut stored = Stored::text("one two three");
    let bold: Attributes = vec![("bold".to_owned(), "true".to_owned())];
    stored.edit(&[Edit::Format(quote("two"), bold.clone())]).unwrap();
    stored.edit(&[replace("ne tw", "X")]).unwrap();
    assert_eq!(stored.shown(), "oXo three");
    stored
        .edit(&[Edit::Insert(Spot::At(0), Inserted { text: "B".to_owned(), attributes: Some(bold) })])
        .unwrap();
    stored.edit(&[replace("BoXo t", "")]).unwrap();
    assert_eq!(stored.shown(), "hree");
}

#[test]
fn maps_and_arrays_are_edited_by_pointer() {
    let mut stored = Stored::new();
    stored.edit(&[put("/title", &json!("x")), put("/n", &json!({"a": [1, 2.5, -70, null]}))]).unwrap();
    stored
        .edit(&[put("/title", &json!("y")), put("/a~1b", &json!(3_000_000_000_u64)), remove("/n")])
        .unwrap();
    assert_eq!(stored.json(), json!({"title": "y", "a/b": 3_000_000_000_u64}));
    assert_eq!(refusal(stored.edit(&[remove("/n")])), (0, Refusal::PointerNotFound));
    assert!(matches!(refusal(stored.edit(&[put("/title/x", &json!(1))])), (0, Refusal::NotApplicable(_))));
    assert!(matches!(refusal(stored.edit(&[insert("/list", &json!(1))])), (0, Refusal::NotApplicable(_))));
    assert!(matches!(refusal(stored.edit(&[Edit::Append(plain("x"))])), (0, Refusal::NotApplicable(_))));

    let mut list = Stored::new();
    list.edit(&[insert("/-", &json!("b")), insert("/0", &json!("a")), insert("/-", &json!("c"))]).unwrap();
    list.edit(&[put("/1", &json!({"x": true})), insert("/2", &json!(-0.5))]).unwrap();
    assert_eq!(list.json(), json!(["a", {"x": true}, -0.5, "c"]));
    list.edit(&[remove("/0"), remove("/1")]).unwrap();
    assert_eq!(list.json(), json!([{"x": true}, "c"]));
    for pointer in ["/2", "/-", "/01", "/x"] {
        assert_eq!(refusal(list.edit(&[remove(pointer)])), (0, Refusal::PointerNotFound), "{pointer}");
    }
    assert_eq!(refusal(list.edit(&[insert("/3", &json!(1))])), (0, Refusal::PointerNotFound));
}

#[test]
fn pointers_are_those_of_rfc_6901() {
    let tokens = |text| Pointer::parse(text).map(|pointer| pointer.0);
    assert_eq!(tokens("/a~1b/~0/~01/"), Some(["a/b", "~", "~1", ""].map(str::to_owned).to_vec()));
    for bad in ["", "a", "/~", "/~2", "/a~"] {
        assert_eq!(tokens(bad), None, "{bad}");
    }
}

#[test]
fn a_map_inside_a_map_is_reached_by_pointer() {
    let doc = Doc::with_client_id(5);
    let root = doc.get_or_insert_map("content");
    {
        let mut txn = doc.transact_mut();
        let inner = root.insert(&mut txn, "inner", yrs::MapPrelim::from([("k", 1)]));
        inner.insert(&mut txn, "list", yrs::ArrayPrelim::from([1, 2, 3]));
    }
    let update = doc.transact().encode_state_as_update_v1(&StateVector::default());
    let mut stored = Stored { update, edits: 0 };
    stored
        .edit(&[put("/inner/k", &json!("new")), remove("/inner/list/1"), insert("/inner/list/2", &json!(4))])
        .unwrap();
    assert_eq!(stored.json(), json!({"inner": {"k": "new", "list": [1, 3, 4]}}));
}

#[test]
fn a_client_id_that_is_taken_is_not_used_again() {
    let first = edit(&[], &[("content", &[Edit::Append(plain("a"))])], u64::from(u32::MAX)).unwrap();
    let second =
        edit(&[&first.update], &[("content", &[Edit::Append(plain("b"))])], u64::from(u32::MAX)).unwrap();
    let update = merge(&[&first.update, &second.update]).unwrap();
    assert_eq!(project::text(&update, None).unwrap(), "ab");
}

/// An edit and what it does to a string.
#[derive(Debug, Clone)]
enum Step {
    Append(String),
    Insert(usize, String),
    Replace(usize, usize, String),
    Set(String),
}

fn step() -> impl Strategy<Value = Step> {
    let text = "[ab é😀\n]{0,6}";
    prop_oneof![
        text.prop_map(Step::Append),
        (any::<usize>(), text).prop_map(|(at, text)| Step::Insert(at, text)),
        (any::<usize>(), 1..6_usize, text).prop_map(|(at, len, text)| Step::Replace(at, len, text)),
        "[ab é😀\n]{0,20}".prop_map(Step::Set),
    ]
}

/// The edit, with the text as it is after it.
fn make(step: Step, shown: &str) -> Option<(Edit, String)> {
    let chars: Vec<char> = shown.chars().collect();
    let of = |part: &[char]| part.iter().collect::<String>();
    Some(match step {
        Step::Append(text) => (Edit::Append(plain(&text)), format!("{shown}{text}")),
        Step::Insert(at, text) => {
            let (before, after) = chars.split_at(at % (chars.len() + 1));
            let offset = of(before).encode_utf16().count() as u32;
            (Edit::Insert(Spot::At(offset), plain(&text)), of(before) + &text + &of(after))
        }
        Step::Replace(at, len, text) => {
            let start = at % chars.len().max(1);
            let end = (start + len).min(chars.len());
            let quoted = Some(of(chars.get(start..end)?)).filter(|quoted| !quoted.is_empty())?;
            let byte = of(&chars[..start]).len();
            let place = shown.match_indices(&quoted).position(|(found, _)| found == byte)?;
            let after = of(&chars[..start]) + &text + &of(&chars[end..]);
            (Edit::Replace(nth(&quoted, place as u32 + 1), text), after)
        }
        Step::Set(text) => (Edit::Set(text.clone()), text),
    })
}

proptest! {
    #[test]
    fn edits_do_to_a_document_what_they_do_to_a_string(steps in proptest::collection::vec(step(), 1..20)) {
        let mut stored = Stored::new();
        let mut model = String::new();
        for step in steps {
            let Some((edit, after)) = make(step, &model) else { continue };
            stored.edit(&[edit]).unwrap();
            model = after;
            prop_assert_eq!(stored.shown(), model.clone());
        }
        let doc = stored.load(1);
        prop_assert_eq!(doc.get_or_insert_text("content").get_string(&doc.transact()), model);
    }

    /// The same edits as one request.
    #[test]
    fn an_edit_sees_those_before_it(steps in proptest::collection::vec(step(), 1..12)) {
        let mut model = String::from("ab😀é ab");
        let mut stored = Stored::text(&model);
        let mut edits = Vec::new();
        for step in steps {
            let Some((edit, after)) = make(step, &model) else { continue };
            edits.push(edit);
            model = after;
        }
        stored.edit(&edits).unwrap();
        prop_assert_eq!(stored.shown(), model);
    }

    #[test]
    fn what_a_person_types_meanwhile_is_kept(
        text in "[ab é😀\n]{1,20}", at in any::<usize>(), steps in proptest::collection::vec(step(), 1..5)
    ) {
        let mut stored = Stored::text(&text);
        let doc = stored.load(1);
        let editor = doc.get_or_insert_text("content");
        let chars: Vec<char> = text.chars().collect();
        let offset: usize = chars[..at % (chars.len() + 1)].iter().map(|c| c.len_utf16()).sum();
        editor.insert(&mut doc.transact_mut(), offset as u32, "HUMAN");
        for step in steps {
            let Some((edit, _)) = make(step, &stored.shown()) else { continue };
            let edited = stored.edit(&[edit]).unwrap();
            doc.transact_mut().apply_update(Update::decode_v1(&edited.update).unwrap()).unwrap();
        }
        let typed = doc.transact().encode_state_as_update_v1(&StateVector::default());
        let both = merge(&[&stored.update, &typed]).unwrap();
        let shown = project::text(&both, Some("content")).unwrap();
        prop_assert!(shown.contains("HUMAN"), "{shown:?}");
        prop_assert_eq!(editor.get_string(&doc.transact()), shown);
    }
}
