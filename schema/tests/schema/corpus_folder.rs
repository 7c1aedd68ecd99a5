//! Where the corpus of real registrations is, which is not part of the repository; several crates' tests share this file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The corpus: the folder that `KINDOM_CORPUS` names, else `../shared/corpus` beside the repository if it is there.
///
/// Without one the running test ends at once, and says so: on its output, and, as nobody reads the output of a test that
/// passes, in the file that `KINDOM_TEST_SKIPPED` names, from which `./test` counts. A folder that is named but is no corpus
/// is a failure.
pub(crate) fn folder() -> Option<PathBuf> {
    let is_corpus = |folder: &Path| folder.join("reference/crds-1.37.jsonl").is_file();
    if let Some(named) = std::env::var_os("KINDOM_CORPUS").map(PathBuf::from) {
        assert!(is_corpus(&named), "KINDOM_CORPUS names {}, which is no corpus", named.display());
        return Some(named);
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    if is_corpus(&beside) {
        return Some(beside);
    }
    skipped("there is no corpus (set KINDOM_CORPUS)");
    None
}

/// Says that the running test skips, and why.
pub(crate) fn skipped(why: &str) {
    // The harness names a test's thread after it.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    println!("{test}: skipped, {why}");
    if let Some(list) = std::env::var_os("KINDOM_TEST_SKIPPED") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(list);
        // One write of a short line: other tests append to the same file.
        file.unwrap().write_all(format!("{}/{test}\n", env!("CARGO_PKG_NAME")).as_bytes()).unwrap();
    }
}
