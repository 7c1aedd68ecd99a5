//! What each face makes of documents, and what it gives back.

use super::{Face, registered_through, renames_version};
use crate::json::parse;
use crate::{Value, field};

fn tree(text: &str) -> Value {
    parse(text.as_bytes()).unwrap()
}

fn texts(errors: &field::ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Decodes and reads a document that is right.
fn stored(face: Face, text: &str, old: Option<&Value>, subresource: Option<&str>) -> Value {
    let mut object = tree(text);
    face.decode(&mut object, None).unwrap();
    face.read(object, old, subresource).map_err(|e| texts(&e)).unwrap()
}

fn refused(face: Face, text: &str, old: Option<&Value>, subresource: Option<&str>) -> Vec<String> {
    let mut object = tree(text);
    face.decode(&mut object, None).unwrap();
    texts(&face.read(object, old, subresource).unwrap_err())
}

mod third_party {
    use super::*;

    const FACE: Face = Face::ThirdPartyResource;
    const OXEN: &str = r#"{"apiVersion":"apiextension.k8s.io/v1beta1","kind":"ThirdPartyResource",
        "metadata":{"name":"oxen.example.com","annotations":{"a":"b"}},
        "spec":{"group":"example.com","version":"v1","names":{"plural":"oxen","kind":"Ox"}}}"#;

    #[test]
    fn becomes_a_registration_of_one_version_that_preserves_everything() {
        let stored = stored(FACE, OXEN, None, None);
        assert_eq!(
            stored.to_string(),
            r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"annotations":{"a":"b","face.kindom.dev/registered-through":"apiextension.k8s.io/v1beta1"},"name":"oxen.example.com"},"spec":{"conversion":{"strategy":"None"},"group":"example.com","names":{"kind":"Ox","listKind":"OxList","plural":"oxen","singular":"ox"},"scope":"Namespaced","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"served":true,"storage":true}]},"status":{"acceptedNames":{"kind":"","plural":""},"conditions":null,"storedVersions":["v1"]}}"#
        );
        assert_eq!(registered_through(&stored), FACE);
        for face in Face::ALL {
            assert!(!face.show(stored.clone()).to_string().contains("face.kindom.dev"));
            assert!(!face.shows_as_stored(&stored.to_vec()));
        }
        assert!(Face::V1.shows_as_stored(&Face::V1.show(stored).to_vec()));
    }

    #[test]
    fn is_shown_as_it_was_written_with_its_defaults() {
        let shown = FACE.show(stored(FACE, OXEN, None, None));
        assert_eq!(
            shown.to_string(),
            r#"{"apiVersion":"apiextension.k8s.io/v1beta1","kind":"ThirdPartyResource","metadata":{"annotations":{"a":"b"},"name":"oxen.example.com"},"spec":{"group":"example.com","names":{"kind":"Ox","listKind":"OxList","plural":"oxen","singular":"ox"},"scope":"Namespaced","version":"v1"},"status":{"acceptedNames":{"kind":"","plural":""},"conditions":null}}"#
        );
    }

    #[test]
    fn takes_the_spellings_of_the_proposal() {
        let usual = stored(FACE, OXEN, None, None);
        for spec in [
            r#""Names":{"plural":"oxen","kind":"Ox"}"#,
            r#""plural":"oxen","names":{"kind":"Ox"}"#,
            r#""plural":"oxen","Names":{"kind":"Ox","plural":"oxen"}"#,
            r#""Names":{"plural":"oxen"},"names":{"kind":"Ox","plural":"x"}"#,
        ] {
            let text = OXEN.replace(r#""names":{"plural":"oxen","kind":"Ox"}"#, spec);
            assert_eq!(stored(FACE, &text, None, None), usual, "{spec}");
        }
        let two = OXEN.replace(r#""version""#, r#""plural":"cows","version""#);
        assert_eq!(
            refused(FACE, &two, None, None),
            [
                r#"spec.plural: Invalid value: "cows": must be the same as spec.names.plural, which may stand alone"#
            ]
        );
    }

    #[test]
    fn names_what_it_does_not_know_and_refuses_wrong_types() {
        let mut object =
            tree(r#"{"spec":{"versions":[],"names":{"categories":[],"Kind":"x"}},"status":{"x":1}}"#);
        let mut unknown = Vec::new();
        FACE.decode(&mut object, Some(&mut unknown)).unwrap();
        assert_eq!(unknown, ["spec.names.Kind", "spec.names.categories", "spec.versions", "status.x"]);
        assert_eq!(
            FACE.decode(&mut tree(r#"{"spec":{"version":1}}"#), None).unwrap_err(),
            "json: cannot unmarshal number into Go struct field ThirdPartyResourceSpec.spec.version of type string"
        );
    }

    /// A registration that this face shows little of.
    const RICH: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{"name":"oxen.example.com"},
        "spec":{"conversion":{"strategy":"None"},"group":"example.com",
            "names":{"categories":["all"],"kind":"Ox","listKind":"OxList","plural":"oxen","shortNames":["o"],"singular":"ox"},
            "scope":"Cluster",
            "versions":[{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},
                {"name":"v2","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}},
                "additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".a"}]}]},
        "status":{"acceptedNames":{"categories":["all"],"kind":"Ox","plural":"oxen"},"storedVersions":["v1","v2"],
            "conditions":[
                {"type":"NamesAccepted","status":"False","reason":"PluralConflict","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":2},
                {"type":"Mine","status":"Maybe","lastTransitionTime":null},
                {"type":"Established","status":"True","lastTransitionTime":null},
                {"type":"Terminating","status":"True","reason":"r","lastTransitionTime":null}]}}"#;

    #[test]
    fn every_registration_is_seen_with_its_storage_version_and_conditions() {
        let shown = FACE.show(tree(RICH));
        assert_eq!(shown.at(&["spec", "version"]), Some(&"v2".into()));
        assert_eq!(
            shown.get("status").unwrap().to_string(),
            r#"{"acceptedNames":{"kind":"Ox","plural":"oxen"},"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"m","reason":"PluralConflict","status":"True","type":"NameConflict"},{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"m","reason":"PluralConflict","status":"True","type":"KindNameConflict"},{"lastTransitionTime":null,"status":"Maybe","type":"Mine"},{"lastTransitionTime":null,"reason":"r","status":"True","type":"Terminating"}]}"#
        );
    }

    #[test]
    fn an_update_keeps_what_it_does_not_show() {
        let old = tree(RICH);
        let mut wanted = FACE.show(old.clone()).to_string().replace(r#"["o"]"#, r#"["p","q"]"#);
        let new = stored(FACE, &wanted, Some(&old), None);
        assert_eq!(new.to_string(), old.to_string().replace(r#"["o"]"#, r#"["p","q"]"#));
        wanted = wanted.replace(r#""version":"v2""#, r#""version":"v3""#);
        assert_eq!(
            refused(FACE, &wanted, Some(&old), None),
            [
                r#"spec.version: Invalid value: "v3": may only change while there is one version; through apiextensions.k8s.io/v1 this registration has v1, v2"#
            ]
        );
    }

    #[test]
    fn the_version_may_change_while_it_is_the_only_one() {
        let old = stored(FACE, OXEN, None, None);
        let wanted = OXEN.replace(r#""version":"v1""#, r#""version":"v2""#);
        let new = stored(FACE, &wanted, Some(&old), None);
        assert_eq!(FACE.show(new.clone()).at(&["spec", "version"]), Some(&"v2".into()));
        assert_eq!(registered_through(&new), FACE, "an update loses no annotation that it never saw");
        assert!(renames_version(&old, &new) && !renames_version(&old, &old));
    }

    #[test]
    fn status_takes_the_conditions_of_others_and_ignores_those_that_are_computed() {
        let old = tree(RICH);
        let write = |conditions: &str| {
            format!(
                r#"{{"metadata":{{"name":"oxen.example.com"}},"spec":{{"version":"v9"}},"status":{{"conditions":[{conditions}]}}}}"#
            )
        };
        let new = stored(
            FACE,
            &write(
                r#"{"type":"Mine","status":"True"},{"type":"New","status":"Unknown"},{"type":"NameConflict","status":"False"},{"type":"Established","status":"False"}"#,
            ),
            Some(&old),
            Some("status"),
        );
        assert_eq!(new.get("spec"), old.get("spec"));
        assert_eq!(
            new.at(&["status", "conditions"]).unwrap().to_string(),
            r#"[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"m","observedGeneration":2,"reason":"PluralConflict","status":"False","type":"NamesAccepted"},{"lastTransitionTime":null,"status":"True","type":"Mine"},{"lastTransitionTime":null,"status":"True","type":"Established"},{"lastTransitionTime":null,"reason":"r","status":"True","type":"Terminating"},{"lastTransitionTime":null,"status":"Unknown","type":"New"}]"#
        );
        let none = stored(FACE, &write(""), Some(&old), Some("status"));
        assert_eq!(none.at(&["status", "conditions"]).unwrap().as_array().unwrap().len(), 3, "Mine is gone");
        assert_eq!(
            refused(
                FACE,
                &write(r#"{"type":"Mine","status":"Maybe"},{"type":"New","status":"true"}"#),
                Some(&old),
                Some("status")
            ),
            [
                r#"status.conditions[1].status: Unsupported value: "true": supported values: "False", "True", "Unknown""#
            ]
        );
    }

    #[test]
    fn hidden_annotations_are_not_the_clients() {
        let text = OXEN
            .replace(r#""a":"b""#, r#""face.kindom.dev/registered-through":"apiextension.k8s.io/v1beta1""#);
        let error =
            "metadata.annotations[face.kindom.dev/registered-through]: Forbidden: is the server's to set";
        assert_eq!(refused(FACE, &text, None, None), [error]);
        let old = stored(FACE, OXEN, None, None);
        // Who saw them in the store may send them back.
        let new = stored(FACE, &text, Some(&old), None);
        assert_eq!(registered_through(&new), FACE);
        let v1 = Face::V1.show(old.clone()).to_string();
        assert_eq!(stored(Face::V1, &v1, Some(&old), None), old);
        let changed = v1.replace(r#""a":"b""#, r#""face.kindom.dev/registered-through":"x""#);
        assert_eq!(refused(Face::V1, &changed, Some(&old), None), [error]);
    }
}
