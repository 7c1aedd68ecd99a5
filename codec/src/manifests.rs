//! Manifests: JSON or YAML documents of objects, some of which are lists of them.

use std::fmt;
use std::rc::Rc;

use kindom_api::Value;

use crate::documents;

/// The place of an object.
#[derive(Debug, Clone)]
pub struct Place {
    file: Rc<str>,
    /// Counted from 1.
    document: usize,
    /// In a list, counted from 1.
    item: Option<usize>,
}

impl Place {
    /// The place of an item of the list that is here.
    #[must_use]
    pub fn item(&self, index: usize) -> Self {
        Self { item: Some(index + 1), ..self.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}", self.file, self.document)?;
        self.item.map_or(Ok(()), |item| write!(f, ", item {item}"))
    }
}

/// The documents of a text in order, without empty ones; `name` stands in their places.
///
/// # Errors
/// Names the document that is neither JSON nor YAML, or no object.
pub fn parse(name: &str, bytes: &[u8]) -> Result<Vec<(Place, Value)>, String> {
    let file: Rc<str> = name.into();
    let documents = documents(bytes).map_err(|e| format!("{file}: {e}"))?;
    let places = (1..).map(|document| Place { file: Rc::clone(&file), document, item: None });
    let all: Vec<_> = places.zip(documents).filter(|(_, value)| !value.is_null()).collect();
    match all.iter().find(|(_, value)| value.as_object().is_none()) {
        Some((place, _)) => Err(format!("{place}: it is no object")),
        None => Ok(all),
    }
}

/// The items of a list, such as `kubectl get -o yaml` writes; `None` for any other document.
pub fn items(document: &mut Value) -> Option<&mut Vec<Value>> {
    let is_list = document.text_at(&["kind"]).ends_with("List");
    document.get_mut("items").filter(|_| is_list)?.as_array_mut()
}

/// Gives the items of a list of one kind their type, which a server does not write there for its built-in kinds.
pub fn complete_items(list: &mut Value) {
    let api_version = list.get("apiVersion").cloned().unwrap_or_default();
    let kind = list.text_at(&["kind"]).trim_end_matches("List").to_owned();
    if kind.is_empty() {
        return;
    }
    for item in items(list).into_iter().flatten().filter_map(Value::as_object_mut) {
        item.entry_or_insert_with("apiVersion", || api_version.clone());
        item.entry_or_insert_with("kind", || kind.as_str().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_their_places() {
        let all = parse("a.yaml", b"---\n# nothing\n---\na: 1\n---\nb: 2\n").unwrap();
        let shown: Vec<String> = all.iter().map(|(place, value)| format!("{place} {value}")).collect();
        assert_eq!(shown, [r#"a.yaml: document 2 {"a":1}"#, r#"a.yaml: document 3 {"b":2}"#]);
        assert_eq!(all[0].0.item(4).to_string(), "a.yaml: document 2, item 5");
        let wrong = |bytes: &[u8]| parse("a.yaml", bytes).unwrap_err();
        assert_eq!(wrong(b"a: 1\n---\n[1]\n"), "a.yaml: document 2: it is no object");
        assert!(wrong(b"\xff").starts_with("a.yaml: document 1: it is not UTF-8"));
    }

    #[test]
    fn lists_have_items_of_a_type() {
        let list = |text: &str| {
            let mut value = kindom_api::json::parse(text.as_bytes()).unwrap();
            complete_items(&mut value);
            items(&mut value).map(|items| Value::from(items.clone()).to_string())
        };
        assert_eq!(
            list(r#"{"kind":"OxList","apiVersion":"g/v1","items":[{"a":1},{"kind":"Cow"}]}"#).unwrap(),
            r#"[{"a":1,"apiVersion":"g/v1","kind":"Ox"},{"apiVersion":"g/v1","kind":"Cow"}]"#
        );
        assert_eq!(list(r#"{"kind":"List","apiVersion":"v1","items":[{"a":1}]}"#).unwrap(), r#"[{"a":1}]"#);
        assert_eq!(list(r#"{"kind":"Ox","items":[]}"#), None);
        assert_eq!(list(r#"{"kind":"OxList","items":{}}"#), None);
    }
}
