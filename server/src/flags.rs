//! The command line. Flags are named as kube-apiserver's where the concept is the same.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use kindom_api::meta::names::name_is_dns_label;
use kindom_objects::kinds;
use kindom_objects::kinds::registration::Feature;
use kindom_objects::kinds::service::{AddressRange, PortRange};

use crate::aggregation::ServiceReference;
use crate::aggregator::{Service, service};
use crate::audit::AuditFlags;
use crate::host::HostAccess;
use crate::logging::Format;
use crate::plugins::PluginFlags;
use crate::snapshot::Place;

/// A Kubernetes-style API server for types that are registered at run time.
#[derive(Debug, Parser)]
#[command(name = "kindom", version, about)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves until it is told to end (SIGTERM or SIGINT).
    Serve(Box<Serve>),
    /// Converts registrations of older API versions to apiextensions.k8s.io/v1.
    ///
    /// Prints the manifests with ThirdPartyResources of extensions/v1beta1 and apiextension.k8s.io/v1beta1, and
    /// CustomResourceDefinitions of apiextensions.k8s.io/v1beta1, converted. Other objects stay as they are, without
    /// comments and with their fields sorted. If a document cannot be converted, prints only the errors.
    Convert(Convert),
    /// Prints the kinds that this program is compiled with as CustomResourceDefinitions.
    Kinds,
    /// Creates the objects that `kubectl get -o yaml` has exported.
    ///
    /// Leaves out the fields that a server sets (uid, resourceVersion and so on). An object that is there already with the
    /// same content stays unchanged, so an import can be repeated. Owner references follow owners that are imported in the
    /// same run.
    Import(Import),
    /// Shows what a server would do.
    #[command(subcommand)]
    Explain(Explain),
    /// Makes a folder for KUBEBUILDER_ASSETS: kube-apiserver and etcd, which are this program, and kubectl.
    Assets(Assets),
    /// Behind a cluster's aggregator.
    #[command(subcommand)]
    Aggregation(Aggregation),
    /// Finds damage in a folder, and makes a new folder of the undamaged rest.
    #[command(subcommand)]
    Storage(StorageCommand),
    /// Saves the content of a store to a file, checks the file, and restores it.
    #[command(subcommand)]
    Snapshot(Snapshot),
    #[command(flatten)]
    Project(kindom_project::Command),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Aggregation {
    /// Prints the Service and the APIServices by which a cluster serves the groups of this server, for kubectl apply.
    ///
    /// An APIService for each served version of each established registration, and for the groups in which registrations
    /// themselves come in through the cluster: apiextensions.kindom.dev and apiextension.k8s.io.
    Manifests(AggregationManifests),
}

#[derive(Debug, Args)]
pub(crate) struct Assets {
    /// The folder; it is made if it is not there.
    #[arg(long)]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct AggregationManifests {
    /// The name of the Service.
    #[arg(long, default_value = "kindom", value_parser = label)]
    pub(crate) service: String,
    /// The namespace of the Service; it must exist.
    #[arg(short, long, default_value = "kindom-system", value_parser = label)]
    pub(crate) namespace: String,
    /// The port of the Service, or of the server that --external-name names.
    #[arg(long, default_value_t = 443, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) service_port: u16,
    /// The server's host name, if it runs outside of the cluster; by default the Service selects pods labelled
    /// app.kubernetes.io/name with its name, and their port https.
    #[arg(long, value_name = "HOST")]
    pub(crate) external_name: Option<String>,
    /// The authorities of the server's certificate, PEM; by default those of the kubeconfig.
    #[arg(long)]
    pub(crate) ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: ServerAccess,
}

