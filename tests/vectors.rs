//! Golden vectors made with stock Yjs (tests/data/vectors.json) and the frames of hostile peers
//! (tests/data/frames.json): validated, merged in every order, projected, compared with yrs.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::string_slice, clippy::unwrap_used)]

use serde_json::Value;
use yrelay::document::checkpoint::{EMPTY_UPDATE, chunks, diff, for_yrs, has_hole, merge, state_vector};
use yrelay::document::error::DocumentError;
use yrelay::document::project;
use yrelay::document::validate::{UpdateInfo, validate_state_vector, validate_update};
use yrelay::protocol::error::DecodeError;
use yrelay::protocol::varint::{Reader, write_var_uint};
use yrs::updates::decoder::Decode;
use yrs::{Doc, GetString, ReadTxn, StateVector, Transact, Update};

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn load(text: &str, list: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(text).unwrap()[list].as_array().unwrap().clone()
}

fn vectors() -> Vec<Value> {
    load(include_str!("data/vectors.json"), "vectors")
}

fn vector(id: &str) -> Value {
    vectors().into_iter().find(|vector| vector["id"] == id).unwrap()
}

fn updates(vector: &Value) -> Vec<Vec<u8>> {
    let list = vector["updates_v1"].as_array();
    list.into_iter().flatten().map(|update| unhex(update.as_str().unwrap())).collect()
}

fn merged(updates: &[Vec<u8>]) -> Vec<u8> {
    let parts: Vec<&[u8]> = updates.iter().map(Vec::as_slice).collect();
    merge(&parts).unwrap()
}

/// A state vector as the JSON object that the vectors file has.
fn decoded(state_vector: &[u8]) -> Value {
    validate_state_vector(state_vector).unwrap();
    let mut reader = Reader::new(state_vector);
    let mut map = serde_json::Map::new();
    for _ in 0..reader.var_uint().unwrap() {
        let client = reader.var_uint().unwrap();
        map.insert(client.to_string(), reader.var_uint().unwrap().into());
    }
    map.into()
}

/// The part of a projection that the vectors file states; an absent root is an empty text.
fn assert_shows(update: &[u8], expected: &Value, id: &str) {
    let shown = project::json(update).unwrap();
    for (root, value) in expected.as_object().unwrap() {
        let actual = shown.get(root).cloned().unwrap_or_else(|| "".into());
        assert_eq!(&actual, value, "{id}, root {root}");
        if value.is_string() {
            assert_eq!(project::text(update, Some(root)).unwrap(), value.as_str().unwrap(), "{id}");
        }
    }
}

fn orders(count: usize) -> Vec<Vec<usize>> {
    let forward: Vec<usize> = (0..count).collect();
    if count > 5 {
        return vec![forward.clone(), forward.into_iter().rev().collect()];
    }
    let mut all = vec![vec![]];
    for _ in 0..count {
        let extend = |order: Vec<usize>| {
            let rest: Vec<usize> = forward.iter().copied().filter(|next| !order.contains(next)).collect();
            rest.into_iter().map(move |next| [order.clone(), vec![next]].concat())
        };
        all = all.into_iter().flat_map(extend).collect();
    }
    all
}

#[test]
fn every_vector_validates_and_merges_to_what_yjs_shows() {
    let mut checked = 0;
    for vector in vectors() {
        let id = vector["id"].as_str().unwrap();
        let updates = updates(&vector);
        for update in &updates {
            validate_update(update).unwrap_or_else(|error| panic!("{id}: {error}"));
        }
        // V15 is two replicas with one client id: no order is right.
        if updates.is_empty() || id == "V15" {
            continue;
        }
        let all = merged(&updates);
        validate_update(&all).unwrap();
        if vector["expect"]["json"].is_object() {
            assert_shows(&all, &vector["expect"]["json"], id);
        }
        assert_eq!(decoded(&state_vector(&all).unwrap()), vector["expect"]["stateVector"], "{id}");
        assert_eq!(has_hole(&all).unwrap(), vector["expect"]["pendingStructs"] == true, "{id}");
        checked += 1;
    }
    assert!(checked >= 18, "only {checked} vectors");
}

#[test]
fn every_order_and_every_repetition_gives_the_same_update() {
    for vector in vectors() {
        let updates = updates(&vector);
        if updates.len() < 2 || vector["id"] == "V15" {
            continue;
        }
        let expected = merged(&updates);
        for order in orders(updates.len()) {
            let shuffled: Vec<Vec<u8>> = order.iter().map(|at| updates[*at].clone()).collect();
            assert_eq!(merged(&shuffled), expected, "{} in order {order:?}", vector["id"]);
            // One at a time, each of them twice, onto a growing checkpoint.
            let mut checkpoint = EMPTY_UPDATE.to_vec();
            for update in shuffled.iter().chain(&shuffled) {
                checkpoint = merge(&[&checkpoint, update]).unwrap();
            }
            assert_eq!(checkpoint, expected, "{} one by one {order:?}", vector["id"]);
        }
    }
}

