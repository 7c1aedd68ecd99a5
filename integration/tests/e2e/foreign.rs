//! Other people's programs, which print the port of 127.0.0.1 that they serve at, behind an address that is known before.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use kindom_integration::Server;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// An address whose connections go to a program, while there is one.
pub(crate) struct Gate {
    pub(crate) port: u16,
    to: Arc<Mutex<Option<u16>>>,
    task: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Gate {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let to = Arc::new(Mutex::new(None));
        let shared: Arc<Mutex<Option<u16>>> = Arc::clone(&to);
        let task = tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let Some(port) = *shared.lock().unwrap() else { continue };
                tokio::spawn(async move {
                    if let Ok(mut to) = TcpStream::connect(("127.0.0.1", port)).await {
                        let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            }
        });
        Self { port, to, task }
    }

    /// Starts a program with the server's kubeconfig and leads to it. Its log is a file of the server's folder.
    pub(crate) async fn lead_to(&self, server: &Server, name: &str, mut command: Command) -> Child {
        server.environment(&mut command);
        let log = std::fs::File::create(server.scratch().join(format!("{name}.log"))).unwrap();
        let started = command.stdout(Stdio::piped()).stderr(log).kill_on_drop(true).spawn();
        let mut program = started.unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let printed = lines.next_line().await.unwrap().expect(name);
        self.point_to(printed.parse().expect(&printed));
        program
    }

    /// Leads to a port from now on.
    pub(crate) fn point_to(&self, port: u16) {
        *self.to.lock().unwrap() = Some(port);
    }

    /// Leads nowhere from now on.
    pub(crate) fn close(&self) {
        *self.to.lock().unwrap() = None;
    }
}
