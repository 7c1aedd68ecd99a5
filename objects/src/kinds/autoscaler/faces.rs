//! An autoscaler as `autoscaling/v1` shows it: of its metrics it has the utilization of a CPU alone, so the others, the behavior
//! and the conditions stand in annotations, as JSON (`pkg/apis/autoscaling/v1/conversion.go`, 1.37).

use kindom_api::decode::Shape;
use kindom_api::field::ErrorList;
use kindom_api::json::Key;
use kindom_api::{Map, Value, json, object};
use kindom_schema::merge::MergeType;

use super::{CPU_UTILIZATION, first, metrics, second};
use crate::declared::{Declared, print_versioned};
use crate::kinds::fields::{items, part, present, text};
use crate::metadata::metadata_mut;
use crate::{ConvertError, Faces, Subresource};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const SCALE_DOWN_TOLERANCE: &str = "autoscaling.alpha.kubernetes.io/scale-down-tolerance";
const SCALE_UP_TOLERANCE: &str = "autoscaling.alpha.kubernetes.io/scale-up-tolerance";
/// The annotations of conversions, which no stored object has (`DropRoundTripHorizontalPodAutoscalerAnnotations`).
const ANNOTATIONS: [&str; 6] =
    [METRICS, BEHAVIOR, CURRENT_METRICS, CONDITIONS, SCALE_DOWN_TOLERANCE, SCALE_UP_TOLERANCE];

static METRIC: Declared = Declared::catalogued("autoscaling/v1", "MetricSpec");
static CURRENT_METRIC: Declared = Declared::catalogued("autoscaling/v1", "MetricStatus");
static CONDITION: Declared = Declared::catalogued("autoscaling/v1", "HorizontalPodAutoscalerCondition");

/// The two versions; the second is stored.
pub(super) struct AutoscalerFaces;

impl Faces for AutoscalerFaces {
    fn is_stored(&self, version: &str) -> bool {
        version == second().version()
    }

    fn merge_type(&self, api_version: &str) -> Option<MergeType<'static>> {
        let is_its = |declared: &&Declared| declared.declaration().api_version == api_version;
        [first(), second()].into_iter().find(is_its).map(Declared::merge_type)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let version = |of: &str| [first(), second()].into_iter().find(|d| d.declaration().api_version == of);
        let from = version(text(object, "apiVersion")).ok_or(ConvertError::NoSuchVersion)?;
        let to = version(api_version).ok_or(ConvertError::NoSuchVersion)?;
        let stored = self.read(from.version(), object.clone(), None, None);
        let stored = stored.map_err(|_| ConvertError::NoSuchVersion)?;
        Ok(self.show(to.version(), stored))
    }

    fn shows_as_stored(&self, version: &str, _: &[u8]) -> bool {
        self.is_stored(version)
    }

    fn show(&self, version: &str, stored: Value) -> Value {
        if self.is_stored(version) { stored } else { shown(stored) }
    }

    fn internal(&self, _: &str, stored: Value) -> Value {
        stored
    }

    fn read(
        &self,
        version: &str,
        mut object: Value,
        _: Option<&Value>,
        _: Option<Subresource>,
    ) -> Result<Value, ErrorList> {
        if !self.is_stored(version) {
            return Ok(stored(object));
        }
        drop_annotations(&mut object);
        Ok(object)
    }
}

