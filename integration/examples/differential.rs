//! The two ends of a differential recording; `integration/expectations/README.md` has the commands.

use std::path::Path;
use std::process::ExitCode;

use kindom_integration::differential;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["cases", folder] => differential::write_cases(Path::new(folder)),
        ["record", folder] => differential::record(Path::new(folder)),
        _ => Err(std::io::Error::other("say `cases FOLDER` or `record FOLDER`")),
    };
    match done {
        Ok(count) => {
            eprintln!("{count} cases");
            ExitCode::SUCCESS
        }
        Err(cause) => {
            eprintln!("{cause}");
            ExitCode::FAILURE
        }
    }
}
