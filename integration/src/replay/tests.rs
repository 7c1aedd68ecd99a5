use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde_json::json;

use super::*;

/// Answers from a list, whatever the requests are, and remembers these.
#[derive(Default)]
struct Canned {
    answers: VecDeque<Result<Watched, String>>,
    requests: Vec<Request>,
    pauses: usize,
}

impl Canned {
    fn answers(mut self, status: u16, body: &Value) -> Self {
        self.answers.push_back(Ok(Watched::Refused(Response {
            status,
            headers: json_type(),
            body: body.to_string().into(),
        })));
        self
    }

    fn events(mut self, events: &[Value]) -> Self {
        let head = Response { status: 200, headers: json_type(), body: Vec::new() };
        self.answers.push_back(Ok(Watched::Events(head, events.to_vec())));
        self
    }

    fn next(&mut self, request: &Request) -> Result<Watched, String> {
        self.requests.push(request.clone());
        self.answers.pop_front().unwrap_or_else(|| Err("connection refused".to_owned()))
    }
}

fn json_type() -> Vec<(String, String)> {
    vec![("content-type".to_owned(), "application/json".to_owned())]
}

impl Transport for Canned {
    type Error = String;

    fn request(&mut self, request: &Request) -> impl Future<Output = Result<Response, String>> {
        ready(self.next(request).map(|answer| match answer {
            Watched::Refused(response) | Watched::Events(response, _) => response,
        }))
    }

    fn watch(&mut self, request: &Request, _: &Stop) -> impl Future<Output = Result<Watched, String>> {
        ready(self.next(request))
    }

    fn pause(&mut self) -> impl Future<Output = bool> {
        self.pauses += 1;
        ready(self.pauses < 5)
    }
}

/// Nothing here ever waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a canned transport waits for nothing"),
    }
}

fn topic(steps: &Value, expected: &Value) -> Topic {
    let script = json!({
        "vars": {"base": "/apis/g", "things": "${base}/things"},
        "fixtures": {"one": {"metadata": {"name": "one"}, "spec": {"list": [1]}}},
        "steps": steps,
    });
    Topic {
        name: "test".to_owned(),
        script: serde_json::from_value(script).unwrap(),
        expected: serde_json::from_value(json!({"oracle": {}, "script": "test", "steps": expected})).unwrap(),
    }
}

fn run(steps: &Value, expected: &Value, mut transport: Canned) -> (Vec<Vec<String>>, Vec<Request>) {
    let outcomes = now(replay(&topic(steps, expected), &[], &mut transport));
    (outcomes.into_iter().map(|outcome| outcome.differences).collect(), transport.requests)
}

const TYPE: &str = "application/json";

#[test]
fn a_request_is_put_together_from_fixture_changes_and_variables() {
    let steps = json!([{
        "name": "a", "method": "POST", "path": "${things}", "rawQuery": "raw", "query": {"sel": "a in (b,c)"},
        "headers": {"X": "y", "Z": ["b", "${base}"]}, "from": "one",
        "set": {"/metadata/labels/a~1b": "${base}", "/spec/list/-": {"x": 2}, "/spec/list/0": 0}, "remove": ["/metadata/name"],
    }]);
    let (_, requests) = run(&steps, &json!([{"name": "a", "status": 200}]), Canned::default());
    let request = &requests[0];
    assert_eq!(request.target, "/apis/g/things?raw&sel=a%20in%20%28b%2Cc%29");
    let body: Value = serde_json::from_slice(request.body.as_deref().unwrap()).unwrap();
    assert_eq!(body, json!({"metadata": {"labels": {"a/b": "/apis/g"}}, "spec": {"list": [0, {"x": 2}]}}));
    let headers: Vec<String> =
        request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(
        headers,
        [
            "User-Agent: kindom-replay/1",
            "Accept: application/json",
            "Content-Type: application/json",
            "X: y",
            "Z: b",
            "Z: /apis/g"
        ]
    );
}

