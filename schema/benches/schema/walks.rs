//! What an object is put through when it is written. The floors: parsing it, and a visit of its tree.

use std::hint::black_box;

use criterion::{BatchSize, Criterion};
use kindom_api::Value;
use kindom_schema::Schema;

use crate::compile::visit;
use crate::{CpuTime, OBJECT, SCHEMA, allocated, tree};

/// Few enough to lie in the processor's cache, as an object does that has just been parsed; enough to make nothing of
/// what reading the clock takes.
const BATCH: BatchSize = BatchSize::NumIterations(16);

pub(crate) fn bench(criterion: &mut Criterion<CpuTime>) {
    let schema = Schema::compile(Some(&tree(SCHEMA)), false).unwrap();
    let sent = tree(OBJECT);
    let mut complete = sent.clone();
    schema.default(&mut complete).unwrap();
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
    for (name, work) in [
        ("all, as sent", write as fn(&Schema, &mut Value)),
        ("default, as sent", |schema, object| schema.default(object).unwrap()),
    ] {
        group.bench_function(name, |b| {
            b.iter_batched_ref(|| sent.clone(), |object| work(&schema, object), BATCH);
        });
    }
    // These leave the object as it is.
    let mut clean = |name: &str, work: &dyn Fn(&mut Value)| {
        group.bench_function(name, |b| b.iter(|| work(black_box(&mut written))));
    };
    clean("all, defaults there", &|object| write(&schema, object));
    clean("prune", &|object| schema.prune(object, None));
    clean("prune, telling what goes", &|object| schema.prune(object, Some(&mut Vec::new())));
    clean("coerce", &|object| schema.coerce(object, None).unwrap());
    clean("default, defaults there", &|object| schema.default(object).unwrap());
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
    schema.default(object).unwrap();
    assert!(schema.validate(object).is_empty());
}
