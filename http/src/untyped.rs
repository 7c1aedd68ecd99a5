//! Items of typed lists, which Go writes without their types: the list's says what they are.

/// Takes the type out of objects: compact JSON with sorted members.
pub(crate) struct Untyped {
    /// `"apiVersion":"v1",`
    first: String,
    /// `"kind":"ConfigMap",`
    second: String,
}

impl Untyped {
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        Self { first: format!(r#""apiVersion":"{api_version}","#), second: format!(r#""kind":"{kind}","#) }
    }

    /// Takes the type out of the object from `start` to the end. One of another type stays as it is.
    pub(crate) fn strip(&self, out: &mut Vec<u8>, start: usize) {
        let Some(object) = out.get(start..).filter(|object| object.first() == Some(&b'{')) else { return };
        let Some(first) = member(object, 1, self.first.as_bytes()) else { return };
        let between = first + self.first.len();
        let Some(second) = member(object, between, self.second.as_bytes()) else { return };
        let rest = second + self.second.len();
        // What stands between the two moves to the front, and all that is behind moves once.
        out.copy_within(start + between..start + second, start + first);
        out.drain(start + first + (second - between)..start + rest);
    }
}

/// The place of a member, from another member's place on. Nearly always at once: few types have members before these.
fn member(object: &[u8], from: usize, member: &[u8]) -> Option<usize> {
    let mut at = from;
    while !object.get(at..)?.starts_with(member) {
        at = after_member(object, at)?;
    }
    Some(at)
}

/// The place behind a member and its comma; none if no other member follows.
fn after_member(object: &[u8], from: usize) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, from);
    loop {
        match object.get(at)? {
            b'"' => at = end_of_text(object, at)?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
}

/// The place of the quote that ends a text.
fn end_of_text(object: &[u8], from: usize) -> Option<usize> {
    let mut at = from + 1;
    loop {
        match object.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Untyped;

    fn stripped(object: &str) -> String {
        let mut out = Vec::from(&b"["[..]);
        out.extend(object.as_bytes());
        Untyped::new("v1", "ConfigMap").strip(&mut out, 1);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_type_is_taken_out_wherever_it_stands() {
        for (object, left) in [
            (r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}"#, r#"{"metadata":{}}"#),
            (
                r#"{"apiVersion":"v1","data":{"a":"\",\"kind\":\"ConfigMap\",","kind":"ConfigMap","z":""},"kind":"ConfigMap","metadata":{}}"#,
                r#"{"data":{"a":"\",\"kind\":\"ConfigMap\",","kind":"ConfigMap","z":""},"metadata":{}}"#,
            ),
            (r#"{"action":"[","apiVersion":"v1","kind":"ConfigMap","z":1}"#, r#"{"action":"[","z":1}"#),
            (
                r#"{"action":"a","apiVersion":"v1","b":"{","kind":"ConfigMap","z":1}"#,
                r#"{"action":"a","b":"{","z":1}"#,
            ),
            (
                r#"{"apiVersion":"v1","binaryData":{},"data":[1,{"b":[]},"\\"],"kind":"ConfigMap","metadata":{}}"#,
                r#"{"binaryData":{},"data":[1,{"b":[]},"\\"],"metadata":{}}"#,
            ),
        ] {
            assert_eq!(stripped(object), format!("[{left}"));
        }
    }

    #[test]
    fn another_object_stays_as_it_is() {
        for object in [
            "{}",
            "",
            r#"{"apiVersion":"v1","#,
            r#"{"apiVersion":"v1","a":"b"#,
            r#"{"apiVersion":"v1","a":"b\"#,
            r#"{"apiVersion":"v1","a":]}"#,
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{}}"#,
            r#"{"apiVersion":"v2","kind":"ConfigMap","metadata":{}}"#,
        ] {
            assert_eq!(stripped(object), format!("[{object}"));
        }
    }
}
