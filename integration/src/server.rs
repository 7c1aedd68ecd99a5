//! One server process with a data folder of its own.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;

use crate::{Caller, Client, Etcd, HarnessError, Output, tls, tools};

/// A process that has not said where it listens by then hangs.
const READY_LIMIT: Duration = Duration::from_secs(120);
const LOG_LINES: usize = 40;

/// The settings of a [`Server`].
///
/// With `KINDOM_TEST_STORE=etcd` in the environment it gets an etcd of its own unless it says what it runs on.
#[derive(Clone, Default)]
pub struct ServerOptions {
    args: Vec<String>,
    launcher: Vec<String>,
    data_dir: Option<PathBuf>,
    store: Option<Store>,
}

#[derive(Clone)]
enum Store {
    Embedded,
    /// Somebody else's etcd.
    Endpoints(Vec<String>),
    /// An etcd that goes with its last server.
    Own(Arc<Etcd>),
}

/// Returns true if servers without a store of their own run on etcd.
#[must_use]
pub fn on_etcd() -> bool {
    std::env::var_os("KINDOM_TEST_STORE").is_some_and(|value| value == "etcd")
}

impl ServerOptions {
    /// Serves this folder instead of one of its own, with the store in it.
    #[must_use]
    pub fn data_dir(mut self, folder: &Path) -> Self {
        self.data_dir = Some(folder.to_owned());
        self.embedded()
    }

    /// Runs on the embedded store, whatever the environment says.
    #[must_use]
    pub fn embedded(mut self) -> Self {
        self.store = Some(Store::Embedded);
        self
    }

    /// Runs on the etcd with these endpoints, which may be [proxies](crate::Proxy).
    #[must_use]
    pub fn etcd(mut self, endpoints: &[String]) -> Self {
        self.store = Some(Store::Endpoints(endpoints.to_vec()));
        self
    }

    /// Uses this folder for the certificates, which other servers may use too.
    #[must_use]
    pub fn cert_dir(self, folder: &Path) -> Self {
        self.args(&["--cert-dir", &folder.to_string_lossy()])
    }

    /// Runs on the folder and the store of a server that has ended.
    #[must_use]
    pub fn succeeding(mut self, server: &Server) -> Self {
        self.data_dir = Some(server.data_dir());
        self.store = Some(server.store.clone());
        self
    }

    /// Runs no controller and keeps no FlowSchemas, so that nothing is written but what clients write.
    #[must_use]
    pub fn quiet(self) -> Self {
        let controllers = [
            "garbage-collector",
            "root-ca-certificate-publisher",
            "serviceaccount",
            "serviceaccount-token",
            "validatingadmissionpolicy-status",
        ];
        let without: Vec<String> = controllers.iter().map(|name| format!("-{name}-controller")).collect();
        let controllers = format!("--controllers=*,{}", without.join(","));
        self.args(&[&controllers, "--enable-priority-and-fairness=false"])
    }

    /// Adds arguments to `kindom serve`.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|&a| a.to_owned()));
        self
    }

    /// Starts it by this command, which becomes the server: `["sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"]`.
    #[must_use]
    pub fn launcher(mut self, command: &[String]) -> Self {
        command.clone_into(&mut self.launcher);
        self
    }

    /// Adds `/debug/actors`.
    #[must_use]
    pub fn chaos(self) -> Self {
        self.args(&["--enable-chaos"])
    }

    /// Starts it.
    ///
    /// # Errors
    /// No binary, or the process ended before it was ready.
    pub async fn start(self) -> Result<Server, HarnessError> {
        let dir =
            tempfile::Builder::new().prefix("kindom-e2e-").tempdir().map_err(HarnessError::io("a folder"))?;
        let home = dir.path().join("home");
        std::fs::create_dir(&home).map_err(HarnessError::io("a folder"))?;
        let data_dir = self.data_dir.unwrap_or_else(|| dir.path().join("data"));
        let store = match self.store {
            Some(store) => store,
            None if on_etcd() => Store::Own(Arc::new(Etcd::start().await?)),
            None => Store::Embedded,
        };
        // No test is about that wait but those of the actor, in virtual time.
        let mut args = vec!["--storage-version-settle=0s".to_owned()];
        args.extend(self.args);
        match &store {
            Store::Embedded => {}
            Store::Endpoints(endpoints) => args.push(format!("--etcd-servers={}", endpoints.join(","))),
            Store::Own(etcd) => args.push(format!("--etcd-servers={}", etcd.endpoints().join(","))),
        }
        let launcher = self.launcher;
        let mut server = Server { dir, data_dir, args, launcher, store, running: None };
        server.launch().await?;
        Ok(server)
    }
}

struct Running {
    process: Child,
    address: SocketAddr,
    said: String,
}

