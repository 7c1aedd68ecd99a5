# One line each; nothing in ./test or CI needs just.

# format, lints, every test
check:
    .ci/run

# every test of every crate
test *args:
    ./test {{args}}

# every parser and patch on mutants of real inputs, each for so many seconds
fuzz seconds="60" *filter:
    KINDOM_FUZZ_SECONDS={{seconds}} ./test -p kindom-fuzz -p kindom-http -p kindom-resource-actor -p kindom-server --lib --bins --test fuzz -- {{filter}}

# do the tests of one piece see its mutants? FILE, and a shard of it: `just mutants formats/src/net.rs 0/4` (docs/mutants.md)
mutants file shard="0/1":
    cargo mutants --workspace --profile mutants --no-shuffle --timeout 300 --file {{file}} --shard {{shard}}

# the real binary with real clients
e2e *args:
    ./test -p kindom-integration --test e2e -- {{args}}

# seeds of the simulation, from one on; KINDOM_SIM_SEED=n replays one of them with all that happens
sim seeds="10000" first="0":
    KINDOM_SIM_SEEDS={{seeds}} KINDOM_SIM_FIRST={{first}} KINDOM_TEST_PROFILE=full \
    ./test -p kindom-integration --test e2e simulation:: -- --nocapture

# three replicas on a three-node etcd, behind one address, until Ctrl-C
cluster *port:
    ./run cluster {{port}}

# README's demo and the tour, printed as they run
demo:
    ./test -p kindom-integration --test e2e demo:: -- --nocapture

# what requests cost the server; docs/benchmarks.md has a run
bench *args:
    cargo build --release -p kindom-server --bin kindom --example sails && cargo run --release -p kindom-benches -- {{args}}

# kindom beside kube-apiserver and etcd, both built first (Go, openssl and etcd needed); docs/benchmarks.md has a run
bench-beside rounds="9":
    python3 benches/measure.py {{rounds}}

# what schemas cost: compiling them, and the walks over an object
bench-schema *args:
    cargo bench -p kindom-schema --bench schema -- {{args}}

# what writes cost the field manager; docs/benchmarks.md has a run
bench-fields *args:
    cargo bench -p kindom-managed-fields --bench writes -- {{args}}
