//! Whoever writes a policy has to be able to read its parameters.

use kindom_integration::{Answer as Answered, HarnessError};
use serde_json::{Value, json};

use super::{Extension, ROBOT, ask, decide, host_asked_last};

/// Whoever writes a policy has to be able to read its parameters, and whoever writes a binding those that it names: the server reads
/// them for him (`pkg/registry/admissionregistration/…/authz.go`, 1.37).
#[tokio::test]
async fn authors_of_policies_may_read_their_parameters() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";
    let extension = Extension::start(&[]).await;
    let (client, admin) = (extension.with_token("good"), extension.server.client().unwrap());
    let reads = |spec: &Value| {
        let asked = &spec["resourceAttributes"];
        let of_params = asked["resource"] == "widgets" || asked["resource"] == "*";
        !of_params || asked["namespace"] == "open"
    };
    decide(&extension.host, "good", move |spec| json!({"allowed": reads(spec)}));
    let api_version = "admissionregistration.k8s.io/v1";
    let policy = |name: &str, kind: &str| {
        json!({"apiVersion": api_version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": {
            "paramKind": {"apiVersion": "example.com/v1", "kind": kind}, "validations": [{"expression": "params.size > 1"}],
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
                "resources": ["configmaps"]}]}}})
    };
    let binding = |name: &str, policy: &str, reference: Value| {
        json!({"apiVersion": api_version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": {
            "policyName": policy, "paramRef": reference, "validationActions": ["Deny"]}})
    };
    let (of_policies, of_bindings) = (
        format!("{POLICIES}/validatingadmissionpolicies"),
        format!("{POLICIES}/validatingadmissionpolicybindings"),
    );
    let may_not = |answer: Result<Answered, HarnessError>, text: &str| {
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.at("/reason")), (422, json!("Invalid")), "{}", answer.text());
        let message = answer.at("/message").as_str().unwrap().to_owned();
        assert!(message.contains(text) && message.contains(ROBOT), "{message}");
    };
    let text = "spec.paramKind: Forbidden: user &{system:serviceaccount:default:robot 7 ";
    may_not(client.post(&of_policies, &policy("widgets", "Widget")).await, text);
    let asked = host_asked_last(&extension);
    let wanted = json!({"verb": "get", "group": "example.com", "version": "v1", "resource": "widgets", "namespace": "*",
        "name": "*"});
    assert_eq!(asked, wanted);
    ask(&admin, &format!("{of_policies}/widgets")).await.expect_status(404).unwrap();
    may_not(client.post(&of_policies, &policy("nothing", "Nothing")).await, "kind=Nothing");
    assert_eq!(host_asked_last(&extension)["resource"], "*");

    // Whoever changes another part of a policy reads nothing for the first time.
    admin.post(&of_policies, &policy("widgets", "Widget")).await.unwrap().expect_status(201).unwrap();
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let patched = client.merge_patch(&format!("{of_policies}/widgets"), &labels).await.unwrap();
    patched.expect_status(200).unwrap();
    let other = json!({"spec": {"paramKind": {"kind": "Nothing"}}});
    may_not(client.merge_patch(&format!("{of_policies}/widgets"), &other).await, "kind=Nothing");

    let by_name =
        |namespace: &str| json!({"name": "a", "namespace": namespace, "parameterNotFoundAction": "Deny"});
    let text = "does not have \"get\" permission on the object referenced by paramRef";
    may_not(client.post(&of_bindings, &binding("one", "widgets", by_name("default"))).await, text);
    let by_labels = json!({"selector": {}, "namespace": "default", "parameterNotFoundAction": "Deny"});
    let text = "does not have \"list\" permission on the object referenced by paramRef";
    may_not(client.post(&of_bindings, &binding("all", "widgets", by_labels)).await, text);
    let text = "unable to get policy missing to determine minimum required permissions";
    may_not(client.post(&of_bindings, &binding("none", "missing", by_name("default"))).await, text);
    let open = binding("open", "widgets", by_name("open"));
    client.post(&of_bindings, &open).await.unwrap().expect_status(201).unwrap();
    client.delete(&format!("{of_policies}/widgets")).await.unwrap().expect_status(200).unwrap();
}
