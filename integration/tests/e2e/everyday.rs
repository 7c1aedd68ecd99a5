//! The commands of everyday work with kubectl, on the kinds of Kubernetes (B-42).

use kindom_integration::{Server, ServerOptions};

use crate::support::until_gone;

async fn run(server: &Server, command: &str) -> String {
    // A space within an argument is a hard one here.
    let args: Vec<String> = command.split(' ').map(|arg| arg.replace('\u{a0}', " ")).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    server.kubectl(&args).await.unwrap_or_else(|error| panic!("kubectl {command}: {error}"))
}

#[tokio::test]
async fn kubectl_makes_shows_and_describes_each_kind() {
    let server = ServerOptions::default().args(&["--profile=kubernetes"]).start().await.unwrap();
    for (kind, command) in [
        ("configmap", "create configmap one --from-literal=a=1"),
        ("secret", "create secret generic one --from-literal=a=1"),
        ("serviceaccount", "create serviceaccount one"),
        ("deployment", "create deployment one --image=example.com/one:1 --replicas=2"),
        ("quota", "create quota one --hard=count/secrets=5,services=4"),
        ("role", "create role one --verb=get,list --resource=pods,deployments.apps"),
        ("rolebinding", "create rolebinding one --role=one --serviceaccount=default:one"),
        ("clusterrole", "create clusterrole one --verb=get --non-resource-url=/healthz"),
        ("clusterrolebinding", "create clusterrolebinding one --clusterrole=one --user=jane"),
        ("service", "create service nodeport one --tcp=80:8080"),
        ("priorityclass", "create priorityclass one --value=7"),
        ("pod", "run one --image=example.com/one:1"),
        ("job", "create job one --image=example.com/one:1"),
        (
            "cronjob",
            "create cronjob one --image=example.com/one:1 --schedule=*/5\u{a0}*\u{a0}*\u{a0}*\u{a0}*",
        ),
        ("ingress", "create ingress one --rule=example.com/=one:80"),
        ("poddisruptionbudget", "create poddisruptionbudget one --selector=a=b --min-available=1"),
        ("hpa", "autoscale deployment one --min=1 --max=3"),
    ] {
        let said = run(&server, command).await;
        assert!(["created", "autoscaled"].iter().any(|done| said.contains(done)), "{command}: {said}");
        let shown = run(&server, &format!("get {kind} one")).await;
        assert!(shown.lines().nth(1).is_some_and(|line| line.starts_with("one ")), "{shown}");
        let described = run(&server, &format!("describe {kind} one")).await;
        assert!(described.contains("one"), "{kind}: {described}");
        run(&server, &format!("label {kind} one made=here")).await;
        run(&server, &format!("annotate {kind} one why=test")).await;
        let labels = run(&server, &format!("get {kind} one -o jsonpath={{.metadata.labels.made}}")).await;
        assert_eq!(labels, "here", "{kind}");
        run(&server, &format!("explain {kind}")).await;
    }
    let ranges = run(&server, "get servicecidrs").await;
    assert!(ranges.contains("kubernetes") && ranges.contains("10.0.0.0/24"), "{ranges}");
    assert_eq!(run(&server, "create token one").await.split('.').count(), 3);
    assert!(run(&server, "auth whoami").await.contains("system:masters"));
    assert!(run(&server, "auth can-i --list").await.contains("*.*"));
    assert!(run(&server, "auth can-i create pods").await.contains("yes"));
    assert!(run(&server, "cluster-info").await.contains("is running at"));
    let all = run(&server, "get all").await;
    assert!(all.contains("deployment.apps/one") && all.contains("service/kubernetes"), "{all}");
    let status = server.kubectl(&["rollout", "status", "deployment/one", "--timeout=1s"]).await.unwrap_err();
    assert!(status.to_string().contains("Waiting for deployment"), "{status}");
    run(&server, "scale deployment one --replicas=3").await;
    run(&server, "set image deployment/one one=example.com/one:2").await;
    run(&server, "rollout restart deployment/one").await;
    let event = serde_json::json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "one"}, "reason": "Tried",
        "message": "all is well", "type": "Normal", "source": {"component": "test"},
        "involvedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "one"}});
    let events = "/api/v1/namespaces/default/events";
    server.client().unwrap().post(events, &event).await.unwrap().expect_status(201).unwrap();
    let events = run(&server, "events --for deployment/one").await;
    assert!(events.contains("Tried") && events.contains("all is well"), "{events}");
    for kind in ["deployment", "service", "configmap", "secret", "serviceaccount", "role", "rolebinding"] {
        run(&server, &format!("delete {kind} one")).await;
    }
}

#[tokio::test]
async fn kubectl_applies_folders_prunes_and_cascades() {
    let server = ServerOptions::default().args(&["--profile=kubernetes"]).start().await.unwrap();
    let client = server.client().unwrap();
    let folder = server.scratch().join("shop");
    std::fs::create_dir_all(&folder).unwrap();
    let write = |file: &str, text: &str| std::fs::write(folder.join(file), text).unwrap();
    write(
        "kustomization.yaml",
        "resources: [deployment.yaml]\nnamePrefix: dev-\ncommonLabels: {app: shop}\nconfigMapGenerator: [{name: settings, literals: \
         [a=1]}]\ngeneratorOptions: {disableNameSuffixHash: true}\n",
    );
    write(
        "deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {selector: {matchLabels: {a: b}}, template: \
         {metadata: {labels: {a: b}}, spec: {containers: [{name: web, image: example.com/web:1, envFrom: [{configMapRef: \
         {name: settings}}]}]}}}\n",
    );
    run(&server, "apply -k shop").await;
    let shown = run(
        &server,
        "get deployment dev-web -o jsonpath={.spec.template.spec.containers[0].envFrom[0].configMapRef.name}",
    );
    assert_eq!(shown.await, "dev-settings");
    assert!(run(&server, "diff -k shop").await.is_empty());
    assert!(run(&server, "apply -k shop").await.contains("unchanged"));

    let plain = server.scratch().join("plain");
    std::fs::create_dir_all(&plain).unwrap();
    for name in ["one", "two"] {
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: plain}}}}\ndata: {{a: b}}\n"
        );
        std::fs::write(plain.join(format!("{name}.yaml")), map).unwrap();
    }
    let prune = "apply -f plain --prune -l set=plain --prune-allowlist=core/v1/ConfigMap";
    run(&server, prune).await;
    std::fs::remove_file(plain.join("two.yaml")).unwrap();
    assert!(run(&server, prune).await.contains("configmap/two pruned"));

    // What a deployment owns goes with it, is left alone, or goes first.
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    for (cascade, is_left) in [("background", false), ("foreground", false), ("orphan", true)] {
        run(&server, "create deployment owner --image=example.com/a:1").await;
        let uid = run(&server, "get deployment owner -o jsonpath={.metadata.uid}").await;
        let set = serde_json::json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": cascade,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "owner", "uid": uid,
                "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "example.com/a:1"}]}}}});
        client.post(sets, &set).await.unwrap().expect_status(201).unwrap();
        run(&server, &format!("delete deployment owner --cascade={cascade}")).await;
        until_gone(&client, deployments, "owner").await;
        if is_left {
            let get = format!("get replicaset {cascade} -o jsonpath={{.metadata.ownerReferences}}");
            assert_eq!(run(&server, &get).await, "");
        } else {
            until_gone(&client, sets, cascade).await;
        }
    }
}
