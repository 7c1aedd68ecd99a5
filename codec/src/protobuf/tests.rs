use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;

use super::*;
use kindom_api::Map;
use kindom_api::declaration::Declaration;
use kindom_api::decode::{Field as Declared, Shape, Struct};
use kindom_api::json::{MAX_DEPTH, parse};
use kindom_api::meta::OBJECT_META;

fn of(api_version: &str, kind: &str) -> &'static Message {
    message(api_version, kind).unwrap()
}

/// Enough of a namespace; the whole is declared where its rules are.
fn namespace() -> &'static Message {
    const STRING: Shape = Shape::String("string");
    static SPEC: Struct =
        Struct::new("v1.NamespaceSpec", &[Declared::new("finalizers", Shape::List(&STRING)).declared(1, "")]);
    static CONDITION: Struct = Struct::new(
        "v1.NamespaceCondition",
        &[
            Declared::always("type", STRING).declared(1, ""),
            Declared::always("status", STRING).declared(2, ""),
            Declared::always("lastTransitionTime", Shape::Time).declared(4, ""),
            Declared::new("reason", STRING).declared(5, ""),
            Declared::new("message", STRING).declared(6, ""),
        ],
    );
    static STATUS: Struct = Struct::new(
        "v1.NamespaceStatus",
        &[
            Declared::new("phase", STRING).declared(1, ""),
            Declared::new("conditions", Shape::List(&Shape::Struct(&CONDITION))).declared(2, ""),
        ],
    );
    static NAMESPACE: Struct = Struct::new(
        "v1.Namespace",
        &[
            Declared::new("kind", STRING),
            Declared::always("metadata", Shape::Struct(&OBJECT_META)).declared(1, ""),
            Declared::always("spec", Shape::Struct(&SPEC)).declared(2, ""),
            Declared::always("status", Shape::Struct(&STATUS)).declared(3, ""),
        ],
    );
    static MESSAGES: LazyLock<Messages> = LazyLock::new(|| {
        let declaration = Declaration {
            api_version: "v1",
            kind: "Namespace",
            go_package: "k8s.io/api/core/v1",
            shape: &NAMESPACE,
        };
        Messages::of(&declaration).unwrap()
    });
    MESSAGES.object()
}

fn crd() -> &'static Message {
    of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
}

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    let mut put = |mut n: usize| {
        while n > 0x7f {
            out.push(u8::try_from(n & 0x7f).unwrap() | 0x80);
            n >>= 7;
        }
        out.push(u8::try_from(n).unwrap());
    };
    put(usize::from(number) << 3 | 2);
    put(bytes.len());
    out.extend_from_slice(bytes);
    out
}

