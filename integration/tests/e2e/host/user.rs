//! kubectl as a user of the host who may do some things: a type from its registration to its end.

use kindom_integration::{Caller, ServerOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::Behind;
use crate::shell::{fails, prints, prints_with};

/// The rights of jane: she registers types, and keeps widgets in one namespace. She deletes no registration.
const RIGHTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: registers}
rules:
- apiGroups: [apiextensions.kindom.dev]
  resources: [customresourcedefinitions]
  verbs: [create, get, list, watch, update, patch]
- apiGroups: [apiextension.k8s.io]
  resources: [thirdpartyresources]
  verbs: [create, get, list, watch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jane-registers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: registers}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: keeps-widgets, namespace: default}
rules:
- apiGroups: [shop.example.com]
  resources: [widgets, widgets/status, widgets/scale]
  verbs: [create, get, list, watch, update, patch, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: dev-keeps-widgets, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: keeps-widgets}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: dev}]
"#;

const WIDGETS: &str = "
apiVersion: apiextensions.kindom.dev/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}
    additionalPrinterColumns:
    - {name: Colour, type: string, jsonPath: .spec.colour}
    - {name: Size, type: integer, jsonPath: .spec.size}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [colour]
            properties:
              colour: {type: string, enum: [red, green, blue], description: The colour of the paint.}
              size: {type: integer, minimum: 1, maximum: 100, default: 1}
          status:
            type: object
            properties: {size: {type: integer}, phase: {type: string}}
";

const YAKS: &str = "
apiVersion: apiextension.k8s.io/v1beta1
kind: ThirdPartyResource
metadata: {name: yaks.farm.example.com}
spec: {group: farm.example.com, version: v1, names: {plural: yaks, kind: Yak}}
";

fn widget(colour: &str) -> String {
    json!({
        "apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "one"},
        "spec": {"colour": colour},
    })
    .to_string()
}

/// B-02, B-45, B-46: the host's users, rights and documents are the host's; the types are kindom's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_user_of_the_host_lives_with_a_type_from_its_registration_to_its_end() {
    let Some(behind) = Behind::unknown(ServerOptions::default().args(&["-v"])).await else { return };
    let own = documents(&behind).await;
    behind.publish().await;
    let admin = behind.admin();
    prints_with(&admin, "kubectl apply -f -", RIGHTS).await;
    let jane = behind.host.caller("jane", Some("dev")).unwrap();
    let pod = prints(&jane, "kubectl explain pod").await;
    assert!(pod.contains("Pod is a collection of containers that can run on a host."), "{pod}");

    // Registered by the client's apply, and changed by the server's.
    let crd = "customresourcedefinition.apiextensions.kindom.dev/widgets.shop.example.com";
    assert_eq!(prints_with(&jane, "kubectl apply -f -", WIDGETS).await, format!("{crd} created"));
    assert_eq!(
        prints(&jane, &format!("kubectl wait --for=condition=Established {crd}")).await,
        format!("{crd} condition met")
    );
    let wider = WIDGETS.replace("[wd]", "[wd, wid]");
    assert_eq!(prints_with(&jane, "kubectl apply -f -", &wider).await, format!("{crd} configured"));
    assert_eq!(prints_with(&jane, "kubectl apply -f -", &wider).await, format!("{crd} unchanged"));
    let apply = "kubectl apply --server-side --force-conflicts -f -";
    assert_eq!(prints_with(&jane, apply, &wider).await, format!("{crd} serverside-applied"));
    assert_eq!(
        fails(&jane, &format!("kubectl delete {crd}"), "").await,
        "Error from server (Forbidden): customresourcedefinitions.apiextensions.kindom.dev \"widgets.shop.example.com\" is \
         forbidden: User \"jane\" cannot delete resource \"customresourcedefinitions\" in API group \
         \"apiextensions.kindom.dev\" at the cluster scope"
    );
    assert_eq!(
        prints_with(&jane, "kubectl create -f -", YAKS).await,
        "thirdpartyresource.apiextension.k8s.io/yaks.farm.example.com created"
    );
    prints(&jane, "kubectl wait --for=condition=NameConflict=false tpr/yaks.farm.example.com").await;
    behind.publish().await;

    objects(&behind, &jane).await;

    // Registering a type gives no right to its objects: the host's administrator does.
    let yak = "apiVersion: farm.example.com/v1\nkind: Yak\nmetadata: {name: a}\n";
    assert_eq!(
        fails(&jane, "kubectl create -f -", yak).await,
        "Error from server (Forbidden): error when creating \"STDIN\": yaks.farm.example.com is forbidden: User \"jane\" cannot \
         create resource \"yaks\" in API group \"farm.example.com\" in the namespace \"default\""
    );
    assert_eq!(prints_with(&admin, "kubectl create -f -", yak).await, "yak.farm.example.com/a created");

    host_stays_itself(&behind, &jane, &own, &pod).await;

    prints(&jane, "kubectl delete tpr yaks.farm.example.com").await;
    prints(&admin, &format!("kubectl delete {crd}")).await;
    let client = behind.host.admin().unwrap();
    // The aggregator looks by itself, or as soon as somebody touches the APIService.
    prints(&admin, "kubectl annotate apiservice v1.shop.example.com looked=once").await;
    let gone = behind.available(&client, "v1.shop.example.com", "False").await;
    assert_eq!(gone["reason"], "FailedDiscoveryCheck");
    prints(&admin, "kubectl delete apiservice v1.shop.example.com v1.farm.example.com").await;
    // The host's next handler gets the request now, and has no such resource (T-44).
    let path = "/apis/shop.example.com/v1/namespaces/default/widgets";
    crate::support::eventually("the host forwards it no more", async || {
        (client.get(path).await.unwrap().status == 404).then_some(())
    })
    .await;
}