#[test]
fn a_merged_vector_is_the_same_document_in_yrs() {
    for vector in vectors() {
        if vector["roots"] != serde_json::json!({ "t": "text" }) || vector["id"] == "V15" {
            continue;
        }
        let (parts, whole) = (Doc::new(), Doc::new());
        for update in updates(&vector) {
            parts.transact_mut().apply_update(Update::decode_v1(&update).unwrap()).unwrap();
        }
        let all = merged(&updates(&vector));
        whole.transact_mut().apply_update(Update::decode_v1(&all).unwrap()).unwrap();
        let text = |doc: &Doc| doc.get_or_insert_text("t").get_string(&doc.transact());
        assert_eq!(text(&parts), text(&whole), "{}", vector["id"]);
        assert_eq!(parts.transact().state_vector(), whole.transact().state_vector(), "{}", vector["id"]);
    }
}

#[test]
fn v10_a_hole_is_seen_and_v11_its_filling_heals_it() {
    let hole = merged(&updates(&vector("V10")));
    assert!(has_hole(&hole).unwrap());
    assert_eq!(decoded(&state_vector(&hole).unwrap()), serde_json::json!({ "19": 1 }));
    assert_eq!(project::text(&hole, None).unwrap(), "1", "what waits is not shown");
    let healed = merged(&[hole, unhex("01011301841300013200")]);
    assert!(!has_hole(&healed).unwrap());
    assert_eq!(healed, merged(&updates(&vector("V11"))));
    assert_eq!(project::text(&healed, None).unwrap(), "1234");
    for tail in updates(&vector("V11")).iter().skip(1) {
        assert!(has_hole(tail).unwrap(), "a client that does not begin at 0");
        assert_eq!(state_vector(tail).unwrap(), [0]);
    }
}

#[test]
fn v13_a_delete_of_something_missing_is_a_hole() {
    let updates = updates(&vector("V13"));
    assert!(has_hole(&updates[0]).unwrap());
    assert!(!has_hole(&merged(&updates)).unwrap());
}

#[test]
fn v14_an_origin_in_a_missing_client_is_a_hole() {
    let updates = updates(&vector("V14"));
    assert!(has_hole(&merged(&updates[1..])).unwrap());
    assert!(!has_hole(&merged(&updates)).unwrap());
}

#[test]
fn v18_values_survive_a_merge_byte_for_byte() {
    let all = merged(&updates(&vector("V18")));
    let shown = project::json(&all).unwrap();
    let keys: Vec<&str> = shown["m"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["", "__proto__x", "arr", "big", "bin", "float", "neg0", "nul", "👍"]);
    assert_eq!(shown["m"]["big"], 9_007_199_254_740_991_u64);
    assert_eq!(shown["m"]["nul"], "a\0b");
    assert!(all.windows(2).any(|bytes| bytes == [0x7d, 0x40]), "minus zero is still minus zero");
}

#[test]
fn v24_a_paste_of_100_000_characters() {
    let mut update = vec![1, 1, 27, 0, 4, 1, 1, b't', 0xa0, 0x8d, 0x06];
    update.extend(b"q".repeat(100_000));
    update.push(0);
    assert_eq!(update.len() as u64, vector("V24")["update_v1_len"].as_u64().unwrap());
    assert_eq!(validate_update(&update), Ok(UpdateInfo { structs: 1, deletes: 0 }));
    assert_eq!(project::text(&update, None).unwrap().len(), 100_000);
    assert_eq!(
        chunks(&update, 2_000).map(<[u8]>::len).collect::<Vec<_>>(),
        [vec![2_000; 50], vec![12]].concat()
    );
    assert_eq!(chunks(&update, 2_000).collect::<Vec<_>>().concat(), update);
}

#[test]
fn v25_merge_diff_and_state_vector_agree_with_the_reference_bytes() {
    let vector = vector("V25");
    let updates = updates(&vector);
    let first = unhex(vector["stateVectorOfFirst"].as_str().unwrap());
    assert_eq!(state_vector(&updates[0]).unwrap(), first);
    // Yjs keeps the three structs apart; we join them, as a Yjs document does.
    let reference = unhex(vector["merged_v1"].as_str().unwrap());
    let ours = merged(&updates);
    assert_eq!(ours, merge(&[&reference, &EMPTY_UPDATE]).unwrap());
    assert!(ours.len() < reference.len());
    // Without joins the bytes are the same.
    let expected = unhex(vector["diffAgainstFirst"].as_str().unwrap());
    assert_eq!(diff(&reference, &first).unwrap(), expected);
    assert_eq!(merge(&[&updates[0], &diff(&ours, &first).unwrap()]).unwrap(), ours);
}

