//! Fuzzing of whatever reads bytes that a client, another program or a damaged disk chose.
//!
//! [`Target`] runs a closure on mutants of real inputs and holds it to three things: it does not panic, it allocates no
//! more than a line over the input's length, and it stays within a small stack, whatever the input nests. A closure
//! asserts what else is true of its parser, such as that printing and parsing again changes nothing.
//!
//! Inputs come from bolero, on stable: a target is an ordinary test. `./test` runs the same bounded number
//! of inputs each time, `KINDOM_TEST_FULL=1` forty times as many at random, and `KINDOM_FUZZ_SECONDS=n` (`just fuzz`) as many as fit in that time. A
//! failure prints the shrunken input and `BOLERO_RANDOM_SEED`, which replays it. A stack overflow ends the process before
//! anything is printed: the input stays in the file `kindom-fuzz-<target>` of the folder for temporary files.

mod json;
mod mutants;

use std::cell::Cell;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use bolero::ValueGenerator;
use bolero::generator::bolero_generator::driver::{ByteSliceDriver, Options};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

pub use json::JsonMutants;
pub use mutants::{Mutants, Texts};

/// Rounds of a target in `./test`, unless the target says otherwise.
const ROUNDS: usize = 400;
/// The multiple of them under `KINDOM_TEST_FULL=1`.
const FULL: usize = 40;
/// The bytes that choose one input of a fixed round.
const NOISE_BYTES: usize = 4096;
/// The stack of a target: half of what Rust gives a thread by default, in a build whose frames are several times larger.
const STACK_BYTES: usize = 1 << 20;

/// A parser, and the bounds it has to keep.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    name: &'static str,
    rounds: usize,
    stack: usize,
    live: Line,
    total: Line,
}

/// A bound that grows with the length of the input.
#[derive(Clone, Copy, Debug)]
struct Line {
    per_byte: u64,
    flat: u64,
}

impl Line {
    fn at(self, length: usize) -> u64 {
        self.flat.saturating_add(self.per_byte.saturating_mul(u64::try_from(length).unwrap_or(u64::MAX)))
    }
}

impl Target {
    /// A target whose closure may hold `per_byte` bytes for every byte of the input and 64 KiB beside them, and may
    /// allocate sixteen times as much in all.
    #[must_use]
    pub const fn new(name: &'static str, per_byte: u64) -> Self {
        let live = Line { per_byte, flat: 64 << 10 };
        let total = Line { per_byte: 16 * per_byte, flat: 1 << 20 };
        Self { name, rounds: ROUNDS, stack: STACK_BYTES, live, total }
    }

    /// As many rounds in `./test`, for a target that is much slower or much faster than a JSON parser.
    #[must_use]
    pub const fn rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// Another stack, in bytes, for a parser whose recursion is bounded but not as narrow.
    #[must_use]
    pub const fn stack(mut self, bytes: usize) -> Self {
        self.stack = bytes;
        self
    }

    /// Bytes that may be held, and allocated, whatever the input: a pool, a table, a budget.
    #[must_use]
    pub const fn flat(mut self, live: u64, total: u64) -> Self {
        self.live.flat = live;
        self.total.flat = total;
        self
    }

