//! The command line of the tools: the names of apiserver-boot's commands and flags where it has them.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Args, Subcommand, ValueEnum};

use crate::manifest::VERBS;

/// A tool.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Begins a project with kinds of its own.
    #[command(subcommand)]
    Init(Init),
    /// Adds kinds, and versions of kinds, to the project in this folder.
    #[command(subcommand)]
    Create(Create),
    /// Runs the project in this folder.
    #[command(subcommand)]
    Run(Run),
    /// Makes what is deployed of the project in this folder.
    #[command(subcommand)]
    Build(Build),
}

/// `kindom init …`
#[derive(Debug, Subcommand)]
pub enum Init {
    /// Writes a project into this folder: a cargo workspace with an API server and controllers that have no kinds yet.
    ///
    /// Files that are there stay as they are; a folder that holds another cargo package is refused.
    Repo(InitRepo),
}

/// `kindom create …`
#[derive(Debug, Subcommand)]
pub enum Create {
    /// A kind, with its group and first version.
    #[command(subcommand)]
    Group(Group),
    /// One more version of a kind, with its conversion.
    ///
    /// Objects stay stored in the kind's first version; the new one converts from it and to it, and has its fields until it gets
    /// its own.
    Version(CreateVersion),
    /// A subresource of a kind beside status and scale, which a function of the project answers.
    ///
    /// Writes the function, which gets the object and may change it, and its test.
    Subresource(CreateSubresource),
    /// Kinds from their registrations (CustomResourceDefinitions), with the types that kopium makes of their schemas.
    ///
    /// Patterns, bounds and rules of a schema are in no type: the kind's strategy is the place for them.
    Types(CreateTypes),
}

/// `kindom create group …`
#[derive(Debug, Subcommand)]
pub enum Group {
    /// A kind, with its group and first version.
    #[command(subcommand)]
    Version(Version),
}

/// `kindom create group version …`
#[derive(Debug, Subcommand)]
pub enum Version {
    /// Writes a kind: its type, rules, controller, tests, and a sample.
    ///
    /// For a kind that is there in other versions, the same as `create version`.
    Resource(CreateResource),
}

/// `kindom run …`
#[derive(Debug, Subcommand)]
pub enum Run {
    /// Builds and runs the API server and the controllers on this machine, and again after every change of a source file.
    ///
    /// Objects are kept in .kindom. Ends in order at SIGTERM or SIGINT.
    Local(RunLocal),
}

/// `kindom build …`
#[derive(Debug, Subcommand)]
pub enum Build {
    /// Builds the project's programs in release.
    Executables(BuildExecutables),
    /// Writes an image with the project's programs, without a container engine.
    ///
    /// The programs are linked statically, and alone in the image; they run as user 65532. The same programs give the same file.
    Container(BuildContainer),
    /// Writes the objects by which a cluster runs the project's programs and serves its kinds as its own.
    ///
    /// A folder for kubectl apply --server-side --force-conflicts -k. It has no certificate and no key: the server makes its own,
    /// and registers its authority.
    Config(BuildConfig),
    /// Writes a JSON Schema of each kind, by which editors check and complete manifests.
    ///
    /// <output>/<group>/<version>/<kind>.json, of the project's kinds or of registrations in files. A first line
    /// `# yaml-language-server: $schema=PATH` in a manifest names it.
    Schemas(BuildSchemas),
    /// Writes a site about each kind: its fields, their rules, and samples.
    ///
    /// Of the project's kinds or of registrations in files. A sample that its kind's schema refuses is an error.
    Docs(BuildDocs),
}

/// The flags of `init repo`.
#[derive(Debug, Args)]
pub struct InitRepo {
    /// The end of every group's name, such as example.com.
    #[arg(long)]
    pub(crate) domain: String,
    /// The source of kindom's crates: the folder of a checkout, the URL of a git repository (`URL#REVISION` for one revision),
    /// or a version. By default the checkout that this program was built in.
    #[arg(long, value_name = "PATH|URL|VERSION")]
    pub(crate) kindom: Option<String>,
    /// Runs the controllers in the API server's process, and makes no controller manager. They reach that server alone.
    #[arg(long)]
    pub(crate) one_process: bool,
}

