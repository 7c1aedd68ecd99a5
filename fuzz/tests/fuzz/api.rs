//! The inputs of `kindom-api`: JSON, protobuf, selectors, times, names, registrations, namespaces, scales.

use kindom_api::crd::{self, decode_crd, default_crd, prepare_for_create};
use kindom_api::faces::{Face, stored_form};
use kindom_api::meta::{self, names, time};
use kindom_api::names::{is_kube_version, split_api_version, version_order};
use kindom_api::selector::{FieldSelector, LabelSelector};
use kindom_api::{Value, json, scale};
use kindom_codec::protobuf;
use kindom_fuzz::{JsonMutants, Mutants, Target, Texts};
use kindom_objects::kinds::namespace::decode_namespace;

use crate::codec::read_back;
use crate::seeds;

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(map) => map.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

#[test]
fn json_reader() {
    Target::new("json", 200).rounds(2000).run(seeds::json(), |bytes| {
        let Ok(value) = json::parse(bytes) else { return };
        assert!(depth(&value) <= json::MAX_DEPTH);
        // The text is what counts: 1.5e3 is a float whose text is an integer's, as in Go.
        let printed = value.to_vec();
        let again = json::parse(&printed).unwrap();
        assert_eq!(depth(&again), depth(&value));
        assert_eq!(again.to_vec(), read_back(value).to_vec(), "printing again differs");
        json::duplicate_fields(bytes).unwrap();
    });
}

#[test]
fn protobuf_reader() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../integration/expectations/protobuf/samples.json");
    let recorded = json::parse(&std::fs::read(recorded).unwrap()).unwrap();
    let samples = recorded.get("samples").and_then(Value::as_array).unwrap();
    // Those of each kind that are neither empty nor long.
    let bodies: Vec<Vec<u8>> = samples
        .iter()
        .filter_map(|sample| protobuf::encode(sample.get("json")?))
        .filter(|body| (60..4_000).contains(&body.len()))
        .collect();
    assert!(bodies.len() > 100);
    let lengths = ["\x0a\x02", "\x12\x7f", "\x1a\u{1}", "k8s\0", "\x08\u{1}", "\x0b", "\x0c"];
    let inputs = Mutants::of(bodies).tokens(&lengths).nests(&[("\x0a\x7f", "")]);
    Target::new("protobuf", 400).rounds(2000).run(inputs, |bytes| {
        let Ok(envelope) = protobuf::Envelope::open(bytes) else { return };
        for (api_version, kind) in protobuf::kinds() {
            // Any bytes of the same kind, and some of another.
            if kind != envelope.kind && kind != "Namespace" {
                continue;
            }
            let Some(message) = protobuf::message(api_version, kind) else { continue };
            let Ok(value) = protobuf::decode(bytes, message) else { continue };
            let printed = protobuf::encode_as(&value, message);
            let again = protobuf::decode(&printed, message).unwrap();
            assert_eq!(protobuf::encode_as(&again, message), printed);
        }
    });
}

#[test]
fn label_selectors() {
    let texts = [
        "app=x,tier!=gold",
        "env in (a, b),!c,d",
        "example.com/k notin (v,),x==y",
        "a>1,b<-2",
        "",
        " a , b in () ",
        "x=,y=",
    ];
    let tokens =
        ["in", "notin", "(", ")", ",", "=", "==", "!=", "!", ">", "<", " ", "a/b", "app.kubernetes.io/"];
    let inputs = Texts(Mutants::of(texts).tokens(&tokens).nests(&[("(", ")")]));
    Target::new("label-selector", 600).rounds(2000).run(inputs, |text| {
        let Ok(selector) = LabelSelector::parse(text) else { return };
        let printed = selector.to_string();
        let again =
            LabelSelector::parse(&printed).unwrap_or_else(|why| panic!("{printed:?} is refused: {why}"));
        assert_eq!(again.to_string(), printed);
        for value in [None, Some("x"), Some("1")] {
            assert_eq!(selector.matches(|_| value), again.matches(|_| value), "{printed:?}");
        }
    });
}

#[test]
fn field_selectors() {
    let texts = ["metadata.name=a", "spec.x!=y,metadata.namespace==n", r"a=\,\=\\,b=", "", ",", "a=b=c"];
    let inputs =
        Texts(Mutants::of(texts).tokens(&[",", "=", "==", "!=", "\\", "\\,", "\\=", "metadata.name"]));
    Target::new("field-selector", 600).rounds(2000).run(inputs, |text| {
        let Ok(selector) = FieldSelector::parse(text) else { return };
        for value in [None, Some(""), Some("a")] {
            let _ = selector.matches(|_| value);
        }
    });
}

