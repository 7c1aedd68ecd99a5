//! Gatekeeper's own program (`integration/gatekeeper`) and its manifest: it registers a type for each template, judges objects by Rego over
//! its webhook, has others judged here by the policies that it makes, changes objects, and audits them.

use std::net::Ipv4Addr;
use std::process::Stdio;

use kindom_integration::{ServerOptions, full, tools};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::authority::{Authority, Files};
use crate::foreign::Gate;
use crate::support::{eventually, refused, until};

const SERVICE: &str = "gatekeeper-webhook-service.gatekeeper-system.svc";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// One template that its webhook evaluates, and one of which it makes a ValidatingAdmissionPolicy.
const TEMPLATES: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: shoplabels}
spec:
  crd:
    spec:
      names: {kind: ShopLabels}
      validation: {openAPIV3Schema: {type: object, properties: {labels: {type: array, items: {type: string}}}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package shoplabels
        violation[{"msg": msg}] {
          provided := {label | input.review.object.metadata.labels[label]}
          required := {label | label := input.parameters.labels[_]}
          missing := required - provided
          count(missing) > 0
          msg := sprintf("you must provide labels: %v", [missing])
        }
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: shopsize}
spec:
  crd:
    spec:
      names: {kind: ShopSize}
      validation: {openAPIV3Schema: {type: object, properties: {most: {type: integer}}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      code:
        - engine: K8sNativeValidation
          source:
            validations:
              - expression: "size(object.data) <= variables.params.most"
                messageExpression: "'at most ' + string(variables.params.most)"
"#;

const CONSTRAINTS: &str = "
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: ShopLabels
metadata: {name: owned}
spec:
  match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}], namespaces: [default]}
  parameters: {labels: [owner]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: ShopSize
metadata: {name: small}
spec:
  match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}], namespaces: [default]}
  parameters: {most: 2}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: team}
spec:
  match: {scope: Namespaced, kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}
  location: metadata.labels.team
  parameters: {assign: {value: shop}}
";

/// The pod that it would run in, which owns what it reports.
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: gatekeeper, namespace: gatekeeper-system, labels: {gatekeeper.sh/system: 'yes'}}
spec: {containers: [{name: manager, image: gatekeeper}]}
";