/// The access to a running server.
#[derive(Debug, Args)]
pub(crate) struct ServerAccess {
    /// The file that says how to reach the server; by default $KUBECONFIG, or ~/.kube/config.
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context; by default its current one.
    #[arg(long)]
    pub(crate) context: Option<String>,
    /// The server's URL, instead of the kubeconfig's.
    #[arg(short, long)]
    pub(crate) server: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Snapshot {
    /// Writes the content of a store to a file, as of one revision.
    ///
    /// By default the store is that of the running server that the kubeconfig names, which goes on taking writes; the user
    /// must be in group system:masters. With --data-dir it is a folder that no server has open, with --etcd-servers a
    /// cluster.
    Save(SnapshotSave),
    /// Reads a whole file, and lists its damages and their places.
    Verify(SnapshotVerify),
    /// Restores a file to an empty store.
    ///
    /// A folder keeps the resourceVersions; an etcd cluster gives new ones.
    Restore(SnapshotRestore),
    /// Copies everything from one store to another, which must be empty, and compares them.
    ///
    /// No server may be running on a folder, and none on the target cluster.
    Copy(SnapshotCopy),
}

#[derive(Debug, Subcommand)]
pub(crate) enum StorageCommand {
    /// Reads everything in a folder that no server has open, and lists the damages: the file, the place, the key of the
    /// value.
    ///
    /// Ends with 1 if there is any. Changes nothing.
    Check(StorageCheck),
    /// Makes a new folder of everything that can be read in a damaged one, and lists the losses.
    ///
    /// Objects keep their resourceVersions; there is no history. The damaged folder is not changed.
    Salvage(StorageSalvage),
}

#[derive(Debug, Args)]
pub(crate) struct StorageCheck {
    /// The folder of the store, as serve's --data-dir.
    #[arg(long, default_value = "kindom-data")]
    pub(crate) data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct StorageSalvage {
    /// The folder of the damaged store, as serve's --data-dir.
    #[arg(long, default_value = "kindom-data")]
    pub(crate) data_dir: PathBuf,
    /// The folder of the new store; it must not hold one yet.
    #[arg(long)]
    pub(crate) to: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotSave {
    /// The file to write; an existing one is replaced once the new one is whole.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreFlags,
    /// The file that says how to reach the server; by default $KUBECONFIG, or ~/.kube/config.
    #[arg(long, conflicts_with_all = ["data_dir", "etcd_servers"])]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context; by default its current one.
    #[arg(long, conflicts_with_all = ["data_dir", "etcd_servers"])]
    pub(crate) context: Option<String>,
    /// The server's URL, instead of the kubeconfig's.
    #[arg(short, long, conflicts_with_all = ["data_dir", "etcd_servers"])]
    pub(crate) server: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotVerify {
    /// The file to read.
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotRestore {
    /// The file to read.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreFlags,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotCopy {
    /// The source: a folder, as serve's --data-dir, or the URLs of an etcd cluster, separated by commas.
    #[arg(long)]
    pub(crate) from: String,
    /// The target, likewise.
    #[arg(long)]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) etcd: EtcdAccess,
}

impl SnapshotCopy {
    /// The source and the target.
    pub(crate) fn places(&self) -> (Place, Place) {
        let place = |text: &str| {
            if text.starts_with("http://") || text.starts_with("https://") {
                return Place::Etcd(text.split(',').map(str::to_owned).collect(), self.etcd.clone());
            }
            Place::Folder(text.into())
        };
        (place(&self.from), place(&self.to))
    }
}

/// A store that no server has open, or an etcd cluster.
#[derive(Debug, Args)]
pub(crate) struct StoreFlags {
    /// The folder of the store, as serve's --data-dir.
    #[arg(long, conflicts_with = "etcd_servers")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The servers of an etcd cluster as the store: URLs, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "URL,...")]
    pub(crate) etcd_servers: Vec<String>,
    #[command(flatten)]
    pub(crate) etcd: EtcdAccess,
}

impl StoreFlags {
    /// The place that the flags name; `None` if they name none.
    pub(crate) fn place(&self) -> Option<Place> {
        match &self.data_dir {
            Some(folder) => Some(Place::Folder(folder.clone())),
            None if self.etcd_servers.is_empty() => None,
            None => Some(Place::Etcd(self.etcd_servers.clone(), self.etcd.clone())),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// A manifest, JSON or YAML; - is the standard input. May be repeated.
    #[arg(short, long, required = true)]
    pub(crate) filename: Vec<PathBuf>,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Yaml)]
    pub(crate) output: OutputFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// YAML documents.
    Yaml,
    /// One object: a List if there are several.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// A manifest, JSON or YAML; - is the standard input. May be repeated.
    #[arg(short, long, required = true)]
    pub(crate) filename: Vec<PathBuf>,
    /// Replaces existing objects that have other content.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// The treatment of fields that the type does not know: an error, a warning, or none.
    #[arg(long, value_enum, default_value_t = Validate::Strict)]
    pub(crate) validate: Validate,
    /// The namespace of objects that name none; by default that of the context.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) access: ServerAccess,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Explain {
    /// Has a server try to write objects, and prints each stage of the writes: the time that it took, and what it changed.
    ///
    /// Nothing is stored. An object that is not there would be created, one that is would be replaced, as kubectl create and
    /// kubectl replace do. Ends with 1 if a write would be refused.
    Write(ExplainWrite),
}

#[derive(Debug, Args)]
pub(crate) struct ExplainWrite {
    /// A manifest, JSON or YAML; - is the standard input. May be repeated.
    #[arg(short, long, required = true)]
    pub(crate) filename: Vec<PathBuf>,
    /// The namespace of objects that name none; by default that of the context.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// The part of the object that is written, such as status.
    #[arg(long)]
    pub(crate) subresource: Option<String>,
    /// The object is applied, as kubectl apply --server-side does.
    #[arg(long)]
    pub(crate) server_side: bool,
    /// An apply takes over the fields of others.
    #[arg(long, requires = "server_side")]
    pub(crate) force_conflicts: bool,
    /// The manager of the fields.
    #[arg(long, default_value = "kindom-explain")]
    pub(crate) field_manager: String,
    /// The format: text for people, or the server's answers.
    #[arg(short, long, value_enum, default_value_t = ExplainFormat::Text)]
    pub(crate) output: ExplainFormat,
    #[command(flatten)]
    pub(crate) access: ServerAccess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Validate {
    Strict,
    Warn,
    Ignore,
}

/// [`kinds::Profile`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// None.
    Minimal,
    /// The kinds with which controllers lead, report, keep their configuration and are found.
    ControlPlane,
    /// Kubernetes' others too, as data: nothing runs a pod.
    Kubernetes,
}

impl From<Profile> for kinds::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Minimal => Self::Minimal,
            Profile::ControlPlane => Self::ControlPlane,
            Profile::Kubernetes => Self::Kubernetes,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The folder of the store, the certificates and admin.kubeconfig; by default kindom-data. With --in-memory and
    /// --print-ready json there is none unless this names one.
    #[arg(long)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Holds everything in memory, and nothing in the folder but certificates and admin.kubeconfig: for tests.
    #[arg(long, conflicts_with = "etcd_servers")]
    pub(crate) in_memory: bool,
    /// Ends, as on SIGTERM, when standard input ends: with the process that holds the other end of the pipe, however that
    /// process ends.
    #[arg(long)]
    pub(crate) end_with_stdin: bool,
    /// The form of the line on standard output that says where the server is: for people, or as JSON with the credentials.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) print_ready: Format,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) bind_address: IpAddr,
    /// The address at which others reach the server, in the endpoints of the Service kubernetes; by default --bind-address or, if
    /// that is every address, the host's on its default route. There are none if the server listens for its own host alone.
    #[arg(long, value_name = "IP")]
    pub(crate) advertise_address: Option<IpAddr>,
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 6443)]
    pub(crate) secure_port: u16,
    /// The certificate to serve with, PEM, followed by intermediates; by default the server makes one. If its authority is
    /// in the file too, admin.kubeconfig holds it. The server reads this file and those of the other credentials again on
    /// SIGHUP and, except for tokens, once a minute.
    #[arg(long, requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The key of --tls-cert-file, PEM.
    #[arg(long, requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Another name or address for the certificate that the server makes for itself. May be repeated.
    #[arg(long, value_name = "NAME|IP", value_parser = subject_name)]
    pub(crate) tls_san: Vec<String>,
    /// The folder of the certificates that the server makes for itself; by default pki in --data-dir. Replicas that share it
    /// trust the same clients, and within a minute serve with the same certificate, which is for the names of all of them.
    #[arg(long)]
    pub(crate) cert_dir: Option<PathBuf>,
    /// Further authorities whose client certificates are trusted, PEM.
    #[arg(long)]
    pub(crate) client_ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plugins: PluginFlags,
    #[command(flatten)]
    pub(crate) front_proxies: FrontProxyFlags,
    #[command(flatten)]
    pub(crate) host: HostFlags,
    #[command(flatten)]
    pub(crate) aggregator: AggregatorFlags,
    #[command(flatten)]
    pub(crate) accounts: AccountFlags,
    #[command(flatten)]
    pub(crate) audit: AuditFlags,
    /// Bearer tokens: lines of token,user,uid,"group1,group2".
    #[arg(long)]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// The authorization mode: AlwaysAllow lets every authenticated user do everything, unless --authorization-kubeconfig
    /// leaves that to a host; RBAC what roles and their bindings permit.
    #[arg(long, value_enum, default_value_t = AuthorizationMode::AlwaysAllow)]
    pub(crate) authorization_mode: AuthorizationMode,
    /// The servers of an etcd cluster as the store, instead of a folder: URLs, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "URL,...")]
    pub(crate) etcd_servers: Vec<String>,
    #[command(flatten)]
    pub(crate) etcd: EtcdAccess,
    /// The layout of the log, on standard error.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) log_format: Format,
    /// Logs every request: its user, its object, the answer's code and its duration. Given twice, the server also logs its
    /// own work. KINDOM_LOG or RUST_LOG holds a finer filter (kindom_http::access=debug,info), which takes precedence.
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// The largest object, encoded, in bytes.
    #[arg(long, default_value_t = 1_572_864)]
    pub(crate) max_object_bytes: usize,
    /// The most bytes that requests and answers may hold at a time, stored objects apart; 0: a quarter of the memory that the
    /// process may use.
    #[arg(long, default_value_t = 0)]
    pub(crate) memory_budget: u64,
    /// The most requests in flight that change nothing, watches and those of system:masters apart; 0: any number.
    #[arg(long, default_value_t = 400)]
    pub(crate) max_requests_inflight: usize,
    /// The most requests in flight that change something, those of system:masters apart; 0: any number.
    #[arg(long, default_value_t = 200)]
    pub(crate) max_mutating_requests_inflight: usize,
    /// The most requests at a time over a connection of HTTP/2; 0: 100.
    #[arg(long, default_value_t = 0)]
    pub(crate) http2_max_streams_per_connection: u32,
    /// The most connections from one address; 0: any number. Behind a proxy all connections come from one.
    #[arg(long, default_value_t = 0)]
    pub(crate) max_connections_per_address: usize,
    /// The age of the oldest revision from which a watch or a continue token may start.
    #[arg(long, default_value = "5m", value_parser = duration)]
    pub(crate) etcd_compaction_interval: Duration,
    /// Deletes what lost its owners, and lets deletes say what becomes of what an object owns.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) enable_garbage_collector: bool,
    /// Keeps the FlowSchemas and PriorityLevelConfigurations that Kubernetes keeps, and sets the condition Dangling of each FlowSchema.
    /// They do not decide which requests wait.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) enable_priority_and_fairness: bool,
    /// The controllers that run: * for all, -NAME for all but this one. There are
    /// garbage-collector-controller, resourcequota-controller, root-ca-certificate-publisher-controller, serviceaccount-controller,
    /// serviceaccount-token-controller and validatingadmissionpolicy-status-controller.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "*", value_parser = controller, allow_hyphen_values = true)]
    pub(crate) controllers: Vec<String>,
    /// The built-in kinds that are served beside namespaces and registrations.
    #[arg(long, value_enum, default_value_t = Profile::ControlPlane)]
    pub(crate) profile: Profile,
    /// The addresses of services: a range in CIDR notation, or one of IPv4 and one of IPv6, of which the first is the main one.
    #[arg(long, value_delimiter = ',', value_name = "CIDR,...", default_value = "10.0.0.0/24")]
    pub(crate) service_cluster_ip_range: Vec<AddressRange>,
    /// The ports of nodes that services get.
    #[arg(long, value_name = "PORT-PORT", default_value = "30000-32767")]
    pub(crate) service_node_port_range: PortRange,
    /// The time for which events are kept after they were last written; 0s: for ever.
    #[arg(long, default_value = "1h", value_parser = duration)]
    pub(crate) event_ttl: Duration,
    /// The time between two passes that read everything in the folder to find damage, slowly, in the background; 0s: never.
    #[arg(long, default_value = "24h", value_parser = duration)]
    pub(crate) storage_scrub_interval: Duration,
    /// The time for which a registration must not change before its objects are brought to a new storage version.
    #[arg(long, default_value = "30s", value_parser = duration, hide = true)]
    pub(crate) storage_version_settle: Duration,
    /// The features to switch on or off: Name=true or Name=false, separated by commas. StorageVersionMigrator (true) brings
    /// objects to a type's new storage version in the background. Without CustomResourceSubresources (true) new
    /// registrations lose their subresources.
    #[arg(long, value_parser = feature_gates, default_value = "")]
    pub(crate) feature_gates: FeatureGates,
    /// The time for which the server goes on serving once it is told to end, with /readyz failing, so that load balancers
    /// stop sending requests to it.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub(crate) shutdown_delay_duration: Duration,
    /// The longest time over which the ends of watches are spread when the server ends; 0 ends all at once.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub(crate) shutdown_watch_termination_grace_period: Duration,
    /// Serves /debug/actors: lists the actors, and kills them.
    #[arg(long)]
    pub(crate) enable_chaos: bool,
}

impl Serve {
    /// The folder of the server; `None` if it writes nothing at all, as whoever started it gets the credentials in a line.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match &self.data_dir {
            Some(folder) => Some(folder),
            None if self.in_memory && self.print_ready == Format::Json => None,
            None => Some(Path::new("kindom-data")),
        }
    }
}