    /// Runs `judge` on inputs of `inputs`, on a thread with a small stack.
    ///
    /// # Panics
    /// If `judge` does, or if it allocates more than the target may.
    pub fn run<G>(self, inputs: G, judge: impl Fn(&G::Output) + Send + 'static)
    where
        G: ValueGenerator + Send + 'static,
        G::Output: Input,
    {
        let thread = std::thread::Builder::new().name(self.name.to_owned()).stack_size(self.stack);
        let done = thread
            .spawn(move || self.rounds_of(inputs, judge))
            .and_then(|thread| thread.join().map_err(|panic| resume_unwind(panic)));
        if let Err(error) = done {
            panic!("{}: no thread: {error}", self.name);
        }
    }

    fn rounds_of<G>(self, inputs: G, judge: impl Fn(&G::Output))
    where
        G: ValueGenerator,
        G::Output: Input,
    {
        let trace = Trace::new(self.name);
        let judge = AssertUnwindSafe(judge);
        let trace = AssertUnwindSafe(trace);
        let worst =
            AssertUnwindSafe(Worst { name: self.name, live: Cell::default(), total: Cell::default() });
        let judged = move |input: &G::Output| {
            let (judge, trace, worst) = (&judge, &trace, &worst);
            trace.write(input);
            let mut outcome = Ok(());
            let used = allocation_counter::measure(|| {
                outcome = catch_unwind(AssertUnwindSafe(|| judge(input)));
            });
            if let Err(panic) = outcome {
                resume_unwind(panic);
            }
            let length = input.length();
            let (live, total) = (self.live.at(length), self.total.at(length));
            worst.live.set(worst.live.get().max(100 * used.bytes_max / live));
            worst.total.set(worst.total.get().max(100 * used.bytes_total / total));
            assert!(
                used.bytes_max <= live,
                "{length} bytes took {} bytes of memory, {live} at most",
                used.bytes_max
            );
            assert!(
                used.bytes_total <= total,
                "{length} bytes allocated {} bytes, {total} at most",
                used.bytes_total
            );
        };
        let full = std::env::var("KINDOM_TEST_FULL").is_ok_and(|v| v == "1");
        let seconds = seconds();
        if seconds.is_none() && !full {
            // The same inputs each time, so that a difference comes from a change of the code.
            let mut tried = 0;
            for round in 0..self.rounds {
                let bytes = noise(self.name, round);
                let mut driver = ByteSliceDriver::new(&bytes, &Options::default());
                if let Some(input) = inputs.generate(&mut driver) {
                    judged(&input);
                    tried += 1;
                }
            }
            // A generator that gives nothing would let everything pass.
            assert!(tried > self.rounds / 2, "{}: {tried} inputs in {} rounds", self.name, self.rounds);
            return;
        }
        let target = bolero::check!(name = self.name).with_shrink_time(Duration::from_secs(5));
        let target = match seconds {
            Some(seconds) => target.with_test_time(seconds),
            None => target.with_iterations(FULL * self.rounds),
        };
        target.with_generator(AssertUnwindSafe(inputs).0).for_each(judged);
    }
}

/// The largest parts of its bounds that a target used, in percent; printed at its end for the author of the bounds.
struct Worst {
    name: &'static str,
    live: Cell<u64>,
    total: Cell<u64>,
}

impl Drop for Worst {
    fn drop(&mut self) {
        eprintln!(
            "{}: {} % of the memory, {} % of all allocations",
            self.name,
            self.live.get(),
            self.total.get()
        );
    }
}

/// The time that `just fuzz` gives to each target.
fn seconds() -> Option<Duration> {
    let seconds = std::env::var("KINDOM_FUZZ_SECONDS").ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// The input of a target.
pub trait Input: std::fmt::Debug + 'static {
    /// The bytes that the bounds are over.
    fn length(&self) -> usize;

    /// Writes the bytes to keep for the search of a stack overflow.
    fn write(&self, to: &mut dyn Write) -> std::io::Result<()>;
}

impl Input for Vec<u8> {
    fn length(&self) -> usize {
        self.len()
    }

    fn write(&self, to: &mut dyn Write) -> std::io::Result<()> {
        to.write_all(self)
    }
}

impl Input for String {
    fn length(&self) -> usize {
        self.len()
    }

    fn write(&self, to: &mut dyn Write) -> std::io::Result<()> {
        to.write_all(self.as_bytes())
    }
}

impl<A: Input, B: Input> Input for (A, B) {
    fn length(&self) -> usize {
        self.0.length() + self.1.length()
    }

    fn write(&self, to: &mut dyn Write) -> std::io::Result<()> {
        self.0.write(to)?;
        to.write_all(b"\n----\n")?;
        self.1.write(to)
    }
}

impl<A: Input, B: Input, C: Input> Input for (A, B, C) {
    fn length(&self) -> usize {
        self.0.length() + self.1.length() + self.2.length()
    }

    fn write(&self, to: &mut dyn Write) -> std::io::Result<()> {
        self.0.write(to)?;
        to.write_all(b"\n----\n")?;
        self.1.write(to)?;
        to.write_all(b"\n----\n")?;
        self.2.write(to)
    }
}

/// The file with the input that a target tries at the moment.
struct Trace(Option<File>);

impl Trace {
    fn new(name: &str) -> Self {
        Self(File::create(std::env::temp_dir().join(format!("kindom-fuzz-{name}"))).ok())
    }

    /// A trace that cannot be written is no reason to fail.
    fn write(&self, input: &impl Input) {
        let Some(mut file) = self.0.as_ref() else { return };
        let mut written = || -> std::io::Result<()> {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            input.write(&mut file)
        };
        let _ = written();
    }
}

/// Random bytes that depend on nothing but the target and the round.
fn noise(name: &str, round: usize) -> Vec<u8> {
    let seed = name.bytes().fold(round as u64, |seed, byte| seed.rotate_left(7) ^ u64::from(byte));
    let mut bytes = vec![0; NOISE_BYTES];
    SplitMix64::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
