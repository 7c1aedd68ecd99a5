//! The selector of a job, which the server makes unless the client does (`generateSelector`, `validateGeneratedSelector`, 1.37).

use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::selector::LabelSelector;
use kindom_api::{Map, Value};

use super::defaults;
use crate::kinds::fields::{default_nil, part, present, same, text};
use crate::kinds::label_selector::printed;

/// The labels of a job's pods, before and since they have a prefix.
const NAMES: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UIDS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// The labels of a job's template.
pub(super) fn template_labels(job: &Value) -> &Value {
    job.at(&["spec", "template", "metadata", "labels"]).unwrap_or(&Value::Null)
}

fn is_manual(job: &Value) -> bool {
    job.at(&["spec", "manualSelector"]) == Some(&Value::Bool(true))
}

/// The object at the end of a path, made where it is absent.
fn object_at<'a>(of: &'a mut Value, path: &[&str]) -> Option<&'a mut Map> {
    let found = path.iter().try_fold(of, |of, field| {
        default_nil(of, field, Map::new());
        of.get_mut(field)
    });
    found.and_then(Value::as_object_mut)
}

/// Sets what is not there.
fn add(map: &mut Map, key: &str, value: &str) {
    if map.get(key).is_none() {
        map.insert(key, value);
    }
}

/// Makes the selector of a new job, and the labels of its template. A job that was given the labels of its template is given
/// these, too: upstream's two are one map.
pub(super) fn generate(job: &mut Value) {
    let of_template = template_labels(job);
    let is_one = of_template.as_object().is_some_and(|labels| !labels.is_empty())
        && same(job.at(&["metadata", "labels"]), Some(of_template));
    if !is_manual(job) {
        let [name, uid] = ["name", "uid"].map(|of| job.text_at(&["metadata", of]).to_owned());
        if let Some(labels) = object_at(job, &["spec", "template", "metadata", "labels"]) {
            NAMES.iter().for_each(|key| add(labels, key, &name));
            UIDS.iter().for_each(|key| add(labels, key, &uid));
        }
        if let Some(labels) = object_at(job, &["spec", "selector", "matchLabels"]) {
            add(labels, UIDS[1], &uid);
        }
    }
    if is_one {
        if let Some(metadata) = object_at(job, &["metadata"]) {
            metadata.remove("labels");
        }
        defaults::labels(job);
    }
}

/// `validateGeneratedSelector`
pub(super) fn validate(job: &Value, errors: &mut ErrorList) {
    let Some(selector) = present(part(job, "spec"), "selector").filter(|_| !is_manual(job)) else { return };
    let metadata = part(job, "metadata");
    let [name, uid] = ["name", "uid"].map(|of| text(metadata, of));
    let (spec, labels) = (Path::new("spec"), template_labels(job));
    let template = spec.child("template");
    let metadata = template.child("metadata");
    let at = metadata.child("labels");
    let expected = [(UIDS[0], uid), (NAMES[0], name), (UIDS[1], uid), (NAMES[1], name)];
    for (key, value) in expected {
        match labels.get(key).and_then(Value::as_str) {
            None => errors.push(Error::required(&at.key(key), format!("must be '{value}'"))),
            Some(other) if other != value => {
                errors.push(Error::invalid(&at.key(key), labels.clone(), format!("must be '{value}'")));
            }
            Some(_) => {}
        }
    }
    let label = |key: &str| expected.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
    if LabelSelector::of_object(selector).is_ok_and(|selector| !selector.matches(label)) {
        let detail = "`selector` not auto-generated";
        errors.push(Error::invalid_raw(&spec.child("selector"), printed(selector), detail));
    }
}