/// The tokens of service accounts.
#[derive(Debug, Args)]
pub(crate) struct AccountFlags {
    /// The issuer of service accounts' tokens. Given several times, the first one signs, and the tokens of all hold.
    #[arg(long, default_value = "https://kubernetes.default.svc.cluster.local", value_parser = issuer)]
    pub(crate) service_account_issuer: Vec<String>,
    /// Those for whom a token must be meant to hold here; by default the issuers.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub(crate) api_audiences: Vec<String>,
    /// The key that signs tokens, PEM; by default one of the server's own, which the store holds.
    #[arg(long)]
    pub(crate) service_account_signing_key_file: Option<PathBuf>,
    /// Keys that verify tokens beside that one, PEM, public or private. May be given several times.
    #[arg(long)]
    pub(crate) service_account_key_file: Vec<PathBuf>,
    /// The longest life of a token; a longer one is shortened. 0s: any.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub(crate) service_account_max_token_expiration: Duration,
    /// The URL at which others find the keys; by default /openid/v1/jwks at the address that they asked.
    #[arg(long)]
    pub(crate) service_account_jwks_uri: Option<String>,
}

/// The proxies that may say for whom they ask: a cluster's aggregator, behind which this server serves its groups.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct FrontProxyFlags {
    /// The authorities of front proxies, PEM. A proxy's requests name their user in headers, which count on a connection with
    /// its certificate alone.
    #[arg(long)]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,
    /// The common names of front proxies; by default any.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = not_blank)]
    pub(crate) requestheader_allowed_names: Vec<String>,
    /// The headers of the user's name; the first one that a request has counts.
    #[arg(long, value_delimiter = ',', value_name = "HEADER,...", default_value = "x-remote-user", value_parser = header_name)]
    pub(crate) requestheader_username_headers: Vec<String>,
    /// The headers of the user's uid.
    #[arg(long, value_delimiter = ',', value_name = "HEADER,...", default_value = "x-remote-uid", value_parser = header_name)]
    pub(crate) requestheader_uid_headers: Vec<String>,
    /// The headers of the user's groups.
    #[arg(long, value_delimiter = ',', value_name = "HEADER,...", default_value = "x-remote-group", value_parser = header_name)]
    pub(crate) requestheader_group_headers: Vec<String>,
    /// The beginnings of the headers of the user's other attributes.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX,...", default_value = "x-remote-extra-", value_parser = header_name)]
    pub(crate) requestheader_extra_headers_prefix: Vec<String>,
}

