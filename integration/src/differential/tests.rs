use serde_json::json;

use super::*;

#[test]
fn a_seed_gives_the_same_writes() {
    let types = types(SEED);
    assert_eq!(types.len(), 25);
    let first = sequence(SEED, &types, 7);
    assert_eq!(first, sequence(SEED, &super::types(SEED), 7));
    assert_ne!(first, sequence(SEED + 1, &types, 7));
    assert!((0..SEQUENCES).all(|number| sequence(SEED, &types, number).len() == WRITES));
}

#[test]
fn every_kind_of_write_occurs_often() {
    let types = types(SEED);
    let cases: Vec<Case> = (0..500).flat_map(|number| sequence(SEED, &types, number)).collect();
    let often = |what: &str, is: &dyn Fn(&Case) -> bool| {
        let count = cases.iter().filter(|case| is(case)).count();
        assert!(count >= 50, "{what}: {count} of {}", cases.len());
    };
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        often(method, &|case| case.method == method);
    }
    for part in ["/v2/", "/status", "/scale", "force=true", "dryRun=All", "fieldManager=kubectl"] {
        often(part, &|case| case.path.contains(part));
    }
    for part in ["json-patch+json", "merge-patch+json", "apply-patch+yaml"] {
        often(part, &|case| case.content_type.contains(part));
    }
    for part in ["managedFields", "null", "labels", "last-applied", REVISION] {
        often(part, &|case| case.body.contains(part));
    }
}

#[test]
fn what_a_run_decides_is_masked() {
    let object = |uid: &str, rv: &str, first: &str, second: &str| {
        json!({"metadata": {"uid": uid, "resourceVersion": rv, "creationTimestamp": first, "managedFields": [
            {"manager": "b", "operation": "Apply", "time": first},
            {"manager": "a", "operation": "Apply", "time": second}]}})
        .to_string()
    };
    let mut ours = Answers::default();
    let mut theirs = Answers::default();
    let one =
        ours.mask(200, &[], object("u", "7", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z").as_bytes());
    let other =
        theirs.mask(200, &[], object("v", "9", "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z").as_bytes());
    assert_eq!(one, other);
    assert_eq!(ours.revision(), "7");
    // A resourceVersion that stays is no accident, and a client sent an old time.
    let stays = ours.mask(200, &[], br#"{"metadata":{"resourceVersion":"7"}}"#);
    let moves = theirs.mask(200, &[], br#"{"metadata":{"resourceVersion":"10"}}"#);
    assert_eq!(
        difference(&stays, &moves),
        [r#"/body/metadata/resourceVersion: expected "<rv-1>", got "<rv-2>""#]
    );
    let old = br#"{"metadata":{"managedFields":[{"time":"2001-01-01T00:00:00Z"}]}}"#;
    assert!(ours.mask(200, &[], old).to_string().contains("2001-01-01"));
}

#[test]
fn what_upstream_takes_from_a_map_has_no_order() {
    let status = |causes: [&str; 2], message: &str| {
        json!({"kind": "Status", "message": message, "details": {"causes": causes}}).to_string()
    };
    let masked = |text: String| Answers::default().mask(422, &[], text.as_bytes());
    assert_eq!(
        masked(status(["x", "y"], "t is invalid: [x, y]")),
        masked(status(["y", "x"], "t is invalid: [y, x]"))
    );
    assert_ne!(masked(status(["x", "y"], "t is invalid: [")), masked(status(["x", "z"], "t is invalid: [")));
    assert_eq!(
        masked(status(["x", "y"], "a errors:\n  b\n  c")),
        masked(status(["x", "y"], "a errors:\n  c\n  b"))
    );
}

#[test]
fn an_object_that_a_message_quotes_is_hidden() {
    let status = |name: &str| {
        let object = json!({"apiVersion": "v1", "metadata": {"name": name}}).to_string();
        let message = format!("patch: Invalid value: {object:?}: unknown field \"x\"");
        json!({"kind": "Status", "message": message, "details": {"causes": [{"message": message}]}})
            .to_string()
    };
    let masked = Answers::default().mask(422, &[], status("a \" b").as_bytes());
    assert_eq!(masked, Answers::default().mask(422, &[], status("c").as_bytes()));
    let message = masked.pointer("/body/message").and_then(Value::as_str).unwrap();
    assert_eq!(message, "patch: Invalid value: \"<object>\": unknown field \"x\"");
}

#[test]
fn the_recording_is_of_these_writes() {
    let types = types(SEED);
    let recorded = read_recording().unwrap();
    assert_eq!(recorded.len(), SEQUENCES);
    for (number, recorded) in recorded.iter().enumerate() {
        let requests = requests_hash(&sequence(SEED, &types, number));
        assert_eq!(recorded.requests, requests, "object {number}: the generator has changed; record again");
        assert_eq!(recorded.answers.len(), WRITES);
    }
}