/// The names of one version of a kind.
#[derive(Debug, Args)]
pub struct CreateVersion {
    /// The group without the domain, such as sails.
    #[arg(long)]
    pub(crate) group: String,
    /// The version: alpha, beta or stable, such as v1alpha1, v1beta1 or v1.
    #[arg(long)]
    pub(crate) version: String,
    /// The kind, in UpperCamelCase.
    #[arg(long)]
    pub(crate) kind: String,
}

/// The flags of `create subresource`.
#[derive(Debug, Args)]
pub struct CreateSubresource {
    /// The group without the domain, such as sails.
    #[arg(long)]
    pub(crate) group: String,
    /// A version of the kind; every version has the subresource.
    #[arg(long)]
    pub(crate) version: Option<String>,
    /// The kind, which is there.
    #[arg(long)]
    pub(crate) kind: String,
    /// The name, as in URLs: hoist in /apis/…/sloops/argo/hoist.
    #[arg(long)]
    pub(crate) subresource: String,
    /// The verbs that it has: create (POST), delete, get, patch and update (PUT).
    #[arg(long = "verb", value_delimiter = ',', default_values = ["create", "get"], value_parser = PossibleValuesParser::new(VERBS))]
    pub(crate) verbs: Vec<String>,
}

/// The flags of `create types`.
#[derive(Debug, Args)]
pub struct CreateTypes {
    /// A file with registrations, or - for the standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) from_crd: PathBuf,
    /// The version whose types are made; by default the stored one.
    #[arg(long)]
    pub(crate) version: Option<String>,
    /// The program that makes the types (cargo install kopium).
    #[arg(long, value_name = "PROGRAM", default_value = "kopium")]
    pub(crate) kopium: PathBuf,
}

/// The flags of `create group version resource`.
#[derive(Debug, Args)]
pub struct CreateResource {
    #[command(flatten)]
    pub(crate) names: CreateVersion,
    /// The plural, as in URLs; by default as Kubernetes' tools derive it from the kind.
    #[arg(long)]
    pub(crate) resource: Option<String>,
    /// A name for kubectl; any number of times.
    #[arg(long = "short-name")]
    pub(crate) short_names: Vec<String>,
    /// Objects are in no namespace.
    #[arg(long)]
    pub(crate) non_namespaced: bool,
    /// Objects have a status, written through /status alone; they do unless this is false.
    #[arg(long, alias = "with-status-subresource", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) with_status: Option<bool>,
    /// Objects have replicas, which `kubectl scale` sets.
    #[arg(long)]
    pub(crate) with_scale: bool,
    /// Writes a controller alone, for a kind that is there.
    #[arg(long, conflicts_with = "skip_controller")]
    pub(crate) skip_resource: bool,
    /// Writes no controller.
    #[arg(long)]
    pub(crate) skip_controller: bool,
}

/// A program of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Program {
    /// The API server.
    Apiserver,
    /// The controllers.
    ControllerManager,
}

impl Program {
    pub(crate) const ALL: [Self; 2] = [Self::Apiserver, Self::ControllerManager];

    /// The name of its package and of its executable.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Apiserver => "apiserver",
            Self::ControllerManager => "controller-manager",
        }
    }
}

/// The flags of `run local`.
#[derive(Debug, Args)]
pub struct RunLocal {
    /// The programs to run, by default all of the project; without the API server, the controllers find one as kubectl does.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) run: Vec<Program>,
    /// The port of the API server; 0 takes a free one.
    #[arg(long, default_value_t = 6443)]
    pub(crate) secure_port: u16,
    /// Builds in release: slower to build, faster to run.
    #[arg(long)]
    pub(crate) release: bool,
}