/// The host behind whose aggregator this server is an extension. It is asked only if these flags name it.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct HostFlags {
    /// The kubeconfig of a host that reviews bearer tokens (TokenReview), and whose ConfigMap
    /// kube-system/extension-apiserver-authentication says whose client certificates count; in-cluster: the API server of the
    /// cluster in which this process is a pod.
    #[arg(long, value_name = "FILE|in-cluster", requires = "authorization_kubeconfig")]
    pub(crate) authentication_kubeconfig: Option<HostAccess>,
    /// The time for which the host's verdict on a token holds.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) authentication_token_webhook_cache_ttl: Duration,
    /// Does not look the authorities of client certificates up in the host's ConfigMap.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) authentication_skip_lookup: bool,
    /// Starts even if the ConfigMap cannot be looked up; it counts as soon as it can.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) authentication_tolerate_lookup_failure: bool,
    /// The kubeconfig of a host that decides what users may do (SubjectAccessReview); in-cluster: as above. Members of
    /// system:masters may do everything.
    #[arg(long, value_name = "FILE|in-cluster")]
    pub(crate) authorization_kubeconfig: Option<HostAccess>,
    /// The time for which the host's permission holds.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) authorization_webhook_cache_authorized_ttl: Duration,
    /// The time for which the host's refusal holds.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) authorization_webhook_cache_unauthorized_ttl: Duration,
    /// The paths that everybody may use without the host being asked; * at the end stands for anything.
    #[arg(long, value_delimiter = ',', value_name = "PATH,...", default_value = "/healthz,/readyz,/livez")]
    pub(crate) authorization_always_allow_paths: Vec<String>,
    /// Namespaces are those of the host that --authorization-kubeconfig names: they begin and end here with it, and clients
    /// cannot change them here.
    #[arg(long, requires = "authorization_kubeconfig", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) namespaces_from_host: bool,
    /// Registers the groups that are served on the host that --authorization-kubeconfig names: an APIService for each version,
    /// which leads to this Service; the port is 443 by default.
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]", requires = "authorization_kubeconfig")]
    pub(crate) register_api_services: Option<ServiceReference>,
}