#[test]
fn a_dash_sends_no_header() {
    let steps = json!([{"name": "a", "method": "POST", "path": "/", "accept": "-", "contentType": "-", "bodyText": "x"}]);
    let (_, requests) = run(&steps, &json!([{"name": "a", "status": 200}]), Canned::default());
    assert_eq!(requests[0].headers.len(), 1);
    let steps = json!([{"name": "a", "method": "POST", "path": "/", "bodyRepeat": {"prefix": "[", "unit": "1,", "count": 3, "suffix": "1]"}}]);
    let (_, requests) = run(&steps, &json!([{"name": "a", "status": 200}]), Canned::default());
    assert_eq!(requests[0].body.as_deref(), Some(b"[1,1,1,1]".as_slice()));
}

#[test]
fn captures_reach_later_steps_and_symbols_hold_across_steps() {
    let object = |version: &str| json!({"metadata": {"resourceVersion": version, "managedFields": [{}]}});
    let steps = json!([
        {"name": "create", "method": "POST", "path": "/", "body": {}, "capture": {"rv": "/metadata/resourceVersion", "type": "header:Content-Type"}},
        {"name": "same", "method": "GET", "path": "/${rv}"},
        {"name": "other", "method": "GET", "path": "/${rv}"},
    ]);
    let answer = |name: &str, rv: &str| json!({"name": name, "status": 200, "headers": {"Content-Type": TYPE}, "body": {"metadata": {"resourceVersion": rv}}});
    let expected = json!([answer("create", "<rv-1>"), answer("same", "<rv-1>"), answer("other", "<rv-2>")]);
    let transport = || Canned::default().answers(200, &object("5")).answers(200, &object("5"));
    let (differences, requests) = run(&steps, &expected, transport().answers(200, &object("6")));
    assert_eq!(differences, [vec![], vec![], Vec::<String>::new()]);
    assert_eq!(requests[1].target, "/5");
    let (differences, _) = run(&steps, &expected, transport().answers(200, &object("5")));
    assert_eq!(differences[2].len(), 1, "a second symbol may not stand for the same value");
}

#[test]
fn what_cannot_be_sent_or_captured_is_a_difference_and_the_rest_goes_on() {
    let steps = json!([
        {"name": "a", "method": "GET", "path": "/", "capture": {"x": "/missing"}},
        {"name": "b", "method": "GET", "path": "/${x}"},
        {"name": "c", "method": "GET", "path": "/c", "record": "status"},
        {"name": "d", "method": "GET", "path": "/d"},
    ]);
    let expected = json!([{"name": "a", "status": 200, "headers": {"Content-Type": TYPE}, "body": {}}, {"name": "b", "status": 200}, {"name": "c", "status": 200}, {"name": "d", "status": 200}]);
    let (differences, _) =
        run(&steps, &expected, Canned::default().answers(200, &json!({})).answers(200, &json!({"any": 1})));
    assert_eq!(
        differences,
        [
            vec!["nothing at /missing to capture as x".to_owned()],
            vec!["not sent: unknown variable x".to_owned()],
            vec![],
            vec!["no answer: connection refused".to_owned()],
        ]
    );
}