/// With the zero values that Go's encoder does not leave out: the tree that a type's decoder makes of it.
fn complete(map: &mut Map, message: &Message) {
    for Field(_, _, name, kind, many, presence) in message.1 {
        if *presence == Presence::Keep && !map.contains_key(name) {
            let zero = match (many, kind) {
                (Many::One, Kind::Text) => Value::from(""),
                (Many::One, Kind::Bool) => Value::from(false),
                (Many::One, Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString) => Value::Int(0),
                (Many::One, Kind::Of(_)) => Value::Object(Map::new()),
                _ => Value::Null,
            };
            map.insert(*name, zero);
        }
        let Some(value) = map.get_mut(name) else { continue };
        if let Kind::Of(of) | Kind::SchemaOrArray(of) | Kind::SchemaOrBool(of) | Kind::SchemaOrTexts(of) =
            kind
        {
            let all: Vec<&mut Value> = match (many, value) {
                (Many::Map, Value::Object(map)) => map.iter_mut().map(|(_, value)| value).collect(),
                (_, Value::Array(items)) => items.iter_mut().collect(),
                (_, value) => vec![value],
            };
            for value in all {
                match value {
                    Value::Object(map) => complete(map, of),
                    Value::Array(items) => {
                        items.iter_mut().filter_map(Value::as_object_mut).for_each(|m| complete(m, of));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn recorded() -> Value {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../integration/expectations/protobuf/samples.json");
    parse(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn both_directions_are_those_of_upstreams_go_types_to_the_byte() {
    let recorded = recorded();
    let samples = recorded.get("samples").and_then(Value::as_array).unwrap();
    assert!(samples.len() > 300);
    let mut kinds = std::collections::BTreeSet::new();
    for sample in samples {
        let text = |field: &str| sample.get(field).and_then(Value::as_str).unwrap();
        // Those of declared kinds are compared where they are declared.
        let Some(message) = message(text("apiVersion"), text("kind")) else { continue };
        kinds.insert((text("apiVersion").to_owned(), text("kind").to_owned()));
        let (json, bytes) = (sample.get("json").unwrap(), BASE64.decode(text("protobuf")).unwrap());
        let written = encode_as(json, message);
        assert!(written == bytes, "{json}\n{written:?}\n{bytes:?}");
        assert_eq!(encode(json), Some(bytes.clone()));
        let (mut read, unlisted) = decode_telling(&bytes, message).unwrap();
        assert_eq!(unlisted, [""; 0]);
        complete(read.as_object_mut().unwrap(), message);
        assert_eq!(read.to_string(), json.to_string());
        assert_eq!(encode_as(&read, message), bytes);
    }
    let known = super::kinds().map(|(version, kind)| (version.to_owned(), kind.to_owned()));
    assert_eq!(kinds, known.collect(), "every kind has its samples");
    let event = recorded.get("watch").and_then(Value::as_str).unwrap();
    assert_eq!(watch_event("ADDED", b"k8s\0raw"), BASE64.decode(event).unwrap());
}

#[test]
fn the_table_is_in_order() {
    assert!(catalogue::KINDS.is_sorted_by_key(|(version, kind, _)| (*version, *kind)));
    for (_, _, message) in catalogue::KINDS {
        assert!(message.1.is_sorted_by(|a, b| a.0 < b.0), "{message:?}");
    }
}

#[test]
fn a_namespace_is_read() {
    let labels = [field(1, b"a"), field(2, b"b")].concat();
    // The zero time: a varint of ten bytes.
    let zero = [8, 0x80, 0x92, 0xb8, 0xc3, 0x98, 0xfe, 0xff, 0xff, 0xff, 0x01];
    let meta =
        [field(1, b"foo"), field(2, b""), field(8, &zero), field(11, &labels), field(14, b"x/y")].concat();
    let spec = field(1, b"kubernetes");
    let raw = [field(1, &meta), field(2, &spec), field(3, b"")].concat();
    assert_eq!(
        decode(&body(&raw), namespace()).unwrap().to_string(),
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"finalizers":["x/y"],"labels":{"a":"b"},"name":"foo"},"spec":{"finalizers":["kubernetes"]},"status":{}}"#
    );
}

fn body(raw: &[u8]) -> Vec<u8> {
    let kind = [field(1, b"v1"), field(2, b"Namespace")].concat();
    [MAGIC.to_vec(), field(1, &kind), field(2, raw), field(3, b""), field(4, b"")].concat()
}

#[test]
fn what_is_not_listed_is_told_at_any_depth() {
    let unlisted = |raw: &[u8]| decode_telling(&body(raw), namespace()).unwrap().1;
    let none: [&str; 0] = [];
    let varint = |number: u8, value: u8| vec![number << 3, value];
    // Empty, it is what every server before 1.24 wrote (`clusterName`).
    let meta = |more: &[u8]| field(1, &[&field(1, b"foo"), more].concat());
    assert_eq!(unlisted(&meta(&field(15, b""))), none);
    assert_eq!(unlisted(&meta(&field(15, b"x"))), ["metadata.15"]);
    assert_eq!(unlisted(&field(9, b"")), ["9"]);
    assert_eq!(unlisted(&field(2, &varint(7, 0))), ["spec.7"]);
    let condition = [field(1, b"A"), field(9, b"x")].concat();
    assert_eq!(unlisted(&field(3, &field(2, &condition))), ["status.conditions.9"]);
    let fixed = [vec![9 << 3 | 5, 1, 2, 3, 4], vec![10 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8]].concat();
    assert_eq!(unlisted(&field(3, &fixed)), ["status.9", "status.10"]);
    // A group, with another and a field in it.
    let group = [9 << 3 | 3, 1 << 3 | 3, 2 << 3, 5, 1 << 3 | 4, 9 << 3 | 4];
    assert_eq!(unlisted(&field(3, &group)), ["status.9"]);
    assert_eq!(unlisted(&meta(&field(13, &field(9, b"")))), ["metadata.ownerReferences.9"]);
    assert_eq!(unlisted(&meta(&field(11, &field(3, b"")))), ["metadata.labels.3"]);
    assert_eq!(unlisted(&meta(&field(8, &[varint(1, 5), varint(2, 7)].concat()))), none);
    assert_eq!(
        unlisted(&meta(&field(8, &[varint(1, 5), varint(3, 7)].concat()))),
        ["metadata.creationTimestamp.3"]
    );
    let outer = [body(&meta(b"")), field(9, b"")].concat();
    assert_eq!(decode_telling(&outer, namespace()).unwrap().1, ["9"]);
}

#[test]
fn a_part_that_comes_twice_is_merged() {
    let twice = [field(1, &field(1, b"foo")), field(1, &field(14, b"a/b"))].concat();
    let read = decode(&body(&twice), namespace()).unwrap();
    assert_eq!(read.get("metadata").unwrap().to_string(), r#"{"finalizers":["a/b"],"name":"foo"}"#);
}

#[test]
fn who_manages_what_is_read() {
    let json = br#"{"f:metadata":{"f:labels":{}}}"#;
    let entry = [field(1, b"kubectl"), field(4, &[8, 0]), field(7, &field(1, json))].concat();
    let meta = [field(1, b"foo"), field(17, &entry)].concat();
    let read = decode(&body(&field(1, &meta)), namespace()).unwrap();
    assert_eq!(
        read.at(&["metadata", "managedFields"]).unwrap().to_string(),
        r#"[{"fieldsV1":{"f:metadata":{"f:labels":{}}},"manager":"kubectl","time":"1970-01-01T00:00:00Z"}]"#
    );
    let broken = field(1, &field(17, &field(7, &field(1, b"{"))));
    assert!(matches!(decode(&body(&broken), namespace()), Err(ProtobufError::Malformed(_))));
}

#[test]
fn damage_is_an_error_in_upstreams_words() {
    let check = |body: &[u8], want: &str| {
        assert_eq!(decode(body, namespace()).unwrap_err().to_string(), want, "{body:?}");
    };
    let raw = |raw: &[u8]| [MAGIC, &field(2, raw)].concat();
    check(b"", "empty data");
    check(b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]");
    check(b"k8s\0", "empty body");
    check(b"k8s\0\x12\x05a", "unexpected EOF");
    check(b"k8s\0\x12", "unexpected EOF");
    check(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "proto: integer overflow");
    check(
        b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "proto: negative length found during unmarshaling",
    );
    check(b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "unexpected EOF");
    check(b"k8s\0\x16", "proto: illegal wireType 6");
    check(b"k8s\0\x10\x01", "proto: wrong wireType = 0 for field Raw");
    check(&raw(&[0x08, 1]), "proto: wrong wireType = 0 for field ObjectMeta");
    check(&raw(&[0x0c]), "proto: Namespace: wiretype end group for non-group");
    check(&raw(&[0x02, 0]), "proto: Namespace: illegal tag 0 (wire type 2)");
    check(&raw(&field(1, &field(11, &[0x08, 1]))), "proto: wrong wireType = 0 for field Labels");
    check(&raw(&[0x4b, 0x4b]), "unexpected EOF");
}

/// A schema within schemas, `levels` deep, in as few bytes as that takes.
fn deep(levels: usize) -> Vec<u8> {
    // `not`, field 28, takes two bytes for its tag. From the inside out, quadratic and small.
    let mut schema = Vec::new();
    for _ in 0..levels {
        schema = field(28, &schema);
    }
    let spec = field(7, &field(4, &field(1, &schema)));
    [MAGIC.to_vec(), field(2, &field(2, &spec))].concat()
}

#[test]
fn depth_is_bounded_as_json_is() {
    // Around the schema: object, spec, versions, version, schema, openAPIV3Schema.
    let most = MAX_DEPTH - 6;
    let read = decode(&deep(most), crd()).unwrap();
    assert!(parse(&read.to_vec()).is_ok(), "what is read is JSON too");
    let too_deep = Err(ProtobufError::Malformed("exceeded max depth"));
    assert_eq!(decode(&deep(most + 1), crd()), too_deep);
    assert_eq!(decode(&deep(5_000), crd()), too_deep);
    // JSON within counts from where it stands.
    let default = |levels: usize| {
        let json = ["[".repeat(levels), "]".repeat(levels)].concat();
        let spec = field(7, &field(4, &field(1, &field(8, &field(1, json.as_bytes())))));
        [MAGIC.to_vec(), field(2, &field(2, &spec))].concat()
    };
    assert!(decode(&default(most), crd()).is_ok());
    assert_eq!(decode(&default(most + 1), crd()), too_deep);
    // Groups are counted and not entered.
    let groups = [MAGIC.to_vec(), field(2, &vec![0x4b; 1 << 20])].concat();
    assert_eq!(decode(&groups, crd()), Err(ProtobufError::UnexpectedEnd));
}

/// 3 MiB of what costs most: each of these took minutes, or gigabytes, if it were done piece by piece.
#[test]
fn what_comes_in_many_pieces_is_put_together_once() {
    let entries = |count: usize, wrap: fn(&[u8]) -> Vec<u8>| -> Vec<u8> {
        let each = (0..count).rev().map(|i| {
            let [.., a, b, c] = u32::try_from(i).unwrap().to_be_bytes();
            let key = [b'!' + a, b'!' + (b >> 2), b'!' + ((b & 3) << 4 | c >> 4), b'!' + (c & 15)];
            wrap(&field(11, &field(1, &key)))
        });
        each.flatten().collect()
    };
    // Labels whose keys come in falling order, in one message and in 200,000 to be merged.
    let one = field(1, &entries(200_000, |entry| entry.to_vec()));
    let many = entries(200_000, |entry| field(1, entry));
    for raw in [one, many] {
        let read = decode(&body(&raw), namespace()).unwrap();
        assert_eq!(read.at(&["metadata", "labels"]).unwrap().as_object().unwrap().len(), 200_000);
    }
    let empty = field(2, &field(7, b"").repeat(1_500_000));
    let read = decode(&[MAGIC.to_vec(), field(2, &empty)].concat(), crd()).unwrap();
    assert_eq!(read.at(&["spec", "versions"]).unwrap().as_array().unwrap().len(), 1_500_000);
    let first = read.at(&["spec", "versions"]).unwrap().as_array().unwrap().first();
    assert_eq!(first, Some(&Value::Object(Map::new())));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..catalogue::KINDS.len()) {
        let message = catalogue::KINDS[kind].2;
        let _ = decode(&[MAGIC, &bytes].concat(), message);
        let _ = decode(&[MAGIC, &[0x12, 100], &bytes].concat(), message);
    }

    /// Samples with bytes changed: an object that decodes is written and decoded again to itself.
    #[test]
    fn damaged_samples_are_errors_or_objects(
        at in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        static RECORDED: std::sync::LazyLock<Value> = std::sync::LazyLock::new(recorded);
        let samples = RECORDED.get("samples").and_then(Value::as_array).unwrap();
        let sample = &samples[at.index(samples.len())];
        let text = |field: &str| sample.get(field).and_then(Value::as_str).unwrap();
        let Some(message) = message(text("apiVersion"), text("kind")) else { return Ok(()) };
        let mut bytes = BASE64.decode(text("protobuf")).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(read) = decode(&bytes, message) {
            let written = encode_as(&read, message);
            let again = decode(&written, message).unwrap();
            prop_assert_eq!(encode_as(&again, message), written);
        }
    }
}
