//! Kinds of `storage.k8s.io/v1`: StorageClass, VolumeAttributesClass, CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment.
//! They are kept for whoever reads them: nothing makes a volume here.
//!
//! Sources: `pkg/registry/storage/*/strategy.go`, `pkg/apis/storage/validation/validation.go`, `pkg/apis/storage/v1/defaults.go`,
//! `pkg/api/storage/util.go`, `pkg/printers/internalversion/printers.go` (1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::is_qualified_name;
use kindom_schema::columns::Columns;

use crate::kinds::fields::texts;
use crate::kinds::keyed::entries;
use crate::{BuiltInVersion, Names, Scope, Strategy, TypeSpec};

mod attachment;
mod attributes_class;
mod capacity;
mod class;
mod driver;
mod node;

const API_VERSION: &str = "storage.k8s.io/v1";
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;

/// The kinds as built-in types.
pub(super) fn storage() -> [TypeSpec; 6] {
    [
        class::classes(),
        attributes_class::attributes_classes(),
        driver::drivers(),
        node::nodes(),
        capacity::capacities(),
        attachment::attachments(),
    ]
}

fn of(names: Names, scope: Scope, columns: Columns, strategy: std::sync::Arc<dyn Strategy>) -> TypeSpec {
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    TypeSpec::built_in("storage.k8s.io", names, scope, versions, strategy)
}

/// `validateProvisioner`
fn validate_provisioner(name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.push(Error::required(at, ""));
    }
    let name = name.to_lowercase();
    texts(is_qualified_name(&name), &name, at, errors);
}

/// `validateParameters`; a field that is absent has none.
fn validate_parameters(class: &Value, needs_some: bool, errors: &mut ErrorList) {
    let (at, field) = (Path::new("parameters"), "parameters");
    let count = entries(class, field).count();
    if count > PARAMETERS_MAX {
        // Upstream calls them bytes.
        return errors.push(Error::too_long(&at, PARAMETERS_MAX));
    }
    if entries(class, field).any(|(name, _)| name.is_empty()) {
        errors.push(Error::invalid(&at, "", "field can not be empty."));
    }
    let bytes = entries(class, field)
        .fold(0_usize, |sum, (name, value)| sum.saturating_add(name.len()).saturating_add(value.len()));
    if bytes > PARAMETERS_BYTES_MAX {
        errors.push(Error::too_long(&at, PARAMETERS_BYTES_MAX));
    }
    if needs_some && count == 0 {
        errors.push(Error::required(&at, "must contain at least one key/value pair"));
    }
}
