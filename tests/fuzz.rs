//! Every entrance over mutations of its corpus. Deterministic: a failure prints the entrance and the bytes,
//! to be kept as a file of the corpus. The gate runs a fixed number of inputs;
//! `YRELAY_FUZZ_SECONDS=60 cargo test --test fuzz` runs each entrance for so long.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod entrances;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use entrances::{ENTRANCES, Entrance};
use fastrand::Rng;

/// Inputs of the short run, each entrance: all of them take some seconds in the test profile.
const INPUTS: u64 = 10_000;
/// A room is built, used and ended for each input.
const ROOM_INPUTS: u64 = 2_000;
/// Of the thread that everything runs on: what a Durable Object's WASM instance has.
const STACK: usize = 1024 * 1024;
/// Longer inputs show nothing that these do not.
const MAX_BYTES: usize = 4096;

/// What the grammars are made of: numbers at their limits, halves of characters, words of the protocol.
const WORDS: &[&[u8]] = &[
    b"\xff\xff\xff\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x10",
    b"\xff\xff\xff\xff\x0f",
    b"\x80",
    b"\0\0",
    b"\xed\xa0\xbd",
    b"\"\\ud83d\"",
    b"\"type\":",
    b"\"__proto__\":",
    b"null",
    b"1e400",
    b"-1",
    b"9007199254740993",
    b"[[[[[[[[",
    b"{\"a\":{\"a\":{\"a\":",
    b"%2F",
    b"%00",
    b"/../",
    b"&since=",
    b"\"op\":\"set\",",
    b"\n",
];

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join("corpus").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    // The same order on every file system, or a run could not be repeated.
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn mutate(random: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[random.usize(..seeds.len())].clone();
    for _ in 0..random.usize(0..5) {
        let at = random.usize(..=bytes.len());
        let end = (at + random.usize(..16)).min(bytes.len());
        match random.u8(..8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            1 if at < bytes.len() => bytes[at] = random.u8(..),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random.u8(..)),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let other = &seeds[random.usize(..seeds.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[random.usize(..=other.len())..]);
            }
            6 => drop(bytes.splice(at..at, WORDS[random.usize(..WORDS.len())].iter().copied())),
            _ => {
                let copy = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, copy));
            }
        }
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

/// Runs one entrance; says how many inputs it tried, and how many were taken.
fn run(entrance: &Entrance) -> (u64, u64) {
    let seconds = std::env::var("YRELAY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let limit = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let inputs = if matches!(entrance.name, "control" | "frame" | "session") { ROOM_INPUTS } else { INPUTS };
    let seeds = corpus(entrance.name);
    let mut random = Rng::with_seed(7);
    let (mut tried, mut taken) = (0, 0);
    while limit.map_or(tried < inputs, |limit| Instant::now() < limit) {
        // First the corpus itself.
        let whole = usize::try_from(tried).ok().and_then(|at| seeds.get(at)).cloned();
        let input = whole.unwrap_or_else(|| mutate(&mut random, &seeds));
        let outcome = catch_unwind(AssertUnwindSafe(|| (entrance.run)(&input)));
        let Ok(is_taken) = outcome else {
            panic!("{}: {:?}", entrance.name, input.escape_ascii().to_string())
        };
        tried += 1;
        taken += u64::from(is_taken);
    }
    (tried, taken)
}

#[test]
fn p08_no_entrance_breaks_on_what_anybody_sends() {
    let work = || {
        for entrance in &ENTRANCES {
            let (tried, taken) = run(entrance);
            println!("{}: {tried} inputs, {taken} taken", entrance.name);
            assert!(taken > tried / 100, "{}: {taken} of {tried} inputs were taken", entrance.name);
            assert!(taken < tried, "{}: nothing was refused", entrance.name);
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work);
    if let Err(panic) = thread.unwrap().join() {
        std::panic::resume_unwind(panic);
    }
}
