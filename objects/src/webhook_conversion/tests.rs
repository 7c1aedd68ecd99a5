use crate::webhook_client::WebhookPlace;
use kindom_api::object;
use proptest::prelude::*;

use super::*;

fn webhook(versions: &[&str]) -> ConversionWebhook {
    let tree = object! {
        "metadata": object! { "name": "things.example.com" },
        "spec": object! { "conversion": object! { "webhook": object! {
            "conversionReviewVersions": Value::Array(versions.iter().map(|v| Value::from(*v)).collect()),
            "clientConfig": object! {
                "caBundle": "Cg==",
                "service": object! { "namespace": "a", "name": "b", "path": "/c" },
            },
        } } },
    };
    ConversionWebhook::of(StoredRegistration::new(&tree))
}

fn thing(api_version: &str) -> Value {
    object! {
        "apiVersion": api_version, "kind": "Thing",
        "metadata": object! { "name": "x", "uid": "u", "resourceVersion": "7" },
    }
}

#[test]
fn a_webhook_is_read_from_its_registration() {
    let place = |port| WebhookPlace::Service {
        namespace: "a".to_owned(),
        name: "b".to_owned(),
        path: "/c".to_owned(),
        port,
    };
    let found = webhook(&["v7", "v1beta1", "v1"]);
    assert_eq!(
        (&found.client.place, &found.client.authorities, found.review_version),
        (&place(443), &vec![], Some("v1beta1"))
    );
    assert_eq!(webhook(&["v2"]).review_version, None);
}

/// A question is noted once, whatever revision the object is at; with its answer the work ends well.
#[test]
fn work_is_done_again_with_the_answers() {
    let mut conversions = Conversions::default();
    let work = |object: &mut Value| converted(object, "example.com/v2");
    let (mut one, mut other) = (thing("example.com/v1"), thing("example.com/v1"));
    metadata_of(&mut other).unwrap().insert("resourceVersion", "8");
    assert_eq!(
        work(&mut one).unwrap_err(),
        "conversion webhook for example.com/v1, Kind=Thing failed: nobody asks it here"
    );
    assert!(conversions.during(|| work(&mut one)).is_err());
    assert!(conversions.during(|| work(&mut other)).is_err());
    let missing = conversions.take_missing();
    assert_eq!((missing.len(), missing[0].from_version(), missing[0].to_version()), (1, "v1", "v2"));
    let review = ConversionWebhook::review("v1", "id", &missing);
    let review = json::parse(&review).unwrap();
    assert_eq!(review.text_at(&["request", "desiredAPIVersion"]), "example.com/v2");
    let mut answer = thing("example.com/v2");
    answer.as_object_mut().unwrap().insert("spec", "new");
    conversions.answer(Arc::clone(&missing[0]), missing[0].judge(&answer));
    let found = conversions.during(|| work(&mut other)).unwrap().unwrap();
    assert_eq!((found.text_at(&["spec"]), other.text_at(&["metadata", "resourceVersion"])), ("new", "8"));
    assert!(conversions.take_missing().is_empty());
    // Work that panics leaves the thread as it was.
    let panics =
        std::panic::AssertUnwindSafe(|| conversions.during(|| std::panic::resume_unwind(Box::new(()))));
    assert!(std::panic::catch_unwind(panics).is_err());
    assert!(work(&mut one).unwrap_err().ends_with("nobody asks it here"));
    assert!(conversions.during(|| work(&mut one)).is_ok());
}

/// An object that has its type alone is the same in any version.
#[test]
fn an_empty_object_needs_no_webhook() {
    let mut empty = object! { "apiVersion": "example.com/v1", "kind": "Thing" };
    assert!(converted(&mut empty, "example.com/v2").unwrap().is_none());
    assert_eq!(empty.text_at(&["apiVersion"]), "example.com/v2");
    let mut same = thing("example.com/v2");
    assert!(converted(&mut same, "example.com/v2").unwrap().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Whatever a webhook answers, nothing panics, and what is taken has the name, uid and version that were asked for.
    #[test]
    fn any_answer_is_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..400_usize, with: u8) {
        let webhook = webhook(&["v1"]);
        drop(webhook.read("id", &bytes));
        let mut object = thing("example.com/v1");
        let question = Question::new(&mut object, "example.com/v2".to_owned());
        let response = object! {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": object! {
                "uid": "id", "result": object! { "status": "Success" },
                "convertedObjects": Value::Array([thing("example.com/v2")].into_iter().collect()),
            },
        };
        let mut answer = response.to_vec();
        prop_assert!(webhook.read("id", &answer).unwrap().iter().all(|object| question.judge(object).is_ok()));
        if let Some(byte) = answer.get_mut(at) {
            *byte = with;
        }
        for taken in webhook.read("id", &answer).unwrap_or_default() {
            if question.judge(&taken).is_ok() {
                prop_assert_eq!(taken.text_at(&["metadata", "name"]), "x");
                prop_assert_eq!(taken.text_at(&["metadata", "uid"]), "u");
                prop_assert_eq!(taken.text_at(&["apiVersion"]), "example.com/v2");
            }
        }
    }
}
