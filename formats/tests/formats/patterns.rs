//! The expressions that Go's own package accepts, and its matches (`go/main.go`, which prints `go/recorded.jsonl`).

use kindom_api::Value;
use kindom_api::json::parse;
use kindom_formats::pattern::{self, Budget, Pattern};

fn text_of(line: &Value) -> String {
    let mut text = String::new();
    for piece in line.get("pieces").unwrap().as_array().unwrap() {
        let [piece, Value::Int(times)] = piece.as_array().unwrap() else { panic!("{line:?}") };
        let (piece, times) = (piece.as_str().unwrap(), usize::try_from(*times).unwrap());
        if line.get("stair").is_some() {
            let steps: Vec<String> = (1..=times).map(|i| piece.repeat(i)).collect();
            text.push_str(&steps.join("|"));
        } else {
            text.push_str(&piece.repeat(times));
        }
    }
    text
}

fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

#[test]
fn what_go_takes_is_taken_and_finds_the_same() {
    let file = std::env::var("KINDOM_GO_PATTERNS");
    let lines = match &file {
        Ok(file) => std::fs::read_to_string(file).unwrap(),
        Err(_) => include_str!("go/recorded.jsonl").to_owned(),
    };
    let mut wrong = Vec::new();
    let (mut taken, mut refused, mut values) = (0, 0, 0);
    for line in lines.lines() {
        let line = parse(line.as_bytes()).unwrap();
        let text = text_of(&line);
        let want = match line.get("what").and_then(Value::as_str) {
            Some(what) => {
                let own = line.get("expr").and_then(Value::as_str).unwrap_or("");
                let expr = if line.get("whole").is_some() { &text } else { own };
                Err(format!("error parsing regexp: {what}: `{expr}`"))
            }
            None => Ok(()),
        };
        let got = pattern::check(&text);
        if got != want {
            let pieces = line.get("pieces").unwrap();
            let (got, want) = (got.map_err(|e| short(&e)), want.map_err(|e| short(&e)));
            wrong.push(format!("{pieces:?}: {got:?}, not {want:?}"));
            continue;
        }
        if want.is_err() {
            refused += 1;
            continue;
        }
        taken += 1;
        let pattern = Pattern::shared(&text);
        for (value, want) in line.get("found").and_then(Value::as_object).into_iter().flat_map(|m| m.iter()) {
            values += 1;
            let want: Vec<&str> = want.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
            let mut budget = Budget::new(10_000_000);
            let found = pattern.find_all_within(value, usize::MAX, &mut budget);
            // What is found in a text of many is found by the other engine.
            let long = format!("{value}{}", "\u{10ffff}".repeat(1_100));
            let mut budget = Budget::new(100_000);
            let counted = pattern.find_all_within(&long, 1, &mut budget);
            if found != Ok(want.clone()) {
                wrong.push(format!("{text} on {value:?}: {found:?}, not {want:?}"));
            }
            if let (Ok(counted), Ok(found)) = (counted, pattern.find_within(&long, &mut budget))
                && counted.first() != found.as_ref()
            {
                wrong.push(format!("{text} on {value:?} and more: {counted:?}, not {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(file.is_ok() || (taken > 450 && refused > 700 && values > 2_000), "{taken} {refused} {values}");
}
