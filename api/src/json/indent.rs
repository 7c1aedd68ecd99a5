//! JSON laid out for people, while it comes.

/// Lays JSON out as Go's `json.Indent` does it with two blanks a level: a line for each item and entry. It does not check the JSON.
///
/// ```
/// # use kindom_api::json::Indenter;
/// let mut out = Vec::new();
/// let taken = Indenter::default().write(br#"{"a":[1,{}]}"#, usize::MAX, &mut out);
/// assert_eq!((taken, out.as_slice()), (12, "{\n  \"a\": [\n    1,\n    {}\n  ]\n}".as_bytes()));
/// ```
#[derive(Debug, Default)]
pub struct Indenter {
    depth: usize,
    /// A map or list was opened just now: if it has anything, a line ends here.
    opened: bool,
    in_string: bool,
    /// The next byte of the string is escaped.
    escaped: bool,
}

impl Indenter {
    /// Appends the layout of more JSON, until `out` has `most` bytes or up to a line more. Returns the number of bytes that it took
    /// of the JSON, which may be cut anywhere.
    pub fn write(&mut self, json: &[u8], most: usize, out: &mut Vec<u8>) -> usize {
        let mut rest = json;
        while out.len() < most
            && let Some((byte, behind)) = rest.split_first()
        {
            rest = behind;
            match byte {
                _ if self.escaped => {
                    self.escaped = false;
                    out.push(*byte);
                }
                b'\\' if self.in_string => {
                    self.escaped = true;
                    out.push(*byte);
                }
                b'"' => {
                    if !self.in_string {
                        self.begin(out);
                    }
                    self.in_string = !self.in_string;
                    out.push(*byte);
                }
                _ if self.in_string => {
                    let plain =
                        behind.iter().take(most - out.len()).take_while(|b| !matches!(b, b'"' | b'\\'));
                    let (run, behind) = behind.split_at(plain.count());
                    out.push(*byte);
                    out.extend_from_slice(run);
                    rest = behind;
                }
                b' ' | b'\n' | b'\r' | b'\t' => {}
                b'}' | b']' => {
                    if !std::mem::take(&mut self.opened) {
                        self.depth = self.depth.saturating_sub(1);
                        self.end_line(out);
                    }
                    out.push(*byte);
                }
                b'{' | b'[' => {
                    self.begin(out);
                    self.opened = true;
                    out.push(*byte);
                }
                b',' => {
                    out.push(b',');
                    self.end_line(out);
                }
                b':' => out.extend_from_slice(b": "),
                _ => {
                    self.begin(out);
                    out.push(*byte);
                }
            }
        }
        json.len() - rest.len()
    }

    /// The first item or entry of what was opened has a line of its own.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.opened) {
            self.depth += 1;
            self.end_line(out);
        }
    }

    fn end_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_does_not_depend_on_where_the_text_is_cut() {
        let json = br#" {"a\\\"b" : [ ], "c":{"d":[{ },"x, y:\"{[\\",-1.5e3 ,[true,null]]} } "#;
        let mut whole = Vec::new();
        assert_eq!(Indenter::default().write(json, usize::MAX, &mut whole), json.len());
        let want = r#"{
  "a\\\"b": [],
  "c": {
    "d": [
      {},
      "x, y:\"{[\\",
      -1.5e3,
      [
        true,
        null
      ]
    ]
  }
}"#;
        assert_eq!(String::from_utf8_lossy(&whole), want);
        for each in 1..json.len() {
            let (mut indenter, mut pieces) = (Indenter::default(), Vec::new());
            for part in json.chunks(each) {
                let mut rest = part;
                while !rest.is_empty() {
                    let mut piece = Vec::new();
                    let taken = indenter.write(rest, each, &mut piece);
                    assert!(taken > 0 && piece.len() < each + 16, "{} of {each}", piece.len());
                    rest = &rest[taken..];
                    pieces.extend(piece);
                }
            }
            assert_eq!(pieces, whole, "cut at {each}");
        }
    }
}
