//! Manifests: files of one JSON document or of any number of YAML documents.

use kindom_api::json::{self, Value};

use crate::duplicate_fields;
use crate::yaml;

/// The reason why a text is no sequence of documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {document}: {reason}")]
pub struct DocumentError {
    /// The number of the wrong document, counted from 1.
    pub document: usize,
    /// The error in it.
    pub reason: String,
}

/// The documents of a manifest: one if it is JSON, any number if it is YAML. Empty ones are null, and count.
///
/// ```
/// let manifest = kindom_codec::documents(b"a: 1\n---\n---\n{b: [no]}\n")?;
/// let texts: Vec<String> = manifest.iter().map(ToString::to_string).collect();
/// assert_eq!(texts, [r#"{"a":1}"#, "null", r#"{"b":[false]}"#]);
/// # Ok::<(), kindom_codec::DocumentError>(())
/// ```
///
/// # Errors
/// A text that is neither JSON nor YAML, or a field that occurs twice in a map: one of the two would be lost.
pub fn documents(bytes: &[u8]) -> Result<Vec<Value>, DocumentError> {
    if let Ok(value) = json::parse(bytes) {
        return match duplicate_fields(bytes).as_slice() {
            [] => Ok(vec![value]),
            duplicates => Err(DocumentError { document: 1, reason: duplicates.join(", ") }),
        };
    }
    let wrong = |document, reason| DocumentError { document, reason };
    let text = std::str::from_utf8(bytes).map_err(|e| wrong(1, format!("it is not UTF-8: {e}")))?;
    let mut all = Vec::new();
    for document in yaml::documents(text) {
        let number = all.len() + 1;
        let document = document.map_err(|reason| wrong(number, reason))?;
        if !document.duplicates.is_empty() {
            return Err(wrong(number, document.duplicates.join(", ")));
        }
        all.push(document.value);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::documents;

    #[test]
    fn documents_are_counted_where_they_are_wrong() {
        let check = |text: &str, want: &str| {
            let got = documents(text.as_bytes()).map(|all| format!("{} documents", all.len()));
            assert_eq!(got.unwrap_or_else(|e| e.to_string()), want);
        };
        check("", "0 documents");
        check("# a comment\n---\na: 1\n---\n# empty\n---\nb: 2\n", "3 documents");
        check("a: 1\n---\na: [\n", "document 2: yaml: line 3: did not find expected node content");
        check("---\n---\na: 1\na: 2\n", "document 2: line 4: key \"a\" already set in map");
        check(r#"{"a": 1, "a": 2}"#, r#"document 1: duplicate field "a""#);
    }
}
