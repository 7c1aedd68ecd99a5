//! A body of another kind than what its path names: it is carried out and not stored. It is admitted as a create is.

use actix_web::http::header;
use kindom_api::{GroupResource, Value};
use kindom_objects::{PlanError, Subresource};
use kindom_resource_actor::{Freshness, ReadError, Target, WriteError, WriteOptions};

use crate::body::{Plain, Received, plain_body};
use crate::call::Call;
use crate::negotiate::{Accepted, Endpoint, accept};
use crate::query;
use crate::status::Failure;
use crate::verbs::ask;
use crate::writing::{check_extensions, failed, options};

/// The fields of metadata that no client sets, but for those whose registries are `SubresourceObjectMetaPreserver`s
/// (`WipeObjectMetaSystemFields`).
const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"];

/// A body as it was sent. Its call has its type.
pub(super) struct SentBody {
    pub(super) accepted: Accepted,
    pub(super) body: Value,
    /// From decoding it.
    pub(super) warnings: Vec<String>,
    options: WriteOptions,
    /// Holds the memory of `body`.
    _plain: Plain,
}

impl SentBody {
    pub(super) async fn read(call: &Call<'_>, payload: Received) -> Result<Self, Failure> {
        // Upstream's have no tables.
        let accepted = accept(call.header(header::ACCEPT), Endpoint::Plain)?;
        let query = query::WriteOptions::for_create(call.query)?;
        check_extensions(call, &query)?;
        let (mut plain, format) = (plain_body(call, payload).await?, call.body_format()?);
        let (body, warnings) = ask::decoded(call, &query, &mut plain, format).await?;
        Ok(Self { accepted, body, warnings, options: options(call, &query, &plain), _plain: plain })
    }
}

/// A body on its way.
pub(super) struct Carried<'c> {
    call: &'c Call<'c>,
    target: Target<'c>,
    /// The name of the object that its path or the body itself names.
    pub(super) name: &'c str,
    options: WriteOptions,
}

impl<'c> Carried<'c> {
    pub(super) fn new(call: &'c Call<'c>, name: &'c str, sent: &SentBody) -> Self {
        let info = call.info;
        let target = Target {
            version: &info.resource.version,
            subresource: Subresource::parse(&info.subresource),
            namespace: call.namespace(),
            name,
        };
        Self { call, target, name, options: sent.options.clone() }
    }

    /// Checks the namespace, then has policies and webhooks change the body.
    pub(super) async fn change(&mut self, body: &mut Value) -> Result<(), Failure> {
        self.check_namespace().await?;
        let Self { call, target, options, .. } = self;
        if let Some(body) = body.as_object_mut() {
            // It may be of an older version of its type.
            body.insert("apiVersion", call.spec.api_version(target.version));
        }
        if !matches!(target.subresource, Some(Subresource::Binding | Subresource::Token)) {
            let metadata = body.get_mut("metadata").and_then(Value::as_object_mut);
            metadata
                .into_iter()
                .for_each(|metadata| SYSTEM_FIELDS.iter().for_each(|of| drop(metadata.remove(of))));
        }
        let changed = call.handle.change_body(target, &call.spec, body, options).await;
        let made = changed.map_err(|error| self.refused(error))?;
        self.options.bytes = self.options.bytes.saturating_add(made);
        Ok(())
    }

    /// Has policies and webhooks judge it.
    pub(super) async fn judge(&self, body: &Value) -> Result<(), Failure> {
        let Self { call, target, options, .. } = self;
        let judged = call.handle.judge_body(target, &call.spec, body, options).await;
        judged.map_err(|error| self.refused(error))
    }

    /// The options of the resulting write. Nobody judges that write again.
    pub(super) fn options(&self) -> WriteOptions {
        WriteOptions { admission: None, ..self.options.clone() }
    }

    /// Adds the warnings of policies and webhooks to others.
    pub(super) fn warn(&self, warnings: &mut Vec<String>) {
        if let Some(asked) = &self.options.admission {
            warnings.append(&mut asked.warnings.lock());
        }
    }

    /// It is a create in its namespace, which has to be there and to stay (admission plugin `NamespaceLifecycle`, which asks the store
    /// for a namespace that it does not know).
    async fn check_namespace(&self) -> Result<(), Failure> {
        let options = &self.options;
        let (Some(namespace), Some(namespaces)) = (self.call.namespace(), &options.namespaces) else {
            return Ok(());
        };
        let failed = |error: ReadError| Failure::Read(error, GroupResource::new("", "namespaces"));
        let known = namespaces.own_writes().map_err(failed)?;
        let mut found = namespaces.read(namespace, known, options.deadline).await.map_err(failed)?;
        if found.is_none() {
            found = namespaces.read(namespace, Freshness::Latest, options.deadline).await.map_err(failed)?;
        }
        let namespace = namespace.to_owned();
        match found {
            None => Err(self.refused(PlanError::NamespaceNotFound { name: namespace })),
            Some(found) if found.deleting() => {
                Err(self.refused(PlanError::NamespaceTerminating { namespace, name: self.name.to_owned() }))
            }
            Some(_) => Ok(()),
        }
    }

    fn refused(&self, error: impl Into<WriteError>) -> Failure {
        failed(self.call, error)
    }
}
