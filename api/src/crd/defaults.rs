//! Defaults (`pkg/apis/apiextensions/v1/defaults.go`), and the changes that upstream's registry makes before it stores a
//! registration (`pkg/registry/customresourcedefinition/strategy.go`).

use super::types::{Conversion, CrdStatus, CustomResourceDefinition, WebhookConversion};

/// Fills in the fields that the user left out. Upstream does it on every decode, of stored registrations too.
pub fn default_crd(crd: &mut CustomResourceDefinition) {
    let names = &mut crd.spec.names;
    if names.singular.is_empty() {
        names.singular = names.kind.to_lowercase();
    }
    if names.list_kind.is_empty() && !names.kind.is_empty() {
        names.list_kind = format!("{}List", names.kind);
    }
    let conversion =
        crd.spec.conversion.get_or_insert_with(|| Conversion { strategy: "None".to_owned(), webhook: None });
    // Upstream's conversion to its internal type drops a webhook without any field.
    let says_nothing =
        |w: &WebhookConversion| w.client_config.is_none() && w.conversion_review_versions.is_empty();
    if conversion.webhook.as_ref().is_some_and(says_nothing) {
        conversion.webhook = None;
    }
    let service = conversion.webhook.as_mut().and_then(|w| w.client_config.as_mut()?.service.as_mut());
    if let Some(service) = service {
        service.port.get_or_insert(443);
    }
    if crd.status.stored_versions.is_empty() {
        crd.status.stored_versions.extend(crd.storage_version().map(|v| v.name.clone()));
    }
}

fn keep_storage_version(crd: &mut CustomResourceDefinition) {
    let Some(name) = crd.storage_version().map(|v| v.name.clone()) else { return };
    if !crd.status.stored_versions.contains(&name) {
        crd.status.stored_versions.push(name);
    }
}

/// Before a create: the status is the server's to say, and the generation begins at 1.
pub fn prepare_for_create(crd: &mut CustomResourceDefinition) {
    crd.status = CrdStatus::default();
    crd.metadata.generation = 1;
    keep_storage_version(crd);
}

/// Before an update: the status stays, the generation grows if the spec changed, and the storage version is noted.
/// (The caller has already set the generation to the old one, as for every type.)
pub fn prepare_for_update(new: &mut CustomResourceDefinition, old: &CustomResourceDefinition) {
    new.status = old.status.clone();
    if new.spec != old.spec {
        new.metadata.generation = old.metadata.generation + 1;
    }
    keep_storage_version(new);
}

/// Before a write to `/status`: the spec stays. Metadata is the caller's, as upstream leaves it.
pub fn prepare_for_status_update(new: &mut CustomResourceDefinition, old: &CustomResourceDefinition) {
    new.spec = old.spec.clone();
}