/// This server in front of others.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct AggregatorFlags {
    /// The certificate by which other API servers know this one, PEM: it may ask there in the name of its users. With this,
    /// --service-resolver or --aggregator-allowed-hosts, APIServices are followed.
    #[arg(long, requires = "proxy_client_key_file")]
    pub(crate) proxy_client_cert_file: Option<PathBuf>,
    /// The key of --proxy-client-cert-file, PEM.
    #[arg(long, requires = "proxy_client_cert_file")]
    pub(crate) proxy_client_key_file: Option<PathBuf>,
    /// The address of a service that APIServices or webhooks name; may be given more than once.
    #[arg(long, value_name = "NAMESPACE/NAME:PORT=HOST:PORT", value_parser = service)]
    pub(crate) service_resolver: Vec<Service>,
    /// The hosts that an APIService's annotation kindom.dev/url and the webhook of a declared subresource may name, each HOST for
    /// any port or HOST:PORT. The proxy's certificate is shown to them.
    #[arg(long, value_delimiter = ',', value_name = "HOST,...", value_parser = not_blank)]
    pub(crate) aggregator_allowed_hosts: Vec<String>,
    /// Answers 502 where another API server redirects a request; if false, the redirect is passed on.
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub(crate) aggregator_reject_forwarding_redirect: bool,
    /// The time between two probes of another API server.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) aggregator_probe_interval: Duration,
}

