//! Compiling: time, and what stays in memory. The floors: parsing the text, a visit of the tree, and what the text holds.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use kindom_api::Value;
use kindom_schema::Schema;

use crate::{CpuTime, SCHEMA, allocated, corpus, tree};

pub(crate) fn bench(criterion: &mut Criterion<CpuTime>) {
    let schema = tree(SCHEMA);
    case(criterion, "compile 8 KB", &[&schema], false);
    let Some(corpus) = corpus() else {
        println!("compile of the largest registration: skipped, there is no corpus (set KINDOM_CORPUS)");
        return;
    };
    let largest = largest(&corpus);
    let spec = largest.get("spec").unwrap();
    let preserve = spec.get("preserveUnknownFields").and_then(Value::as_bool).unwrap_or(false);
    let versions = spec.get("versions").and_then(Value::as_array).unwrap();
    let schemas: Vec<&Value> =
        versions.iter().filter_map(|version| version.at(&["schema", "openAPIV3Schema"])).collect();
    let name = largest.at(&["metadata", "name"]).and_then(Value::as_str).unwrap();
    println!("the largest registration: {name}, {} versions", schemas.len());
    case(criterion, "compile the largest registration", &schemas, preserve);
}

fn case(criterion: &mut Criterion<CpuTime>, name: &str, schemas: &[&Value], preserve: bool) {
    let texts: Vec<Vec<u8>> = schemas.iter().map(|schema| schema.to_vec()).collect();
    let bytes: usize = texts.iter().map(Vec::len).sum();
    let compile = || -> Vec<Schema> {
        schemas.iter().map(|schema| Schema::compile(Some(schema), preserve).unwrap()).collect()
    };
    // What is shared by all schemas is there from now on, and not counted again.
    drop(compile());
    let (compiled, cost) = allocated(compile);
    println!("{name}: {bytes} bytes of JSON stay as {} bytes, {} allocations", cost.kept, cost.times);
    drop(compiled);
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(bytes.try_into().unwrap()));
    group.bench_function("compile", |b| b.iter(compile));
    let share = || -> Vec<Arc<Schema>> {
        schemas.iter().map(|schema| Schema::shared(Some(schema), preserve).unwrap()).collect()
    };
    let _held = share();
    group.bench_function("find it compiled", |b| b.iter(share));
    group.bench_function("floor: parse the text", |b| {
        b.iter(|| texts.iter().map(|text| tree(black_box(text))).collect::<Vec<Value>>());
    });
    group.bench_function("floor: visit the tree", |b| {
        b.iter(|| schemas.iter().map(|schema| visit(black_box(schema))).sum::<usize>());
    });
    group.finish();
}

/// Looks at each key and value once.
pub(crate) fn visit(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + visit(value)).sum(),
        Value::Array(items) => items.iter().map(visit).sum(),
        Value::String(text) => text.len(),
        _ => 1,
    }
}

/// The registration with the most JSON, of those in the largest files.
fn largest(corpus: &Path) -> Value {
    const FILES: usize = 12;
    let mut files = Vec::new();
    yaml_files(corpus, &mut files);
    files.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    files
        .iter()
        .take(FILES)
        .flat_map(|(_, path)| {
            let text = std::fs::read_to_string(path).unwrap();
            let documents: Vec<Value> = format!("\n{text}")
                .split("\n---")
                .filter_map(|part| serde_saphyr::from_str_with_options(part, options.clone()).ok())
                .collect();
            documents
        })
        .filter(|document| {
            document.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition")
                && document.at(&["spec", "versions"]).is_some()
        })
        .max_by_key(|document| document.to_vec().len())
        .unwrap()
}

fn yaml_files(folder: &Path, files: &mut Vec<(u64, PathBuf)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, meta) = (entry.path(), entry.metadata().unwrap());
        if meta.is_dir() {
            yaml_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push((meta.len(), path));
        }
    }
}
