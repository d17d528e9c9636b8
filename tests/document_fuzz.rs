//! Hostile updates against the validator and all that works on what it lets through.
//!
//! Inputs are mutated real updates and updates made at random by the grammar, with references that
//! make no sense. Deterministic: a failure prints the seed and the bytes. The gate runs a fixed
//! number of rounds; `YRELAY_FUZZ_SECONDS=600 cargo test --test document_fuzz` runs for longer.
//! `YRELAY_FUZZ_OUT=folder` keeps what was accepted, for `tests/yjs/document.test.mjs`.

#![allow(clippy::disallowed_methods, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use yrelay::document::checkpoint::{
    EMPTY_UPDATE, diff, for_yrs, has_deletes, has_hole, merge, outline, state_vector,
};
use yrelay::document::edit::{AnyValue, Edit, Inserted, Pointer, Quote, Spot, edit as edit_document};
use yrelay::document::error::DocumentError;
use yrelay::document::project;
use yrelay::document::validate::{validate_state_vector, validate_update};
use yrelay::protocol::varint::{write_var_bytes, write_var_uint};
use yrs::types::{Attrs, ToJson};
use yrs::updates::decoder::Decode;
use yrs::{
    Array, Doc, GetString, Map, OffsetKind, Options, ReadTxn, StateVector, Text, Transact, Update, Xml,
    XmlElementPrelim, XmlFragment,
};

/// Rounds of the short run: some seconds in the test profile.
const ROUNDS: u64 = 60_000;

/// Of the thread that everything runs on: what a Durable Object's WASM instance has.
const STACK: usize = 1024 * 1024;

/// Client id of edits; the updates have others.
const EDITOR: u64 = 4_000_000_000;

/// Encoded `Any` values: undefined, null, integer, nested, bigint, text, bytes.
const ANY_VALUES: &[&[u8]] = &[
    &[127],
    &[126],
    &[125, 0x41],
    &[117, 1, 118, 1, 1, b'k', 120],
    &[122, 255, 255, 255, 255, 255, 255, 255, 255],
    &[119, 1, b's'],
    &[116, 1, 0],
];

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// An update by the grammar: a few clients, a few structs, references to anything nearby.
fn invent(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let mut clients: Vec<u64> = vec![1, 2, 3, 4];
    clients.rotate_left(random.below(4));
    clients.truncate(1 + random.below(4));
    write_var_uint(&mut out, clients.len() as u64);
    for client in &clients {
        let structs = 1 + random.below(6);
        write_var_uint(&mut out, structs as u64);
        write_var_uint(&mut out, *client);
        let mut clock = if random.chance(3) { random.below(6) as u64 } else { 0 };
        write_var_uint(&mut out, clock);
        for _ in 0..structs {
            clock += invent_struct(random, *client, clock, &mut out);
        }
    }
    clients.truncate(random.below(clients.len() + 1));
    write_var_uint(&mut out, clients.len() as u64);
    for client in &clients {
        let ranges = random.below(3);
        write_var_uint(&mut out, *client);
        write_var_uint(&mut out, ranges as u64);
        let mut clock = 0;
        for _ in 0..ranges {
            clock += random.below(6) as u64;
            let len = 1 + random.below(4) as u64;
            write_var_uint(&mut out, clock);
            write_var_uint(&mut out, len);
            clock += len;
        }
    }
    out
}

