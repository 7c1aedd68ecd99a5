//! Values as any program may have stored them.

use bytes::Bytes;
use kindom_api::json;
use kindom_fuzz::{Mutants, Target};
use kindom_storage::Revision;

use crate::{CustomObjects, StoredObject};

const VALUES: [&str; 5] = [
    r#"{"apiVersion":"g/v1","kind":"W","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"a":"b"},"name":"a","uid":"u"},"spec":{"s":"\u003c"}}"#,
    "{\"apiVersion\":\"g/v1\",\"metadata\":{\"uid\":\"u\",\"labels\":{\"a\":1},\"deletionTimestamp\":null},\"a\":[]}\n",
    "{\r\n \"metadata\": {\"resourceVersion\":\"1\",\"uid\":\"u\"}}",
    r#"{"metadata":{"uid":"u","managedFields":[{"manager":1}],"finalizers":"x"}}"#,
    "k8s\0\n\x0c",
];

#[test]
fn stored_values() {
    let tokens = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\n",
        "\r",
        "\"metadata\":",
        "\"uid\":",
        "null",
        "\"\"",
        "\\u0000",
        "\"labels\":{",
    ];
    let inputs =
        Mutants::of(VALUES).tokens(&tokens).nests(&[("[", "]"), ("{\"a\":", "}"), ("{\"metadata\":", "}")]);
    Target::new("stored-values", 400).rounds(2000).run(inputs, |bytes| {
        let object =
            StoredObject::read("ns/a", Ok(Bytes::copy_from_slice(bytes)), Revision(7), &CustomObjects);
        assert_eq!((object.namespace(), object.name()), (Some("ns"), "a"));
        let mut served = Vec::new();
        if object.write_served(&mut served) {
            assert!(!served.contains(&b'\n'), "a line break in what a watch streams");
            // What is laid out as our own is not looked into before it is asked for.
            let Ok(tree) = json::parse(&served) else {
                assert!(!object.is_foreign(), "{}", String::from_utf8_lossy(&served));
                return;
            };
            let version = tree.at(&["metadata", "resourceVersion"]).and_then(|v| v.as_str());
            assert_eq!(version, Some("7"));
        }
        let later = object.at_revision(Revision(8));
        assert_eq!(later.corrupt().is_some(), object.corrupt().is_some());
        let _ = (object.uid(), object.api_version(), object.label("a"), object.is_foreign());
    });
}