/// Takes the annotations of conversions from an object.
pub(super) fn drop_annotations(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.retain(|key, _| !ANNOTATIONS.contains(&key));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// An object of these parts and this metadata, in the form of a version.
fn of_version(declared: &'static Declared, metadata: Option<Value>, spec: Map, status: Map) -> Value {
    let declaration = declared.declaration();
    let object = object! {
        "apiVersion": declaration.api_version, "kind": declaration.kind, "spec": spec, "status": status
    };
    // The parts were decoded when they were written, and both versions give their fields the same types.
    let mut object = declaration.shape.decode(&object).map_or(object, |decoded| decoded.value);
    if let (Some(map), Some(metadata)) = (object.as_object_mut(), metadata) {
        map.insert("metadata", metadata);
    }
    object
}

fn taken(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut()?.remove(field)
}

/// The fields of a part, without some that only one version has.
fn fields(object: &Value, part: &str, without: &[&str]) -> Map {
    let fields = object.get(part).and_then(Value::as_object).into_iter().flat_map(Map::iter);
    let kept = fields.filter(|(name, _)| !without.contains(name));
    kept.map(|(name, value)| (Key::from(name), value.clone())).collect()
}

/// A stored object as `v1` shows it (`Convert_autoscaling_HorizontalPodAutoscaler_To_v1_HorizontalPodAutoscaler`).
fn shown(mut stored: Value) -> Value {
    drop_annotations(&mut stored);
    let [spec, status] = ["spec", "status"].map(|of| part(&stored, of));
    let (all, current) = (items(spec, "metrics"), items(status, "currentMetrics"));
    let mut annotations = Vec::new();
    let others: Vec<Value> =
        all.iter().filter(|metric| utilization(metric).is_none()).map(metrics::first_of).collect();
    if !others.is_empty() {
        annotations.push((METRICS, list(&METRIC, &others)));
    }
    if !current.is_empty() {
        let current: Vec<Value> = current.iter().map(metrics::first_of_current).collect();
        annotations.push((CURRENT_METRICS, list(&CURRENT_METRIC, &current)));
    }
    if let Some(behavior) = present(spec, "behavior") {
        annotations.push((BEHAVIOR, escaped(&second().internal(&["spec", "behavior"], behavior))));
    }
    let conditions = items(status, "conditions");
    if !conditions.is_empty() {
        annotations.push((CONDITIONS, list(&CONDITION, conditions)));
    }
    let mut spec_shown = fields(&stored, "spec", &["metrics", "behavior"]);
    if let Some(value) = all.iter().find_map(utilization) {
        spec_shown.insert("targetCPUUtilizationPercentage", value.clone());
    }
    let mut status_shown = fields(&stored, "status", &["currentMetrics", "conditions"]);
    if let Some(value) = current.iter().filter_map(current_utilization).next_back() {
        status_shown.insert("currentCPUUtilizationPercentage", value.clone());
    }
    let mut shown = of_version(first(), taken(&mut stored, "metadata"), spec_shown, status_shown);
    if !annotations.is_empty() {
        let all = metadata_mut(&mut shown).entry_or_insert_with("annotations", || Value::Object(Map::new()));
        if let Some(all) = all.as_object_mut() {
            annotations.into_iter().for_each(|(key, value)| drop(all.insert(key, value)));
        }
    }
    shown
}

/// The utilization of a CPU that a metric asks for.
fn utilization(metric: &Value) -> Option<&Value> {
    let resource = cpu(metric)?;
    present(part(resource, "target"), "averageUtilization")
}

fn current_utilization(metric: &Value) -> Option<&Value> {
    present(part(cpu(metric)?, "current"), "averageUtilization")
}

fn cpu(metric: &Value) -> Option<&Value> {
    let resource = present(metric, "resource").filter(|resource| text(resource, "name") == "cpu")?;
    (text(metric, "type") == "Resource").then_some(resource)
}

/// An object of `v1` as it is stored (`Convert_v1_HorizontalPodAutoscaler_To_autoscaling_HorizontalPodAutoscaler`). What is no JSON
/// of the annotation's type is ignored.
pub(super) fn stored(mut shown: Value) -> Value {
    let annotation = |key: &str| {
        let text = shown.at(&["metadata", "annotations", key]).and_then(Value::as_str)?;
        json::parse(text.as_bytes()).ok()
    };
    let mut spec = fields(&shown, "spec", &["targetCPUUtilizationPercentage"]);
    let mut wanted: Vec<Value> = annotation(METRICS)
        .and_then(|all| decoded_list(&METRIC, all))
        .unwrap_or_default()
        .iter()
        .map(metrics::second_of)
        .collect();
    match present(part(&shown, "spec"), "targetCPUUtilizationPercentage") {
        Some(value) => wanted.push(metrics::of_cpu(value.clone())),
        None if wanted.is_empty() => wanted.push(metrics::of_cpu(CPU_UTILIZATION.into())),
        None => {}
    }
    spec.insert("metrics", wanted);
    if let Some(behavior) = annotation(BEHAVIOR).and_then(behavior) {
        spec.insert("behavior", behavior);
    }
    let mut status = fields(&shown, "status", &["currentCPUUtilizationPercentage"]);
    let current = present(part(&shown, "status"), "currentCPUUtilizationPercentage");
    let mut current: Vec<Value> = current.map(metrics::of_current_cpu).into_iter().collect();
    if let Some(all) = annotation(CURRENT_METRICS).and_then(|all| decoded_list(&CURRENT_METRIC, all)) {
        current = all.iter().map(metrics::second_of_current).collect();
    }
    status.insert("currentMetrics", current);
    if let Some(conditions) = annotation(CONDITIONS).and_then(|all| decoded_list(&CONDITION, all)) {
        status.insert("conditions", conditions);
    }
    drop_annotations(&mut shown);
    of_version(second(), taken(&mut shown, "metadata"), spec, status)
}

/// A list of a type as Go decodes it; null is a list of nothing.
fn decoded_list(declared: &'static Declared, all: Value) -> Option<Vec<Value>> {
    let shape = declared.declaration().shape;
    let decode = |item: Value| {
        let item = if item.is_null() {
            object! {}
        } else {
            item
        };
        shape.decode(&by_any_case(&Shape::Struct(shape), item)).ok().map(|decoded| decoded.value)
    };
    match all {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.into_iter().map(decode).collect(),
        _ => None,
    }
}

/// The behavior of an annotation, which has the names of Kubernetes' own form; `None` if it says nothing.
fn behavior(behavior: Value) -> Option<Value> {
    let shape = second().shape_at(&["spec", "behavior"])?;
    let decoded = shape.decode(&by_any_case(&Shape::Struct(shape), behavior)).ok()?.value;
    (present(&decoded, "scaleUp").is_some() || present(&decoded, "scaleDown").is_some()).then_some(decoded)
}

/// Gives fields the names that a type has for them: Go's own decoder takes a name in any case, the server's does not.
fn by_any_case(shape: &Shape, value: Value) -> Value {
    match (shape, value) {
        (Shape::Pointer(of) | Shape::Named(_, of), value) => by_any_case(of, value),
        (Shape::List(of), Value::Array(items)) => {
            items.into_iter().map(|item| by_any_case(of, item)).collect::<Vec<_>>().into()
        }
        (Shape::Struct(of), Value::Object(map)) => {
            let named = |(key, value): (Key, Value)| {
                let field = of.fields.iter().find(|field| field.name.eq_ignore_ascii_case(&key));
                match field {
                    Some(field) => (field.name.into(), by_any_case(&field.shape, value)),
                    None => (key, value),
                }
            };
            Value::Object(map.into_iter().map(named).collect())
        }
        (_, value) => value,
    }
}

/// A list as Go's encoder prints it.
fn list(declared: &'static Declared, all: &[Value]) -> String {
    let shape = declared.declaration().shape;
    let mut text = String::from("[");
    for (index, item) in all.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        // It has the fields of the type, of the right types.
        let item = shape.decode(item).map_or_else(|_| item.clone(), |decoded| decoded.value);
        text.push_str(&print_versioned(shape, &item));
    }
    text.push(']');
    escaped(&text)
}

