//! A host: a real kube-apiserver with its aggregation layer, RBAC and an audit log, on an etcd of its own.
//!
//! It is upstream's own program, which `./test` builds from `integration/kube-apiserver`. No node runs beside it, and no controller
//! but the garbage collector where a test starts it.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::certificates::{Authority, Pair, Subject};
use crate::etcd::free_ports;
use crate::{Caller, Client, Etcd, HarnessError, tls, tools};

/// A host that is not ready by then hangs. A busy machine needs half a minute.
const READY_LIMIT: Duration = Duration::from_secs(180);
/// Between two looks at a host that starts: it says nothing when it is ready.
const LOOK: Duration = Duration::from_millis(100);
/// The most ports that are tried before a clash is an error.
const TRIES: usize = 5;
const LOG_LINES: usize = 40;
/// The name in the certificate of the aggregator.
const PROXY: &str = "front-proxy-client";
const MASTERS: &str = "system:masters";
/// Each request once, when it has been answered.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"], "rules": [{"level": "Metadata"}]}"#;

/// The settings of a [`Host`].
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    args: Vec<String>,
}

impl HostOptions {
    /// Adds arguments to kube-apiserver. Of a flag that is given twice, the last one counts.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|&a| a.to_owned()));
        self
    }

    /// Starts it and waits until it is ready; none, and the test is counted as skipped, where there is no Go to build it.
    ///
    /// # Errors
    /// It was not built, there is no etcd, or it ended before it was ready.
    pub async fn start(self) -> Result<Option<Host>, HarnessError> {
        let Some(program) = tools::built("kube-apiserver")? else { return Ok(None) };
        let etcd = Etcd::start().await?;
        let dir = tempfile::Builder::new()
            .prefix("kindom-host-")
            .tempdir()
            .map_err(HarnessError::io("a folder"))?;
        let home = dir.path().join("home");
        std::fs::create_dir(&home).map_err(HarnessError::io("a folder"))?;
        let authorities = Authorities {
            servers: Authority::new("kubernetes-ca")?,
            clients: Authority::new("client-ca")?,
            proxies: Authority::new("front-proxy-ca")?,
        };
        authorities.write(dir.path())?;
        let args = self.args;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut host = Host { dir, etcd, authorities, program, args, address, process: None };
        let mut tries = 0;
        loop {
            tries += 1;
            host.address = free_ports(1)?.first().copied().unwrap_or(host.address);
            match host.launch().await {
                Ok(()) => return Ok(Some(host)),
                // Another test took the port since it was looked at.
                Err(_) if tries < TRIES && host.log_tail().contains("address already in use") => {}
                Err(error) => return Err(error),
            }
        }
    }
}

struct Authorities {
    servers: Authority,
    clients: Authority,
    proxies: Authority,
}

impl Authorities {
    /// Writes the files that kube-apiserver's flags name.
    fn write(&self, folder: &Path) -> Result<(), HarnessError> {
        let write = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).map_err(HarnessError::io(name.to_owned()))
        };
        write("client-ca.crt", &self.clients.pem())?;
        write("front-proxy-ca.crt", &self.proxies.pem())?;
        write("ca.crt", &self.servers.pem())?;
        let names = ["localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let pairs = [
            ("apiserver", self.servers.issue(Subject::Server(&names))?),
            ("front-proxy", self.proxies.issue(Subject::Client { name: PROXY, group: None })?),
        ];
        for (name, pair) in pairs {
            write(&format!("{name}.crt"), &pair.certificate)?;
            write(&format!("{name}.key"), &pair.key)?;
        }
        let key = rcgen::KeyPair::generate().map_err(|e| HarnessError::transport("making a key", &e))?;
        write("service-accounts.key", &key.serialize_pem())?;
        write("service-accounts.pub", &key.public_key_pem())?;
        write("audit-policy.json", AUDIT_POLICY)
    }
}

/// A running kube-apiserver and its etcd, with a folder of their own.
///
/// Dropping it, also by a panic, kills both and removes the folder.
pub struct Host {
    dir: TempDir,
    etcd: Etcd,
    authorities: Authorities,
    program: PathBuf,
    args: Vec<String>,
    address: SocketAddr,
    process: Option<Child>,
}

