//! The programs that serve subresources which registrations declare (B-52, S-37).

use std::sync::Arc;

use arc_swap::ArcSwap;
use kindom_objects::webhook_client::WebhookClient;
use quick_cache::sync::Cache;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::Route;
use super::backend::{Backend, ClientCertificate};
use super::target::Resolver;

/// The programs whose connections are kept.
const PROGRAMS_MAX: usize = 200;

/// The ways to programs, each with connections of its own, which open when they are needed.
pub(super) struct Programs {
    resolver: Arc<Resolver>,
    known: Cache<Arc<WebhookClient>, Arc<Program>>,
    /// This proxy's certificate, as it was last read.
    own: ArcSwap<ClientCertificate>,
    runtime: Handle,
}

struct Program {
    own: Arc<ClientCertificate>,
    route: Arc<Route>,
}

impl Programs {
    pub(super) fn new(resolver: Arc<Resolver>, runtime: Handle) -> Self {
        Self { resolver, known: Cache::new(PROGRAMS_MAX), own: ArcSwap::default(), runtime }
    }

    /// Programs that are connected to from now on see this certificate.
    pub(super) fn identify_by(&self, own: &ClientCertificate) {
        if **self.own.load() != *own {
            self.own.store(Arc::new(own.clone()));
        }
    }

    /// The way to a program.
    ///
    /// # Errors
    /// Nobody knows where it is, or it may not be connected to; its certificates cannot be used.
    pub(super) async fn route(&self, program: &Arc<WebhookClient>) -> Result<Arc<Route>, String> {
        let own = self.own.load_full();
        if let Some(known) = self.known.get(program).filter(|known| Arc::ptr_eq(&known.own, &own)) {
            return Ok(Arc::clone(&known.route));
        }
        let target = self.resolver.program(program).map_err(|why| why.message)?;
        let (by, runtime) = (Arc::clone(&own), self.runtime.clone());
        // It may read the machine's authorities.
        let backend = self.runtime.spawn_blocking(move || Backend::new(&target, &by, &runtime)).await;
        let backend = backend.map_err(|lost| lost.to_string())?.map_err(|error| error.to_string())?;
        let route = Route { backend: Some(backend), doubted: Arc::new(Notify::new()), is_available: true };
        let route = Arc::new(route);
        self.known.insert(Arc::clone(program), Arc::new(Program { own, route: Arc::clone(&route) }));
        Ok(route)
    }
}
