//! What the schema engine costs: compiles a schema of 8 KB and holds an object of 1 KB against it.
//!
//! `cargo run --release -p kindom-schema --example schema_figures`. Prints the best of several rounds, which is what
//! the machine can do when nothing else runs.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example prints, and its input is its own")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use kindom_api::{Value, json};
use kindom_schema::Schema;

const ROUNDS: usize = 20;

/// A schema of `groups` objects with the usual mix of fields.
fn schema(groups: usize) -> Value {
    let group = r#"{"type":"object","required":["name"],"description":"A part of the specification, with a text.","properties":{
        "name":{"type":"string","minLength":1,"maxLength":63,"pattern":"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
        "replicas":{"type":"integer","format":"int32","minimum":0,"default":1},
        "policy":{"type":"string","enum":["Always","Never","OnFailure"],"default":"Always"},
        "port":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},
        "labels":{"type":"object","additionalProperties":{"type":"string"}},
        "env":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
               "items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"value":{"type":"string"}}}}}}"#;
    let fields: Vec<String> = (0..groups).map(|i| format!(r#""part{i}":{group}"#)).collect();
    let text = format!(
        r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{{}}}}}}}}}"#,
        fields.join(",")
    );
    json::parse(text.as_bytes()).unwrap()
}

fn object(groups: usize) -> Value {
    let group = r#"{"name":"web","replicas":3,"port":8080,"labels":{"app":"web","tier":"front"},
        "env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"extra":true}"#;
    let fields: Vec<String> = (0..groups).map(|i| format!(r#""part{i}":{group}"#)).collect();
    let text = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"w"}},"spec":{{{}}}}}"#,
        fields.join(",")
    );
    json::parse(text.as_bytes()).unwrap()
}

/// The shortest time of one run, of `runs` in a row.
fn best(runs: u32, mut work: impl FnMut()) -> Duration {
    (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            (0..runs).for_each(|_| work());
            began.elapsed() / runs
        })
        .min()
        .unwrap_or_default()
}

fn main() {
    let document = schema(9);
    println!("schema of {} bytes, object of {} bytes", document.to_vec().len(), object(6).to_vec().len());
    println!(
        "compile:           {:?}",
        best(50, || drop(black_box(Schema::compile(Some(&document), false))))
    );

    let schema = Schema::compile(Some(&document), false).unwrap();
    let raw = object(6);
    // A copy each time, whose cost is told apart.
    let copy = best(500, || drop(black_box(raw.clone())));
    let all = best(500, || {
        let mut object = raw.clone();
        schema.prune(&mut object, None);
        schema.default(&mut object).unwrap();
        assert!(schema.validate(&object).is_empty());
        black_box(object);
    });
    let pruned = best(500, || {
        let mut object = raw.clone();
        schema.prune(&mut object, None);
        black_box(object);
    });
    println!("prune alone:       {:?}", pruned.saturating_sub(copy));
    let mut ready = raw.clone();
    schema.prune(&mut ready, None);
    schema.default(&mut ready).unwrap();
    println!("prune + default + validate: {:?} (a copy of {copy:?} left out)", all.saturating_sub(copy));
    println!("validate alone:    {:?}", best(500, || drop(black_box(schema.validate(&ready)))));
    println!(
        "update, unchanged: {:?}",
        best(500, || drop(black_box(schema.validate_update(&ready, &ready))))
    );
}
