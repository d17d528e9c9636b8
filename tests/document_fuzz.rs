//! Hostile updates against the validator and all that works on what it lets through.
//!
//! Inputs are mutated real updates and updates made at random by the grammar, with references that
//! make no sense. Deterministic: a failure prints the seed and the bytes. The gate runs a fixed
//! number of rounds; `YRELAY_FUZZ_SECONDS=600 cargo test --test document_fuzz` runs for longer.

#![allow(clippy::disallowed_methods, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use yrelay::document::checkpoint::{EMPTY_UPDATE, diff, for_yrs, has_hole, merge, state_vector};
use yrelay::document::error::DocumentError;
use yrelay::document::project;
use yrelay::document::validate::{validate_state_vector, validate_update};
use yrelay::protocol::varint::{write_var_bytes, write_var_uint};
use yrs::updates::decoder::Decode;
use yrs::{Doc, OffsetKind, Options, ReadTxn, StateVector, Transact, Update};

/// Rounds of the short run: some seconds in the test profile.
const ROUNDS: u64 = 60_000;

/// Of the thread that everything runs on: what a Durable Object's WASM instance has.
const STACK: usize = 1024 * 1024;

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
            let text = *random.pick(&["a", "abc", "👍", "x👍y", "\0é"]);
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
    yrs_trouble: BTreeMap<String, (u64, Vec<u8>)>,
}

impl Tally {
    fn report(&self) {
        eprintln!("tried {} accepted {} shown {} yrs {}", self.tried, self.accepted, self.shown, self.in_yrs);
        for (t, (n, b)) in self.yrs_trouble.iter().take(12) {
            eprintln!("TROUBLE {n} {t}: {b:?}");
        }
    }
}

fn check(update: &[u8], base: &[u8], tally: &mut Tally) {
    tally.tried += 1;
    if validate_update(update).is_err() {
        assert!(merge(&[update, &EMPTY_UPDATE]).is_err(), "merge takes what the validator refuses");
        return;
    }
    tally.accepted += 1;
    let alone = merge(&[update, &EMPTY_UPDATE]).unwrap();
    assert_eq!(merge(&[&alone, &EMPTY_UPDATE]).unwrap(), alone, "a merged update is in its final form");
    assert_eq!(merge(&[&alone, update]).unwrap(), alone, "an update adds nothing twice");
    let both = merge(&[base, update]).unwrap();
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
                let result = catch_unwind(AssertUnwindSafe(|| in_yrs(&loadable)));
                let trouble = match result {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error,
                    Err(panic) => panic_text(panic.as_ref()),
                };
                tally.yrs_trouble.entry(trouble).or_insert_with(|| (0, loadable.clone())).0 += 1;
            }
            Err(DocumentError::Unsupported(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

fn in_yrs(update: &[u8]) -> Result<(), String> {
    let options = Options { offset_kind: OffsetKind::Utf16, ..Options::default() };
    let doc = Doc::with_options(options);
    let decoded = Update::decode_v1(update).map_err(|error| format!("decode: {error}"))?;
    doc.transact_mut().apply_update(decoded).map_err(|error| format!("apply: {error}"))?;
    let txn = doc.transact();
    txn.encode_state_as_update_v1(&StateVector::default());
    Ok(())
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
    thread.spawn(work).unwrap().join().unwrap()
}

#[test]
fn w04_invented_updates_never_break_what_accepts_them() {
    let tally = run("invented", invent);
    tally.report();
    assert!(tally.accepted > tally.tried / 3, "the generator makes mostly valid updates");
}

#[test]
fn w04_mutated_updates_never_break_what_accepts_them() {
    let mut random = Random::new(1);
    let seeds: Vec<Vec<u8>> = (0..500).map(|_| invent(&mut random)).collect();
    let tally = run("mutated", move |random| mutate(random, &seeds));
    tally.report();
    assert!(tally.accepted > tally.tried / 100);
}
