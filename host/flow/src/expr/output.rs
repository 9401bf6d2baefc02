//! Values as compact JSON, as keys and as labels.

use super::eval::{Eval, Evaluator, task};
use super::number::Number;
use super::tape::Kind;
use super::value::{Key, Value};

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl<'v> Evaluator<'v, '_> {
    /// Appends a value as JSON. Of the payload, every value is written as its text is, without white space between
    /// tokens. Bytes become base64, times their text, and the keys of maps strings.
    pub(super) fn write_json(&mut self, value: &Value<'v>, out: &mut Vec<u8>) -> Eval<()> {
        self.spend(1)?;
        match value {
            Value::Null | Value::Tombstone => out.extend_from_slice(b"null"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Number(Number::Int(int)) => out.extend_from_slice(int.to_string().as_bytes()),
            Value::Number(Number::UInt(uint)) => out.extend_from_slice(uint.to_string().as_bytes()),
            Value::Number(Number::Double(double)) => return serialize(double, out),
            Value::Text(text) => {
                self.spend(text.as_str().len() / 32)?;
                return serialize(text.as_str(), out);
            }
            Value::Bytes(bytes) => {
                self.spend(bytes.as_bytes().len() / 32)?;
                out.push(b'"');
                base64(bytes.as_bytes(), out);
                out.push(b'"');
            }
            Value::Timestamp(at) => return serialize(at.text().as_str(), out),
            Value::Duration(length) => return serialize(length.text().as_str(), out),
            Value::List(items) => {
                out.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    self.write_json(item, out)?;
                }
                out.push(b']');
            }
            Value::Map(entries) => {
                out.push(b'{');
                for (place, (key, value)) in entries.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    match key {
                        Key::Text(text) => serialize(text.as_str(), out)?,
                        Key::Whole(whole) => out.extend_from_slice(format!("\"{whole}\"").as_bytes()),
                        Key::Bool(bool) => out.extend_from_slice(format!("\"{bool}\"").as_bytes()),
                    }
                    out.push(b':');
                    self.write_json(value, out)?;
                }
                out.push(b'}');
            }
            Value::Json(json) => {
                let entry = self.entry(*json);
                let (start, end) = (entry.start as usize, entry.end as usize);
                self.spend((end - start) / 64)?;
                match entry.kind {
                    // The quotes are not in the span.
                    Kind::Plain | Kind::Escaped => out.extend_from_slice(&json.payload[start - 1..=end]),
                    Kind::Array | Kind::Object if entry.spaced => compact(&json.payload[start..end], out),
                    _ => out.extend_from_slice(&json.payload[start..end]),
                }
            }
            Value::Type(_) => return task("a type has no JSON"),
        }
        Ok(())
    }

    /// A value as the key of a record; none = no key.
    pub(super) fn key_bytes(&mut self, raw: Value<'v>) -> Eval<Option<Vec<u8>>> {
        if let Some(digits) = self.wide_integer(&raw) {
            return Ok(Some(digits.into()));
        }
        match self.read(raw)? {
            Value::Null | Value::Tombstone => Ok(None),
            Value::Number(Number::Int(int)) => Ok(Some(int.to_string().into())),
            Value::Number(Number::UInt(uint)) => Ok(Some(uint.to_string().into())),
            Value::Bool(bool) => Ok(Some(bool.to_string().into())),
            value => match Self::bytes_of(&value) {
                Some(bytes) => Ok(Some(bytes.to_vec())),
                None => task(format!(
                    "a key is a string, bytes, an int, a boolean or null; the value is {}",
                    self.kind(&value)
                )),
            },
        }
    }

    /// A value as the label of a branch. A double without a fraction is a whole number too.
    pub(super) fn label_text(&mut self, raw: Value<'v>) -> Eval<String> {
        if let Some(digits) = self.wide_integer(&raw) {
            return Ok(digits.to_owned());
        }
        match self.read(raw)? {
            Value::Text(text) => Ok(text.as_str().to_owned()),
            Value::Bool(bool) => Ok(bool.to_string()),
            Value::Number(number) => match number.as_integer() {
                Some(whole) => Ok(whole.to_string()),
                None => task(format!(
                    "a selector answers with a string, a whole number or a boolean; the value is {}",
                    number.to_double()
                )),
            },
            value => task(format!(
                "a selector answers with a string, a whole number or a boolean; the value is {}",
                self.kind(&value)
            )),
        }
    }
}

fn serialize<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Eval<()> {
    match serde_json::to_writer(out, value) {
        Ok(()) => Ok(()),
        Err(error) => task(format!("the value has no JSON: {error}")),
    }
}

/// Copies a checked JSON text without the white space between its tokens.
fn compact(text: &[u8], out: &mut Vec<u8>) {
    let mut in_string = false;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                out.push(b'\\');
                out.extend(bytes.next());
                continue;
            }
            b' ' | b'\n' | b'\r' | b'\t' if !in_string => continue,
            _ => {}
        }
        out.push(*byte);
    }
}

fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let block =
            chunk.iter().fold(0_u32, |block, byte| block << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = BASE64[(block >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { digit } else { b'=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{base64, compact};

    #[test]
    fn base64_pads() {
        for (bytes, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            let mut out = Vec::new();
            base64(bytes.as_bytes(), &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }

    #[test]
    fn compacting_leaves_strings_alone() {
        let mut out = Vec::new();
        compact(br#" { "a b" : [ 1 , "\" ,  \\" ] } "#, &mut out);
        assert_eq!(out, br#"{"a b":[1,"\" ,  \\"]}"#);
    }
}
