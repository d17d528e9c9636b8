#![no_main]

#[path = "../../tests/entrances/mod.rs"]
mod entrances;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entrances::enter("route", data));