/// The flags of `build executables`.
#[derive(Debug, Args)]
pub struct BuildExecutables {
    /// The folder that gets the executables.
    #[arg(long, default_value = "bin")]
    pub(crate) output: PathBuf,
    /// The platform, as `rustc --print target-list` names it; by default this machine's.
    #[arg(long, value_name = "TRIPLE")]
    pub(crate) target: Option<String>,
}

/// The flags of `build container`.
#[derive(Debug, Args)]
pub struct BuildContainer {
    /// The name of the image, such as registry.example.com/shipyard:v1.
    #[arg(long)]
    pub(crate) image: String,
    /// The programs in the image; by default all of the project.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) targets: Vec<Program>,
    /// The file that gets the image, an OCI layout.
    #[arg(long, default_value = "image.tar")]
    pub(crate) output: PathBuf,
    /// The platform, as `rustc --print target-list` names it; by default this machine's.
    #[arg(long, value_name = "TRIPLE")]
    pub(crate) target: Option<String>,
    /// Pushes the image to the registry in its name, with the credentials of `docker login` or `podman login`.
    #[arg(long)]
    pub(crate) push: bool,
    /// A label of the image; any number of times.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) labels: Vec<(String, String)>,
}

/// The flags of `build config`.
#[derive(Debug, Args)]
pub struct BuildConfig {
    /// The name of the Service, and the beginning of all other names.
    #[arg(long)]
    pub(crate) name: String,
    /// The namespace.
    #[arg(long)]
    pub(crate) namespace: String,
    /// The image that build container has made.
    #[arg(long)]
    pub(crate) image: String,
    /// Stores objects in an etcd of their own; by default in a folder of the API server's.
    #[arg(long, conflicts_with = "embedded")]
    pub(crate) etcd: bool,
    /// Stores objects in a folder of the API server's; the default.
    #[arg(long)]
    pub(crate) embedded: bool,
    /// The image of etcd.
    #[arg(long, default_value = "quay.io/coreos/etcd:v3.6.16", requires = "etcd")]
    pub(crate) etcd_image: String,
    /// The storage class of the volume; by default the cluster's.
    #[arg(long)]
    pub(crate) storage_class: Option<String>,
    /// The size of the volume.
    #[arg(long, default_value = "4Gi")]
    pub(crate) storage_size: String,
    /// A service account for the programs that is there already, with its permissions.
    #[arg(long)]
    pub(crate) service_account: Option<String>,
    /// Another argument of the API server; any number of times.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) apiserver_args: Vec<String>,
    /// An argument of the controller manager; any number of times.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) controller_args: Vec<String>,
    /// A variable in the environment of the process that has the controllers; any number of times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) controller_env: Vec<(String, String)>,
    /// The folder that gets the files.
    #[arg(long, default_value = "config")]
    pub(crate) output: PathBuf,
}

/// The kinds that are described.
#[derive(Debug, Args)]
pub(crate) struct Described {
    /// A file with registrations (CustomResourceDefinitions), or - for the standard input; any number of times. By default the
    /// project in this folder is built, and describes its kinds.
    #[arg(short, long)]
    pub(crate) filename: Vec<PathBuf>,
}

/// The flags of `build schemas`.
#[derive(Debug, Args)]
pub struct BuildSchemas {
    #[command(flatten)]
    pub(crate) kinds: Described,
    /// The folder that gets the files.
    #[arg(long, default_value = "schemas")]
    pub(crate) output: PathBuf,
}

/// The flags of `build docs`.
#[derive(Debug, Args)]
pub struct BuildDocs {
    #[command(flatten)]
    pub(crate) kinds: Described,
    /// The folder with manifests to show.
    #[arg(long, default_value = "samples")]
    pub(crate) samples: PathBuf,
    /// The title of the first page.
    #[arg(long, default_value = "API reference")]
    pub(crate) title: String,
    /// The folder that gets the files.
    #[arg(long, alias = "output-dir", default_value = "docs")]
    pub(crate) output: PathBuf,
}

/// `KEY=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("KEY=VALUE is needed".to_owned()),
    }
}
