//! The access log, if an operator asks for it.

use kindom_integration::{Server, ServerOptions, tools};
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";

/// The lines of the access log that a server has written.
pub(crate) fn answered(server: &Server) -> Vec<Value> {
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

/// The hops that ARCHITECTURE.md gives a PUT: the file of each, and the files that it calls and hears from.
fn hops() -> Vec<Vec<String>> {
    let page = std::fs::read_to_string(tools::root().join("ARCHITECTURE.md")).unwrap();
    let section = page.split("## The path of a write").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let items =
        section.split("\n").filter(|line| !line.is_empty()).fold(Vec::<String>::new(), |mut items, line| {
            match (line.split_once(". "), items.last_mut()) {
                (Some((number, rest)), _) if number.parse::<u8>().is_ok() => items.push(rest.to_owned()),
                (_, Some(item)) if line.starts_with("   ") => item.push_str(line),
                _ => {}
            }
            items
        });
    let crates = ["http/", "resource_actor/", "objects/", "storage/"];
    let files = |item: String| {
        let quoted = item.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        quoted.into_iter().filter(|word| crates.iter().any(|name| word.starts_with(name))).collect()
    };
    items.into_iter().map(files).collect()
}

#[tokio::test]
async fn a_put_takes_the_path_that_the_architecture_names() {
    let hops = hops();
    assert!((1..=8).contains(&hops.len()) && hops.iter().all(|files| !files.is_empty()), "{hops:?}");
    // From the top down.
    let rooms = ["http", "resource_actor", "objects", "storage"];
    let room = |file: &str| rooms.iter().position(|room| file.starts_with(room)).unwrap();
    assert!(hops.is_sorted_by_key(|files| room(&files[0])), "{hops:?}");
    assert!(hops.iter().all(|files| files.iter().all(|file| room(file) >= room(&files[0]))), "{hops:?}");

    let page = std::fs::read_to_string(tools::root().join("ARCHITECTURE.md")).unwrap();
    let filter = page.split('`').find(|word| word.starts_with("KINDOM_LOG=")).unwrap();
    let options = ServerOptions::default().args(&["--log-format", "json"]);
    let server = options.launcher(&["env".to_owned(), filter.to_owned()]).start().await.unwrap();
    let client = server.client().unwrap();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}});
    let mut lease = client.post(path, &body).await.unwrap().expect_status(201).unwrap().json();
    let expected: Vec<String> = hops.into_iter().flatten().collect();
    let mut seen = Vec::new();
    // On etcd a write is planned again if the news of the last one has not come yet, or if that one took long, as the first may.
    for n in 0..20 {
        lease["spec"]["holderIdentity"] = json!(format!("holder-{n}"));
        let put = client.put(&format!("{path}/a"), &lease).await.unwrap().expect_status(200).unwrap();
        lease = put.json();
        seen = path_in_log(&server, put.header("audit-id"));
        if seen == expected {
            return;
        }
    }
    assert_eq!(seen, expected);
}

/// The files that a request has gone through, by the log.
fn path_in_log(server: &Server, audit_id: &str) -> Vec<String> {
    let log = std::fs::read_to_string(server.log_path()).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_request = lines.filter(|line| line["span"]["audit_id"] == audit_id && line["level"] == "TRACE");
    let files = of_request.map(|line| {
        let target = line["target"].as_str().unwrap().strip_prefix("kindom_").unwrap().replace("::", "/");
        // The store is the one that this run is on.
        if target == "storage/etcd" { "storage/embedded".to_owned() } else { target }
    });
    std::iter::once("http/dispatch".to_owned()).chain(files).collect()
}

#[tokio::test]
async fn nothing_is_logged_of_requests_unless_it_is_asked_for() {
    let server = ServerOptions::default().args(&["--log-format", "json"]).start().await.unwrap();
    assert_eq!(server.client().unwrap().get(NAMESPACES).await.unwrap().status, 200);
    assert_eq!(answered(&server), Vec::<Value>::new());
}
