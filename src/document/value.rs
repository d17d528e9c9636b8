//! Values inside an update (`Any` and JSON): read past without building them, or built as JSON.

use serde::de::IgnoredAny;
use serde_json::{Map, Number, Value};

use crate::protocol::error::DecodeError;
use crate::protocol::limits::MAX_NESTING;
use crate::protocol::varint::{MAX_VAR_UINT, Reader, write_var_bytes, write_var_uint};

/// What an `Any` value begins with; the only tags that a caller tells apart.
pub(super) const ANY_OBJECT: u8 = 118;
const ANY_ARRAY: u8 = 117;

/// A container that still has values to come: how many, and whether each has a key before it.
struct Open {
    left: u64,
    keyed: bool,
}

/// Reads one `Any` value, at most [`MAX_NESTING`] containers deep. Every element costs at least
/// one byte, so a count that the bytes cannot hold ends in `Truncated` and nothing is reserved.
/// Allocates only for nested values.
pub(super) fn skip_any(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let mut open: Vec<Open> = Vec::new();
    loop {
        let tag = reader.u8()?;
        match tag {
            120 | 121 | 126 | 127 => {}
            125 => drop(var_int_magnitude(reader)?),
            124 => drop(reader.take(4)?),
            122 | 123 => drop(reader.take(8)?),
            119 => drop(reader.var_string()?),
            116 => drop(reader.var_bytes()?),
            ANY_OBJECT | ANY_ARRAY => {
                if open.len() >= MAX_NESTING {
                    return Err(DecodeError::TooLarge);
                }
                open.push(Open { left: reader.var_uint()?, keyed: tag == ANY_OBJECT });
            }
            _ => return Err(DecodeError::Unknown),
        }
        while open.last().is_some_and(|container| container.left == 0) {
            open.pop();
        }
        let Some(container) = open.last_mut() else { return Ok(()) };
        container.left = container.left.saturating_sub(1);
        if container.keyed {
            reader.var_string()?;
        }
    }
}

/// Reads a signed integer without its sign: 6 bits and the sign in the first byte, then 7 bits a
/// byte. lib0 throws past 2^53 - 1 and yrs shifts past its width, so both bounds are ours.
fn var_int_magnitude(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let mut byte = reader.u8()?;
    let mut value = u64::from(byte & 0x3f);
    let mut shift: u32 = 6;
    while byte & 0x80 != 0 {
        if shift > 55 {
            return Err(DecodeError::VarintTooLarge);
        }
        byte = reader.u8()?;
        value |= u64::from(byte & 0x7f) << shift;
        shift = shift.saturating_add(7);
    }
    if value > MAX_VAR_UINT { Err(DecodeError::VarintTooLarge) } else { Ok(value) }
}

/// Appends a JSON value as lib0 writes it: a whole number of 31 bits as an integer, any other as the
/// shorter float that holds it. Recurses: the caller bounds the nesting.
pub(super) fn write_any(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(126),
        Value::Bool(is) => out.push(if *is { 120 } else { 121 }),
        Value::Number(number) => write_number(out, number.as_f64().unwrap_or(0.0)),
        Value::String(text) => {
            out.push(119);
            write_var_bytes(out, text.as_bytes());
        }
        Value::Array(items) => {
            out.push(ANY_ARRAY);
            write_var_uint(out, items.len() as u64);
            for item in items {
                write_any(out, item);
            }
        }
        Value::Object(members) => {
            out.push(ANY_OBJECT);
            write_var_uint(out, members.len() as u64);
            for (key, value) in members {
                write_var_bytes(out, key.as_bytes());
                write_any(out, value);
            }
        }
    }
}

fn write_number(out: &mut Vec<u8>, number: f64) {
    if number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX) {
        let magnitude = number.abs() as u32;
        // Six bits and the sign in the first byte, then seven bits a byte.
        let sign = if number.is_sign_negative() { 0x40 } else { 0 };
        let more = if magnitude > 0x3f { 0x80 } else { 0 };
        out.extend([125, more | sign | (magnitude & 0x3f) as u8]);
        if magnitude > 0x3f {
            write_var_uint(out, u64::from(magnitude >> 6));
        }
    } else if f64::from(number as f32) == number {
        out.push(124);
        out.extend((number as f32).to_be_bytes());
    } else {
        out.push(123);
        out.extend(number.to_be_bytes());
    }
}

/// Fails unless `text` is one JSON value of bounded depth, as `JSON.parse` would take it. A lone
/// surrogate escape is fine here: stock Yjs writes one when an app cuts an emoji in half.
pub(super) fn check_json(text: &str) -> Result<(), DecodeError> {
    if json_depth(text) > MAX_NESTING {
        return Err(DecodeError::TooLarge);
    }
    // serde_json skips a value it ignores with a loop, not by recursion.
    serde_json::from_str::<IgnoredAny>(text).map(drop).map_err(|_| DecodeError::NotJson)
}