#[test]
fn a_step_with_until_is_repeated_until_all_holds() {
    let steps = json!([{"name": "a", "method": "GET", "path": "/", "record": "status",
        "until": [{"status": 200}, {"condition": "Ready=True"}, {"pointer": "/spec/gone", "equals": null}]}]);
    let expected = json!([{"name": "a", "status": 200}]);
    let ready = json!({"status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}});
    let transport = Canned::default().answers(404, &json!({})).answers(200, &json!({})).answers(200, &ready);
    let (differences, requests) = run(&steps, &expected, transport);
    assert_eq!((differences, requests.len()), (vec![vec![]], 3));
    let never = (0..9).fold(Canned::default(), |canned, _| canned.answers(404, &json!({})));
    let (differences, requests) = run(&steps, &expected, never);
    assert_eq!((differences[0].len(), requests.len()), (1, 5), "giving up compares the last answer");
}

#[test]
fn selected_parts_are_compared_and_the_rest_is_not() {
    let steps = json!([{"name": "a", "method": "GET", "path": "/", "select": ["/list/[meta.name=b]/x", "/gone", "/kind"]}]);
    let expected = json!([{"name": "a", "status": 200, "headers": {"Content-Type": TYPE}, "select": {"/list/[meta.name=b]/x": 2, "/kind": "K"}}]);
    let body = json!({"kind": "K", "noise": 1, "list": [{"meta": {"name": "a"}, "x": 1}, {"meta": {"name": "b"}, "x": 2}]});
    assert_eq!(run(&steps, &expected, Canned::default().answers(200, &body)).0, [Vec::<String>::new()]);
    let mut wrong = body;
    wrong["gone"] = json!(true);
    wrong["kind"] = json!("L");
    assert_eq!(run(&steps, &expected, Canned::default().answers(200, &wrong)).0[0].len(), 2);
}

#[test]
fn events_are_compared_in_order() {
    let steps = json!([{"name": "w", "method": "GET", "path": "/", "watch": {"events": 2}}]);
    let event = |kind: &str, rv: &str| json!({"type": kind, "object": {"metadata": {"resourceVersion": rv}}});
    let expected = json!([{"name": "w", "status": 200, "headers": {"Content-Type": TYPE}, "events": [event("ADDED", "<rv-1>"), event("DELETED", "<rv-2>")]}]);
    let good = [event("ADDED", "1"), event("DELETED", "2")];
    assert_eq!(run(&steps, &expected, Canned::default().events(&good)).0, [Vec::<String>::new()]);
    assert_eq!(run(&steps, &expected, Canned::default().events(&good[..1])).0[0].len(), 1);
    assert_eq!(run(&steps, &expected, Canned::default().answers(410, &json!({}))).0[0].len(), 1);
}

#[test]
fn a_watch_of_any_state_begins_behind_what_was_written() {
    let steps = json!([{"name": "w", "method": "GET", "path": "${things}",
        "query": {"watch": "true", "resourceVersion": "0"}, "watch": {"events": 1}}]);
    let expected = json!([{"name": "w", "status": 200, "headers": {}, "events": [{"type": "ADDED"}]}]);
    let canned = Canned::default().answers(200, &json!({})).events(&[json!({"type": "ADDED"})]);
    let (_, requests) = run(&steps, &expected, canned);
    let targets: Vec<&str> = requests.iter().map(|request| request.target.as_str()).collect();
    assert_eq!(targets, ["/apis/g/things", "/apis/g/things?resourceVersion=0&watch=true"]);
}

#[test]
fn a_watch_stops_where_the_script_says() {
    let stop = |text: Value| serde_json::from_value::<Stop>(text).unwrap();
    let bookmark = |object: Value| json!({"type": "BOOKMARK", "object": object});
    let marked = json!({"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}});
    assert!(!stop(json!({"events": 1})).reached(&[]));
    assert!(stop(json!({"events": 1})).reached(&[json!({})]));
    assert!(!stop(json!({"until": "end"})).reached(&[bookmark(marked.clone())]));
    let initial = stop(json!({"until": "initial-events-end"}));
    assert!(!initial.reached(&[bookmark(json!({}))]));
    assert!(initial.reached(&[bookmark(marked.clone())]));
    assert!(initial.reached(&[bookmark(json!({"rows": [{"object": marked}]}))]));
}

/// The report on one step whose recorded answer is known to differ; `None` if all is well.
fn judged(recorded: &Value, known: &Value, status: u16, body: &Value) -> Option<String> {
    let steps = json!([{"name": "a", "method": "GET", "path": "/"}]);
    let known: KnownDifference = serde_json::from_value(known.clone()).unwrap();
    let topic = topic(&steps, &json!([recorded]));
    let known = [known];
    let outcomes = now(replay(&topic, &known, &mut Canned::default().answers(status, body)));
    judge("test", &outcomes, &known)
}

fn recorded(body: &Value) -> Value {
    json!({"name": "a", "status": 200, "headers": {"Content-Type": TYPE}, "body": body})
}

fn listed(ours: &Value) -> Value {
    json!({"script": "test", "step": "a", "reason": "meant", "ours": ours})
}

#[test]
fn a_known_difference_waives_the_places_that_it_names_and_no_more() {
    let theirs = recorded(&json!({"message": "theirs", "code": 1, "list": [1]}));
    let known = listed(&json!({"/body/message": "ours", "/body/list/-": {"x": 2}}));
    let ours = json!({"message": "ours", "code": 1, "list": [1, {"x": 2}]});
    assert_eq!(judged(&theirs, &known, 200, &ours), None);
    let with = |pointer: &str, value: Value| {
        let mut changed = ours.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    for (status, body) in [
        (500, ours.clone()),
        (200, with("/message", json!("something else"))),
        (200, with("/code", json!(2))),
        (200, with("/list/1/x", json!(3))),
        (200, json!({"message": "ours"})),
    ] {
        assert!(judged(&theirs, &known, status, &body).is_some(), "{status} {body}");
    }
}

#[test]
fn a_difference_that_is_gone_fails_until_it_is_off_the_list() {
    let theirs = recorded(&json!({"message": "theirs", "code": 1, "more": true}));
    let known = listed(&json!({"/body/message": "ours", "/body/code": 2}));
    let agrees = judged(&theirs, &known, 200, &json!({"message": "theirs", "code": 1, "more": true}));
    assert!(agrees.unwrap().contains("expected \"ours\""));
    // Half of an entry is gone where kindom's value is the recorded one.
    let known = listed(&json!({"/body/message": "ours", "/body/code": 1}));
    let half = judged(&theirs, &known, 200, &json!({"message": "ours", "code": 1, "more": true})).unwrap();
    assert!(half.contains("/body/code: this difference is gone (meant): remove it"), "{half}");
    assert!(!half.contains("/body/message"), "{half}");

    let mut absent = listed(&json!({}));
    let ours = json!({"message": "theirs", "code": 1});
    assert!(judged(&theirs, &absent, 200, &ours).unwrap().contains("no place in it is"));
    absent["absent"] = json!(["/body/more"]);
    assert_eq!(judged(&theirs, &absent, 200, &ours), None);
    absent["absent"] = json!(["/body/less", "/body/more"]);
    assert!(judged(&theirs, &absent, 200, &ours).unwrap().contains("/body/less: this difference is gone"));
    absent["absent"] = json!(["/bodies/x"]);
    assert!(
        judged(&theirs, &absent, 200, &ours).unwrap().contains("/bodies/x is not in the recorded answer")
    );
    assert!(
        judged(&theirs, &listed(&json!({"/bodies/x": 1})), 200, &ours).unwrap().contains("not an answer")
    );
}

#[test]
fn a_race_has_two_answers_and_no_third() {
    let theirs = recorded(&json!({"message": "theirs"}));
    let mut known = listed(&json!({"/body/message": "ours"}));
    known["race"] = json!(true);
    assert_eq!(judged(&theirs, &known, 200, &json!({"message": "theirs"})), None);
    assert_eq!(judged(&theirs, &known, 200, &json!({"message": "ours"})), None);
    assert!(judged(&theirs, &known, 200, &json!({"message": "other"})).is_some());
    assert!(judged(&theirs, &known, 500, &json!({"message": "ours"})).is_some());
}

#[test]
fn an_entry_of_the_list_is_for_one_step_of_one_topic() {
    let theirs = recorded(&json!({"message": "theirs"}));
    let differs = json!({"message": "ours"});
    let mut known = listed(&json!({"/body/message": "ours"}));
    known["script"] = json!("other");
    assert!(judged(&theirs, &known, 200, &differs).is_some());
    let mut known = listed(&json!({"/body/message": "ours"}));
    known["step"] = json!("other");
    let report = judged(&theirs, &known, 200, &differs).unwrap();
    assert!(report.contains("/message: expected") && report.contains("no such step"), "{report}");
}

#[test]
fn a_recording_of_another_script_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let script = |method: &str| json!({"steps": [{"name": "a", "method": method, "path": "/"}]}).to_string();
    file("t.script.json", &script("GET"));
    let recording =
        json!({"requests": fingerprint(script("GET").as_bytes()), "steps": [{"name": "a", "status": 200}]});
    file("t.expected.json", &recording.to_string());
    assert_eq!(read_topics(folder.path()).unwrap().len(), 1);
    file("t.script.json", &script("PUT"));
    let refused = read_topics(folder.path()).unwrap_err().to_string();
    assert_eq!(refused, "t: the script is not the one whose answers were recorded: record it again");
}

#[test]
fn every_checked_in_topic_can_be_read_and_every_request_built() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("expectations");
    let topics = read_topics(&folder).unwrap();
    assert!(!topics.is_empty());
    for topic in &topics {
        let mut vars = topic.script.vars.clone();
        for step in &topic.script.steps {
            if let Err(cause) = step.request(&topic.script, &vars) {
                panic!("{}: {}: {cause}", topic.name, step.name);
            }
            for name in step.capture.keys() {
                vars.insert(name.clone(), "1".to_owned());
            }
        }
    }
    for known in read_known(&folder.join("known-differences.json")).unwrap() {
        let topic = topics.iter().find(|topic| topic.name == known.script);
        let found = topic.is_some_and(|topic| topic.script.steps.iter().any(|step| step.name == known.step));
        assert!(found, "{}: {} is listed but not there", known.script, known.step);
    }
}

/// The table-driven suite of server-side apply: a case is the steps whose names share the text before the colon.
#[test]
fn two_hundred_cases_of_apply_are_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("expectations");
    let mut cases: BTreeMap<(String, String), bool> = BTreeMap::new();
    for topic in read_topics(&folder).unwrap() {
        if !topic.name.starts_with("apply-") {
            continue;
        }
        assert!(!topic.script.mask_managed_fields, "{} must record who owns what", topic.name);
        for answer in &topic.expected.steps {
            let Some((case, _)) = answer.name.split_once(": ") else { continue };
            let is_told = |body: &Value| body["kind"] != "Status" || body["reason"] == "Conflict";
            let tells = answer.body.as_ref().is_some_and(is_told)
                || answer.text.as_ref().is_some_and(|text| text.contains("managedFields"))
                || answer.select.as_ref().is_some_and(|parts| parts.contains_key("/metadata/managedFields"));
            *cases.entry((topic.name.clone(), case.to_owned())).or_default() |= tells;
        }
    }
    let telling = cases.values().filter(|tells| **tells).count();
    assert!(telling >= 200, "{telling} of {} cases record an object or a conflict", cases.len());
    // A write that is refused for its name has neither.
    assert!(
        cases.len() - telling <= 5,
        "{:?}",
        cases.iter().filter(|(_, tells)| !**tells).collect::<Vec<_>>()
    );
}

#[test]
fn the_page_on_conformance_tells_every_difference_and_how_many_steps_are_compared() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../docs/conformance.md")).unwrap();
    let topics = read_topics(&root.join("expectations")).unwrap();
    let known = read_known(&root.join("expectations/known-differences.json")).unwrap();
    let steps: usize = topics.iter().map(|topic| topic.script.steps.len()).sum();
    let counts = format!("{},{:03} steps of {} scripts", steps / 1000, steps % 1000, topics.len());
    assert!(page.contains(&counts), "docs/conformance.md does not say: {counts}");
    assert!(page.contains(&format!("In {} steps kindom answers otherwise", known.len())));
    for known in &known {
        let row = page.lines().find(|line| line.starts_with('|') && line.contains(&known.reason));
        assert!(row.is_some_and(|row| row.contains(&known.step)), "docs/conformance.md lacks {known:?}");
    }
}
