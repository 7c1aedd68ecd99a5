//! A program with a kind of its own, as a process: the examples of kindom-server.

use kindom_integration::{HarnessError, Server, ServerOptions, tools};
use serde_json::json;

use crate::support::{CRDS, until, until_gone};

async fn apply(server: &Server, manifest: &str) -> Result<String, HarnessError> {
    let applied = server.kubectl_with(&["apply", "-f", "-"], manifest).await?.success()?;
    Ok(applied.trim().to_owned())
}

/// Has this folder served by the program with sloops in the place of kindom.
fn with_sloops(options: ServerOptions) -> ServerOptions {
    let program = tools::example("sails").unwrap().display().to_string();
    // The harness appends kindom's path and its arguments.
    options.launcher(&["sh", "-c", r#"program=$0; shift; exec "$program" "$@""#, &program].map(str::to_owned))
}

const SLOOP: &str = "
apiVersion: sails.example.com/v1beta1
kind: Sloop
metadata: {name: argo, namespace: default}
spec: {hull: oak, sails: [main, jib]}
";

/// B-09, B-22 to B-35: kubectl works with a kind that the program is compiled with as with any other.
#[tokio::test]
async fn kubectl_works_with_a_kind_of_the_program() {
    let mut server = with_sloops(ServerOptions::default()).start().await.unwrap();
    let explained = server.kubectl(&["explain", "sloop.spec.crew"]).await.unwrap();
    assert!(explained.contains("The number of sailors; 2 unless it is given."), "{explained}");
    assert_eq!(apply(&server, SLOOP).await.unwrap(), "sloop.sails.example.com/argo created");
    let revision = async || {
        server.kubectl(&["get", "sloop", "argo", "-o", "jsonpath={.metadata.resourceVersion}"]).await.unwrap()
    };
    let created = revision().await;
    // kubectl sends the sails in the manifest's order, which is no change.
    apply(&server, SLOOP).await.unwrap();
    assert_eq!(revision().await, created);
    let table = server.kubectl(&["get", "sl"]).await.unwrap();
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        (table.lines().next().unwrap().split_whitespace().collect(), &row[..2]),
        (vec!["NAME", "CREW", "AGE"], &["argo", "2"][..])
    );
    server.kubectl(&["scale", "sloop", "argo", "--replicas=4"]).await.unwrap();
    let refused = apply(&server, &SLOOP.replace("oak", "steel")).await.unwrap_err().to_string();
    assert!(refused.contains("spec.hull: Invalid value: \"steel\": field is immutable"), "{refused}");
    let refused =
        apply(&server, &SLOOP.replace("hull: oak", "hull: oak, mast: 1")).await.unwrap_err().to_string();
    assert!(refused.contains("unknown field \"spec.mast\""), "{refused}");

    server.kill9().unwrap();
    let server = with_sloops(ServerOptions::default()).succeeding(&server).start().await.unwrap();
    let spec = server.kubectl(&["get", "sloop", "argo", "-o", "jsonpath={.spec}"]).await.unwrap();
    assert_eq!(spec, r#"{"crew":4,"hull":"oak","keeper":"kubernetes-admin","sails":["jib","main"]}"#);
    server.kubectl(&["delete", "sloop", "argo", "--wait=false"]).await.unwrap();
    let deleted = server
        .kubectl(&["get", "sloop", "argo", "-o", "jsonpath={.metadata.deletionTimestamp}"])
        .await
        .unwrap();
    assert_ne!(deleted, "", "its finalizer holds it");
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    server.kubectl(&["patch", "sloop", "argo", "--type=merge", "-p", patch]).await.unwrap();
    let sloops = "/apis/sails.example.com/v1beta1/namespaces/default/sloops";
    until_gone(&server.client().unwrap(), sloops, "argo").await;
}

/// B-52: kubectl reaches a subresource that the program answers, whose declaration nobody else changes; a server without the program says
/// that it does not serve it.
#[tokio::test]
async fn kubectl_reaches_a_subresource_of_the_program() {
    let mut server = with_sloops(ServerOptions::default()).start().await.unwrap();
    apply(&server, SLOOP).await.unwrap();
    let hoist = "/apis/sails.example.com/v1beta1/namespaces/default/sloops/argo/hoist";
    assert_eq!(server.kubectl(&["get", "--raw", hoist]).await.unwrap(), r#"{"sails":["jib","main"]}"#);
    let post = ["create", "--raw", hoist, "-f", "-"];
    let hoisted = server.kubectl_with(&post, r#"{"sail":"topsail"}"#).await.unwrap().success().unwrap();
    assert_eq!(hoisted.trim(), r#"{"sails":["jib","main","topsail"]}"#);
    let again = server.kubectl_with(&post, r#"{"sail":"topsail"}"#).await.unwrap();
    assert!(again.stderr.contains("Error from server (Conflict): the topsail is set already"), "{again:?}");
    let listed =
        server.kubectl(&["api-resources", "--api-group=sails.example.com", "-o", "name"]).await.unwrap();
    assert_eq!(listed, "sloops.sails.example.com\n");
    let client = server.client().unwrap();
    let document = client.get("/openapi/v3/apis/sails.example.com/v1beta1").await.unwrap().json();
    let path = "/apis/sails.example.com/v1beta1/namespaces/{namespace}/sloops/{name}/hoist";
    assert_eq!(document["paths"][path]["post"]["x-kubernetes-action"], "connect");
    assert_eq!(server.anonymous().unwrap().get(hoist).await.unwrap().status, 403);
    // A policy judges the request for a handler.
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "calm"},
        "spec": {"matchConstraints": {"resourceRules": [{"operations": ["CONNECT"], "apiGroups": ["sails.example.com"],
            "apiVersions": ["*"], "resources": ["sloops/hoist"]}]},
            "validations": [{"expression": "request.dryRun", "message": "not in this wind"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "calm"}, "spec": {"policyName": "calm", "validationActions": ["Deny"]}});
    for object in [&policy, &binding] {
        apply(&server, &object.to_string()).await.unwrap();
    }
    let judged = server.kubectl_with(&post, r#"{"sail":"spinnaker"}"#).await.unwrap();
    let why = "The sloops \"argo\" is invalid: : ValidatingAdmissionPolicy 'calm' with binding 'calm' denied request: not in this wind";
    assert!(judged.stderr.contains(why), "{judged:?}");
    let tried = client
        .request("POST", &format!("{hoist}?dryRun=All"))
        .body("application/json", r#"{"sail":"spinnaker"}"#);
    tried.send().await.unwrap().expect_status(200).unwrap();
    server.kubectl(&["delete", "validatingadmissionpolicybinding", "calm"]).await.unwrap();
    assert_eq!(
        server.kubectl(&["get", "--raw", hoist]).await.unwrap(),
        r#"{"sails":["jib","main","topsail"]}"#
    );
    let declare = async |server: &Server, subresources: &str| {
        let patch =
            json!({"metadata": {"annotations": {"kindom.dev/subresources": subresources}}}).to_string();
        let crd = "sloops.sails.example.com";
        server.kubectl(&["patch", "crd", crd, "--type=merge", "-p", &patch]).await
    };
    let keeper = r#""keeper": {"reads": [".spec.keeper"], "versions": ["v1beta1"]}"#;
    let ours = r#""hoist": {"program": true, "verbs": ["create", "get"]}"#;
    for (wrong, why) in [
        (format!("{{{keeper}}}"), "Forbidden: the program that serves this type is compiled with it"),
        (
            format!(r#"{{{keeper}, "hoist": {{"program": true}}}}"#),
            "Forbidden: the program that serves this type",
        ),
        (
            format!(r#"{{{ours}, "lower": {{"program": true}}}}"#),
            "Forbidden: the program that serves this type",
        ),
    ] {
        let refused = declare(&server, &wrong).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    // What somebody else has declared stays as it is written when the program starts again.
    let both = format!("{{{keeper}, {ours}}}");
    declare(&server, &both).await.unwrap();
    let declared = async |server: &Server| {
        let path = r"jsonpath={.metadata.annotations.kindom\.dev/subresources}";
        server.kubectl(&["get", "crd", "sloops.sails.example.com", "-o", path]).await.unwrap()
    };
    server.kill9().unwrap();
    let mut server = with_sloops(ServerOptions::default()).succeeding(&server).start().await.unwrap();
    assert_eq!(declared(&server).await, both);
    let sails = r#"{"sails":["jib","main","topsail"]}"#;
    assert_eq!(server.kubectl(&["get", "--raw", hoist]).await.unwrap(), sails);

    server.kill9().unwrap();
    let mut server = ServerOptions::default().succeeding(&server).start().await.unwrap();
    let refused = server.kubectl(&["get", "--raw", hoist]).await.unwrap_err().to_string();
    assert!(refused.contains("this server's program does not serve sloops/hoist"), "{refused}");
    declare(&server, &format!(r#"{{{keeper}, "former": {{"program": true}}}}"#)).await.unwrap();
    server.kill9().unwrap();
    let server = with_sloops(ServerOptions::default()).succeeding(&server).start().await.unwrap();
    let expected = r#"{"hoist":{"program":true,"verbs":["create","get"]},"keeper":{"reads":[".spec.keeper"],"versions":["v1beta1"]}}"#;
    assert_eq!(declared(&server).await, expected);
    assert_eq!(server.kubectl(&["get", "--raw", hoist]).await.unwrap(), sails);
}

/// B-40 to B-44: the controllers in a server's process act for kubectl, also after a kill -9, and give their Lease back when the server is
/// told to end.
#[tokio::test]
async fn kubectl_sees_what_controllers_in_the_process_have_done() {
    let elected = |options: ServerOptions| {
        let program = tools::example("one_process").unwrap().display().to_string();
        let exec = r#"program=$0; shift; KINDOM_LEASE=default/harbour exec "$program" "$@""#;
        options.launcher(&["sh", "-c", exec, &program].map(str::to_owned))
    };
    let mut server = elected(ServerOptions::default()).start().await.unwrap();
    apply(&server, SLOOP).await.unwrap();
    server
        .kubectl(&["wait", "--for=jsonpath={.status.crew}=2", "sloop/argo", "--timeout=60s"])
        .await
        .unwrap();
    server.kubectl(&["scale", "sloop", "argo", "--replicas=4"]).await.unwrap();
    server
        .kubectl(&["wait", "--for=jsonpath={.status.crew}=4", "sloop/argo", "--timeout=60s"])
        .await
        .unwrap();
    let holder = async |server: &Server| {
        let path = "jsonpath={.spec.holderIdentity}";
        server.kubectl(&["get", "lease", "harbour", "-o", path]).await.unwrap()
    };
    let first = holder(&server).await;
    assert_ne!(first, "");

    server.ask_to_end().unwrap();
    assert!(server.ended().await.unwrap().success());
    // A server without controllers shows the lease as they left it.
    let mut server = with_sloops(ServerOptions::default()).succeeding(&server).start().await.unwrap();
    assert_eq!(holder(&server).await, "");
    server.terminate().await.unwrap();
    let mut server = elected(ServerOptions::default()).succeeding(&server).start().await.unwrap();
    server.kubectl(&["scale", "sloop", "argo", "--replicas=5"]).await.unwrap();
    server
        .kubectl(&["wait", "--for=jsonpath={.status.crew}=5", "sloop/argo", "--timeout=60s"])
        .await
        .unwrap();
    let second = holder(&server).await;
    assert!(![String::new(), first].contains(&second));
    // The one that is killed leaves a lease behind that has to run out.
    server.kill9().unwrap();
    let mut server = elected(ServerOptions::default()).succeeding(&server).start().await.unwrap();
    server.kubectl(&["delete", "sloop", "argo", "--timeout=60s"]).await.unwrap();
    assert!(![String::new(), second].contains(&holder(&server).await));
    server.ask_to_end().unwrap();
    assert!(server.ended().await.unwrap().success());
}

/// B-14, B-20, B-24: kubectl works with each version of a kind; without the program nobody converts.
#[tokio::test]
async fn kubectl_works_with_each_version() {
    let mut server = with_sloops(ServerOptions::default()).start().await.unwrap();
    let old = "
apiVersion: sails.example.com/v1alpha1
kind: Sloop
metadata: {name: pinta, namespace: default}
spec: {parts: {hull: pine, sails: [main, jib]}}
";
    let applied = server.kubectl_with(&["apply", "-f", "-"], old).await.unwrap();
    assert_eq!(applied.stdout.trim(), "sloop.sails.example.com/pinta created");
    let warning = "sails.example.com/v1alpha1 Sloop is deprecated; use sails.example.com/v1beta1 Sloop";
    assert!(applied.stderr.contains(warning), "{applied:?}");
    apply(&server, SLOOP).await.unwrap();
    let crews = "jsonpath={range .items[*]}{.metadata.name}={.spec.crew}{.spec.sailors},{end}";
    for version in ["v1alpha1", "v1beta1"] {
        let all = server
            .kubectl(&["get", &format!("sloops.{version}.sails.example.com"), "-o", crews])
            .await
            .unwrap();
        assert_eq!(all, "argo=2,pinta=1,", "{version}");
    }
    let explained = server
        .kubectl(&["explain", "sloop.spec.parts", "--api-version=sails.example.com/v1alpha1"])
        .await
        .unwrap();
    assert!(explained.contains("The parts that it is built of."), "{explained}");
    // The same manifest again: kubectl's patch changes nothing.
    apply(&server, old).await.unwrap();
    let generation =
        server.kubectl(&["get", "sloop", "pinta", "-o", "jsonpath={.metadata.generation}"]).await.unwrap();
    assert_eq!(generation, "1");

    server.kill9().unwrap();
    let server = ServerOptions::default().succeeding(&server).start().await.unwrap();
    let all = server.kubectl(&["get", "sloops.v1beta1.sails.example.com", "-o", crews]).await.unwrap();
    assert_eq!(all, "argo=2,pinta=1,");
    let refused =
        server.kubectl(&["get", "sloops.v1alpha1.sails.example.com"]).await.unwrap_err().to_string();
    assert!(
        refused.contains("the versions of Sloop are converted by a program that is compiled with them"),
        "{refused}"
    );
    let refused = apply(&server, &old.replace("pinta", "nina")).await.unwrap_err().to_string();
    assert!(
        refused.contains("the versions of Sloop are converted by a program that is compiled with them"),
        "{refused}"
    );
}

const BY_HAND: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.sails.example.com}
spec:
  group: sails.example.com
  scope: Namespaced
  names: {plural: PLURAL, kind: Sloop}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

async fn registered_by_hand(plural: &str, version: &str, spec: &str) -> Server {
    let mut server = Server::start().await.unwrap();
    let registration = BY_HAND.replace("PLURAL", plural).replace("v1beta1", version);
    apply(&server, &registration).await.unwrap();
    let name = format!("crd/{plural}.sails.example.com");
    server.kubectl(&["wait", "--for=condition=Established", &name]).await.unwrap();
    let sloop = SLOOP.replace("{hull: oak, sails: [main, jib]}", spec).replace("v1beta1", version);
    apply(&server, &sloop).await.unwrap();
    server.kill9().unwrap();
    server
}

/// A registration by hand becomes the program's, with its objects; without the program it is served still.
#[tokio::test]
async fn a_registration_becomes_a_kind_of_the_program_and_back() {
    let before = registered_by_hand("sloops", "v1beta1", "{hull: oak, crew: 0}").await;
    let mut server = with_sloops(ServerOptions::default()).succeeding(&before).start().await.unwrap();
    // An object that the rules would refuse is there, and its status can be reported.
    let status = r#"{"status":{"crew":3}}"#;
    server
        .kubectl(&["patch", "sloop", "argo", "--subresource=status", "--type=merge", "-p", status])
        .await
        .unwrap();
    let labelled = server.kubectl_with(&["label", "sloop", "argo", "a=b"], "").await.unwrap();
    assert!(labelled.stderr.contains("a sloop does not sail by itself"), "{labelled:?}");
    let worse = r#"{"spec":{"crew":-1}}"#;
    let refused = server.kubectl(&["patch", "sloop", "argo", "--type=merge", "-p", worse]).await.unwrap_err();
    assert!(refused.to_string().contains("spec.crew: Invalid value: -1"), "{refused}");
    let healed = r#"{"spec":{"crew":1}}"#;
    server.kubectl(&["patch", "sloop", "argo", "--type=merge", "-p", healed]).await.unwrap();
    let refused =
        server.kubectl(&["delete", "crd", "sloops.sails.example.com"]).await.unwrap_err().to_string();
    assert!(
        refused.contains("Error from server (Forbidden)") && refused.contains("compiled with it"),
        "{refused}"
    );

    server.kill9().unwrap();
    let server = ServerOptions::default().succeeding(&server).start().await.unwrap();
    let spec = server.kubectl(&["get", "sloop", "argo", "-o", "jsonpath={.spec}"]).await.unwrap();
    assert_eq!(spec, r#"{"crew":1,"hull":"oak","sails":[]}"#);
    server.kubectl(&["delete", "crd", "sloops.sails.example.com"]).await.unwrap();
}

/// B-20: objects that are stored in an older version are rewritten by the program's conversion.
#[tokio::test]
async fn what_is_stored_in_an_older_version_is_rewritten() {
    let before = registered_by_hand("sloops", "v1alpha1", "{sailors: 3, parts: {hull: pine}}").await;
    let server = with_sloops(ServerOptions::default()).succeeding(&before).start().await.unwrap();
    until(&server.client().unwrap(), CRDS, "sloops.sails.example.com", |registration| {
        registration["status"]["storedVersions"] == serde_json::json!(["v1beta1"])
    })
    .await;
    let spec = |version: &str| {
        ["get", &format!("sloops.{version}.sails.example.com"), "argo", "-o", "jsonpath={.spec}"]
            .map(str::to_owned)
    };
    for (version, expected) in [
        ("v1beta1", r#"{"crew":3,"hull":"pine","sails":[]}"#),
        ("v1alpha1", r#"{"parts":{"hull":"pine","sails":[]},"sailors":3}"#),
    ] {
        let args = spec(version);
        let shown = server.kubectl(&args.each_ref().map(String::as_str)).await.unwrap();
        assert_eq!(shown, expected, "{version}");
    }
}

/// A program whose kind's name is another registration's does not start, and says why; nothing is lost.
#[tokio::test]
async fn a_kind_whose_name_is_taken_is_not_served() {
    let before = registered_by_hand("boats", "v1beta1", "{hull: oak, crew: 0}").await;
    let error =
        with_sloops(ServerOptions::default()).succeeding(&before).start().await.map(drop).unwrap_err();
    let HarnessError::NotRunning { log, .. } = error else { panic!("{error}") };
    assert!(
        log.contains("the kind sloops.sails.example.com cannot be served")
            && log.contains("\"Sloop\" by boats.sails.example.com"),
        "{log}"
    );
    let server = ServerOptions::default().succeeding(&before).start().await.unwrap();
    let spec = server.kubectl(&["get", "boats", "argo", "-o", "jsonpath={.spec}"]).await.unwrap();
    assert_eq!(spec, r#"{"crew":0,"hull":"oak"}"#);
}