impl Host {
    /// Starts one without further arguments.
    ///
    /// # Errors
    /// As [`HostOptions::start`].
    pub async fn start() -> Result<Option<Self>, HarnessError> {
        HostOptions::default().start().await
    }

    async fn launch(&mut self) -> Result<(), HarnessError> {
        let log = File::create(self.log_path()).map_err(HarnessError::io("the host's log"))?;
        let file = |name: &str| self.path(name).display().to_string();
        let mut command = Command::new(&self.program);
        command
            .arg(format!("--etcd-servers={}", self.etcd.endpoints().join(",")))
            .arg(format!("--secure-port={}", self.address.port()))
            .args(["--bind-address=127.0.0.1", "--service-cluster-ip-range=10.0.0.0/24"])
            // It would write this address, of the loopback, into an Endpoints object, which refuses it.
            .arg("--endpoint-reconciler-type=none")
            .arg(format!("--cert-dir={}", file("pki")))
            .arg(format!("--tls-cert-file={}", file("apiserver.crt")))
            .arg(format!("--tls-private-key-file={}", file("apiserver.key")))
            .arg(format!("--client-ca-file={}", file("client-ca.crt")))
            .arg(format!("--requestheader-client-ca-file={}", file("front-proxy-ca.crt")))
            .arg(format!("--requestheader-allowed-names={PROXY}"))
            .args([
                "--requestheader-username-headers=X-Remote-User",
                "--requestheader-uid-headers=X-Remote-Uid",
            ])
            .args(["--requestheader-group-headers=X-Remote-Group"])
            .arg("--requestheader-extra-headers-prefix=X-Remote-Extra-")
            .arg(format!("--proxy-client-cert-file={}", file("front-proxy.crt")))
            .arg(format!("--proxy-client-key-file={}", file("front-proxy.key")))
            // Without a controller there are no service accounts for pods.
            .args(["--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount"])
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(format!("--service-account-key-file={}", file("service-accounts.pub")))
            .arg(format!("--service-account-signing-key-file={}", file("service-accounts.key")))
            .arg(format!("--audit-policy-file={}", file("audit-policy.json")))
            .arg(format!("--audit-log-path={}", self.audit_log().display()))
            .args(&self.args)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let process =
            command.spawn().map_err(HarnessError::io(format!("starting {}", self.program.display())))?;
        self.process = Some(process);
        let ready = tokio::time::timeout(READY_LIMIT, self.ready()).await;
        ready.unwrap_or_else(|_| Err(self.not_running("it is not ready in time"))).inspect_err(|_| {
            let _ = self.kill9();
        })
    }

    /// Returns once it is ready, or has ended.
    async fn ready(&mut self) -> Result<(), HarnessError> {
        let client = self.admin()?;
        loop {
            if let Some(process) = &mut self.process
                && let Some(status) = process.try_wait().map_err(HarnessError::io("the host"))?
            {
                self.process = None;
                return Err(self.not_running(&format!("it ended before it was ready ({status})")));
            }
            if client.get("/readyz").await.is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The address at which it listens, also after a restart.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority of its users' certificates, PEM.
    #[must_use]
    pub fn client_ca(&self) -> PathBuf {
        self.path("client-ca.crt")
    }

    /// The authority of its aggregator's certificate, PEM.
    #[must_use]
    pub fn front_proxy_ca(&self) -> PathBuf {
        self.path("front-proxy-ca.crt")
    }

    /// Its log of requests: a JSON object a line, level Metadata.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.path("audit.log")
    }

    /// The events of its audit log so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn audit_events(&self) -> Result<Vec<Value>, HarnessError> {
        let text = std::fs::read_to_string(self.audit_log()).map_err(HarnessError::io("the audit log"))?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Its folder, in which a test may put files of its own.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    fn log_path(&self) -> PathBuf {
        self.path("kube-apiserver.log")
    }

    /// The last lines of its log, which a restart empties.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tools::tail(&self.log_path(), LOG_LINES)
    }

    fn not_running(&self, reason: &str) -> HarnessError {
        HarnessError::NotRunning { reason: format!("kube-apiserver: {reason}"), log: self.log_tail() }
    }

    /// A client certificate of one of its users.
    ///
    /// # Errors
    /// No randomness.
    pub fn certificate(&self, name: &str, group: Option<&str>) -> Result<Pair, HarnessError> {
        self.authorities.clients.issue(Subject::Client { name, group })
    }