/// A `kindom serve` on a free loopback port, with a folder of its own.
///
/// Dropping it kills the process and removes the folder.
pub struct Server {
    dir: TempDir,
    data_dir: PathBuf,
    args: Vec<String>,
    launcher: Vec<String>,
    store: Store,
    running: Option<Running>,
}

/// The identity that a connection shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    Admin,
    Nobody,
}

impl Server {
    /// Starts one without further arguments.
    ///
    /// # Errors
    /// As [`ServerOptions::start`].
    pub async fn start() -> Result<Self, HarnessError> {
        ServerOptions::default().start().await
    }

    async fn launch(&mut self) -> Result<(), HarnessError> {
        let binary = tokio::task::spawn_blocking(tools::kindom)
            .await
            .map_err(|e| HarnessError::transport("looking for the binary", &e))??;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .map_err(HarnessError::io("the server's log"))?;
        let mut command = match self.launcher.split_first() {
            None => Command::new(&binary),
            Some((program, args)) => {
                let mut command = Command::new(program);
                command.args(args).arg(&binary);
                command
            }
        };
        let mut process = command
            .args(["serve", "--secure-port", "0", "--data-dir"])
            .arg(self.data_dir())
            .args(&self.args)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(HarnessError::io(format!("starting {}", binary.display())))?;
        let (line, ready) = tokio::sync::oneshot::channel();
        if let Some(stdout) = process.stdout.take() {
            // Read on: a full pipe would block the server.
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
                if let Some(first) = lines.find(|l| l.contains("https://")) {
                    let _ = line.send(first);
                }
                lines.for_each(drop);
            });
        }
        let line = match tokio::time::timeout(READY_LIMIT, ready).await {
            Ok(Ok(line)) => line,
            failed => {
                let _ = process.kill();
                let status = process.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                let what = if failed.is_err() { "it said nothing" } else { "it ended before it was ready" };
                return Err(self.not_running(&format!("{what} ({status})")));
            }
        };
        let Some(address) = address_in(&line) else {
            let _ = process.kill();
            let _ = process.wait();
            return Err(self.not_running(&format!("no address in the line it printed: {line}")));
        };
        self.running = Some(Running { process, address, said: line });
        Ok(())
    }

    /// The line it printed when it was ready.
    #[must_use]
    pub fn said(&self) -> &str {
        self.running.as_ref().map_or("", |r| &r.said)
    }

    /// The folder given as `--data-dir`.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone()
    }

    /// The endpoints of the etcd that it runs on; none on the embedded store.
    #[must_use]
    pub fn etcd_endpoints(&self) -> Vec<String> {
        match &self.store {
            Store::Embedded => Vec::new(),
            Store::Endpoints(endpoints) => endpoints.clone(),
            Store::Own(etcd) => etcd.endpoints(),
        }
    }

    /// An empty home folder, so that no client's cache or settings are shared.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// A folder for a test's own files, removed with the server.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// The admin kubeconfig that it wrote.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    /// The file of its log.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.dir.path().join("server.log")
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tools::tail(&self.log_path(), LOG_LINES)
    }

    fn not_running(&self, reason: &str) -> HarnessError {
        HarnessError::NotRunning { reason: reason.to_owned(), log: self.log_tail() }
    }

    /// The address at which it listens.
    ///
    /// # Errors
    /// [`HarnessError::NotRunning`].
    pub fn address(&self) -> Result<SocketAddr, HarnessError> {
        self.running.as_ref().map(|r| r.address).ok_or_else(|| self.not_running("it was stopped"))
    }

    /// Its process id.
    ///
    /// # Errors
    /// [`HarnessError::NotRunning`].
    pub fn pid(&self) -> Result<u32, HarnessError> {
        self.running.as_ref().map(|r| r.process.id()).ok_or_else(|| self.not_running("it was stopped"))
    }

    /// The memory it holds, in bytes (`VmRSS`).
    ///
    /// # Errors
    /// [`HarnessError::NotRunning`], or `/proc` cannot be read.
    pub fn memory_bytes(&self) -> Result<u64, HarnessError> {
        self.status_bytes("VmRSS:")
    }

    /// The most memory that it held at any time since it was started last, in bytes (`VmHWM`).
    ///
    /// # Errors
    /// [`HarnessError::NotRunning`], or `/proc` cannot be read.
    pub fn peak_memory_bytes(&self) -> Result<u64, HarnessError> {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, field: &str) -> Result<u64, HarnessError> {
        let path = format!("/proc/{}/status", self.pid()?);
        let status = std::fs::read_to_string(&path).map_err(HarnessError::io(path))?;
        let kib = status
            .lines()
            .find_map(|l| l.strip_prefix(field))
            .and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        kib.map(|k| k * 1024).ok_or_else(|| self.not_running("it holds no memory"))
    }

    /// Kills it as `kill -9` does and waits until it is gone.
    ///
    /// # Errors
    /// [`HarnessError::NotRunning`], or the process could not be handled.
    pub fn kill9(&mut self) -> Result<(), HarnessError> {
        let mut running = self.running.take().ok_or_else(|| self.not_running("it was stopped"))?;
        running.process.kill().map_err(HarnessError::io("kill -9"))?;
        running.process.wait().map_err(HarnessError::io("waiting for the killed server"))?;
        Ok(())
    }

    /// SIGSTOP: it keeps its connections and answers no more.
    ///
    /// # Errors
    /// [`HarnessError::NotRunning`], or the process could not be handled.
    pub fn pause(&self) -> Result<(), HarnessError> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// As [`Server::pause`].
    pub fn resume(&self) -> Result<(), HarnessError> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), HarnessError> {
        let running = self.running.as_ref().ok_or_else(|| self.not_running("it was stopped"))?;
        kill_process(Pid::from_child(&running.process), signal)
            .map_err(|e| HarnessError::Io { what: format!("{signal:?}"), source: e.into() })
    }

    /// SIGTERM, without waiting for the end.
    ///
    /// # Errors
    /// As [`Server::pause`].
    pub fn ask_to_end(&self) -> Result<(), HarnessError> {
        self.signal(Signal::TERM)
    }

    /// SIGHUP: it reads its credentials again.
    ///
    /// # Errors
    /// As [`Server::pause`].
    pub fn hang_up(&self) -> Result<(), HarnessError> {
        self.signal(Signal::HUP)
    }

    /// Sends SIGTERM and waits until it has ended.
    ///
    /// # Errors
    /// [`HarnessError::NotRunning`], or the process could not be handled.
    pub async fn terminate(&mut self) -> Result<ExitStatus, HarnessError> {
        self.signal(Signal::TERM)?;
        self.ended().await
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// As [`Server::terminate`].
    pub async fn ended(&mut self) -> Result<ExitStatus, HarnessError> {
        let mut running = self.running.take().ok_or_else(|| self.not_running("it was stopped"))?;
        tokio::task::spawn_blocking(move || running.process.wait())
            .await
            .map_err(|e| HarnessError::transport("waiting for the end", &e))?
            .map_err(HarnessError::io("waiting for the end"))
    }

    /// Starts it again on the same folder, after it has ended. Its port is another one.
    ///
    /// # Errors
    /// As [`ServerOptions::start`].
    pub async fn restart(&mut self) -> Result<(), HarnessError> {
        if self.running.is_some() {
            self.kill9()?;
        }
        self.launch().await
    }

    /// A client with the admin certificate, over HTTP/1.1.
    ///
    /// # Errors
    /// The kubeconfig cannot be read.
    pub fn client(&self) -> Result<Client, HarnessError> {
        Ok(Client::new(self.address()?, self.tls(Identity::Admin)?, false))
    }

    /// A client with the admin certificate, over HTTP/2.
    ///
    /// # Errors
    /// The kubeconfig cannot be read.
    pub fn client_http2(&self) -> Result<Client, HarnessError> {
        Ok(Client::new(self.address()?, self.tls(Identity::Admin)?, true))
    }

    /// A client with the admin certificate that connects elsewhere: to a proxy of it, or of its replicas.
    ///
    /// # Errors
    /// The kubeconfig cannot be read.
    pub fn client_at(&self, address: SocketAddr, http2: bool) -> Result<Client, HarnessError> {
        Ok(Client::new(address, self.tls(Identity::Admin)?, http2))
    }

    /// A client without credentials.
    ///
    /// # Errors
    /// The kubeconfig cannot be read.
    pub fn anonymous(&self) -> Result<Client, HarnessError> {
        Ok(Client::new(self.address()?, self.tls(Identity::Nobody)?, false))
    }

    /// A client with a certificate of one's own, given in PEM.
    ///
    /// # Errors
    /// The kubeconfig or the PEM cannot be read.
    pub fn client_with_certificate(&self, certificate: &[u8], key: &[u8]) -> Result<Client, HarnessError> {
        Ok(Client::new(self.address()?, self.tls_with(Some((certificate, key)))?, false))
    }

    /// A bare TLS connection with the admin certificate, HTTP/1.1: the test decides what to send.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn dial(&self) -> Result<TlsStream<TcpStream>, HarnessError> {
        self.speak_tls(self.dial_tcp().await?, b"http/1.1").await
    }

    /// [`Server::dial`] for HTTP/2.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn dial_http2(&self) -> Result<TlsStream<TcpStream>, HarnessError> {
        self.speak_tls(self.dial_tcp().await?, b"h2").await
    }

    /// [`Server::dial`] without a certificate.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn dial_anonymous(&self) -> Result<TlsStream<TcpStream>, HarnessError> {
        self.speak_tls_as(Identity::Nobody, self.dial_tcp().await?, b"http/1.1").await
    }

    /// [`Server::dial`] as a client that holds so few bytes that it has not read.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn dial_holding(&self, bytes: u32) -> Result<TlsStream<TcpStream>, HarnessError> {
        let connect = async |address| {
            let socket = TcpSocket::new_v4()?;
            socket.set_recv_buffer_size(bytes)?;
            socket.connect(address).await
        };
        let stream = connect(self.address()?).await.map_err(HarnessError::io("connecting"))?;
        self.speak_tls(stream, b"http/1.1").await
    }

    async fn speak_tls(
        &self,
        stream: TcpStream,
        protocol: &[u8],
    ) -> Result<TlsStream<TcpStream>, HarnessError> {
        self.speak_tls_as(Identity::Admin, stream, protocol).await
    }

    async fn speak_tls_as(
        &self,
        identity: Identity,
        stream: TcpStream,
        protocol: &[u8],
    ) -> Result<TlsStream<TcpStream>, HarnessError> {
        tls::speak(self.tls(identity)?, stream, protocol).await
    }

    /// A bare TCP connection.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn dial_tcp(&self) -> Result<TcpStream, HarnessError> {
        TcpStream::connect(self.address()?).await.map_err(HarnessError::io("connecting"))
    }

    fn tls(&self, identity: Identity) -> Result<rustls::ClientConfig, HarnessError> {
        match identity {
            Identity::Admin => {
                let certificate = self.embedded("client-certificate-data")?;
                let key = self.embedded("client-key-data")?;
                self.tls_with(Some((&certificate, &key)))
            }
            Identity::Nobody => self.tls_with(None),
        }
    }

    fn tls_with(&self, pair: Option<(&[u8], &[u8])>) -> Result<rustls::ClientConfig, HarnessError> {
        tls::client_config(&self.embedded("certificate-authority-data")?, pair)
    }

    /// The decoded value of a `…-data` field of the kubeconfig, which has one cluster and one user.
    fn embedded(&self, field: &str) -> Result<Vec<u8>, HarnessError> {
        let path = self.kubeconfig();
        let text = std::fs::read_to_string(&path).map_err(HarnessError::io(path.display().to_string()))?;
        let encoded = text
            .split_once(&format!("{field}\":"))
            .or_else(|| text.split_once(&format!("{field}:")))
            .map(|(_, rest)| rest.trim_start().trim_start_matches('"'))
            .map(|rest| rest.split(['"', '\n', ',', '}']).next().unwrap_or_default().trim());
        encoded
            .and_then(|e| base64::engine::general_purpose::STANDARD.decode(e).ok())
            .ok_or_else(|| self.not_running(&format!("{} has no {field}", path.display())))
    }

    /// Programs with the admin kubeconfig and the server's own home folder.
    #[must_use]
    pub fn caller(&self) -> Caller {
        Caller::new(&self.kubeconfig(), &self.home(), self.scratch())
    }

    /// [`Caller::kubectl_with`] of the admin.
    ///
    /// # Errors
    /// As there.
    pub async fn kubectl_with(&self, args: &[&str], stdin: &str) -> Result<Output, HarnessError> {
        self.caller().kubectl_with(args, stdin).await
    }

    /// [`Caller::kubectl`] of the admin.
    ///
    /// # Errors
    /// As there.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String, HarnessError> {
        self.caller().kubectl(args).await
    }

    /// [`Caller::environment`] of the admin.
    pub fn environment(&self, command: &mut tokio::process::Command) {
        self.caller().environment(command);
    }

    /// [`Caller::run`] of the admin.
    ///
    /// # Errors
    /// As there.
    pub async fn run(&self, command: tokio::process::Command, stdin: &str) -> Result<Output, HarnessError> {
        self.caller().run(command, stdin).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let log = self.log_tail();
        if std::thread::panicking() && !log.is_empty() {
            let text = format!("--- the server's log ends with ---\n{log}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        }
        if self.running.is_some() {
            let _ = self.kill9();
        }
    }
}

/// The address in `… https://127.0.0.1:6443 …`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("https://")?;
    let end = rest
        .find(|c: char| !(c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '[' | ']')))
        .unwrap_or(rest.len());
    rest.get(..end)?.trim_end_matches(['.', ':']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_the_printed_line() {
        let address = |line| address_in(line).map(|a| a.to_string());
        assert_eq!(
            address("kindom serves https://127.0.0.1:6443; export KUBECONFIG=x").as_deref(),
            Some("127.0.0.1:6443")
        );
        assert_eq!(address("at https://[::1]:9, export").as_deref(), Some("[::1]:9"));
        assert_eq!(address("https://127.0.0.1:40000").as_deref(), Some("127.0.0.1:40000"));
        assert_eq!(address("nothing"), None);
    }
}