#[test]
fn merging_nothing_or_one_update_decodes_nothing() {
    assert_eq!(merge(&[]).unwrap(), EMPTY_UPDATE);
    assert_eq!(merge(&[&[0xff]]).unwrap(), [0xff]);
    assert_eq!(diff(&[0xff], &[]).unwrap(), [0xff]);
    assert_eq!(diff(&[0xff], &[0]).unwrap(), [0xff]);
    assert!(merge(&[&[0xff], &EMPTY_UPDATE]).is_err());
    assert!(validate_update(&EMPTY_UPDATE).unwrap().is_empty());
}

#[test]
fn a_diff_gives_exactly_what_is_missing_and_all_deletes() {
    let updates = updates(&vector("V02"));
    let all = merged(&updates);
    assert_eq!(diff(&all, &[1, 12, 12]).unwrap(), [0, 1, 12, 2, 0, 1, 2, 5], "deletes only");
    let tail = diff(&all, &[1, 12, 5]).unwrap();
    assert_eq!(validate_update(&tail).unwrap().structs, 2);
    assert_eq!(merge(&[&updates[0], &tail]).unwrap(), all);
    assert_eq!(diff(&all, &[1, 99, 5]).unwrap(), all, "a client that nobody knows");
}

#[test]
fn text_names_the_only_root_or_says_which_there_are() {
    let text = updates(&vector("V01")).remove(0);
    let map = updates(&vector("V03")).remove(0);
    assert_eq!(project::text(&text, None).unwrap(), "hello");
    assert_eq!(project::text(&EMPTY_UPDATE, None).unwrap(), "");
    assert_eq!(project::text(&text, Some("absent")).unwrap(), "");
    let error = project::text(&merged(&[text, map]), None).unwrap_err();
    assert_eq!(error.to_string(), "the document has several roots; name one of: m, t");
}

#[test]
fn state_vectors_are_bounded_by_their_bytes() {
    assert_eq!(validate_state_vector(&[0]), Ok(()));
    assert_eq!(validate_state_vector(&[1, 101, 2]), Ok(()));
    assert_eq!(validate_state_vector(&[]), Err(DecodeError::Truncated));
    assert_eq!(validate_state_vector(&[1, 101, 2, 0]), Err(DecodeError::TrailingBytes));
    // F27: 2^31 - 1 clients in 5 bytes.
    assert_eq!(validate_state_vector(&[0xff, 0xff, 0xff, 0xff, 0x07]), Err(DecodeError::Truncated));
    let too_large = [1, 101, 0xff, 0xff, 0xff, 0xff, 0x1f];
    assert_eq!(validate_state_vector(&too_large), Err(DecodeError::TooLarge));
    assert_eq!(StateVector::decode_v1(&[1, 101, 2]).unwrap().len(), 1);
}

/// The update in a frame of `frames.json`, without the y-protocols envelope.
fn framed(id: &str) -> Vec<u8> {
    let frames = load(include_str!("data/frames.json"), "frames");
    let frame = frames.iter().find(|frame| frame["id"] == id).unwrap();
    let frame = unhex(frame["hex"].as_str().unwrap());
    let mut reader = Reader::new(&frame);
    assert_eq!(reader.var_uint(), Ok(0), "{id} is a sync message");
    assert!(matches!(reader.var_uint(), Ok(1 | 2)), "{id} holds an update");
    reader.var_bytes().unwrap().to_vec()
}

#[test]
fn w01_frames_with_a_valid_update_pass() {
    // The garbage of F33 is behind the message: that is for the message layer to refuse.
    for id in ["F03", "F04", "F33", "F37"] {
        assert_eq!(validate_update(&framed(id)), Ok(UpdateInfo { structs: 1, deletes: 0 }), "{id}");
    }
}

#[test]
fn w01_malformed_updates_are_refused() {
    for (id, error) in [
        ("F28", DecodeError::Truncated),
        ("F31", DecodeError::Truncated),
        ("F32", DecodeError::Truncated),
        ("F35", DecodeError::TrailingBytes),
    ] {
        assert_eq!(validate_update(&framed(id)), Err(error), "{id}");
    }
}