    /// A client of this user, over HTTP/1.1 or HTTP/2.
    ///
    /// # Errors
    /// No randomness.
    pub fn client(&self, name: &str, group: Option<&str>, http2: bool) -> Result<Client, HarnessError> {
        Ok(Client::new(self.address, self.tls(name, group)?, http2))
    }

    fn tls(&self, name: &str, group: Option<&str>) -> Result<rustls::ClientConfig, HarnessError> {
        let pair = self.certificate(name, group)?;
        let authorities = self.authorities.servers.pem();
        let shown = Some((pair.certificate.as_bytes(), pair.key.as_bytes()));
        tls::client_config(authorities.as_bytes(), shown)
    }

    /// A bare TLS connection of this user, HTTP/1.1: the test decides what to send.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn dial(&self, name: &str, group: Option<&str>) -> Result<TlsStream<TcpStream>, HarnessError> {
        let stream = TcpStream::connect(self.address).await.map_err(HarnessError::io("connecting"))?;
        tls::speak(self.tls(name, group)?, stream, b"http/1.1").await
    }

    /// A client that may do everything, over HTTP/1.1.
    ///
    /// # Errors
    /// No randomness.
    pub fn admin(&self) -> Result<Client, HarnessError> {
        self.client("kubernetes-admin", Some(MASTERS), false)
    }

    /// Programs of this user, with a home folder of their own.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn caller(&self, name: &str, group: Option<&str>) -> Result<Caller, HarnessError> {
        let pair = self.certificate(name, group)?;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "host", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": encode(&self.authorities.servers.pem()),
            }}],
            "users": [{"name": name, "user": {
                "client-certificate-data": encode(&pair.certificate),
                "client-key-data": encode(&pair.key),
            }}],
            "contexts": [{"name": "host", "context": {"cluster": "host", "user": name}}],
            "current-context": "host",
        });
        let kubeconfig = self.path(&format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, config.to_string()).map_err(HarnessError::io("a kubeconfig"))?;
        let home = self.path(&format!("home/{name}"));
        std::fs::create_dir_all(&home).map_err(HarnessError::io("a home"))?;
        Ok(Caller::new(&kubeconfig, &home, self.scratch()))
    }

    /// Programs that may do everything.
    ///
    /// # Errors
    /// As [`Host::caller`].
    pub fn admin_caller(&self) -> Result<Caller, HarnessError> {
        self.caller("kubernetes-admin", Some(MASTERS))
    }

    /// Starts upstream's garbage collector for the host; none, and the test is counted as skipped, where there is no Go to build it.
    /// Dropping it kills it.
    ///
    /// # Errors
    /// It was not built, or cannot be started.
    pub fn collector(&self) -> Result<Option<tokio::process::Child>, HarnessError> {
        let Some(program) = tools::built("kube-controller-manager")? else { return Ok(None) };
        let kubeconfig = self.admin_caller()?.kubeconfig().to_owned();
        let log = File::create(self.path("controllers.log")).map_err(HarnessError::io("a log"))?;
        let started = tokio::process::Command::new(program)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(["--controllers=garbage-collector-controller", "--leader-elect=false", "--secure-port=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn();
        started.map(Some).map_err(HarnessError::io("kube-controller-manager"))
    }

    /// Kills kube-apiserver, not its etcd, as `kill -9` does, and waits until it is gone.
    ///
    /// # Errors
    /// [`HarnessError::NotRunning`], or the process could not be handled.
    pub fn kill9(&mut self) -> Result<(), HarnessError> {
        let Some(mut process) = self.process.take() else { return Err(self.not_running("it was stopped")) };
        process.kill().map_err(HarnessError::io("kill -9"))?;
        process.wait().map_err(HarnessError::io("waiting for the killed host"))?;
        Ok(())
    }

    /// Starts it again at its address, on its etcd.
    ///
    /// # Errors
    /// As [`HostOptions::start`].
    pub async fn restart(&mut self) -> Result<(), HarnessError> {
        if self.process.is_some() {
            self.kill9()?;
        }
        self.launch().await
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = format!("--- the host's log ends with ---\n{}\n", self.log_tail());
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        }
        if self.process.is_some() {
            let _ = self.kill9();
        }
    }
}