/// Creates an object, changes it by every command of kubectl, watches that, and deletes it.
async fn objects(behind: &Behind, jane: &Caller) {
    let one = "widget.shop.example.com/one";
    assert_eq!(prints_with(jane, "kubectl apply -f -", &widget("red")).await, format!("{one} created"));
    let table = prints(jane, "kubectl get wd").await;
    let table: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(table[0], ["NAME", "COLOUR", "SIZE"]);
    assert_eq!(table[1], ["one", "red", "1"]);

    let mut watch = tokio::process::Command::new(kindom_integration::tools::kubectl().unwrap());
    watch.args(["get", "widgets", "--watch", "--output-watch-events", "-o"]);
    watch.arg(r#"jsonpath={.type} {.object.spec.colour}{"\n"}"#);
    jane.environment(&mut watch);
    let mut watch = watch.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut events = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut last = String::new();
    // An apply may be two writes, and a write may leave the colour as it is.
    let mut saw = async |expected: &str| {
        loop {
            let line = tokio::time::timeout(std::time::Duration::from_secs(60), events.next_line());
            let line = line.await.expect("an event").unwrap().expect("the watch goes on");
            if line == expected {
                last = line;
                return;
            }
            assert_eq!(line, last, "before {expected}");
        }
    };
    saw("ADDED red").await;

    assert_eq!(prints_with(jane, "kubectl apply -f -", &widget("green")).await, format!("{one} configured"));
    saw("MODIFIED green").await;
    // A field of another manager is a conflict that names the manager.
    let conflict =
        fails(jane, "kubectl apply --server-side --field-manager=painter -f -", &widget("blue")).await;
    assert!(
        conflict
            .starts_with("error: Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\""),
        "{conflict}"
    );
    let forced = "kubectl apply --server-side --field-manager=painter --force-conflicts -f -";
    assert_eq!(prints_with(jane, forced, &widget("blue")).await, format!("{one} serverside-applied"));
    saw("MODIFIED blue").await;
    assert_eq!(
        fails(jane, r#"kubectl patch wd one --type=merge -p '{"spec":{"colour":"violet"}}'"#, "").await,
        "The Widget \"one\" is invalid: spec.colour: Unsupported value: \"violet\": supported values: \"red\", \"green\", \"blue\""
    );

    let explained = prints(jane, "kubectl explain widget.spec.colour").await;
    assert!(explained.contains("GROUP:      shop.example.com"), "{explained}");
    assert!(explained.contains("The colour of the paint."), "{explained}");

    assert_eq!(
        prints(jane, "KUBE_EDITOR='sed -i s/blue/red/' kubectl edit wd one").await,
        format!("{one} edited")
    );
    saw("MODIFIED red").await;
    let patch =
        r#"kubectl patch wd one --type=json -p '[{"op":"replace","path":"/spec/colour","value":"green"}]'"#;
    assert_eq!(prints(jane, patch).await, format!("{one} patched"));
    saw("MODIFIED green").await;
    assert_eq!(prints(jane, "kubectl scale wd one --replicas=7").await, format!("{one} scaled"));
    saw("MODIFIED green").await;
    assert_eq!(prints(jane, "kubectl get wd one -o jsonpath={.spec.size}").await, "7");
    assert_eq!(prints(jane, "kubectl get wd one --subresource=scale -o jsonpath={.kind}").await, "Scale");

    let ready = prints(jane, "kubectl wait wd/one --for=jsonpath='{.status.phase}'=Ready");
    let status = async {
        let patch =
            r#"kubectl patch wd one --subresource=status --type=merge -p '{"status":{"phase":"Ready"}}'"#;
        prints(jane, patch).await
    };
    assert_eq!(tokio::join!(ready, status), (format!("{one} condition met"), format!("{one} patched")));
    saw("MODIFIED green").await;
    let described = prints(jane, "kubectl describe wd one").await;
    assert!(described.contains("Phase:  Ready"), "{described}");

    assert_eq!(
        fails(jane, "kubectl get wd -n kube-system", "").await,
        "Error from server (Forbidden): widgets.shop.example.com is forbidden: User \"jane\" cannot list resource \"widgets\" in \
         API group \"shop.example.com\" in the namespace \"kube-system\""
    );
    assert_eq!(
        fails(jane, "kubectl delete --raw /apis/shop.example.com/v1/namespaces/default/widgets", "").await,
        "Error from server (Forbidden): widgets.shop.example.com is forbidden: User \"jane\" cannot deletecollection resource \
         \"widgets\" in API group \"shop.example.com\" in the namespace \"default\""
    );
    assert_eq!(prints(jane, "kubectl auth can-i delete wd").await, "yes");
    assert_eq!(fails(jane, "kubectl auth can-i deletecollection wd", "").await, "");

    assert_eq!(
        prints(jane, "kubectl delete wd one").await.split(" from ").next().unwrap(),
        "widget.shop.example.com \"one\" deleted"
    );
    saw("DELETED green").await;
    assert_eq!(prints(jane, "kubectl get wd -o name").await, "");

    // The host's audit log has the request, under the id of the answer; kindom's own log has the user.
    let client = behind.host.client("jane", Some("dev"), true).unwrap();
    let path = "/apis/shop.example.com/v1/namespaces/default/widgets";
    // The host replaces a client's own X-Remote headers.
    let request = client.request("GET", path).header("X-Remote-User", "mallory");
    let request = request.header("X-Remote-Group", "system:masters");
    let answer = request.send().await.unwrap().expect_status(200).unwrap();
    let id = answer.header("audit-id").to_owned();
    let logged = crate::support::eventually("the request is in the audit log", async || {
        behind.host.audit_events().unwrap().into_iter().find(|event| event["auditID"] == id)
    })
    .await;
    assert_eq!((&logged["user"]["username"], &logged["requestURI"]), (&json!("jane"), &json!(path)));
    assert_eq!(logged["responseStatus"]["code"], 200);
    let log = std::fs::read_to_string(behind.server.log_path()).unwrap();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("answered") && line.contains(path)).collect();
    assert!(
        lines.last().is_some_and(|line| line.contains("user=\"jane\"") || line.contains("user=jane")),
        "{lines:?}"
    );
    assert!(!log.contains("mallory"));
    let other = behind.host.client("jäne", Some("system:masters"), true).unwrap();
    other.get(path).await.unwrap().expect_status(200).unwrap();
    let log = std::fs::read_to_string(behind.server.log_path()).unwrap();
    assert!(log.contains("user=\"jäne\"") || log.contains("user=jäne"));
}

/// The host's documents: its index of OpenAPI v3, its OpenAPI v2, and its discovery.
async fn documents(behind: &Behind) -> (Value, Value, Value) {
    let client = behind.host.admin().unwrap();
    let v3 = client.get("/openapi/v3").await.unwrap().expect_status(200).unwrap().json();
    let v2 = client.get("/openapi/v2").await.unwrap().expect_status(200).unwrap().json();
    let groups = client.get("/apis").await.unwrap().expect_status(200).unwrap().json();
    (v3, v2, groups)
}

/// Checks that the host's documents describe its own groups as they did before it knew kindom's.
async fn host_stays_itself(behind: &Behind, jane: &Caller, before: &(Value, Value, Value), pod: &str) {
    let whoami = prints(
        jane,
        "kubectl auth whoami -o jsonpath='{.status.userInfo.username} {.status.userInfo.groups}'",
    )
    .await;
    assert_eq!(whoami, r#"jane ["dev","system:authenticated"]"#);
    let explained = prints(jane, "kubectl explain pod").await;
    assert_eq!(explained, *pod);
    for group in ["apiextensions.k8s.io", "apiextensions.kindom.dev"] {
        let explain =
            format!("kubectl explain customresourcedefinitions.spec.scope --api-version={group}/v1");
        let explained = prints(jane, &explain).await;
        assert!(explained.contains(&format!("GROUP:      {group}")), "{explained}");
        assert!(explained.contains("FIELD: scope <string>"), "{explained}");
    }
    // Of v2, which the host merges with its own.
    let spec = "customresourcedefinitions.spec --api-version=apiextensions.kindom.dev/v1";
    let explained = prints(jane, &format!("kubectl explain --output=plaintext-openapiv2 {spec}")).await;
    assert!(explained.contains("versions\t<[]Object> -required-"), "{explained}");
    let after = documents(behind).await;
    for (name, path) in before.0["paths"].as_object().unwrap() {
        assert_eq!(after.0["paths"][name], *path, "{name}");
    }
    for (part, ours) in [("paths", "/apis/"), ("definitions", "")] {
        let now = after.1[part].as_object().unwrap();
        for (name, known) in before.1[part].as_object().unwrap() {
            assert_eq!(now.get(name), Some(known), "{part} of {name}");
        }
        let added: Vec<&String> =
            now.keys().filter(|name| before.1[part].get(name.as_str()).is_none()).collect();
        assert!(!added.is_empty() && added.iter().all(|name| name.starts_with(ours)), "{added:?}");
    }
    for group in before.2["groups"].as_array().unwrap() {
        assert!(after.2["groups"].as_array().unwrap().contains(group), "{group}");
    }
}