fn config_map(name: &str, owned: bool, size: usize) -> Value {
    let data: serde_json::Map<String, Value> = (0..size).map(|i| (format!("k{i}"), json!("v"))).collect();
    let labels = if owned { json!({"owner": "me"}) } else { json!({}) };
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gatekeeper_judges_changes_and_audits_objects() {
    if !full() {
        return;
    }
    let Some(program) = tools::built("gatekeeper").unwrap() else { return };
    let (files, authority, gate) = (Files::new(), Authority::new("webhooks"), Gate::open().await);
    let (certificate, key) = authority.issue(SERVICE, ExtendedKeyUsagePurpose::ServerAuth);
    files.write("tls.crt", &certificate);
    files.write("tls.key", &key);
    files.write("ca.crt", &authority.certificate.pem());
    std::fs::create_dir(files.path("audit")).unwrap();
    let resolver = format!("gatekeeper-system/gatekeeper-webhook-service:443=127.0.0.1:{}", gate.port);
    let options = ServerOptions::default().args(&["--profile=kubernetes", "--service-resolver", &resolver]);
    let server = options.start().await.unwrap();
    let client = server.client().unwrap();
    let manifest = std::fs::read_to_string(program.with_file_name("gatekeeper.yaml")).unwrap();
    let apply = ["apply", "--server-side", "-f", "-"];
    server.kubectl_with(&apply, &manifest).await.unwrap().success().unwrap();
    server.kubectl_with(&apply, POD).await.unwrap().success().unwrap();
    // What was there before nobody judged.
    client.post(CONFIG_MAPS, &config_map("before", false, 1)).await.unwrap().expect_status(201).unwrap();

    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap().port();
    let mut command = Command::new(&program);
    server.environment(&mut command);
    command.args(["--host", "127.0.0.1", "--port", &free.to_string(), "--health-addr", "127.0.0.1:0"]);
    // Of its ways to tell metrics, the others listen on all addresses, or look for a cloud.
    command.args([
        "--metrics-backend=opentelemetry",
        "--otlp-endpoint=127.0.0.1:1",
        "--disable-cert-rotation",
    ]);
    command.args(["--cert-dir", &files.arg(""), "--shutdown-delay", "0", "--audit-interval", "2"]);
    command.args(["--default-wait-for-vapb-generation", "0", "--api-cache-dir", &files.arg("audit")]);
    command.env("POD_NAME", "gatekeeper").env("POD_NAMESPACE", "gatekeeper-system");
    let log = std::fs::File::create(server.scratch().join("gatekeeper.log")).unwrap();
    command.stdout(Stdio::null()).stderr(log).kill_on_drop(true);
    let mut gatekeeper = command.spawn().unwrap();
    gate.point_to(free);

    server.kubectl_with(&apply, TEMPLATES).await.unwrap().success().unwrap();
    // It registers the constraints' types.
    for plural in ["shoplabels", "shopsize"] {
        let name = format!("{plural}.constraints.gatekeeper.sh");
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        until(&client, crds, &name, |_| true).await;
        server
            .kubectl(&["wait", "crd", &name, "--for=condition=Established", "--timeout=60s"])
            .await
            .unwrap();
    }
    server.kubectl_with(&apply, CONSTRAINTS).await.unwrap().success().unwrap();
    for kind in ["validating", "mutating"] {
        let path = format!(
            "/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/gatekeeper-{kind}-webhook-configuration"
        );
        let mut configuration = client.get(&path).await.unwrap().json();
        for hook in configuration["webhooks"].as_array_mut().unwrap() {
            hook["clientConfig"]["caBundle"] = json!(authority.bundle());
        }
        client.put(&path, &configuration).await.unwrap().expect_status(200).unwrap();
    }

    let dry_run = format!("{CONFIG_MAPS}?dryRun=All");
    let denied = async |object: Value, why: &str| {
        eventually(why, async || {
            let answer = client.post(&dry_run, &object).await.unwrap();
            (answer.status >= 400 && answer.text().contains(why)).then_some(answer)
        })
        .await
    };
    let why = "[owned] you must provide labels: {\\\"owner\\\"}";
    let answer = denied(config_map("a", false, 1), why).await;
    refused(
        Ok(answer),
        403,
        "Forbidden",
        "admission webhook \"validation.gatekeeper.sh\" denied the request",
    );
    // The policy that it makes of the other template is judged here, with the constraint as its parameter.
    let answer = denied(config_map("a", true, 3), "at most 2").await;
    refused(Ok(answer), 422, "Invalid", "ValidatingAdmissionPolicy 'gatekeeper-shopsize'");
    let changed = eventually("a label is added", async || {
        let answer = client.post(&dry_run, &config_map("a", true, 1)).await.unwrap();
        (answer.at("/metadata/labels/team") == "shop").then_some(answer)
    });
    assert_eq!(changed.await.status, 201);
    client.post(CONFIG_MAPS, &config_map("a", true, 2)).await.unwrap().expect_status(201).unwrap();
    // It audits what nobody judged, and says so in the constraint's status.
    let constraints = "/apis/constraints.gatekeeper.sh/v1beta1/shoplabels";
    let tells_of = |owned: &Value, name: &str| {
        let violations = owned["status"]["violations"].as_array().into_iter().flatten();
        violations.filter(|of| of["kind"] == "ConfigMap").any(|of| of["name"] == name)
    };
    let audited = until(&client, constraints, "owned", move |owned| tells_of(owned, "before")).await;
    assert!(!tells_of(&audited, "a"), "{audited}");

    // Who takes a template away takes its type, its objects and its rules.
    server.kubectl(&["delete", "constrainttemplate", "shoplabels", "--timeout=60s"]).await.unwrap();
    let gone = ["wait", "crd", "shoplabels.constraints.gatekeeper.sh", "--for=delete", "--timeout=60s"];
    server.kubectl(&gone).await.unwrap();
    let free = eventually("nothing is required any more", async || {
        let answer = client.post(&dry_run, &config_map("b", false, 1)).await.unwrap();
        (answer.status == 201).then_some(answer)
    });
    free.await;
    gatekeeper.kill().await.unwrap();
}
