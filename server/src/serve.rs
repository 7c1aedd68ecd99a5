//! `kindom serve`: from an empty folder to an open port, and back.

use std::future::pending;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kindom_actor_kit::{
    ActorTable, Arbiters, Clock, Deadline, Entropy, Processors, Supervisor, give_way, run_system,
};
use kindom_finalizer_actor::endpoints::Advertised;
use kindom_finalizer_actor::provision::Types;
use kindom_finalizer_actor::{
    RoleTypes, endpoints, expiry, flow_schemas, garbage, holdings, policy_status, priority_classes,
    provision, quotas, service_cidr, storage_version,
};
use kindom_http::authn::by_roles;
use kindom_http::{
    Auditing, Collector, Config, HostMetrics, InFlightMax, ServiceAccounts, Snapshots, WebhookMetrics, serve,
};
use kindom_objects::kinds::event::later_events;
use kindom_objects::kinds::namespace::{STANDARD_NAMESPACES, namespaces, standard_namespace};
use kindom_objects::kinds::registration::{
    Registrations, aggregated_custom_resource_definitions, custom_resource_definitions_by,
    third_party_resources,
};
use kindom_objects::kinds::service::ServiceNetwork;
use kindom_objects::kinds::{self, api_service, built_in};
use kindom_objects::{PlanError, RuleContext};
use kindom_registry_actor::{LeaderHandle, RegistryHandle, RegistryOptions};
use kindom_resource_actor::WriteError;
use kindom_resource_actor::{
    Admission, ConfiguringTypes, Deps, FindKind, OwnPlugins, Permissions, PolicyTypes, ResourceHandle,
    Target, WriteOptions,
};
use kindom_storage::snapshot::Holds;
use kindom_storage::vfs::{Disk, Vfs as _};
use kindom_storage::{
    Embedded, EmbeddedOptions, EmbeddedRestore, EtcdOptions, Key, Limits, Memory, ScrubCounts, Storage,
    StorageError, WriteCounts,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::BoxError;
use crate::accounts;
use crate::advertised::advertised;
use crate::aggregator::{self, Aggregator, claim_stored, publish_authentication};
use crate::controllers::Controllers;
use crate::credentials::{self, Keeper};
use crate::flags::{GARBAGE_COLLECTOR, POLICY_STATUS, RESOURCE_QUOTA, Serve, runs};
use crate::host::api_services::Registrar;
use crate::host::namespaces::Mirror;
use crate::host::{self, Hosts, authentication};
use crate::logging::Format;
use crate::pki::server_url;
use crate::plugins::PluginFlags;
use crate::signals::Signals;
use crate::snapshot::{is_unfinished, prefixes, store_of};
use crate::typed::{self, Kinds};
use crate::webhooks::WebhookClients;
use crate::{audit, etcd, history, memory, roles, scrub};

/// The administrator's kubeconfig.
const ADMIN: &str = "admin.kubeconfig";
/// The prefix of our own keys that hold no objects (design, "Storage").
const LEDGER: &str = "/kindom/registry/claims/";
/// The key at which several replicas agree on their leader.
const LEASE: &str = "/kindom/registry/leases/leader";
/// The prefix of the keys by which several replicas know each other's addresses.
const ADDRESSES: &str = "/kindom/registry/leases/addresses/";
/// The most bytes by which the stored form may be longer than an object: a registration's status, say.
const VALUE_SLACK: usize = 256 << 10;
/// The longest that the start may wait for the store and the registry.
const START: Duration = Duration::from_secs(60);
/// The longest that the start waits for the host's namespaces.
const MIRROR: Duration = Duration::from_secs(5);
/// The longest that requests under way may take when the server ends: as long as any request may take (as upstream's
/// shutdown timeout is its request timeout).
const DRAIN: Duration = Duration::from_secs(60);

/// The place that a server has in its process.
pub(crate) enum Within {
    /// The whole of it: standard output says where the server is, and what is left at the end goes with the process.
    Process,
    /// Some threads of a program, which gets the address and the credentials here. At the end nothing is left.
    Program(oneshot::Sender<Ready>),
}

impl Within {
    /// The number of threads of each kind. A program may have many servers, each with little to do.
    fn threads(&self) -> usize {
        match self {
            Self::Process => cores(),
            Self::Program(_) => 1,
        }
    }
}

/// A server's address, and the credentials of its administrator.
pub(crate) struct Ready {
    pub(crate) url: String,
    /// A kubeconfig's text.
    pub(crate) kubeconfig: String,
    /// Those that vouch for the server, PEM; `None` if only those of the client's system do.
    pub(crate) authorities_pem: Option<String>,
    /// The administrator's certificate and key.
    pub(crate) admin_pem: (String, String),
}

/// Serves until told to end, as this process.
pub(crate) fn run(options: &Serve, kinds: &Kinds, controllers: &Controllers) -> Result<(), BoxError> {
    let signals = Signals::listen(options.end_with_stdin)?;
    raise_descriptors();
    run_within(Within::Process, options, (kinds, controllers), signals)
}

/// Serves until told to end, and blocks for so long.
pub(crate) fn run_within(
    within: Within,
    options: &Serve,
    compiled: (&Kinds, &Controllers),
    signals: Signals,
) -> Result<(), BoxError> {
    roles::check(options)?;
    let unused = options.etcd.flags();
    if options.etcd_servers.is_empty() && !unused.is_empty() {
        return Err(format!("{} can only be used with --etcd-servers", unused.join(", ")).into());
    }
    let folder = options.folder();
    if let Some(folder) = folder {
        Disk.create_dir(folder).map_err(|e| format!("--data-dir {}: {e}", folder.display()))?;
    }
    let value_bytes_max = options.max_object_bytes.saturating_add(VALUE_SLACK);
    let limits = Limits::default();
    // Also the largest object takes one transaction.
    let txn_bytes_max = limits.txn_bytes_max.max(value_bytes_max.saturating_add(VALUE_SLACK));
    let limits = Limits { value_bytes_max, txn_bytes_max, ..limits };
    let store = match folder {
        _ if options.in_memory => Store::Memory(Memory::with_limits(limits)),
        Some(folder) if options.etcd_servers.is_empty() => Store::Embedded(embedded(folder, limits)?),
        _ => {
            let mut store = etcd::options(&options.etcd_servers, &options.etcd, limits)?;
            // As there, 0 switches it off.
            store.compact_every = Some(options.etcd_compaction_interval).filter(|every| !every.is_zero());
            Store::Etcd(Box::new(store))
        }
    };
    let clock = Clock::system();
    let keeper = Keeper::load(options, &clock)?;
    run_system(async {
        let threads = within.threads();
        let (arbiters, processors) = (Arbiters::new(threads)?, Processors::new(threads)?);
        let joined = matches!(within, Within::Program(_)).then(|| (arbiters.clone(), processors.clone()));
        let parts = (store, clock, arbiters, processors);
        let served = serving(within, options, compiled, parts, keeper, signals).await;
        if let Some((arbiters, processors)) = joined {
            processors.shutdown();
            arbiters.shutdown();
        }
        served
    })?
}

/// Lets this process have as many files open as it may. The default of most systems, 1024, is meant for programs that
/// call `select`.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
    {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// The most descriptors that connections may take: a quarter stays for the store and everything else.
fn connections_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let kept = (descriptors / 4).clamp(64, 4096).min(descriptors / 2);
    usize::try_from(descriptors - kept).unwrap_or(usize::MAX)
}

/// Opens the store of the folder; first of all, as it locks it.
fn embedded(folder: &Path, limits: Limits) -> Result<Embedded, BoxError> {
    let store = store_of(folder);
    if let Some(left) = EmbeddedRestore::unfinished(&store) {
        return Err(format!(
            "a restore of {} was begun and not finished: run it again, or remove {} to do without it",
            folder.display(),
            left.display()
        )
        .into());
    }
    let options = EmbeddedOptions { limits, in_company: give_way, ..EmbeddedOptions::default() };
    Ok(Embedded::open(store, options)?)
}

/// The kind of store to open.
enum Store {
    Memory(Memory),
    Embedded(Embedded),
    Etcd(Box<EtcdOptions>),
}

type WriteCounter = Box<dyn Fn() -> WriteCounts + Send + Sync>;
type ScrubCounter = Box<dyn Fn() -> ScrubCounts + Send + Sync>;

/// A store that answers.
struct Opened {
    storage: Arc<dyn Storage>,
    /// The counter of its writes, if it counts them.
    writes: Option<WriteCounter>,
    /// The folder to scrub.
    folder: Option<Embedded>,
    /// Ends when nothing that was read of it is true any more.
    replaced: LocalBoxFuture<'static, StorageError>,
}

impl Store {
    async fn open(self) -> Result<Opened, BoxError> {
        match self {
            Self::Memory(store) => Ok(Opened {
                storage: Arc::new(store),
                writes: None,
                folder: None,
                replaced: pending().boxed_local(),
            }),
            Self::Embedded(store) => {
                let (counted, folder) = (store.clone(), store.clone());
                let writes: WriteCounter = Box::new(move || counted.write_counts());
                Ok(Opened {
                    storage: Arc::new(store),
                    writes: Some(writes),
                    folder: Some(folder),
                    replaced: pending().boxed_local(),
                })
            }
            Self::Etcd(options) => {
                let store = etcd::open(*options).await?;
                let followed = store.clone();
                let replaced = async move { followed.replaced().await }.boxed_local();
                Ok(Opened { storage: Arc::new(store), writes: None, folder: None, replaced })
            }
        }
    }
}

async fn serving(
    within: Within,
    options: &Serve,
    (kinds, controllers): (&Kinds, &Controllers),
    (store, clock, arbiters, processors): (Store, Clock, Arbiters, Processors),
    mut keeper: Keeper,
    mut signals: Signals,
) -> Result<(), BoxError> {
    let is_local = !matches!(store, Store::Etcd(_));
    options.plugins.check()?;
    for (flag, plugin) in options.plugins.without_effect() {
        tracing::warn!(
            flag,
            plugin,
            "this admission plugin cannot be switched here, and the flag has no effect"
        );
    }
    let plugin_file = options.plugins.file()?;
    let webhook_users = PluginFlags::webhook_users(&plugin_file)?;
    let address = advertised(options.advertise_address, options.bind_address)?;
    let Opened { storage, writes: store_writes, folder, replaced } = store.open().await?;
    refuse_unfinished(&*storage).await?;
    let entropy = Entropy::system()?;
    let hosts = Hosts::connect(&options.host, &clock, &entropy)?;
    let following = follow_host(options, &hosts, &mut keeper).await?;
    let supervisor = Supervisor::new(ActorTable::new(), entropy.fork());
    let webhook_metrics = WebhookMetrics::default();
    let deps = Arc::new(Deps {
        storage: Arc::clone(&storage),
        supervisor: supervisor.clone(),
        arbiters,
        clock,
        entropy,
        webhooks: Arc::new(WebhookClients::new(
            &options.aggregator.service_resolver,
            webhook_users,
            webhook_metrics.clone(),
        )),
        processors: Some(processors.clone()),
    });

    let rules = Registrations { disabled: options.feature_gates.disabled.clone(), compiled: kinds.names() };
    let crds = Arc::new(custom_resource_definitions_by(rules));
    let registrations = ResourceHandle::new(Arc::clone(&deps), Arc::clone(&crds));
    let namespaces = ResourceHandle::new(Arc::clone(&deps), Arc::new(namespaces()));
    let third_party = registrations.face(third_party_resources(&crds));
    // The server itself uses some of those that the smallest profile does not serve.
    let profile = kinds::Profile::from(options.profile);
    let network = ServiceNetwork::new(&options.service_cluster_ip_range, options.service_node_port_range)
        .map_err(|why| format!("--service-cluster-ip-range: {why}"))?;
    let others: Vec<ResourceHandle> = built_in(profile.max(kinds::Profile::ControlPlane), &network)
        .into_iter()
        .map(|spec| ResourceHandle::new(Arc::clone(&deps), Arc::new(spec)))
        .collect();
    let of_plural = |plural: &str| {
        let handle = others.iter().find(|other| other.spec().is_some_and(|spec| spec.names.plural == plural));
        handle.cloned().ok_or_else(|| format!("no built-in kind has the plural {plural}"))
    };
    let (api_services, config_maps) = (of_plural(api_service::PLURAL)?, of_plural("configmaps")?);
    let aggregated = registrations.face(aggregated_custom_resource_definitions(&crds));
    let events = of_plural("events")?;
    let later_events = events.face(later_events(&*events.spec().ok_or("events have no type")?));
    let served =
        others.iter().cloned().chain([later_events.clone()]).filter(|_| profile > kinds::Profile::Minimal);
    let configuring = match profile {
        kinds::Profile::Minimal => None,
        _ => {
            let faces =
                [&third_party, &aggregated, &later_events].into_iter().chain([&registrations, &events]);
            let faces: Vec<_> = faces.filter_map(ResourceHandle::spec).collect();
            let types = ConfiguringTypes {
                mutating: of_plural("mutatingwebhookconfigurations")?,
                validating: of_plural("validatingwebhookconfigurations")?,
                judging: PolicyTypes {
                    policies: of_plural("validatingadmissionpolicies")?,
                    bindings: of_plural("validatingadmissionpolicybindings")?,
                },
                changing: PolicyTypes {
                    policies: of_plural("mutatingadmissionpolicies")?,
                    bindings: of_plural("mutatingadmissionpolicybindings")?,
                },
            };
            Some((types, faces))
        }
    };
    let built_in = [namespaces.clone(), third_party, aggregated].into_iter().chain(served);
    let of_kinds = RegistryOptions { strategies: kinds.strategies(), ..RegistryOptions::default() };
    let registry = RegistryHandle::start_with(Arc::clone(&deps), &registrations, built_in, of_kinds)?;
    let routes = Arc::clone(registry.routes());
    let find_kind: Arc<FindKind> = Arc::new(move |kind| routes.table().of_kind(kind));
    let plugins = OwnPlugins {
        on: options.plugins.on(),
        find_kind: Arc::clone(&find_kind),
        event_limits: options.plugins.event_limits(&plugin_file, &deps.entropy.uuid_v4())?.map(Arc::new),
    };
    let role_kinds = roles::kinds(of_plural)?;
    let permissions =
        roles::decide(options).then(|| Permissions::new(processors.clone(), role_kinds.clone()));
    let admission = configuring.map(|(types, faces)| {
        Admission::new(types, options.plugins.disabled(), faces, find_kind, permissions.clone())
    });
    let own_name = deps.entropy.uuid_v4();
    let aggregator = Aggregator::new(&options.aggregator, own_name, cores())?;
    if aggregator.is_some() {
        if profile == kinds::Profile::Minimal {
            return Err("--profile=minimal serves no APIServices, which --aggregator-allowed-hosts and --service-resolver are for".into());
        }
        claim_stored(&registry, &api_services).await?;
    }
    let leader = if is_local { None } else { Some(LeaderHandle::start(&registry, Key::from(LEASE))?) };
    kindom_conflict_actor::start(&registry, &registrations, LEDGER)?;
    kindom_finalizer_actor::start(&registry, &registrations, &namespaces)?;
    expiry::start(&registry, &events, options.event_ttl)?;
    // A host's own collector looks after what it shows of this server.
    let runs_collector = runs(&options.controllers, GARBAGE_COLLECTOR);
    if options.enable_garbage_collector && runs_collector && hosts.authorization.is_none() {
        // A server in front has the flag for those behind it (`extension-apiserver-authentication`).
        let is_fronted = options.front_proxies.requestheader_client_ca_file.is_some() && aggregator.is_none();
        garbage::start(&registry, &events, &namespaces, is_fronted, options.max_object_bytes)?;
    }
    let quotas = match profile {
        kinds::Profile::Minimal => None,
        _ => Some(of_plural("resourcequotas")?),
    };
    if let Some(quotas) = quotas.as_ref().filter(|_| runs(&options.controllers, RESOURCE_QUOTA)) {
        quotas::start(&registry, quotas, options.max_object_bytes)?;
    }
    if profile > kinds::Profile::Minimal && runs(&options.controllers, POLICY_STATUS) {
        let policies = of_plural("validatingadmissionpolicies")?;
        policy_status::start(&registry, &policies, options.max_object_bytes)?;
    }
    let tokens = match profile {
        kinds::Profile::Minimal => None,
        _ => Some(Arc::new(accounts::tokens(&options.accounts, &*storage).await?)),
    };
    if profile > kinds::Profile::Minimal {
        holdings::start(&registry, &of_plural("services")?)?;
    }
    let mut has_endpoints = None;
    if let Some(tokens) = tokens.clone().filter(|_| hosts.authorization.is_none()) {
        let types = Types {
            namespaces: namespaces.clone(),
            accounts: of_plural("serviceaccounts")?,
            config_maps: config_maps.clone(),
            secrets: of_plural("secrets")?,
            services: of_plural("services")?,
            endpoints: of_plural("endpoints")?,
            endpoint_slices: of_plural("endpointslices")?,
            object_bytes_max: options.max_object_bytes,
        };
        accounts::start(options, &registry, &types, tokens, keeper.authorities_pem())?;
        provision::kubernetes_service(&registry, &types, network.addresses.0.first(), options.secure_port)?;
        // The smaller profiles have no such kind.
        if let Ok(cidrs) = of_plural("servicecidrs") {
            service_cidr::start(&registry, &cidrs, &network, options.max_object_bytes)?;
        }
        if let Ok(classes) = of_plural("priorityclasses") {
            priority_classes::start(&registry, &classes, options.max_object_bytes)?;
        }
        if options.enable_priority_and_fairness {
            let [levels, schemas] = ["prioritylevelconfigurations", "flowschemas"].map(of_plural);
            flow_schemas::start(&registry, &levels?, &schemas?, options.max_object_bytes)?;
        }
        has_endpoints = Some(types);
    }
    if options.feature_gates.storage_version_migrator {
        storage_version::start(&registry, &registrations, options.storage_version_settle)?;
    }
    let mirror =
        hosts.authorization.clone().filter(|_| options.host.namespaces_from_host).map(|host| Mirror {
            host,
            registry: registry.clone(),
            namespaces: namespaces.clone(),
            storage: Arc::clone(&storage),
            clock: deps.clock.clone(),
            object_bytes_max: options.max_object_bytes,
        });
    if mirror.is_none() {
        make_standard_namespaces(&namespaces, options.max_object_bytes).await?;
    }
    // A restore that begins now finds that the store is not empty; one that began earlier is found here.
    refuse_unfinished(&*storage).await?;
    registry.fresh(Deadline::after(START)).await?;
    typed::keep(kinds, &registry, &registrations, options.max_object_bytes, Deadline::after(START)).await?;
    if profile > kinds::Profile::Minimal && hosts.authorization.is_none() {
        let object_bytes_max = options.max_object_bytes;
        let types = RoleTypes { kinds: role_kinds, namespaces: namespaces.clone(), object_bytes_max };
        roles::keep(options, &registry, &types, START).await?;
    }
    let mirroring = match mirror {
        Some(mirror) => Some(start_mirror(mirror).await),
        None => None,
    };
    let (aggregator, _connections) = match aggregator {
        Some((aggregator, connections)) => {
            let object_bytes_max = options.max_object_bytes;
            let (of_users, proxies) = (keeper.of_users(), &options.front_proxies);
            let now = deps.clock.unix_seconds();
            publish_authentication(&config_maps, of_users, proxies, object_bytes_max, now).await?;
            aggregator::start(&aggregator, &registry, &api_services, object_bytes_max)?;
            let routed = tokio::time::timeout(START, aggregator.routed()).await;
            routed.map_err(|_| "the APIServices that are stored could not be read in time")?;
            (Some(aggregator as Arc<dyn kindom_http::Aggregator>), Some(connections))
        }
        None => (None, None),
    };
    let holds = Holds::default();
    // The replicas on etcd agree on who compacts; the engine does that.
    let history = is_local.then(|| {
        let every = options.etcd_compaction_interval;
        tokio::spawn(history::keep(Arc::clone(&storage), holds.clone(), deps.clock.clone(), every))
    });
    let every = options.storage_scrub_interval;
    let scrub = folder.clone().filter(|_| !every.is_zero());
    let scrub = scrub.map(|store| tokio::spawn(scrub::keep(store, deps.clock.clone(), every)));
    let store_scrubs = folder.map(|store| Box::new(move || store.scrub_counts()) as ScrubCounter);
    let snapshots = Snapshots { prefixes: prefixes(), holds };

    let store_counters = (store_writes, store_scrubs);
    let served = registry.clone();
    let accounts = tokens.map(|tokens| ServiceAccounts::new(tokens, registry.clone()));
    let threads = within.threads();
    let auditing = options.audit.open(&deps.clock)?;
    let audit_log = auditing.as_ref().map(|auditing| Arc::clone(&auditing.log));
    let parts = Parts {
        registry,
        namespaces,
        quotas: quotas.filter(|_| options.plugins.enforces_quotas()),
        plugins,
        admission,
        permissions,
        aggregator,
        handlers: kinds.handlers(),
        snapshots,
        accounts,
        webhook_metrics,
        processors,
        threads,
        auditing,
    };
    let running = listen(options, (&keeper, &hosts), parts, store_counters, &supervisor)?;
    let ready = Ready::of(&mut keeper, running.address, options.folder())?;
    let endpoints = match has_endpoints {
        Some(types) => {
            let advertised = Advertised { address, port: running.address.port(), keys: ADDRESSES };
            Some(endpoints::start(&served, &types, advertised)?)
        }
        None => None,
    };
    let host = hosts.authorization.clone().zip(options.host.register_api_services.clone());
    let registering = host.map(|(host, service)| {
        let bundle = keeper.tell_authorities(ready.url.clone());
        let (registry, clock) = (served.clone(), deps.clock.clone());
        tokio::spawn(Registrar { host, registry, registrations, clock, service, bundle }.keep())
    });
    let hangups = signals.hangups();
    let (credentials, clock) = (running.credentials(), deps.clock.clone());
    let kept =
        keeper.can_change().then(|| tokio::spawn(credentials::keep(keeper, credentials, clock, hangups)));
    let working = controllers.start(&supervisor, &deps.arbiters, &running.loopback())?;
    signals.serving();
    let in_program = match within {
        Within::Process => {
            let mut out = std::io::stdout();
            // The process that started it may have closed the pipe; the server goes on.
            let _ = writeln!(out, "{}", ready.line(options)?).and_then(|()| out.flush());
            false
        }
        // A program that does not wait any more ends the server.
        Within::Program(tell) => {
            let _ = tell.send(ready);
            true
        }
    };

    let handle = running.handle();
    let clock = deps.clock.clone();
    let stop = async move {
        let why = tokio::select! {
            () = signals.end() => None,
            why = replaced => Some(why),
        };
        if in_program {
            working.end().await;
            handle.cut().await;
            return why;
        }
        // Load balancers get time to notice the end, unless the state in memory is no longer true.
        if why.is_none() {
            handle.announce();
            if let Some(endpoints) = endpoints {
                endpoints.leave().await;
            }
            tokio::join!(working.end(), clock.sleep(options.shutdown_delay_duration));
        } else {
            // Nobody may see that state: they end without an answer.
            working.tell();
        }
        let watches = options.shutdown_watch_termination_grace_period;
        let cut = handle.stop(DRAIN.max(watches), watches).await;
        if cut > 0 {
            tracing::warn!(connections = cut, "connections were cut off: they did not end in time");
        }
        why
    };
    let run =
        async move { if in_program { running.run_to_the_last_thread().await } else { running.run().await } };
    let (served, replaced) = tokio::join!(run, stop);
    for task in [kept, following, mirroring, registering].into_iter().flatten() {
        task.abort();
    }
    // From the top down: who asks goes before who answers.
    if let Some(history) = history {
        history.abort();
    }
    if let Some(scrub) = scrub {
        scrub.abort();
    }
    if let Some(leader) = leader {
        leader.resign().await;
    }
    supervisor.stop_all().await;
    let closed = storage.close().await;
    if let Some(log) = audit_log {
        audit::close(log).await;
    }
    closed?;
    served?;
    // The supervisor of this process is to start another one.
    replaced.map_or(Ok(()), |why| Err(format!("{why}; start again to serve what is there now").into()))
}

/// Follows the namespaces of the host from now on; waits a while until they are here.
async fn start_mirror(mirror: Mirror) -> JoinHandle<()> {
    let (synced, mut seen) = watch::channel(false);
    let mirroring = tokio::spawn(mirror.keep(synced));
    if tokio::time::timeout(MIRROR, seen.wait_for(|synced| *synced)).await.is_err() {
        tracing::warn!("the host's namespaces are not known yet; those that were known are served");
    }
    mirroring
}

/// Looks up whose certificates count by the host's word, and follows it from now on.
async fn follow_host(
    options: &Serve,
    hosts: &Hosts,
    keeper: &mut Keeper,
) -> Result<Option<JoinHandle<()>>, BoxError> {
    let Some(host) = hosts.authentication.clone() else { return Ok(None) };
    let flags_say_all =
        options.client_ca_file.is_some() && options.front_proxies.requestheader_client_ca_file.is_some();
    if options.host.authentication_skip_lookup || flags_say_all {
        return Ok(None);
    }
    let known = authentication::look_up(&host).await;
    let looked_up = match known {
        Ok(known) => keeper.follow(Arc::clone(&known)).map(|()| known),
        Err(error) => Err(error),
    };
    let known = match looked_up {
        Ok(known) => known,
        Err(error) if options.host.authentication_tolerate_lookup_failure => {
            tracing::warn!("the host's authentication configuration cannot be looked up: {error}");
            let unknown = authentication::unknown();
            keeper.follow(Arc::clone(&unknown))?;
            unknown
        }
        Err(error) => return Err(format!("--authentication-kubeconfig: {error}").into()),
    };
    Ok(Some(tokio::spawn(authentication::follow(host, known))))
}

async fn refuse_unfinished(storage: &dyn Storage) -> Result<(), BoxError> {
    match is_unfinished(storage).await? {
        true => Err("a restore into this store was begun and not finished: run it again".into()),
        false => Ok(()),
    }
}

/// The number of threads of each kind.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The parts that requests are served by.
struct Parts {
    registry: RegistryHandle,
    namespaces: ResourceHandle,
    quotas: Option<ResourceHandle>,
    plugins: OwnPlugins,
    admission: Option<Admission>,
    permissions: Option<Permissions>,
    aggregator: Option<Arc<dyn kindom_http::Aggregator>>,
    handlers: Option<Arc<dyn kindom_http::Handlers>>,
    snapshots: Snapshots,
    accounts: Option<ServiceAccounts>,
    webhook_metrics: WebhookMetrics,
    processors: Processors,
    /// The number of those that talk to clients.
    threads: usize,
    auditing: Option<Auditing>,
}

fn listen(
    options: &Serve,
    (keeper, hosts): (&Keeper, &Hosts),
    parts: Parts,
    (store_writes, store_scrubs): (Option<WriteCounter>, Option<ScrubCounter>),
    supervisor: &Supervisor,
) -> Result<kindom_http::Running, BoxError> {
    let tls = Arc::unwrap_or_clone(keeper.tls()?);
    let ends = keeper.ends();
    let host_metrics = HostMetrics::default();
    let mut delegation = host::delegation(&options.host, hosts, &Handle::current(), &host_metrics)?;
    if let Some(permissions) = parts.permissions {
        delegation.authorization = Some(by_roles(permissions, parts.processors.clone(), &delegation.flows));
    }
    let config = Config {
        registry: parts.registry,
        namespaces: parts.namespaces,
        quotas: parts.quotas,
        plugins: Some(parts.plugins),
        admission: parts.admission,
        auditing: parts.auditing,
        authenticator: keeper.authenticator()?,
        delegation,
        accounts: parts.accounts,
        namespaces_are_the_hosts: options.host.namespaces_from_host,
        collector: match (options.enable_garbage_collector, options.host.authorization_kubeconfig.is_some()) {
            (false, _) => Collector::Nobody,
            (true, false) => Collector::Own,
            (true, true) => Collector::Host,
        },
        host_metrics: hosts.are_asked().then_some(host_metrics),
        webhook_metrics: parts.webhook_metrics,
        object_bytes_max: options.max_object_bytes,
        chaos: options.enable_chaos.then(|| supervisor.table().clone()),
        fallback: None,
        aggregator: parts.aggregator,
        handlers: parts.handlers,
        snapshots: Some(parts.snapshots),
        store_writes,
        store_scrubs,
        certificate_ends: Some(Box::new(move || ends.lock().unwrap_or_else(PoisonError::into_inner).clone())),
        processors: parts.processors,
        memory_budget_bytes: match options.memory_budget {
            0 => memory::available() / 4,
            bytes => bytes,
        },
        in_flight_max: InFlightMax {
            reading: options.max_requests_inflight,
            mutating: options.max_mutating_requests_inflight,
        },
        connections_max: connections_max(),
        connections_per_address_max: Some(options.max_connections_per_address).filter(|most| *most > 0),
        http2_streams_max: match options.http2_max_streams_per_connection {
            // As apiserver's `pkg/server/secure_serving.go` (1.37).
            0 => 100,
            most => most,
        },
    };
    let address = SocketAddr::new(options.bind_address, options.secure_port);
    Ok(serve(address, tls, parts.threads, config)?)
}

impl Ready {
    /// Of a server at this address; in `folder`, if there is one, admin.kubeconfig is kept up to date.
    fn of(keeper: &mut Keeper, address: SocketAddr, folder: Option<&Path>) -> Result<Self, BoxError> {
        let url = server_url(address);
        if let Some(folder) = folder {
            keeper.write_kubeconfig(folder.join(ADMIN), url.clone())?;
        }
        Ok(Self {
            kubeconfig: keeper.kubeconfig(&url),
            authorities_pem: keeper.authorities_pem(),
            admin_pem: keeper.admin_pem(),
            url,
        })
    }

    /// The line that says that the server is there.
    fn line(&self, options: &Serve) -> Result<String, BoxError> {
        let file = options.folder().map(|folder| folder.join(ADMIN).canonicalize()).transpose()?;
        if let (Format::Text, Some(file)) = (options.print_ready, &file) {
            return Ok(format!("kindom serves {}; export KUBECONFIG={}", self.url, shell_quoted(file)));
        }
        let mut line = kindom_api::object! {
            "url": self.url.as_str(),
            "pid": i64::from(std::process::id()),
        };
        let fields =
            ["certificate-authority-data", "tls-server-name", "client-certificate-data", "client-key-data"];
        let lines = || self.kubeconfig.lines().map(str::trim);
        let in_text = |field| lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
        if let Some(line) = line.as_object_mut() {
            if let Some(file) = file {
                line.insert("kubeconfig", file.display().to_string());
            }
            for field in fields {
                if let Some(value) = in_text(field) {
                    line.insert(field, value);
                }
            }
        }
        Ok(line.to_string())
    }
}

/// A path as a shell reads it: quoted only where that is needed.
pub(crate) fn shell_quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// The namespaces that exist from the start; on an existing folder they are there already.
async fn make_standard_namespaces(
    namespaces: &ResourceHandle,
    object_bytes_max: usize,
) -> Result<(), BoxError> {
    for name in STANDARD_NAMESPACES {
        if namespaces.get(name, Deadline::after(START)).await?.is_some() {
            continue;
        }
        let target = Target { version: "v1", subresource: None, namespace: None, name: "" };
        let options = WriteOptions::by_server(Deadline::after(START), object_bytes_max);
        let mut wanted = |cx: &RuleContext<'_>, _: &kindom_api::Value| {
            let mut object = standard_namespace(name);
            cx.spec.strategy.decode(cx, &mut object, None).map_err(PlanError::Internal)?;
            Ok(object)
        };
        match namespaces.create(target, &mut wanted, &options).await {
            Ok(_) | Err(WriteError::Plan(PlanError::AlreadyExists { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_printed_as_a_shell_reads_them() {
        let quoted = |path: &str| shell_quoted(Path::new(path));
        assert_eq!(quoted("/srv/kindom-1/admin.kubeconfig"), "/srv/kindom-1/admin.kubeconfig");
        assert_eq!(quoted("/my data/a$b"), "'/my data/a$b'");
        assert_eq!(quoted("/it's"), r"'/it'\''s'");
    }
}
