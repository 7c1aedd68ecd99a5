//! Random writes by several managers, compared with the real server's answers (Shows 4 of server-side apply).

use std::path::PathBuf;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kindom_integration::differential::{
    Answers, Case, REVISION, SEED, SEQUENCES, Told, Type, WRITES, difference, hash, read_answers,
    read_recording, requests_hash, sequence, types,
};
use kindom_integration::{Client, ServerOptions, count};
use serde_json::Value;
use tokio::time::Instant;

/// A type is served by then, or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of objects that are written at the same time.
const AT_ONCE: usize = 4;

/// The most tries for an object whose writes fell into several seconds.
const ATTEMPTS: usize = 50;

/// The oracle's answers in full, for the search for a difference, if a folder is given.
fn answers() -> Option<Vec<Vec<Told>>> {
    let folder = PathBuf::from(std::env::var_os("KINDOM_DIFFERENTIAL")?);
    Some(read_answers(&folder).unwrap().answers)
}

async fn register(client: &Client, types: &[Type]) {
    for of in types {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let made = client.post(path, &of.registration()).await.unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let deadline = Instant::now() + PATIENCE;
    for of in types {
        for version in ["v1", "v2"] {
            // Being served is the event that is waited for.
            while client.get(&of.path(version)).await.unwrap().status != 200 {
                assert!(Instant::now() < deadline, "{} is not served", of.path(version));
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Sends one case; the status, the warnings and the body.
async fn send(client: &Client, case: &Case, revision: &str) -> (u16, Vec<String>, Vec<u8>) {
    let mut request = client
        .request(&case.method, &case.path)
        .header("User-Agent", "kindom-replay/1")
        .header("Accept", "application/json");
    if !case.content_type.is_empty() {
        request = request.body(&case.content_type, case.body.replace(REVISION, revision));
    }
    let answer = request.send().await.unwrap();
    let warnings = answer.headers.get_all("warning").iter();
    let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    (answer.status, warnings, answer.body.to_vec())
}

/// The first difference in an object's answers, if there is any: later ones could follow from it.
async fn compare(client: &Client, cases: &[Case], recorded: &[u32], told: Option<&[Told]>) -> Option<String> {
    let object = cases[0].path.split('?').next().unwrap();
    let object = match cases[0].method.as_str() {
        "POST" => format!("{object}/object-{}", cases[0].sequence),
        _ => object.to_owned(),
    };
    for _ in 0..ATTEMPTS {
        let (ours, fault) = attempt(client, cases, recorded, told).await;
        if let Some(fault) = ours.disorder() {
            return Some(format!("object {}: {fault}", cases[0].sequence));
        }
        if fault.is_none() || ours.in_one_second() {
            return fault;
        }
        // The recording is of writes in one second.
        let gone = client.delete(&object).await.unwrap();
        assert!(matches!(gone.status, 200 | 404), "{}", gone.text());
    }
    Some(format!("object {}: the writes never fell into one second", cases[0].sequence))
}

async fn attempt(
    client: &Client,
    cases: &[Case],
    recorded: &[u32],
    told: Option<&[Told]>,
) -> (Answers, Option<String>) {
    let (mut ours, mut theirs) = (Answers::default(), Answers::default());
    for (index, (case, recorded)) in cases.iter().zip(recorded).enumerate() {
        let revision = ours.revision().to_owned();
        let (status, warnings, body) = send(client, case, &revision).await;
        let answer = ours.mask(status, &warnings, &body);
        let expected: Option<Value> = told
            .and_then(|told| told.get(index))
            .map(|told| theirs.mask(told.status, &told.warnings, told.body.as_bytes()));
        if hash(&answer.to_string()) != *recorded {
            let mut text = format!("object {}, write {index}:\n", case.sequence);
            for case in cases.iter().take(index + 1) {
                text.push_str(&format!("  {} {} {}\n", case.method, case.path, case.body));
            }
            match expected {
                Some(expected) => {
                    for line in difference(&expected, &answer) {
                        text.push_str(&format!("    {line}\n"));
                    }
                }
                None => text.push_str(&format!("    got {answer}\n")),
            }
            return (ours, Some(text));
        }
    }
    (ours, None)
}

#[tokio::test]
async fn random_writes_are_answered_as_the_real_server_does() {
    let types = types(SEED);
    let recorded = read_recording().unwrap();
    let told = answers();
    // The recorded server does not rewrite objects of older versions.
    let options = ServerOptions::default().args(&["--feature-gates", "StorageVersionMigrator=false"]);
    let server = options.start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &types).await;
    let objects = count(600, SEQUENCES * WRITES) / WRITES;
    let faults: Vec<String> = stream::iter(0..objects)
        .map(|number| {
            let cases = sequence(SEED, &types, number);
            let recorded = &recorded[number];
            assert_eq!(requests_hash(&cases), recorded.requests, "object {number}: record again");
            let told = told.as_ref().and_then(|told| told.get(number)).map(Vec::as_slice);
            let client = &client;
            async move { compare(client, &cases, &recorded.answers, told).await }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(|fault| async { fault })
        .collect()
        .await;
    println!("differential: {} writes of {objects} objects", objects * WRITES);
    // With the answers at hand, list all differences.
    let most = if told.is_some() { faults.len() } else { 20 };
    let shown = faults.iter().take(most).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(
        faults.is_empty(),
        "{} of {objects} objects differ (integration/expectations/README.md says how to see the real server's \
         answers):\n{shown}",
        faults.len()
    );
}
