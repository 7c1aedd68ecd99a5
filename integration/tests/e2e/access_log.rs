//! The access log, if an operator asks for it.

use kindom_integration::{Server, ServerOptions};
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";

/// The lines of the access log that a server has written.
fn answered(server: &Server) -> Vec<Value> {
    let log = std::fs::read_to_string(server.log_path()).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "kindom_http::access").collect()
}

#[tokio::test]
async fn every_request_is_logged_by_the_name_that_its_answer_has() {
    let server = ServerOptions::default().args(&["-v", "--log-format", "json"]).start().await.unwrap();
    let client = server.client().unwrap();
    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "seen" } });
    let created = client.post(NAMESPACES, &body).await.unwrap();
    assert_eq!(created.status, 201);
    let path = format!("{NAMESPACES}/none");
    let missing = client.request("GET", &path).header("audit-id", "from-a-proxy").send().await.unwrap();
    assert_eq!((missing.status, missing.header("audit-id")), (404, "from-a-proxy"));
    let refused = server.anonymous().unwrap().get(NAMESPACES).await.unwrap();

    let lines = answered(&server);
    let of = |id: &str| lines.iter().find(|line| line["span"]["audit_id"] == id).unwrap_or(&Value::Null);
    let line = of(created.header("audit-id"));
    assert_eq!(
        (&line["method"], &line["uri"], &line["code"]),
        (&json!("POST"), &json!(NAMESPACES), &json!(201))
    );
    assert!(line["milliseconds"].as_f64().unwrap() > 0.0, "{line}");
    let span = &line["span"];
    assert_eq!((&span["verb"], &span["resource"]), (&json!("create"), &json!("namespaces")));
    assert!(span["user"].as_str().is_some_and(|user| !user.is_empty()), "{line}");
    let line = of("from-a-proxy");
    assert_eq!((&line["code"], &line["span"]["object"]), (&json!(404), &json!("none")));
    assert_eq!(of(refused.header("audit-id"))["code"], refused.status);
}

#[tokio::test]
async fn nothing_is_logged_of_requests_unless_it_is_asked_for() {
    let server = ServerOptions::default().args(&["--log-format", "json"]).start().await.unwrap();
    assert_eq!(server.client().unwrap().get(NAMESPACES).await.unwrap().status, 200);
    assert_eq!(answered(&server), Vec::<Value>::new());
}
