//! The ways from one version of a type to another.

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::ErrorList;
use kindom_managed_fields::ConvertError;
use kindom_schema::merge::MergeType;

use crate::convert::Convert;
use crate::subresource::Subresource;
use crate::webhook_conversion::ConversionWebhook;

/// The conversion of objects of one version to another.
#[derive(Clone)]
pub enum Conversion {
    /// By changing `apiVersion`.
    None,
    /// By asking a webhook.
    Webhook(Arc<ConversionWebhook>),
    /// By code of the program's that is compiled with the type, which may take any time; `None` if this program is another one.
    Program(Option<Arc<dyn Convert>>),
    /// By the built-in type's own rules.
    Faces(Arc<dyn Faces>),
    /// By declared rules, which need nobody else.
    Rules(Arc<dyn Convert>),
}

/// Those who convert a type's objects, and whom nobody can wait for in the middle of a read or a plan.
#[derive(Clone, Copy)]
pub enum Converter<'a> {
    /// A webhook.
    Webhook(&'a Arc<ConversionWebhook>),
    /// Code of the program's.
    Program(&'a Arc<dyn Convert>),
}

/// The faces of a built-in type whose versions differ in more than `apiVersion`. Plans of writes are made on the stored
/// form.
pub trait Faces: Send + Sync {
    /// Returns true if a version's objects have the stored form, except for fields that no version shows.
    fn is_stored(&self, version: &str) -> bool;

    /// The merge type of objects of an apiVersion; `None` if the type has no such version on any route.
    fn merge_type(&self, api_version: &str) -> Option<MergeType<'static>>;

    /// An object as another of the type's apiVersions, on any route, shows it.
    ///
    /// # Errors
    /// [`ConvertError`]
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;

    /// Returns true if stored bytes can be shown as they are in a version. Called on every read.
    fn shows_as_stored(&self, version: &str, json: &[u8]) -> bool;

    /// A stored object as a version shows it.
    fn show(&self, version: &str, stored: Value) -> Value;

    /// The form of which tables and answers with metadata alone are made, whichever version is asked for: the one that Kubernetes
    /// has in memory.
    fn internal(&self, version: &str, stored: Value) -> Value {
        self.show(version, stored)
    }

    /// Turns a version's object that replaces `old` (as stored; `None` for a create) through a subresource, or as a whole,
    /// into the form to store.
    ///
    /// # Errors
    /// Fields that the stored form can't hold, by the version's own paths.
    fn read(
        &self,
        version: &str,
        object: Value,
        old: Option<&Value>,
        subresource: Option<Subresource>,
    ) -> Result<Value, ErrorList>;
}
