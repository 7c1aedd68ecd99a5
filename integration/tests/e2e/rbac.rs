//! Roles and bindings as kube-apiserver serves them (`objects/src/kinds/rbac`): kept for whoever reads them.

use kindom_integration::Server;
use serde_json::json;

use crate::shell::{fails, prints, prints_with};

#[tokio::test]
async fn kubectl_creates_roles_and_bindings() {
    let server = Server::start().await.unwrap();
    let caller = &server.caller();
    prints(caller, "kubectl create role reader --verb=get,list --resource=configmaps").await;
    prints(caller, "kubectl create clusterrole prober --verb=get --non-resource-url=/livez").await;
    prints(caller, "kubectl create rolebinding jane --role=reader --user=jane --group=dev --serviceaccount=default:robot").await;
    prints(
        caller,
        "kubectl create clusterrolebinding probers --clusterrole=prober --serviceaccount=default:robot",
    )
    .await;
    let wide = prints(caller, "kubectl get rolebinding jane -o wide").await;
    let (head, row) = wide.split_once('\n').unwrap();
    assert_eq!(
        head.split_whitespace().collect::<Vec<_>>(),
        ["NAME", "ROLE", "AGE", "USERS", "GROUPS", "SERVICEACCOUNTS"]
    );
    let row: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((row[1], &row[3..]), ("Role/reader", &["jane", "dev", "default/robot"][..]));
    assert!(prints(caller, "kubectl get roles").await.starts_with("NAME     CREATED AT"));
    let described = prints(caller, "kubectl describe role reader").await;
    assert!(described.contains("configmaps") && described.contains("[get list]"), "{described}");
    let bound = "kubectl patch rolebinding jane -p '{\"roleRef\":{\"name\":\"other\"}}'";
    assert!(fails(caller, bound, "").await.contains("roleRef: Invalid value"));
    // As an operator's file has them, again and again.
    let (group, api_version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let role = json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": "manager"},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["*"]}]});
    let binding = json!({"apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": "manager"},
        "roleRef": {"kind": "ClusterRole", "name": "manager", "apiGroup": group},
        "subjects": [{"kind": "ServiceAccount", "name": "manager", "namespace": "default"}]});
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}).to_string();
    let made = prints_with(caller, "kubectl apply -f -", &manifest).await;
    assert_eq!(made.matches("created").count(), 2, "{made}");
    let again = prints_with(caller, "kubectl apply -f -", &manifest).await;
    assert_eq!(again.matches("unchanged").count(), 2, "{again}");
    prints(caller, "kubectl auth reconcile -f - <<< '{\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"kind\":\"Role\",\"metadata\":{\"name\":\"reader\",\"namespace\":\"default\"},\"rules\":[{\"apiGroups\":[\"\"],\"resources\":[\"secrets\"],\"verbs\":[\"get\"]}]}'").await;
    let rules = prints(caller, "kubectl get role reader -o jsonpath='{.rules[*].resources}'").await;
    assert!(rules.contains("secrets") && rules.contains("configmaps"), "{rules}");
}