#[test]
fn w06_nesting_bombs_are_refused_on_a_small_stack() {
    let bomb = |levels: usize| {
        let mut update = vec![1, 1, 0x66, 0, 8, 1, 1, b'm', 1];
        update.extend([0x75, 1].repeat(levels));
        update.extend([0x7e, 0]);
        update
    };
    let small = std::thread::Builder::new().stack_size(128 * 1024);
    let check = move || {
        assert!(validate_update(&bomb(512)).is_ok());
        for levels in [513, 5_500, 20_000, 100_000] {
            assert_eq!(validate_update(&bomb(levels)), Err(DecodeError::TooLarge), "{levels} levels");
        }
    };
    small.spawn(check).unwrap().join().unwrap();
}

/// Data that is not part of the repository: read where it is, skipped where it is not.
fn shared(name: &str) -> Option<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// Base64 with padding.
fn unbase64(text: &str) -> Vec<u8> {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> =
        text.chars().filter_map(|digit| alphabet.find(digit)).map(|at| at as u32).collect();
    let quad = |four: &[u32]| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(quad).collect()
}

fn base64_list(list: &Value) -> Vec<Vec<u8>> {
    list.as_array().unwrap().iter().map(|update| unbase64(update.as_str().unwrap())).collect()
}

#[test]
fn histories_of_many_clients_show_what_yjs_shows() {
    let Some(golden) = shared("golden_subset.json") else { return };
    for case in golden["cases"].as_array().unwrap() {
        let updates = base64_list(&case["updates_v1"]);
        assert!(updates.iter().all(|update| validate_update(update).is_ok()), "{}", case["id"]);
        let all = merged(&updates);
        let shown = project::json(&all).unwrap();
        let expect = &case["expect"];
        assert_eq!(project::text(&all, Some("text")).unwrap(), expect["text"], "{}", case["id"]);
        for name in ["map", "array"] {
            let actual = shown.get(name).filter(|value| *value != "");
            let blank = if name == "map" { serde_json::json!({}) } else { serde_json::json!([]) };
            assert_eq!(actual.unwrap_or(&blank), &expect[name], "{} {name}", case["id"]);
        }
    }
}

#[test]
fn a_session_of_5000_edits_merges_in_any_order_to_a_small_checkpoint() {
    let Some(trace) = shared("trace_updates.json") else { return };
    let mut updates = base64_list(&trace["updates"]);
    let all = merged(&updates);
    assert!(!has_hole(&all).unwrap());
    assert_eq!(decoded(&state_vector(&all).unwrap()), trace["endStateVector"]);
    let text = project::text(&all, None).unwrap();
    assert_eq!(text.len() as u64, trace["endTextLength"].as_u64().unwrap());
    updates.reverse();
    updates.rotate_left(1_234);
    assert_eq!(merged(&updates), all);
    let bytes: usize = updates.iter().map(Vec::len).sum();
    assert!(all.len() * 3 < bytes, "{} of {bytes} bytes", all.len());
}

/// XML elements one inside the other, the last of which holds an array of `values` nested arrays.
fn nested(elements: usize, values: usize) -> Vec<u8> {
    let mut structs = vec![7, 1, 1, b'x', 3, 1, b'p'];
    for clock in 1..elements {
        structs.extend([7, 0, 5]);
        write_var_uint(&mut structs, clock as u64 - 1);
        structs.extend([3, 1, b'p']);
    }
    structs.extend([8, 0, 5]);
    write_var_uint(&mut structs, elements as u64 - 1);
    structs.push(1);
    structs.extend([0x75, 1].repeat(values));
    structs.push(0x7e);
    let mut update = vec![1];
    write_var_uint(&mut update, elements as u64 + 1);
    update.extend([5, 0]);
    update.extend(structs);
    update.push(0);
    update
}

#[test]
fn p8_types_nested_without_end_are_told_apart_on_the_stack_of_a_worker() {
    let check = || {
        let deep = nested(500, 512);
        validate_update(&deep).unwrap();
        assert!(project::text(&deep, None).unwrap().starts_with("<p><p><p>"));
        assert!(project::json(&deep).unwrap()["x"].is_string());
        let doc = Doc::new();
        let loadable = Update::decode_v1(&for_yrs(&deep).unwrap()).unwrap();
        doc.transact_mut().apply_update(loadable).unwrap();
        drop(doc);
        for elements in [600, 100_000] {
            let too_deep = nested(elements, 1);
            validate_update(&too_deep).unwrap();
            assert!(matches!(project::json(&too_deep), Err(DocumentError::Unsupported(_))));
            assert!(matches!(project::text(&too_deep, None), Err(DocumentError::Unsupported(_))));
            assert!(matches!(for_yrs(&too_deep), Err(DocumentError::Unsupported(_))));
            assert!(!has_hole(&merged(&[too_deep, deep.clone()])).unwrap());
        }
    };
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(check).unwrap().join().unwrap();
}
