//! The programs that serve subresources which registrations declare (B-52, S-37).

use std::sync::Arc;

use arc_swap::ArcSwap;
use kindom_objects::webhook_client::WebhookClient;
use quick_cache::sync::Cache;
use tokio::runtime::Handle;

use super::Route;
use super::backend::{Backend, ClientCertificate};
use super::target::Resolver;

/// The programs whose connections are kept.
const PROGRAMS_MAX: usize = 200;

/// The ways to programs, each with connections of its own, which open when they are needed.
pub(super) struct Programs {
    resolver: Arc<Resolver>,
    /// By the program, and the number of the certificate that it sees.
    known: Cache<(Arc<WebhookClient>, u64), Arc<Route>>,
    own: ArcSwap<Own>,
    runtime: Handle,
}

/// This proxy's certificate, as it could last be read, and the number of its changes.
#[derive(Default)]
struct Own {
    certificate: ClientCertificate,
    changes: u64,
}

impl Programs {
    pub(super) fn new(resolver: Arc<Resolver>, runtime: Handle) -> Self {
        Self { resolver, known: Cache::new(PROGRAMS_MAX), own: ArcSwap::default(), runtime }
    }

    /// Programs that are connected to from now on see this certificate.
    pub(super) fn identify_by(&self, own: &ClientCertificate) {
        let before = self.own.load();
        if before.certificate != *own {
            self.own.store(Arc::new(Own { certificate: own.clone(), changes: before.changes + 1 }));
        }
    }

    /// The certificate that programs see.
    pub(super) fn own(&self) -> ClientCertificate {
        self.own.load().certificate.clone()
    }

    /// The way to a program.
    ///
    /// # Errors
    /// Nobody knows where it is, or it may not be connected to; its certificates cannot be used.
    pub(super) async fn route(&self, program: &Arc<WebhookClient>) -> Result<Arc<Route>, String> {
        let own = self.own.load_full();
        let target = self.resolver.program(program).map_err(|why| why.message)?;
        let key = (Arc::clone(program), own.changes);
        let connected = async {
            let runtime = self.runtime.clone();
            // It may read the machine's authorities.
            let backend = move || Backend::new(&target, &own.certificate, &runtime);
            let backend = self.runtime.spawn_blocking(backend).await.map_err(|lost| lost.to_string())?;
            let backend = Some(backend.map_err(|error| error.to_string())?);
            Ok(Arc::new(Route { backend, doubted: Arc::default(), is_available: true }))
        };
        self.known.get_or_insert_async(&key, connected).await
    }
}
