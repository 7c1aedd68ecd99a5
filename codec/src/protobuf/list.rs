//! Lists in protobuf whose items come one by one.

use super::wire::Backwards;
use super::write::{fields, one};
use super::{
    Field, Kind, MAGIC, Many, Message, TYPE_META, UNKNOWN_CONTENT_ENCODING, UNKNOWN_CONTENT_TYPE,
    UNKNOWN_RAW, UNKNOWN_TYPE_META,
};
use kindom_api::Value;

/// A list that is written in pieces: its start, its items, its end. The start has the length of all, so the items' is known first.
#[derive(Debug)]
pub struct List {
    items: (u32, Kind),
    /// Everything before the list's own fields, but the length of those.
    type_meta: Vec<u8>,
    /// The list's fields before the items, and behind them.
    before: Vec<u8>,
    after: Vec<u8>,
}

impl List {
    /// A list of this type, by a tree of it in which `items` is empty; `None` if the type has no such field.
    #[must_use]
    pub fn new(list: &Value, message: &Message) -> Option<Self> {
        let is_items =
            |Field(_, _, name, _, many, _): &Field| *name == "items" && matches!(many, Many::Several);
        let at = message.1.iter().position(is_items)?;
        let (before, rest) = message.1.split_at(at);
        let (Field(number, _, _, kind, ..), after) = rest.split_first()?;
        let written = |some: &[Field]| {
            let mut out = Backwards::default();
            fields(list, some, &mut out);
            out.finish()
        };
        let mut type_meta = Backwards::default();
        type_meta.within(UNKNOWN_TYPE_META, |out| fields(list, TYPE_META.1, out));
        type_meta.put(MAGIC);
        Some(Self {
            items: (*number, *kind),
            type_meta: type_meta.finish(),
            before: written(before),
            after: written(after),
        })
    }

    /// The bytes before items of so many bytes.
    #[must_use]
    pub fn start(&self, items_bytes: usize) -> Vec<u8> {
        let mut out = Backwards::default();
        out.put(&self.before);
        out.put_length(UNKNOWN_RAW, self.before.len() + items_bytes + self.after.len());
        out.put(&self.type_meta);
        out.finish()
    }

    /// One item.
    #[must_use]
    pub fn item(&self, item: &Value) -> Vec<u8> {
        let (mut out, (number, kind)) = (Backwards::default(), self.items);
        one(number, kind, item, &mut out);
        out.finish()
    }

    /// The bytes behind the items.
    #[must_use]
    pub fn end(&self) -> Vec<u8> {
        let mut out = Backwards::default();
        out.bytes(UNKNOWN_CONTENT_TYPE, b"");
        out.bytes(UNKNOWN_CONTENT_ENCODING, b"");
        out.put(&self.after);
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use super::super::{encode, kinds, message_of};
    use super::*;

    #[test]
    fn the_pieces_are_what_the_list_is() {
        let mut tried = 0;
        for (api_version, kind) in kinds().filter(|(_, kind)| kind.ends_with("List")) {
            for items in
                ["", r#"{"metadata":{"name":"a","labels":{"x":"y"}}}"#, r#"{},{"metadata":{"uid":"u"}},{}"#]
            {
                let list = |items: &str| {
                    let meta = r#"{"resourceVersion":"7","continue":"more"}"#;
                    let text = format!(
                        r#"{{"apiVersion":"{api_version}","items":[{items}],"kind":"{kind}","metadata":{meta}}}"#
                    );
                    parse(text.as_bytes()).unwrap()
                };
                let (whole, empty) = (list(items), list(""));
                let Some(pieces) = List::new(&empty, message_of(&empty).unwrap()) else { continue };
                let items = whole.get("items").and_then(Value::as_array).unwrap_or_default();
                let items: Vec<u8> = items.iter().flat_map(|item| pieces.item(item)).collect();
                let written = [pieces.start(items.len()), items, pieces.end()].concat();
                assert_eq!(Some(written), encode(&whole), "{api_version} {kind}");
                tried += 1;
            }
        }
        assert!(tried > 5, "{tried}");
    }
}
