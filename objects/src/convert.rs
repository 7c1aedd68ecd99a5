//! Rules between the versions of a type.

use kindom_api::Value;

/// Rules by which an object of one version becomes one of another.
pub trait Convert: Send + Sync {
    /// The object in another version; of its metadata only labels and annotations count.
    ///
    /// # Errors
    /// The reason why the object has no form in that version. Never panics: objects are converted where they are read.
    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, String>;

    /// Returns true if there may be objects without a form in some version, so that their writes are refused.
    fn refuses(&self) -> bool {
        false
    }

    /// The bytes that take as long to parse as an object to convert, beside its own.
    fn bytes_of_each(&self) -> usize {
        0
    }
}

/// The error of an object that rules give no form in a version.
pub(crate) fn no_form(kind: &str, name: &str, (from, to): (&str, &str), why: &str) -> String {
    format!("{kind} {name} of version {from} has no form in version {to}: {why}")
}
