//! Values as any program may have stored them.

use bytes::Bytes;
use kindom_api::json;
use kindom_fuzz::{Mutants, Target};
use kindom_storage_model::Revision;

use crate::StoredObject;
use crate::seal::Sealed;

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
    let sealed = Sealed::new(VALUES[0].as_bytes().to_vec(), 7).value();
    let seeds = VALUES.map(str::as_bytes).into_iter().chain([&sealed[..]]);
    let inputs =
        Mutants::of(seeds).tokens(&tokens).nests(&[("[", "]"), ("{\"a\":", "}"), ("{\"metadata\":", "}")]);
    Target::new("stored-values", 400).rounds(2000).run(inputs, move |bytes| {
        let object = StoredObject::read("ns/a", Ok(Bytes::copy_from_slice(bytes)), Revision(7), |_| None);
        assert_eq!((object.namespace(), object.name()), (Some("ns"), "a"));
        let mut served = Vec::new();
        if object.write_served(&mut served) {
            assert!(!served.contains(&b'\n'), "a line break in what a watch streams");
            let tree = json::parse_own(&served)
                .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&served)));
            let version = tree.at(&["metadata", "resourceVersion"]).and_then(|v| v.as_str());
            assert_eq!(version, Some("7"));
        }
        assert_eq!(object.is_foreign(), *bytes != sealed);
        let later = object.at_revision(Revision(8));
        assert_eq!(later.corrupt().is_some(), object.corrupt().is_some());
        let _ = (object.uid(), object.api_version(), object.label("a"), object.is_foreign());
        // As kindom would store it: read up to the metadata, and whole, it says the same, which is asserted there.
        if let Ok(tree) = json::parse_own(bytes) {
            let sealed = Sealed::new(tree.to_vec(), 7);
            assert_eq!(*StoredObject::written("ns/a", &sealed, Revision(7)).json(), tree.to_vec());
        }
    });
}
