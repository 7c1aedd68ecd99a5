//! The programs that run, and their end in order.

use std::future::pending;
use std::time::Duration;

use futures::future::select_all;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::arguments::Program;
use crate::error::Error;

/// The time that a program has to end in order.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct Running {
    /// In the order in which they started.
    programs: Vec<(Program, Child)>,
    /// The API server's input, which ends with this process.
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Running {
    pub(super) fn start(&mut self, program: Program, mut command: Command) -> Result<(), Error> {
        // Ctrl-C is for this process, which ends them in order.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(super::program(program.name()))?;
        self.input = self.input.take().or_else(|| child.stdin.take());
        let output = child.stdout.take().map(BufReader::new);
        self.output = self.output.take().or(output);
        self.programs.push((program, child));
        Ok(())
    }

    /// The first line that the API server writes, which it does once it serves; none if it ended before. What follows, such as the
    /// user's own lines, goes to standard output.
    pub(super) async fn first_line(&mut self) -> Option<String> {
        let mut output = self.output.take()?;
        let mut line = String::new();
        let read = output.read_line(&mut line).await;
        if !matches!(read, Ok(read) if read > 0) {
            return None;
        }
        // Ends with the server.
        tokio::spawn(async move { tokio::io::copy(&mut output, &mut tokio::io::stdout()).await });
        Some(line.trim_end().to_owned())
    }

    /// The next program that ends by itself, and how.
    pub(super) async fn ended(&mut self) -> (Program, String) {
        let watched: Vec<_> = self.programs.iter_mut().map(|(_, child)| Box::pin(child.wait())).collect();
        if watched.is_empty() {
            return pending().await;
        }
        let (status, at, _) = select_all(watched).await;
        let (program, _) = self.programs.remove(at);
        (program, status.map_or_else(|error| error.to_string(), |status| status.to_string()))
    }

    /// Ends them, the last one first.
    pub(super) async fn end(mut self) {
        while let Some((_, mut child)) = self.programs.pop() {
            // None once it has ended and was waited for.
            let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
            if let Some(pid) = pid {
                // Nobody is there to be told any more if this fails.
                let _ = kill_process(pid, Signal::TERM);
            }
            if timeout(PATIENCE, child.wait()).await.is_err() {
                drop(child.kill().await);
            }
        }
    }
}