fn invent_struct(random: &mut Random, client: u64, clock: u64, out: &mut Vec<u8>) -> u64 {
    let len = 1 + random.below(4) as u64;
    if random.chance(12) {
        out.push(*random.pick(&[0, 10]));
        write_var_uint(out, len);
        return len;
    }
    let reference = *random.pick(&[1, 2, 3, 4, 4, 4, 5, 6, 6, 7, 7, 7, 8, 8, 9]);
    let flags = *random.pick(&[0x00, 0x00, 0x20, 0x20, 0x40, 0x80, 0x80, 0x80, 0xc0, 0xe0]);
    out.push(reference | flags);
    // A key holds one value; now and then not, to see it refused.
    let single = flags & 0x20 != 0 && reference != 1 && !random.chance(20);
    let len = if single { 1 } else { len };
    for flag in [0x80, 0x40] {
        if flags & flag != 0 {
            invent_id(random, client, clock, out);
        }
    }
    if flags & 0xc0 == 0 {
        if random.chance(2) {
            out.push(1);
            write_var_bytes(out, random.pick(&["t", "m", ""]).as_bytes());
        } else {
            out.push(0);
            invent_id(random, client, clock, out);
        }
        if flags & 0x20 != 0 {
            write_var_bytes(out, random.pick(&["k", "__proto__"]).as_bytes());
        }
    }
    invent_content(random, reference, len, out)
}

fn invent_id(random: &mut Random, own: u64, clock: u64, out: &mut Vec<u8>) {
    let client = if random.chance(2) && clock > 0 { own } else { 1 + random.below(4) as u64 };
    write_var_uint(out, client);
    let below = if client == own && !random.chance(20) { clock as usize } else { 8 };
    write_var_uint(out, random.below(below) as u64);
}

fn invent_content(random: &mut Random, reference: u8, len: u64, out: &mut Vec<u8>) -> u64 {
    let json = *random.pick(&[
        "null",
        "true",
        "\"\"",
        "{\"a\":[1,{}]}",
        "1e400",
        "\"\\ud83d\"",
        "18446744073709551615",
    ]);
    match reference {
        1 => {
            write_var_uint(out, len);
            return len;
        }
        2 => {
            write_var_uint(out, len);
            for _ in 0..len {
                write_var_bytes(out, random.pick(&[json, "undefined"]).as_bytes());
            }
            return len;
        }
        3 => write_var_bytes(out, b"\0\xff"),
        4 => {
            let text = if len == 1 { "a" } else { *random.pick(&["abc", "👍", "x👍y", "\0é"]) };
            write_var_bytes(out, text.as_bytes());
            return text.encode_utf16().count() as u64;
        }
        5 => write_var_bytes(out, json.as_bytes()),
        6 => {
            write_var_bytes(out, random.pick(&["bold", "", "ychange"]).as_bytes());
            write_var_bytes(out, json.as_bytes());
        }
        7 => {
            let kind = random.below(7) as u8;
            out.push(kind);
            if kind == 3 || kind == 5 {
                write_var_bytes(out, b"P");
            }
        }
        8 => {
            write_var_uint(out, len);
            for _ in 0..len {
                out.extend_from_slice(random.pick::<&[u8]>(ANY_VALUES));
            }
            return len;
        }
        _ => {
            write_var_bytes(out, b"guid");
            out.extend_from_slice(random.pick::<&[u8]>(&[b"\x76\0", b"\x76\x01\x08autoLoad\x78"]));
        }
    }
    1
}

fn mutate(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = random.pick(seeds).clone();
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len());
        match random.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random.next() as u8),
            4 if !bytes.is_empty() => drop(bytes.remove(at)),
            5 => {
                let other = random.pick(seeds);
                let from = random.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                let end = at + random.below(bytes.len() - at + 1).min(16);
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}

