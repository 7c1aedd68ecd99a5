//! Documents on each face: what is stored for them, and what the face shows again.

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
        // Patches of the shown object: of a part of it, and of the whole to remove a field.
        let shown = r#""names":{"plural":"oxen","kind":"Ox","shortNames":["o"]}"#;
        for (names, want) in [
            (r#"{"shortNames":["p"]}"#, Some(r#"["p"]"#)),
            (r#"{"singular":"ox"}"#, Some(r#"["o"]"#)),
            (r#"{"plural":"oxen","kind":"Ox"}"#, None),
        ] {
            let text = OXEN
                .replace(r#""names":{"plural":"oxen","kind":"Ox"}"#, &format!(r#"{shown},"Names":{names}"#));
            let stored = stored(FACE, &text, None, None);
            let short = stored.at(&["spec", "names", "shortNames"]).map(ToString::to_string);
            assert_eq!(short.as_deref(), want, "{names}");
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
        // A client that saw them in the store may send them back.
        let new = stored(FACE, &text, Some(&old), None);
        assert_eq!(registered_through(&new), FACE);
        let v1 = Face::V1.show(old.clone()).to_string();
        assert_eq!(stored(Face::V1, &v1, Some(&old), None), old);
        let changed = v1.replace(r#""a":"b""#, r#""face.kindom.dev/registered-through":"x""#);
        assert_eq!(refused(Face::V1, &changed, Some(&old), None), [error]);
    }
}

mod v1beta1 {
    use super::*;

    const FACE: Face = Face::V1beta1;

    fn spec(face: Face, text: &str) -> String {
        Face::V1.show(stored(face, text, None, None)).get("spec").unwrap().to_string()
    }

    #[test]
    fn one_version_and_its_defaults() {
        let text = r#"{"metadata":{"name":"oxen.example.com"},"spec":{"group":"example.com","version":"v1",
            "names":{"plural":"oxen","kind":"Ox"},"validation":{"openAPIV3Schema":{"type":"object"}},
            "subresources":{"status":{}},"additionalPrinterColumns":[{"name":"A","type":"string","JSONPath":".a"}]}}"#;
        assert_eq!(
            spec(FACE, text),
            r#"{"conversion":{"strategy":"None"},"group":"example.com","names":{"kind":"Ox","listKind":"OxList","plural":"oxen","singular":"ox"},"preserveUnknownFields":true,"scope":"Namespaced","versions":[{"additionalPrinterColumns":[{"jsonPath":".a","name":"A","type":"string"}],"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}},"served":true,"storage":true,"subresources":{"status":{}}}]}"#
        );
        let stored = stored(FACE, text, None, None);
        assert_eq!(registered_through(&stored), FACE);
        assert_eq!(
            FACE.show(stored).to_string(),
            r#"{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"oxen.example.com"},"spec":{"additionalPrinterColumns":[{"JSONPath":".a","name":"A","type":"string"}],"conversion":{"strategy":"None"},"group":"example.com","names":{"kind":"Ox","listKind":"OxList","plural":"oxen","singular":"ox"},"preserveUnknownFields":true,"scope":"Namespaced","subresources":{"status":{}},"validation":{"openAPIV3Schema":{"type":"object"}},"version":"v1","versions":[{"name":"v1","served":true,"storage":true}]},"status":{"acceptedNames":{"kind":"","plural":""},"conditions":null,"storedVersions":["v1"]}}"#
        );
    }

    #[test]
    fn versions_and_a_webhook() {
        let text = r#"{"spec":{"group":"example.com","names":{"plural":"oxen","kind":"Ox"},"scope":"Cluster",
            "preserveUnknownFields":false,"versions":[
                {"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},
                {"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"array"}}}],
            "conversion":{"strategy":"Webhook","webhookClientConfig":{"service":{"namespace":"n","name":"s"}}}}}"#;
        let spec = spec(FACE, text);
        assert!(spec.contains(r#""conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"s","namespace":"n","port":443}},"conversionReviewVersions":["v1beta1"]}}"#), "{spec}");
        assert!(!spec.contains("preserveUnknownFields"), "{spec}");
        let shown = FACE.show(stored(FACE, text, None, None));
        assert_eq!(shown.at(&["spec", "version"]), Some(&"v1".into()));
        assert_eq!(shown.at(&["spec", "preserveUnknownFields"]), Some(&false.into()));
        assert_eq!(shown.at(&["spec", "validation"]), None);
        assert_eq!(
            shown.at(&["spec", "conversion"]).unwrap().to_string(),
            r#"{"conversionReviewVersions":["v1beta1"],"strategy":"Webhook","webhookClientConfig":{"service":{"name":"s","namespace":"n","port":443}}}"#
        );
    }

    #[test]
    fn one_place_for_each_thing() {
        let with = |top: &str, versions: &str| {
            format!(
                r#"{{"spec":{{"group":"example.com","names":{{"plural":"oxen","kind":"Ox"}},{top}"versions":[{versions}]}}}}"#
            )
        };
        let schema = r#""schema":{"openAPIV3Schema":{"type":"object"}}"#;
        let version = |name: &str, rest: &str| format!(r#"{{"name":"{name}"{rest}}}"#);
        let check = |text: String, want: &[&str]| {
            let got = refused(FACE, &text, None, None);
            assert!(
                got.len() == want.len() && got.iter().zip(want).all(|(got, want)| got.starts_with(want)),
                "{got:#?}"
            );
        };
        check(
            with(
                r#""validation":{},"subresources":{},"additionalPrinterColumns":[{"name":"a"}],"selectableFields":[{}],"#,
                &version(
                    "v1",
                    r#","schema":{},"subresources":{},"additionalPrinterColumns":[{"name":"b"}],"selectableFields":[{}]"#,
                ),
            ),
            &[
                "spec.validation: Forbidden: top-level and per-version schemas are mutually exclusive",
                "spec.subresources: Forbidden: top-level and per-version subresources are mutually exclusive",
                "spec.additionalPrinterColumns: Forbidden: top-level and per-version additionalPrinterColumns are mutually exclusive",
                "spec.selectableFields: Forbidden: top-level and per-version selectableFields are mutually exclusive",
                "spec.versions: Invalid value: [{",
                "spec.versions: Invalid value: [{",
                "spec.versions: Invalid value: [{",
            ],
        );
        let same = with(
            "",
            &format!("{},{}", version("v1", &format!(",{schema}")), version("v2", &format!(",{schema}"))),
        );
        let got = refused(FACE, &same, None, None);
        assert!(got[0].ends_with("per-version schemas may not all be set to identical values (top-level validation should be used instead)"), "{got:?}");
        check(
            with(r#""version":"v2","#, &version("v1", "")),
            &[r#"spec.version: Invalid value: "v2": must match the first version in spec.versions"#],
        );
    }

    #[test]
    fn wrong_types_and_unknown_fields_are_named_as_upstream_names_them() {
        for (text, want) in [
            (
                r#"{"spec":{"validation":[]}}"#,
                "json: cannot unmarshal array into Go struct field CustomResourceDefinitionSpec.spec.validation of type v1beta1.CustomResourceValidation",
            ),
            (
                r#"{"spec":{"validation":{"openAPIV3Schema":{"properties":[]}}}}"#,
                "json: cannot unmarshal array into Go struct field JSONSchemaProps.spec.validation.openAPIV3Schema.properties of type map[string]v1beta1.JSONSchemaProps",
            ),
        ] {
            assert_eq!(FACE.decode(&mut tree(text), None).unwrap_err(), want);
        }
        let mut unknown = Vec::new();
        let mut object = tree(
            r#"{"spec":{"additionalPrinterColumns":[{"jsonPath":".a"}],"conversion":{"webhook":{}},"x":1}}"#,
        );
        FACE.decode(&mut object, Some(&mut unknown)).unwrap();
        assert_eq!(
            unknown,
            ["spec.additionalPrinterColumns[0].jsonPath", "spec.conversion.webhook", "spec.x"]
        );
    }

    /// As in the proposal for subresources.
    const PROPOSED: &str = r#"{"metadata":{"name":"oxen.example.com"},"spec":{"group":"example.com","version":"v1",
        "names":{"plural":"oxen","kind":"Ox"},"subResources":{"status":{},
            "scale":{"specReplicasPath":".spec.replicas","labelSelectorPath":".spec.selector","groupVersion":"autoscaling/v1"}}}}"#;

    #[test]
    fn proposed_subresources_are_an_alias() {
        let mut object = tree(PROPOSED);
        assert_eq!(
            FACE.decode(&mut object, None).unwrap(),
            ["spec.subResources: this name was only proposed; use spec.subresources"]
        );
        let old = stored(FACE, PROPOSED, None, None);
        // v1 wants statusReplicasPath, so it is spared the scale that lacks it.
        assert_eq!(
            old.at(&["spec", "versions"]).unwrap().to_string(),
            r#"[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}}}]"#
        );
        let shown = FACE.show(old.clone());
        assert_eq!(
            shown.at(&["spec", "subresources"]).unwrap().to_string(),
            r#"{"scale":{"labelSelectorPath":".spec.selector","specReplicasPath":".spec.replicas"},"status":{}}"#
        );
        assert_eq!(shown.at(&["spec", "subResources"]), None);
        for face in Face::ALL {
            let shown = face.show(old.clone()).to_string();
            assert_eq!(stored(face, &shown, Some(&old), None), old, "{face:?}");
            assert_eq!(stored(face, &shown, Some(&old), Some("status")), old, "{face:?}");
        }
        let whole = PROPOSED.replace(r#""groupVersion":"autoscaling/v1""#, r#""statusReplicasPath":".status.replicas","groupVersion":{"Group":"autoscaling","Version":"v1"}"#);
        let whole = stored(FACE, &whole, None, None);
        assert!(whole.to_string().contains(r#""scale":{"labelSelectorPath":".spec.selector","specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}"#), "{whole}");
    }

    #[test]
    fn the_scale_that_v1_cannot_hold_follows_its_version() {
        let old = stored(FACE, PROPOSED, None, None);
        let scale = |stored: &Value| {
            FACE.show(stored.clone()).at(&["spec", "subresources", "scale"]).map(ToString::to_string)
        };
        // A v1 client that brings a scale of its own means that one.
        let v1 = Face::V1.show(old.clone()).to_string();
        let own = v1.replace(
            r#""subresources":{"#,
            r#""subresources":{"scale":{"specReplicasPath":".spec.a","statusReplicasPath":".status.a"},"#,
        );
        let new = stored(Face::V1, &own, Some(&old), None);
        assert_eq!(
            scale(&new).unwrap(),
            r#"{"specReplicasPath":".spec.a","statusReplicasPath":".status.a"}"#
        );
        let again = stored(Face::V1, &v1, Some(&new), None);
        assert_eq!(scale(&again), None, "what was replaced does not come back");
        // The version's new name is the proposal's face's to give.
        let tpr = Face::ThirdPartyResource
            .show(old.clone())
            .to_string()
            .replace(r#""version":"v1""#, r#""version":"v2""#);
        let renamed = stored(Face::ThirdPartyResource, &tpr, Some(&old), None);
        assert_eq!(scale(&renamed), scale(&old));
        // A client that sees it may change it, and remove it.
        let shown = FACE.show(old.clone()).to_string();
        let changed = stored(FACE, &shown.replace(".spec.replicas", ".spec.count"), Some(&old), None);
        assert!(scale(&changed).unwrap().contains(".spec.count"));
        let removed = shown.replace(
            r#""scale":{"labelSelectorPath":".spec.selector","specReplicasPath":".spec.replicas"},"#,
            "",
        );
        assert_eq!(scale(&stored(FACE, &removed, Some(&old), None)), None);
        // A version that goes takes it along.
        let other = v1.replace(r#""name":"v1""#, r#""name":"v3""#);
        assert_eq!(scale(&stored(Face::V1, &other, Some(&old), None)), None);
    }

    #[test]
    fn a_patch_by_the_older_name_counts() {
        let old = stored(FACE, PROPOSED, None, None);
        // The result of a merge patch: the newer name as it was shown, and the older one as the client wants it.
        let patched = |sub_resources: &str| {
            let shown = FACE.show(old.clone()).to_string();
            shown.replacen(r#""spec":{"#, &format!(r#""spec":{{"subResources":{sub_resources},"#), 1)
        };
        let new = stored(FACE, &patched(r#"{"scale":{"specReplicasPath":".spec.n"}}"#), Some(&old), None);
        let shown = FACE.show(new).at(&["spec", "subresources"]).unwrap().to_string();
        assert_eq!(shown, r#"{"scale":{"specReplicasPath":".spec.n"}}"#);
        let both = patched(r#"{"status":{}}"#).replace(".spec.selector", ".spec.other");
        assert_eq!(
            refused(FACE, &both, Some(&old), None),
            ["spec.subResources: Forbidden: subresources is set as well, and says something else"]
        );
    }

    #[test]
    fn what_is_wrong_with_proposed_subresources() {
        let check = |from: &str, to: &str, want: &[&str]| {
            assert_eq!(refused(FACE, &PROPOSED.replace(from, to), None, None), want);
        };
        check(
            "autoscaling/v1",
            "autoscaling/v2",
            &[
                r#"spec.subResources.scale.groupVersion: Unsupported value: "autoscaling/v2": supported values: "autoscaling/v1""#,
            ],
        );
        check(
            r#""subResources":{"#,
            r#""subresources":{},"subResources":{"#,
            &["spec.subResources: Forbidden: subresources is set as well, and says something else"],
        );
        check(
            ".spec.replicas",
            ".status.replicas",
            &[
                r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.replicas": should be a json path under .spec"#,
            ],
        );
        check(
            r#"".spec.selector""#,
            r#""selector""#,
            &[
                r#"spec.subresources.scale.labelSelectorPath: Invalid value: "selector": must be a simple json path starting with ."#,
            ],
        );
        check(r#"".spec.replicas""#, r#""""#, &["spec.subresources.scale.specReplicasPath: Required value"]);
    }
}
