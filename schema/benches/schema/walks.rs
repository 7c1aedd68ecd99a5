//! What an object is put through when it is written. The floors: parsing it, and a visit of its tree.

use std::hint::black_box;

use criterion::{BatchSize, Criterion};
use kindom_api::Value;
use kindom_schema::Schema;

use crate::compile::visit;
use crate::{CpuTime, OBJECT, SCHEMA, allocated, tree};

pub(crate) fn bench(criterion: &mut Criterion<CpuTime>) {
    let schema = Schema::compile(Some(&tree(SCHEMA)), false).unwrap();
    let sent = tree(OBJECT);
    let mut complete = sent.clone();
    schema.default(&mut complete);
    assert_eq!(schema.validate(&complete).to_vec(), []);
    println!("walks: {} bytes sent, {} with defaults", sent.to_vec().len(), complete.to_vec().len());
    let text = sent.to_vec();

    let mut written = complete.clone();
    let ((), cost) = allocated(|| write(&schema, &mut written));
    println!("walks: {} allocations for an object that has all defaults", cost.times);
    let mut written = sent.clone();
    let ((), cost) = allocated(|| write(&schema, &mut written));
    println!("walks: {} allocations for the object as sent", cost.times);

    let mut group = criterion.benchmark_group("walks of a 1 KB object");
    let mut changing = |name: &str, object: &Value, work: &mut dyn FnMut(&mut Value)| {
        group.bench_function(name, |b| {
            b.iter_batched_ref(|| object.clone(), |object| work(object), BatchSize::SmallInput);
        });
    };
    changing("all, as sent", &sent, &mut |object| write(&schema, object));
    changing("all, defaults there", &complete, &mut |object| write(&schema, object));
    changing("prune", &complete, &mut |object| schema.prune(object, None));
    changing("prune, telling what goes", &complete, &mut |object| {
        schema.prune(object, Some(&mut Vec::new()));
    });
    changing("coerce", &complete, &mut |object| schema.coerce(object, None).unwrap());
    changing("default, as sent", &sent, &mut |object| schema.default(object));
    changing("default, defaults there", &complete, &mut |object| schema.default(object));
    let old = complete.clone();
    group.bench_function("validate", |b| b.iter(|| schema.validate(black_box(&complete))));
    group.bench_function("validate an update", |b| {
        b.iter(|| schema.validate_update(black_box(&complete), black_box(&old)));
    });
    group.bench_function("floor: parse the text", |b| b.iter(|| tree(black_box(&text))));
    group.bench_function("floor: visit the tree", |b| b.iter(|| visit(black_box(&complete))));
    group.finish();
}

/// As a create does it.
fn write(schema: &Schema, object: &mut Value) {
    schema.prune(object, None);
    schema.coerce(object, None).unwrap();
    schema.default(object);
    assert!(schema.validate(object).is_empty());
}