#[test]
fn times_and_names() {
    let texts = [
        "2026-01-01T00:00:00Z",
        "2026-02-29T23:59:60+14:00",
        "1969-12-31T23:59:59.999999999-00:01",
        "0000-01-01T00:00:00Z",
        "v1",
        "v2beta11",
        "example.com/v1",
        "a/b/c",
        "app.kubernetes.io/name",
        "my-name.example.com",
        "-a",
        "A_b.c",
    ];
    let inputs =
        Texts(Mutants::of(texts).tokens(&["T", "Z", ":", "-", ".", "/", "+", "v1", "alpha", "beta"]));
    Target::new("times-and-names", 200).rounds(2000).run(inputs, |text| {
        if let Ok(seconds) = time::parse(text) {
            assert_eq!(time::parse(&time::format(seconds)), Ok(seconds), "{text:?}");
        }
        for prefix in [false, true] {
            let _ = names::is_path_segment(text, prefix);
            let _ = names::name_is_dns_subdomain(text, prefix);
            let _ = names::name_is_dns1035_label(text, prefix);
            let _ = names::name_is_dns_label(text, prefix);
        }
        let _ = names::is_qualified_name(text);
        let _ = names::is_label_value(text);
        let _ = is_kube_version(text);
        let _order = version_order(text);
        if let Some((group, version)) = split_api_version(text)
            && !group.is_empty()
        {
            assert_eq!(kindom_api::names::api_version(group, version), *text);
        }
    });
}

#[test]
fn registrations_through_every_face() {
    Target::new("faces", 400).rounds(300).run(seeds::registrations(), |bytes| {
        let Ok(value) = json::parse(bytes) else { return };
        if let Ok(stored) = stored_form(&value) {
            assert_eq!(stored_form(&stored).as_ref(), Ok(&stored), "the stored form is not stable");
        }
        for face in Face::ALL {
            let (mut object, mut unknown) = (value.clone(), Vec::new());
            if face.decode(&mut object, Some(&mut unknown)).is_err() {
                continue;
            }
            let Ok(stored) = face.read(object.clone(), None, None) else { continue };
            let shown = face.show(stored.clone());
            for subresource in [None, Some("status")] {
                let _ = face.read(shown.clone(), Some(&stored), subresource);
            }
            for other in Face::ALL {
                let _ = other.show(stored.clone());
            }
        }
    });
}

#[test]
fn registrations_and_their_rules() {
    Target::new("decode-crd", 400).rounds(400).run(seeds::registrations(), |bytes| {
        let Ok(value) = json::parse(bytes) else { return };
        let Ok((mut crd, _)) = decode_crd(&value) else { return };
        prepare_for_create(&mut crd);
        default_crd(&mut crd);
        let printed = crd.to_value();
        let (again, unknown) = decode_crd(&printed).unwrap();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert_eq!(again.to_value().to_string(), printed.to_string());
        crd::prepare_for_update(&mut crd, &again);
    });
}

#[test]
fn metadata_namespaces_and_scales() {
    let inputs = JsonMutants::of([
        seeds::WIDGET,
        seeds::NAMESPACE,
        r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":3},"status":{"replicas":2,"selector":"a=b"}}"#,
    ]);
    Target::new("metadata", 400).rounds(800).run(inputs, |bytes| {
        let Ok(value) = json::parse(bytes) else { return };
        if let Ok((namespace, _)) = decode_namespace(&value) {
            let printed = namespace.to_value();
            assert_eq!(decode_namespace(&printed).unwrap().0.to_value(), printed);
        }
        if let Ok(decoded) = scale::decode(&value) {
            let _ = scale::replicas(&decoded.value);
        }
        let mut repaired = value.clone();
        if meta::repair_metadata(&mut repaired).is_ok() {
            let mut twice = repaired.clone();
            assert_eq!(meta::repair_metadata(&mut twice), Ok(()), "what is repaired is refused");
            assert_eq!(twice, repaired, "repairing twice differs");
        }
        let mut coerced = value;
        if meta::coerce_metadata(&mut coerced).is_ok() {
            let mut twice = coerced.clone();
            meta::coerce_metadata(&mut twice).unwrap();
            assert_eq!(twice, coerced);
            let path = kindom_api::field::Path::new("metadata");
            let metadata = coerced.get("metadata").cloned().unwrap_or_default();
            let _ = meta::validate_object_meta(&metadata, true, &names::name_is_dns_subdomain, &path);
            let _ = meta::validate_object_meta_update(&metadata, &metadata, &path);
        }
    });
}
