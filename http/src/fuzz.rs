//! The media types of types that have protobuf, which the crate keeps to itself. The rest is in `fuzz/tests/fuzz/http.rs`.

use kindom_fuzz::{Mutants, Target, Texts};

use crate::negotiate;

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