/// Deepest nesting of brackets outside of strings. Only meaningful if `text` is JSON.
fn json_depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth = depth.saturating_add(1);
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Reads one `Any` value as JSON, as `JSON.stringify` would show it: nothing for undefined, null for
/// what is not finite, bytes as numbers. Recurses: only for bytes that [`skip_any`] has passed.
pub(super) fn read_any(reader: &mut Reader<'_>) -> Result<Option<Value>, DecodeError> {
    Ok(Some(match reader.u8()? {
        127 => return Ok(None),
        126 => Value::Null,
        125 => read_var_int(reader)?.into(),
        124 => number(f64::from(f32::from_be_bytes(read_array(reader)?))),
        123 => number(f64::from_be_bytes(read_array(reader)?)),
        122 => i64::from_be_bytes(read_array(reader)?).into(),
        121 => Value::Bool(false),
        120 => Value::Bool(true),
        119 => reader.var_string()?.into(),
        116 => reader.var_bytes()?.into(),
        ANY_OBJECT => {
            let mut map = Map::new();
            for _ in 0..reader.var_uint()? {
                let key = reader.var_string()?;
                if let Some(value) = read_any(reader)? {
                    map.insert(key.to_owned(), value);
                }
            }
            Value::Object(map)
        }
        ANY_ARRAY => {
            let mut items = Vec::new();
            for _ in 0..reader.var_uint()? {
                items.push(read_any(reader)?.unwrap_or(Value::Null));
            }
            Value::Array(items)
        }
        _ => return Err(DecodeError::Unknown),
    }))
}

fn read_var_int(reader: &mut Reader<'_>) -> Result<i64, DecodeError> {
    let first = reader.rest().first().copied().unwrap_or_default();
    let magnitude = i64::try_from(var_int_magnitude(reader)?).map_err(|_| DecodeError::VarintTooLarge)?;
    Ok(if first & 0x40 == 0 { magnitude } else { magnitude.saturating_neg() })
}

fn read_array<const N: usize>(reader: &mut Reader<'_>) -> Result<[u8; N], DecodeError> {
    reader.take(N)?.try_into().map_err(|_| DecodeError::Truncated)
}

/// A JavaScript number: whole ones without a fraction, as JavaScript prints them.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() <= MAX_VAR_UINT as f64 {
        Value::from(value as i64)
    } else {
        Number::from_f64(value).map_or(Value::Null, Value::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(bytes: &[u8]) -> Result<usize, DecodeError> {
        let mut reader = Reader::new(bytes);
        skip_any(&mut reader).map(|()| reader.rest().len())
    }

    #[test]
    fn one_value_is_read_and_what_follows_is_left() {
        assert_eq!(any(&[126, 9]), Ok(1));
        assert_eq!(any(&[125, 0x40, 9]), Ok(1), "minus zero");
        assert_eq!(any(&[117, 2, 126, 118, 1, 1, b'k', 117, 0, 9]), Ok(1));
        assert_eq!(any(&[119, 2, b'h', b'i']), Ok(0));
    }

    #[test]
    fn counts_past_the_end_are_refused_without_reserving() {
        assert_eq!(any(&[117, 0xff, 0xff, 0xff, 0x07, 126]), Err(DecodeError::Truncated));
        assert_eq!(any(&[118, 1, 1, b'k']), Err(DecodeError::Truncated));
    }

    #[test]
    fn integers_over_53_bits_are_refused() {
        assert_eq!(any(&[125, 0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]), Ok(0), "2^52 and more");
        let mut bytes = vec![125];
        bytes.extend([0xff; 9]);
        bytes.push(0);
        assert_eq!(any(&bytes), Err(DecodeError::VarintTooLarge));
    }

    #[test]
    fn values_are_shown_as_javascript_shows_them() {
        let json = |bytes: &[u8]| read_any(&mut Reader::new(bytes)).unwrap();
        assert_eq!(json(&[127]), None);
        assert_eq!(json(&[125, 0x40]), Some(0.into()), "minus zero");
        assert_eq!(json(&[125, 0xc1, 0x01]), Some((-65).into()));
        assert_eq!(json(&[124, 0x3f, 0x00, 0x00, 0x00]), Some(0.5.into()));
        assert_eq!(json(&[124, 0x40, 0x00, 0x00, 0x00]), Some(2.into()));
        assert_eq!(json(&[124, 0x7f, 0xc0, 0x00, 0x00]), Some(Value::Null), "NaN");
        let bytes = [118, 2, 1, b'a', 127, 1, b'b', 117, 2, 127, 116, 2, 1, 255];
        assert_eq!(json(&bytes), Some(serde_json::json!({ "b": [null, [1, 255]] })));
    }

    #[test]
    fn nesting_is_counted_not_recursed_into() {
        let nested = |levels: usize| {
            let mut bytes = [117, 1].repeat(levels);
            bytes.push(126);
            bytes
        };
        assert_eq!(any(&nested(MAX_NESTING)), Ok(0));
        assert_eq!(any(&nested(MAX_NESTING + 1)), Err(DecodeError::TooLarge));
        assert_eq!(any(&nested(1_000_000)), Err(DecodeError::TooLarge));
    }

    #[test]
    fn json_is_checked_with_its_depth() {
        for good in ["null", " {\"a\":[1,-0.5e3,\"]]\\\"[[\"]} ", "\"\\ud83d\"", "1e400"] {
            assert_eq!(check_json(good), Ok(()), "{good}");
        }
        for bad in ["", "undefined", "{", "01", "'a'", "[1,]", "\"\u{1}\"", "1 2"] {
            assert_eq!(check_json(bad), Err(DecodeError::NotJson), "{bad}");
        }
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(check_json(&nested(MAX_NESTING)), Ok(()));
        assert_eq!(check_json(&nested(MAX_NESTING + 1)), Err(DecodeError::TooLarge));
    }
}