#[derive(Default)]
struct Tally {
    tried: u64,
    accepted: u64,
    shown: u64,
    in_yrs: u64,
    edited: u64,
    /// Lines for the script that asks Yjs: update, text of root `t`, in hex.
    lines: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(update: &[u8], base: &[u8], tally: &mut Tally) {
    tally.tried += 1;
    if validate_update(update).is_err() {
        assert!(merge(&[update, &EMPTY_UPDATE]).is_err(), "merge takes what the validator refuses");
        return;
    }
    tally.accepted += 1;
    let text = match project::text(update, Some("t")) {
        // XML is compared by the script's own documents.
        Ok(text) if !text.contains('<') && !text.contains("[object") => format!("={}", hex(text.as_bytes())),
        _ => "-".to_owned(),
    };
    writeln!(tally.lines, "{} {text}", hex(update)).unwrap();
    let alone = merge(&[update, &EMPTY_UPDATE]).unwrap();
    assert_eq!(merge(&[&alone, &EMPTY_UPDATE]).unwrap(), alone, "a merged update is in its final form");
    assert_eq!(merge(&[&alone, update]).unwrap(), alone, "an update adds nothing twice");
    let both = merge(&[base, update]).unwrap();
    let [known, own, all] = [base, update, &both].map(|whole| &whole[outline(whole).unwrap().deletes..]);
    assert!(has_deletes(all, own).unwrap() && has_deletes(all, known).unwrap());
    assert_eq!(has_deletes(known, own).unwrap(), has_deletes(known, all).unwrap());
    // Nine edits cost as much as all of the rest.
    if tally.accepted.is_multiple_of(4) {
        tally.edited += check_edits(&both);
    }
    for bytes in [&alone, &both] {
        validate_update(bytes).unwrap();
        let vector = state_vector(bytes).unwrap();
        validate_state_vector(&vector).unwrap();
        has_hole(bytes).unwrap();
        let rest = diff(bytes, &vector).unwrap();
        validate_update(&rest).unwrap();
        merge(&[bytes, &rest, update]).unwrap();
        match project::json(bytes) {
            Ok(_) => tally.shown += 1,
            Err(DocumentError::Unsupported(_)) => {}
            Err(error) => panic!("{error}"),
        }
        match project::text(bytes, None) {
            Ok(_) | Err(DocumentError::Ambiguous(_) | DocumentError::Unsupported(_)) => {}
            Err(error) => panic!("{error}"),
        }
        match for_yrs(bytes) {
            Ok(loadable) => {
                tally.in_yrs += 1;
                in_yrs(&loadable);
            }
            Err(DocumentError::Unsupported(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// An edit of the parts is that of the whole.
fn check_unmerged(parts: &[&[u8]]) {
    let edits =
        [Edit::Set("a b".to_owned()), Edit::Append(Inserted { text: "!".to_owned(), attributes: None })];
    let edited = |parts: &[&[u8]]| edit_document(parts, &[("t", &edits)], EDITOR);
    assert_eq!(edited(parts), edited(&[&merge(parts).unwrap()]));
}

/// Edits that are possible make an update that adds itself and nothing else. Returns how many were.
fn check_edits(update: &[u8]) -> u64 {
    let plain = |text: &str| Inserted { text: text.to_owned(), attributes: None };
    let bold = vec![("bold".to_owned(), "true".to_owned())];
    let formatted = Inserted { text: "é😀".to_owned(), attributes: Some(bold.clone()) };
    let quote = |text: &str| Quote { text: text.to_owned(), occurrence: Some(1) };
    let pointer = |text| Pointer::parse(text).unwrap();
    let value = || AnyValue::of(&serde_json::json!({"x": [1]}));
    let wishes = [
        Edit::Append(plain("end")),
        Edit::Insert(Spot::At(1), formatted),
        Edit::Format(quote("a"), bold),
        Edit::Replace(quote("a"), "b".to_owned()),
        Edit::Set("a b".to_owned()),
        Edit::Put(pointer("/k"), value()),
        Edit::Put(pointer("/0"), value()),
        Edit::InsertItem(pointer("/1"), value()),
        Edit::Remove(pointer("/0/0")),
    ];
    let mut made = 0;
    // One root each: all of them take three times as long.
    let root = ["t", "m", ""][update.len() % 3];
    for wish in &wishes {
        let Ok(edited) = edit_document(&[update], &[(root, std::slice::from_ref(wish))], EDITOR) else {
            continue;
        };
        validate_update(&edited.update).unwrap();
        let after = merge(&[update, &edited.update]).unwrap();
        assert_eq!(has_hole(&after).unwrap(), has_hole(update).unwrap());
        // What waits for something is in the second and, as in Yjs, not in the first.
        let vectors = [&edited.vector, &state_vector(&after).unwrap()];
        let [own, all] = vectors.map(|vector| StateVector::decode_v1(vector).unwrap());
        assert!(own <= all, "{own:?} {all:?}");
        if let (Edit::Set(text), Ok(shown)) = (wish, project::text(&after, Some(root))) {
            assert_eq!(shown, *text);
        }
        made += 1;
    }
    made
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// What passed [`for_yrs`] loads, and gives the state that it had.
fn in_yrs(update: &[u8]) {
    let doc = Doc::with_options(Options { offset_kind: OffsetKind::Utf16, ..Options::default() });
    let decoded = Update::decode_v1(update).unwrap();
    doc.transact_mut().apply_update(decoded).unwrap();
    let txn = doc.transact();
    txn.encode_state_as_update_v1(&StateVector::default());
    assert_eq!(txn.state_vector(), StateVector::decode_v1(&state_vector(update).unwrap()).unwrap());
}

/// Runs `round` with rising seeds on a small stack, and says which input failed.
fn run(name: &str, make: impl Fn(&mut Random) -> Vec<u8> + Send + 'static) -> Tally {
    let seconds = std::env::var("YRELAY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let start = Instant::now();
    let work = move || {
        let mut tally = Tally::default();
        for seed in 0.. {
            let done = match seconds {
                Some(seconds) => start.elapsed() > Duration::from_secs(seconds),
                None => seed >= ROUNDS,
            };
            if done {
                break;
            }
            let mut random = Random::new(seed + 1);
            let (base, update) = (invent(&mut random), make(&mut random));
            let base = if validate_update(&base).is_ok() { base } else { EMPTY_UPDATE.to_vec() };
            let result = catch_unwind(AssertUnwindSafe(|| check(&update, &base, &mut tally)));
            if let Err(panic) = result {
                panic!("seed {seed}: {}\nbase {base:?}\nupdate {update:?}", panic_text(panic.as_ref()));
            }
        }
        tally
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
    let tally = thread.spawn(work).unwrap().join().unwrap();
    if let Some(folder) = std::env::var_os("YRELAY_FUZZ_OUT") {
        std::fs::write(std::path::Path::new(&folder).join(name), &tally.lines).unwrap();
    }
    tally
}

#[test]
fn w04_invented_updates_never_break_what_accepts_them() {
    let tally = run("invented", invent);
    assert!(tally.edited > tally.accepted / 2, "most of what is shown can be edited");
    assert!(tally.accepted > tally.tried / 3, "the generator makes mostly valid updates");
}

#[test]
fn w04_mutated_updates_never_break_what_accepts_them() {
    let mut random = Random::new(1);
    let mut seeds: Vec<Vec<u8>> = (0..300).map(|_| invent(&mut random)).collect();
    for seed in 0..100 {
        seeds.extend(real_updates(&mut Random::new(seed)));
    }
    let tally = run("mutated", move |random| mutate(random, &seeds));
    assert!(tally.accepted > tally.tried / 100, "{} of {}", tally.accepted, tally.tried);
}

#[test]
fn d5_state_vector_merge_and_text_agree_with_yrs_on_real_documents() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let updates = real_updates(&mut random);
        let parts: Vec<&[u8]> = updates.iter().map(Vec::as_slice).collect();
        let all = merge(&parts).unwrap();
        assert!(!has_hole(&all).unwrap(), "seed {seed}");
        let some: Vec<&[u8]> = parts.iter().copied().filter(|_| !random.chance(3)).collect();
        check_unmerged(&parts);
        check_unmerged(&some);
        for bytes in [&all, &merge(&some).unwrap()] {
            let theirs = yrs::encode_state_vector_from_update_v1(bytes).unwrap();
            let ours = StateVector::decode_v1(&state_vector(bytes).unwrap()).unwrap();
            assert_eq!(ours, StateVector::decode_v1(&theirs).unwrap(), "seed {seed}");
        }
        let doc = Doc::with_options(Options { offset_kind: OffsetKind::Utf16, ..Options::default() });
        for update in &updates {
            doc.transact_mut().apply_update(Update::decode_v1(update).unwrap()).unwrap();
        }
        let (text, map, array) =
            (doc.get_or_insert_text("t"), doc.get_or_insert_map("m"), doc.get_or_insert_array("a"));
        let txn = doc.transact();
        let shown = project::json(&all).unwrap();
        assert_eq!(project::text(&all, Some("t")).unwrap(), text.get_string(&txn), "seed {seed}");
        for (name, theirs) in [("m", map.to_json(&txn)), ("a", array.to_json(&txn))] {
            let theirs = serde_json::to_value(theirs).unwrap();
            let ours = shown.get(name).cloned().unwrap_or_default();
            let blank = ours == "" || ours.is_null();
            assert!(ours == theirs || blank && theirs.to_string().len() == 2, "seed {seed}: {ours} {theirs}");
        }
    }
}

/// What three yrs replicas write that edit text, a map, an array and XML, and sync now and then.
fn real_updates(random: &mut Random) -> Vec<Vec<u8>> {
    let updates = Arc::new(Mutex::new(Vec::new()));
    let replicas: Vec<Doc> = (1..4).map(Doc::with_client_id).collect();
    for doc in &replicas {
        let updates = updates.clone();
        let note = move |_: &yrs::TransactionMut, event: &yrs::UpdateEvent| {
            updates.lock().unwrap().push(event.update.clone());
        };
        doc.observe_update_v1("note", note).unwrap();
    }
    for _ in 0..20 {
        let doc = random.pick(&replicas);
        if random.chance(4) {
            let other = random.pick(&replicas);
            let vector = other.transact().state_vector();
            let missing = doc.transact().encode_state_as_update_v1(&vector);
            other.transact_mut().apply_update(Update::decode_v1(&missing).unwrap()).unwrap();
        }
        edit(random, doc);
    }
    drop(replicas);
    Arc::into_inner(updates).map(|updates| updates.into_inner().unwrap()).unwrap_or_default()
}

fn edit(random: &mut Random, doc: &Doc) {
    let (text, map, array, xml) = (
        doc.get_or_insert_text("t"),
        doc.get_or_insert_map("m"),
        doc.get_or_insert_array("a"),
        doc.get_or_insert_xml_fragment("x"),
    );
    let mut txn = doc.transact_mut();
    let (text_len, array_len, xml_len) = (text.len(&txn), array.len(&txn), xml.len(&txn));
    let bold = || Attrs::from([("bold".into(), true.into())]);
    match random.below(9) {
        0 => text.push(&mut txn, "abc"),
        1 => text.insert(&mut txn, 0, if random.chance(2) { "x" } else { "hello" }),
        2 => text.insert_with_attributes(&mut txn, 0, "bold", bold()),
        3 => drop(text.insert_embed(&mut txn, text_len, yrs::Any::from("x"))),
        4 if text_len > 1 => text.remove_range(&mut txn, 0, 1),
        5 => drop(map.insert(&mut txn, *random.pick(&["k", "l"]), random.next() as u32)),
        6 => drop(array.insert(&mut txn, 0, yrs::MapPrelim::from([("n", 1)]))),
        7 if array_len > 0 => array.remove(&mut txn, random.below(array_len as usize) as u32),
        _ => {
            let element = xml.insert(&mut txn, xml_len, XmlElementPrelim::empty("p"));
            element.insert_attribute(&mut txn, "id", "1");
        }
    }
}
