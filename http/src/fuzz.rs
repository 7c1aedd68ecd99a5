//! What the crate keeps to itself of what clients send: apply patches, media types of types that have protobuf, and what is
//! said of JSON that cannot be read. The rest is in `fuzz/tests/fuzz/http.rs`.

use kindom_api::json::{self, MAX_DEPTH};
use kindom_fuzz::{Mutants, Target, Texts};

use crate::{decode, negotiate};

const APPLIES: [&str; 5] = [
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n  x: &x [1, 2.5]\n  y: *x\n  <<: {z: 1}\n",
    r#"{"apiVersion":"example.com/v1","kind":"Widget","spec":{"x":1.0,"y":"\u00e9","a":1,"a":2}}"#,
    "---\na: 1\n---\nb: 2\n",
    "null",
    "[1]",
];

#[test]
fn apply_patches() {
    let tokens = [
        "- ", ": ", "\n", "  ", "<<: ", "&a ", "*a", "!!str ", "'", "\"", "\\u", "{", "}", "[", "]", ",",
        "---\n",
    ];
    let nests = [("[", "]"), ("{\"a\":", "}"), ("- ", "")];
    let inputs = Mutants::of(APPLIES).tokens(&tokens).nests(&nests);
    Target::new("apply-patch", 4000).run(inputs, |bytes| {
        let Ok(configuration) = decode::configuration(bytes) else { return };
        let _ = configuration.strict_text();
        if let Ok(value) = configuration.value {
            assert!(value.as_object().is_some());
            assert!(json::parse(&value.to_vec()).is_ok(), "deeper than {MAX_DEPTH}");
        }
    });
}

#[test]
fn media_types() {
    let headers = [
        "application/vnd.kubernetes.protobuf;stream=;sv=v1,application/json;q=0.5",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "*/*;q=0",
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    ];
    let tokens =
        ["application/", "protobuf", "json", "yaml", "*/*", ";", ",", "q=", "1", "=", "\"", "as=", "stream="];
    Target::new("media-types", 600).rounds(1500).run(Texts(Mutants::of(headers).tokens(&tokens)), |header| {
        let _ = negotiate::accept(header, negotiate::Endpoint::Typed);
        let offers =
            [("application/json", 1), ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", 2)];
        let _ = negotiate::preferred(header, &offers);
    });
}

#[test]
fn mistakes_in_json() {
    let texts =
        [r#"{"a":[1,-2.5e3,"\u00e9",true,null]}"#, r#"{"a":1e999}"#, "[1,]", r#"{"a" 1}"#, "tru", "\"\\x\""];
    let tokens = ["{", "}", "[", "]", ",", ":", "\"", "\\", "\\u00", "e", "-", ".", "1e400", "nul", "\u{1}"];
    let nests = [("[", "]"), ("{\"a\":", "}")];
    let inputs = Mutants::of(texts).tokens(&tokens).nests(&nests);
    Target::new("json-mistakes", 200).rounds(1500).run(inputs, |bytes| {
        let error = decode::go_syntax_error(bytes);
        if json::parse(bytes).is_ok() {
            assert_eq!(error, None, "a mistake in what can be read");
        }
        let _ = decode::duplicate_fields(bytes);
    });
}