/// The access to an etcd cluster, and the keys in it that are ours.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct EtcdAccess {
    /// The prefix of the keys in etcd.
    #[arg(long, default_value = "/registry", value_parser = etcd_prefix)]
    pub(crate) etcd_prefix: String,
    /// The authorities of etcd's certificates, PEM.
    #[arg(long)]
    pub(crate) etcd_cafile: Option<PathBuf>,
    /// The client certificate for etcd, PEM.
    #[arg(long, requires = "etcd_keyfile")]
    pub(crate) etcd_certfile: Option<PathBuf>,
    /// The key of --etcd-certfile, PEM.
    #[arg(long, requires = "etcd_certfile")]
    pub(crate) etcd_keyfile: Option<PathBuf>,
}

impl EtcdAccess {
    /// The given flags that are of no use without servers.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let given = [
            ("--etcd-prefix", self.etcd_prefix != "/registry"),
            ("--etcd-cafile", self.etcd_cafile.is_some()),
            ("--etcd-certfile", self.etcd_certfile.is_some()),
        ];
        given.into_iter().filter_map(|(flag, is_given)| is_given.then_some(flag)).collect()
    }
}

/// An issuer: not empty, and a URL if it has a colon (`--service-account-issuer` of kube-apiserver).
fn issuer(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty".to_owned()),
        _ if text.contains(':') && !text.contains("://") => Err("it contains a ':' but is no URL".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Kubernetes' name, not clap's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthorizationMode {
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    #[value(name = "RBAC")]
    Rbac,
}

/// The features that can be switched, by Kubernetes' names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    pub(crate) storage_version_migrator: bool,
    /// The fields of registrations that are dropped.
    pub(crate) disabled: Vec<Feature>,
}

/// `Name=bool,…`, with the errors of `k8s.io/component-base/featuregate` (1.37).
fn feature_gates(text: &str) -> Result<FeatureGates, String> {
    let mut gates = FeatureGates { storage_version_migrator: true, disabled: Vec::new() };
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| format!("missing bool value for {pair}"))?;
        let (name, value) = (name.trim(), value.trim());
        let on = match value {
            "1" | "t" | "T" | "true" | "True" | "TRUE" => true,
            "0" | "f" | "F" | "false" | "False" | "FALSE" => false,
            _ => return Err(format!("invalid value of {name}={value}: it is true or false")),
        };
        if name == "StorageVersionMigrator" {
            gates.storage_version_migrator = on;
        } else if let Some(feature) = Feature::ALL.into_iter().find(|feature| feature.name() == name) {
            gates.disabled.retain(|disabled| *disabled != feature);
            gates.disabled.extend((!on).then_some(feature));
        } else {
            return Err(format!("unrecognized feature gate: {name}"));
        }
    }
    Ok(gates)
}