/// JSON as Go's encoder writes it by default: safe within HTML. These characters stand in texts alone.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    /// An object of the first version with these annotations.
    fn first_with(annotations: Value) -> Value {
        let metadata = object! { "name": "a", "annotations": annotations };
        object! { "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": metadata }
    }

    #[test]
    fn the_second_version_survives_the_first() {
        let stored_form = r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"annotations":{"a":"b"},"name":"a"},"spec":{"behavior":{"scaleDown":{"policies":[{"periodSeconds":15,"type":"Percent","value":100}],"selectPolicy":"Max"}},"maxReplicas":3,"metrics":[{"pods":{"metric":{"name":"<p>"},"target":{"averageValue":"1k","type":"AverageValue"}},"type":"Pods"},{"object":{"describedObject":{"kind":"S","name":"s"},"metric":{"name":"o"},"target":{"type":"Value","value":"1"}},"type":"Object"},{"resource":{"name":"cpu","target":{"averageUtilization":50,"type":"Utilization"}},"type":"Resource"}],"minReplicas":1,"scaleTargetRef":{"kind":"D","name":"d"}},"status":{"conditions":[{"lastTransitionTime":null,"message":"\u2028&","status":"True","type":"T"}],"currentMetrics":[{"external":{"current":{"value":"0"},"metric":{"name":"e"}},"type":"External"}],"currentReplicas":1,"desiredReplicas":2}}"#;
        let shown_form = shown(tree(stored_form));
        let metrics = shown_form.at(&["metadata", "annotations", METRICS]).and_then(Value::as_str).unwrap();
        assert!(metrics.starts_with(r#"[{"type":"Pods","pods":{"metricName":"\u003cp\u003e","#), "{metrics}");
        let conditions = shown_form.at(&["metadata", "annotations", CONDITIONS]).and_then(Value::as_str);
        assert!(conditions.unwrap().contains(r#""message":"\u2028\u0026""#));
        assert_eq!(stored(shown_form), tree(stored_form));
    }

    #[test]
    fn annotations_that_say_nothing_change_nothing() {
        let plain = stored(first_with(object! {}));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for text in ["", "null", "{", "[", "5", "[5]", r#"[{"type":5}]"#, r#""a""#, "{}", "[]", deep.as_str()]
        {
            let all = ANNOTATIONS.iter().map(|key| (*key, text));
            let read = stored(first_with(Value::Object(all.collect())));
            assert_eq!(read.get("spec"), plain.get("spec"), "{:.20}", text);
        }
    }

    #[test]
    fn nulls_and_objects_without_parts_are_read() {
        for text in [
            "{}",
            r#"{"metadata":null,"spec":null,"status":null}"#,
            r#"{"metadata":{"annotations":null},"spec":{"metrics":null},"status":{"currentMetrics":[null]}}"#,
            r#"{"spec":{"metrics":[null,{"type":"Resource","resource":null},{"type":"Resource","resource":{"name":"cpu"}}]}}"#,
        ] {
            let (first, second) = (stored(tree(text)), shown(tree(text)));
            assert!(first.get("spec").is_some() && second.get("spec").is_some(), "{text}");
        }
    }
}
