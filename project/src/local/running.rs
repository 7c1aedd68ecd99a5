//! The programs that run, and their end in order.

use std::future::pending;
use std::io::Write;
use std::time::Duration;

use futures::future::select_all;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::arguments::Program;
use crate::error::Error;

/// The time that a program has to end in order.
const PATIENCE: Duration = Duration::from_secs(75);

/// The beginning of the line that the API server writes once it serves.
const SERVES: &[u8] = b"kindom serves ";

#[derive(Default)]
pub(super) struct Running {
    /// In the order in which they started, each with its input.
    programs: Vec<(Program, Child, Option<ChildStdin>)>,
    output: Option<BufReader<ChildStdout>>,
}

impl Running {
    pub(super) fn start(&mut self, program: Program, mut command: Command) -> Result<(), Error> {
        // Ctrl-C is for this process, which ends them in order.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(super::program(program.name()))?;
        let output = child.stdout.take().map(BufReader::new);
        self.output = self.output.take().or(output);
        let input = child.stdin.take();
        self.programs.push((program, child, input));
        Ok(())
    }

    /// Passes the API server's lines on until it says that it serves; false if it ended before. The lines after that one, such as the
    /// user's own, go to standard output as well.
    pub(super) async fn served(&mut self, out: &mut dyn Write) -> Result<bool, Error> {
        let Some(output) = &mut self.output else { return Ok(false) };
        loop {
            let mut line = Vec::new();
            if !matches!(output.read_until(b'\n', &mut line).await, Ok(read) if read > 0) {
                return Ok(false);
            }
            out.write_all(&line).and_then(|()| out.flush()).map_err(Error::Output)?;
            if line.starts_with(SERVES) {
                break;
            }
        }
        if let Some(mut output) = self.output.take() {
            // Ends with the server.
            tokio::spawn(async move { tokio::io::copy(&mut output, &mut tokio::io::stdout()).await });
        }
        Ok(true)
    }

    /// The next program that ends by itself, and how.
    pub(super) async fn ended(&mut self) -> (Program, String) {
        let watched: Vec<_> = self.programs.iter_mut().map(|(_, child, _)| Box::pin(child.wait())).collect();
        if watched.is_empty() {
            return pending().await;
        }
        let (status, at, _) = select_all(watched).await;
        let (program, ..) = self.programs.remove(at);
        (program, status.map_or_else(|error| error.to_string(), |status| status.to_string()))
    }

    /// Ends them, the last one first.
    pub(super) async fn end(mut self) {
        while let Some((_, mut child, _input)) = self.programs.pop() {
            // None once it has ended and was waited for.
            let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
            if let Some(pid) = pid {
                // A process that is gone is one that has ended.
                let _ = kill_process(pid, Signal::TERM);
            }
            if timeout(PATIENCE, child.wait()).await.is_err() {
                drop(child.kill().await);
            }
        }
    }
}