/// The name of a Service or a namespace.
pub(crate) fn label(text: &str) -> Result<String, String> {
    match name_is_dns_label(text, false).into_iter().next() {
        Some(why) => Err(why),
        None => Ok(text.to_owned()),
    }
}

fn not_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// A header's name, in lower case.
pub(crate) fn header_name(text: &str) -> Result<String, String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(token) {
        return Err("is no header's name".to_owned());
    }
    Ok(text.to_ascii_lowercase())
}

/// A DNS name, perhaps with `*` for its first label, or an IP address, as certificates have them.
fn subject_name(text: &str) -> Result<String, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let name = text.to_ascii_lowercase();
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let fits = name.len() <= 253 && name.strip_prefix("*.").unwrap_or(&name).split('.').all(label);
    if fits { Ok(name) } else { Err(format!("{text:?} is neither a DNS name nor an IP address")) }
}

/// `/registry` or `registry/`, as `/registry` (apiserver `storage/etcd3/store.go`, `New`; 1.37).
fn etcd_prefix(text: &str) -> Result<String, String> {
    let path = text.trim_matches('/');
    if path.is_empty() || path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return Err(format!("{text:?} is no path"));
    }
    if path.split('/').next() == Some("kindom") {
        return Err("keys under /kindom are kindom's own".to_owned());
    }
    Ok(format!("/{path}"))
}

/// The controller that deletes what lost its owners.
pub(crate) const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";

/// The controller that counts what quotas bound.
pub(crate) const RESOURCE_QUOTA: &str = "resourcequota-controller";
/// The controller that gives every namespace the authorities of the server.
pub(crate) const ROOT_CA_PUBLISHER: &str = "root-ca-certificate-publisher-controller";
/// The controller that gives every namespace a service account.
pub(crate) const SERVICE_ACCOUNT: &str = "serviceaccount-controller";
/// The controller that fills in the token secrets of service accounts.
pub(crate) const SERVICE_ACCOUNT_TOKEN: &str = "serviceaccount-token-controller";

/// The controller that checks the types of expressions of policies.
pub(crate) const POLICY_STATUS: &str = "validatingadmissionpolicy-status-controller";

/// The controller that gives cluster roles the rules of those that they select.
pub(crate) const ROLE_AGGREGATION: &str = "clusterrole-aggregation-controller";

const CONTROLLERS: [&str; 7] = [
    ROLE_AGGREGATION,
    GARBAGE_COLLECTOR,
    RESOURCE_QUOTA,
    ROOT_CA_PUBLISHER,
    SERVICE_ACCOUNT,
    SERVICE_ACCOUNT_TOKEN,
    POLICY_STATUS,
];

/// The name of a controller that is to run, or not to.
fn controller(text: &str) -> Result<String, String> {
    if text == "*" || CONTROLLERS.contains(&text.strip_prefix('-').unwrap_or(text)) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not in the list of known controllers: *, {}", CONTROLLERS.join(", ")))
}

/// `true` if a controller is to run (`IsControllerEnabled` of controller-manager).
pub(crate) fn runs(controllers: &[String], name: &str) -> bool {
    let says = |text: &str| controllers.iter().any(|of| of == text);
    says(name) || !says(&format!("-{name}")) && says("*")
}

