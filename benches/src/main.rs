//! The load program: the cost of requests in the server, beside that of a bare handler in the same run.
//!
//! **Owns** the figures of docs/benchmarks.md. It starts the real binary and the floor as processes, sends a bounded number
//! of requests to each, and reads the CPU time of their threads from `/proc`. It compares CPU time, which is more or less
//! the same on a busy machine as on an idle one; elapsed times are printed too.
//!
//! A target that is missed is a figure, not a failure: it fails only where it could not measure.

mod cases;
mod client;
mod error;
mod floor;
mod load;
mod pairs;
mod process;
mod report;
mod shapes;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use cases::{Counts, Setup};
use clap::{Parser, Subcommand, ValueEnum};
use error::LoadError;
use report::Row;

/// Measures `kindom serve`.
#[derive(Debug, Parser)]
#[command(name = "kindom-load", args_conflicts_with_subcommands = true)]
struct Flags {
    #[command(subcommand)]
    command: Option<Command>,
    /// The binary; by default KINDOM_BIN, else the one beside this program.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Another binary, which both are compared with: each is measured in turn, and the table has the medians of CPU costs, and of
    /// the pairs' ratios.
    #[arg(long, value_name = "BINARY")]
    against: Option<PathBuf>,
    /// The pairs that are measured with --against.
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// The folder in which the servers' folders are made; by default the system's folder for temporary files.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The cases to measure; by default all.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Case>,
    #[command(flatten)]
    counts: Counts,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves files without doing anything else; started by this program itself.
    #[command(hide = true)]
    Floor { files: PathBuf, pki: PathBuf },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    Start,
    Get,
    Write,
    Apply,
    List,
    Watch,
    Register,
    Memory,
    Fair,
    Large,
    Etcd,
    Typed,
    Users,
    Converted,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match &flags.command {
        Some(Command::Floor { files, pki }) => floor::serve(files, pki),
        None => measure(flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "kindom-load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn binary(flags: &Flags) -> Result<PathBuf, LoadError> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("kindom"));
    let named = flags.binary.clone().or_else(|| std::env::var_os("KINDOM_BIN").map(PathBuf::from));
    let found = named.or_else(beside).filter(|path| path.is_file());
    found.ok_or_else(|| {
        LoadError::Missing(
            "no binary: cargo build --release -p kindom-server, or name one with --binary".to_owned(),
        )
    })
}

#[tokio::main]
async fn measure(flags: Flags) -> Result<(), LoadError> {
    // Watches take a descriptor each, here and in the server, which inherits the limit.
    raise_open_files();
    let binary = binary(&flags)?;
    let setup = |binary: PathBuf| {
        let mut builder = tempfile::Builder::new();
        builder.prefix("kindom-load-");
        let parent = flags.folder.as_ref();
        let folder = parent.map_or_else(|| builder.tempdir(), |parent| builder.tempdir_in(parent));
        Ok(Setup { binary, folder: folder.map_err(LoadError::io("a folder"))?, counts: flags.counts.clone() })
    };
    let folder = flags.folder.clone().unwrap_or_else(std::env::temp_dir);
    say(&format!("{}.\n", report::machine(&folder)));
    if let Some(before) = flags.against.clone() {
        let cases =
            async |binary: PathBuf, row: &mut dyn FnMut(Row)| run(&setup(binary)?, &flags.only, row).await;
        return pairs::compare([before, binary], flags.pairs, cases, say).await;
    }
    say(report::HEAD);
    run(&setup(binary)?, &flags.only, &mut |row: Row| say(&row.line())).await
}

/// Measures some cases, or all.
async fn run(setup: &Setup, only: &[Case], mut row: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    for case in Case::value_variants() {
        if !only.is_empty() && !only.contains(case) {
            continue;
        }
        match case {
            Case::Start => cases::startup::starts(setup, &mut row).await?,
            Case::Get => cases::widgets::gets(setup, &mut row).await?,
            Case::Write => cases::widgets::writes(setup, &mut row).await?,
            Case::Apply => cases::applies::applies(setup, &mut row).await?,
            Case::List => cases::lists::lists(setup, &mut row).await?,
            Case::Watch => cases::watches::deliveries(setup, &mut row).await?,
            Case::Register => cases::registrations::served(setup, &mut row).await?,
            Case::Memory => cases::registrations::memory(setup, &mut row).await?,
            Case::Fair => cases::fair::fair(setup, &mut row).await?,
            Case::Large => cases::large::large(setup, &mut row).await?,
            Case::Etcd => cases::etcd::requests(setup, &mut row).await?,
            Case::Typed => cases::typed::requests(setup, &mut row).await?,
            Case::Users => cases::users::requests(setup, &mut row).await?,
            Case::Converted => cases::converted::other_types(setup, &mut row).await?,
        }
    }
    Ok(())
}

/// A line of the report, as soon as it is known.
fn say(line: &str) {
    // The reader of the output may be gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::Nofile).maximum;
    // If the system refuses, fewer watches fit.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}
