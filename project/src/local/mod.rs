//! `kindom run local`: builds and runs the programs of a project, and again after every change.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::SystemTime;

use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::arguments::{Program, RunLocal};
use crate::cargo;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::report::report;

mod changes;
mod running;

use changes::Changes;
use running::Running;

/// The folder of the objects and credentials, in the project's.
const DATA: &str = ".kindom";

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(folder: &Path, options: &RunLocal, out: &mut dyn Write) -> Result<(), Error> {
    let programs = Manifest::need(folder)?.chosen("run", &options.run)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .map_err(program("run local"))?
        .block_on(async { Session::begin(folder, options, programs, out)?.run().await })
}

/// Names the program in an error of the system's, for `map_err`.
fn program(name: &str) -> impl FnOnce(std::io::Error) -> Error {
    |source| Error::Program { program: name.to_owned(), source }
}

/// The executables, each with the time of its build: of two that are equal, neither replaces the other.
type Built = BTreeMap<Program, (PathBuf, Option<SystemTime>)>;

/// The next thing to do.
enum Next {
    Wait,
    Build,
    End,
}

struct Session<'a> {
    folder: &'a Path,
    options: &'a RunLocal,
    out: &'a mut dyn Write,
    /// In the order in which they start.
    programs: Vec<Program>,
    changes: Changes,
    terminate: Signal,
    interrupt: Signal,
    running: Option<Running>,
    built: Built,
}

impl<'a> Session<'a> {
    fn begin(
        folder: &'a Path,
        options: &'a RunLocal,
        programs: Vec<Program>,
        out: &'a mut dyn Write,
    ) -> Result<Self, Error> {
        let listen = |kind| signal(kind).map_err(program("run local"));
        Ok(Self {
            folder,
            options,
            out,
            programs,
            changes: Changes::of(folder)?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            running: None,
            built: Built::new(),
        })
    }

    async fn run(mut self) -> Result<(), Error> {
        let ended = self.build_and_wait().await;
        if let Some(running) = self.running {
            running.end().await;
        }
        ended
    }

    async fn build_and_wait(&mut self) -> Result<(), Error> {
        loop {
            // A change from here on may be one that the build has not seen.
            self.changes.forget()?;
            let build = build(self.folder, self.options, &self.programs);
            let built = tokio::select! {
                built = build => built?,
                () = told_to_end(&mut self.terminate, &mut self.interrupt) => return Ok(()),
            };
            match built {
                // Somebody has edited a test, or saved a file as it was.
                Some(built) if built == self.built && self.running.is_some() => {}
                Some(built) => {
                    self.built = built;
                    match self.restart().await? {
                        Next::Wait => {}
                        Next::Build => {
                            // So that a build with the same outcome starts what has not started.
                            self.built.clear();
                            continue;
                        }
                        Next::End => return Ok(()),
                    }
                }
                None => report(self.out, "kindom: the build failed; the next one follows a change")?,
            }
            if let Next::End = self.wait().await? {
                return Ok(());
            }
        }
    }

    /// Puts the new programs in the place of those that run.
    async fn restart(&mut self) -> Result<Next, Error> {
        if let Some(running) = self.running.take() {
            running.end().await;
        }
        keep_out_of_git(&self.folder.join(DATA))?;
        let running = self.running.insert(Running::default());
        for (program, (executable, _)) in &self.built {
            let mut command = Command::new(executable);
            command.current_dir(self.folder);
            match program {
                Program::Apiserver => {
                    command.arg("serve").arg("--data-dir").arg(DATA).arg("--end-with-stdin");
                    command.args(["--secure-port", &self.options.secure_port.to_string()]);
                    command.stdout(Stdio::piped());
                }
                Program::ControllerManager => {
                    if self.built.contains_key(&Program::Apiserver) {
                        command.env("KUBECONFIG", Path::new(DATA).join("admin.kubeconfig"));
                    }
                    command.env("KINDOM_END_WITH_STDIN", "1");
                }
            }
            // The end of this process, however it comes about, is the end of their input.
            command.stdin(Stdio::piped());
            running.start(*program, command)?;
            if *program == Program::Apiserver {
                tokio::select! {
                    served = running.served(self.out) => match served? {
                        true => {}
                        // Its end is reported by the wait that follows.
                        false => return Ok(Next::Wait),
                    },
                    // It may be one without which the server never serves.
                    () = self.changes.settled() => return Ok(Next::Build),
                    () = told_to_end(&mut self.terminate, &mut self.interrupt) => return Ok(Next::End),
                }
            }
        }
        Ok(Next::Wait)
    }

    /// Waits for a change, and until it is whole.
    async fn wait(&mut self) -> Result<Next, Error> {
        loop {
            let mut nothing = Running::default();
            let running = self.running.as_mut().unwrap_or(&mut nothing);
            tokio::select! {
                () = told_to_end(&mut self.terminate, &mut self.interrupt) => return Ok(Next::End),
                () = self.changes.settled() => return Ok(Next::Build),
                (program, status) = running.ended() => {
                    report(self.out, &format!("kindom: {} ended ({status}); it starts again after a change", program.name()))?;
                    // So that a build with the same outcome starts it.
                    self.built.clear();
                }
            }
        }
    }
}

/// Whatever the project's own .gitignore says: the folder holds the administrator's key.
fn keep_out_of_git(data: &Path) -> Result<(), Error> {
    let ignored = data.join(".gitignore");
    let written = std::fs::create_dir_all(data).and_then(|()| std::fs::write(&ignored, "*\n"));
    written.map_err(Error::file("write", &ignored))
}

async fn told_to_end(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Builds the programs; none if there is a mistake in them, which cargo has reported then.
async fn build(folder: &Path, options: &RunLocal, programs: &[Program]) -> Result<Option<Built>, Error> {
    let more: &[&str] = if options.release { &["--release"] } else { &[] };
    let out = Command::new(cargo::cargo())
        .args(cargo::arguments(programs, more))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(program("cargo"))?;
    if !out.status.success() {
        return Ok(None);
    }
    let executables = cargo::executables(&out.stdout, programs)?;
    let built_at = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    Ok(Some(
        executables.into_iter().map(|(program, path)| (program, (path.clone(), built_at(&path)))).collect(),
    ))
}