/// As Go writes durations: `90s`, `5m`, `1h30m`, `250ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let nanos = kindom_formats::duration::parse(text).ok().and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| format!("{text:?} is no duration such as 90s, 5m or 1h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_prefixes_are_paths() {
        assert_eq!(etcd_prefix("/registry"), Ok("/registry".to_owned()));
        assert_eq!(etcd_prefix("a/b/"), Ok("/a/b".to_owned()));
        for wrong in ["", "/", "/a//b", "../a", "/kindom", "kindom/a"] {
            assert!(etcd_prefix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn subject_names_are_names_or_addresses() {
        for (text, name) in [
            ("Box-1.example.com", "box-1.example.com"),
            ("*.a.b", "*.a.b"),
            ("192.0.2.1", "192.0.2.1"),
            ("::0:1", "::1"),
        ] {
            assert_eq!(subject_name(text).as_deref(), Ok(name));
        }
        for wrong in ["", "a b", "a..b", "-a", "*", "a.*", "https://a", "a:1", &"a".repeat(64)] {
            assert!(subject_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn controllers_run_unless_they_are_taken_out() {
        let run = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| controller(text).unwrap()).collect();
            runs(&texts, GARBAGE_COLLECTOR)
        };
        assert!(run(&["*"]) && run(&[GARBAGE_COLLECTOR]));
        assert!(!run(&["*", "-garbage-collector-controller"]) && !run(&[]));
        assert!(controller("job").is_err() && controller("-*").is_err());
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1m250ms"), Ok(Duration::from_millis(60_250)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("-5m").is_err());
        assert!(duration("5").is_err() && duration("").is_err() && duration("m").is_err());
    }

    #[test]
    fn features_are_switched_by_name() {
        let on = FeatureGates { storage_version_migrator: true, disabled: Vec::new() };
        assert_eq!(feature_gates(""), Ok(on.clone()));
        assert_eq!(feature_gates("StorageVersionMigrator=true,"), Ok(on.clone()));
        assert_eq!(
            feature_gates("StorageVersionMigrator=false"),
            Ok(FeatureGates { storage_version_migrator: false, ..on.clone() })
        );
        let off = FeatureGates { disabled: vec![Feature::CustomResourceSubresources], ..on.clone() };
        assert_eq!(feature_gates("CustomResourceSubresources=false"), Ok(off));
        assert_eq!(
            feature_gates("CustomResourceSubresources=0, CustomResourceSubresources=1"),
            Ok(on.clone()),
            "the last one counts"
        );
        for (text, error) in [
            ("Nothing=true", "unrecognized feature gate: Nothing"),
            ("StorageVersionMigrator", "missing bool value for StorageVersionMigrator"),
            ("StorageVersionMigrator=no", "invalid value of StorageVersionMigrator=no: it is true or false"),
        ] {
            assert_eq!(feature_gates(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn the_flags_are_sound() {
        use clap::CommandFactory as _;
        Flags::command().debug_assert();
        assert!(Flags::try_parse_from(["kindom", "serve", "--authorization-mode", "ABAC"]).is_err());
    }

    #[test]
    fn a_server_in_memory_that_prints_its_credentials_has_no_folder() {
        let folder = |args: &[&str]| {
            let all = ["kindom", "serve"].into_iter().chain(args.iter().copied());
            match Flags::try_parse_from(all).unwrap().command {
                Command::Serve(options) => options.folder().map(Path::to_owned),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(folder(&["--in-memory", "--print-ready", "json"]), None);
        assert_eq!(folder(&["--in-memory", "--print-ready", "json", "--data-dir", "a"]), Some("a".into()));
        assert_eq!(folder(&["--in-memory"]), Some("kindom-data".into()));
        assert_eq!(folder(&["--print-ready", "json"]), Some("kindom-data".into()));
    }

    #[test]
    fn a_host_is_named_by_a_file_or_is_the_cluster() {
        let host = |args: &[&str]| {
            let all = ["kindom", "serve"].into_iter().chain(args.iter().copied());
            match Flags::try_parse_from(all).ok()?.command {
                Command::Serve(options) => Some(options.host),
                other => panic!("{other:?}"),
            }
        };
        let plain = host(&[]).unwrap();
        assert_eq!((plain.authentication_kubeconfig, plain.authorization_kubeconfig), (None, None));
        assert_eq!(plain.authorization_always_allow_paths, ["/healthz", "/readyz", "/livez"]);
        let both = host(&["--authentication-kubeconfig=in-cluster", "--authorization-kubeconfig", "a.conf"]);
        let both = both.unwrap();
        assert_eq!(both.authentication_kubeconfig, Some(HostAccess::InCluster));
        assert_eq!(both.authorization_kubeconfig, Some(HostAccess::File("a.conf".into())));
        let empty = host(&["--authorization-kubeconfig=", "--authentication-skip-lookup"]).unwrap();
        assert_eq!(empty.authorization_kubeconfig, Some(HostAccess::InCluster));
        assert!(empty.authentication_skip_lookup && !empty.authentication_tolerate_lookup_failure);
        assert!(!host(&["--authentication-skip-lookup=false"]).unwrap().authentication_skip_lookup);
        // Every user of the host, and every service account, could do everything here.
        assert_eq!(host(&["--authentication-kubeconfig", "a.conf"]), None);
    }
}
