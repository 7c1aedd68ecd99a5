//! `kindom explain write`: the stages of writes that a server only tries.

use std::fmt::Write as _;
use std::io::Write as _;

use hyper::{Method, StatusCode};
use kindom_api::Value;

use crate::BoxError;
use crate::client::{Answer, Client};
use crate::flags::{ExplainFormat, ExplainWrite};
use crate::kubeconfig;
use crate::manifests::{flattened, named, read, type_of};
use crate::served_types::{ServedType, ServedTypes, escaped};

/// The most characters of a value that are printed.
const VALUE_CHARS_MAX: usize = 100;

/// Tries the writes, and prints what the server tells of each.
///
/// # Errors
/// An unreadable file, no server, a server that explains nothing, or the number of writes that would be refused.
pub(crate) fn run(options: &ExplainWrite) -> Result<(), BoxError> {
    let objects = flattened(read(&options.filename)?);
    let access = &options.access;
    let (file, context) = (access.kubeconfig.as_deref(), access.context.as_deref());
    let config = kubeconfig::load(file, context, access.server.as_deref())?;
    let namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::new(config)?;
        let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
        let (mut types, mut refused) = (ServedTypes::default(), 0);
        for (place, object) in &objects {
            let at = || format!("{place}: {}", named(object));
            let kind =
                types.find(&client, type_of(object)).await?.map_err(|why| format!("{}: {why}", at()))?;
            let answer = attempt(&client, options, &kind, object, &namespace).await?;
            for warning in &answer.warnings {
                writeln!(err, "warning: {}: {warning}", at())?;
            }
            if answer.body.text_at(&["kind"]) != "WriteExplanation" {
                let why = match answer.status {
                    StatusCode::OK | StatusCode::CREATED => "the server explains no writes".to_owned(),
                    _ => answer.message(),
                };
                return Err(format!("{}: {why}", at()).into());
            }
            refused += usize::from(code(&answer.body) >= 300);
            match options.output {
                ExplainFormat::Json => writeln!(out, "{}", answer.body)?,
                ExplainFormat::Text => write!(out, "{}", text(&named(object), &answer.body))?,
            }
        }
        match refused {
            0 => Ok(()),
            _ => Err(format!("{refused} of {} writes would be refused", objects.len()).into()),
        }
    })
}

/// The answer to an attempt to write the object, or to the look if it is there.
async fn attempt(
    client: &Client,
    options: &ExplainWrite,
    kind: &ServedType,
    object: &Value,
    namespace: &str,
) -> Result<Answer, BoxError> {
    let own = object.text_at(&["metadata", "namespace"]);
    let collection = kind.collection(type_of(object).0, if own.is_empty() { namespace } else { own });
    let name = object.text_at(&["metadata", "name"]);
    let mut path = format!("{collection}/{}", escaped(name));
    let query = format!("dryRun=All&explain=stages&fieldManager={}", escaped(&options.field_manager));
    if let Some(subresource) = &options.subresource {
        path = format!("{path}/{}", escaped(subresource));
    }
    if name.is_empty() && (options.server_side || options.subresource.is_some()) {
        return Err("an object that is applied, or whose part is written, needs a name".into());
    }
    if options.server_side {
        let path = format!("{path}?{query}&force={}", options.force_conflicts);
        return client.send_as("application/apply-patch+yaml", Method::PATCH, &path, Some(object)).await;
    }
    let found = match name {
        "" => None,
        _ => Some(client.send(Method::GET, &path, None).await?),
    };
    let is_new = found.as_ref().is_none_or(|found| found.status == StatusCode::NOT_FOUND);
    let Some(found) = found.filter(|_| !is_new || options.subresource.is_some()) else {
        return client.send(Method::POST, &format!("{collection}?{query}"), Some(object)).await;
    };
    if found.status != StatusCode::OK {
        return Ok(found);
    }
    let mut object = object.clone();
    // As kubectl replaces what is there, whatever its state is.
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(revision) = found.body.at(&["metadata", "resourceVersion"])
    {
        metadata.entry_or_insert_with("resourceVersion", || revision.clone());
    }
    client.send(Method::PUT, &format!("{path}?{query}"), Some(&object)).await
}

fn number(of: &Value, field: &str) -> i64 {
    of.get(field).and_then(Value::as_i64).unwrap_or_default()
}

fn code(explanation: &Value) -> i64 {
    number(explanation, "code")
}

/// The explanation for people.
fn text(name: &str, explanation: &Value) -> String {
    let list =
        |of: &Value, field| of.get(field).and_then(Value::as_array).map_or(Vec::new(), |all| all.to_vec());
    let (code, result) = (code(explanation), explanation.get("result").cloned().unwrap_or_default());
    let mut text = match code {
        201 => format!("{name} would be created\n"),
        200 => format!("{name} would be written\n"),
        _ => format!("{name} would be refused: {code} {}\n", result.text_at(&["message"])),
    };
    if number(explanation, "attempts") > 1 {
        let _ = writeln!(text, "  attempts: {}", number(explanation, "attempts"));
    }
    for stage in list(explanation, "stages") {
        let micros = number(&stage, "microseconds");
        let time = format!("{}.{:03} ms", micros / 1000, micros % 1000);
        let line = format!("  {:<18} {time:>12}  {}", stage.text_at(&["stage"]), stage.text_at(&["by"]));
        let _ = writeln!(text, "{}", line.trim_end());
        for change in list(&stage, "changes") {
            // Whoever wrote the object may have chosen the path, and a terminal obeys some signs.
            let (op, path) = (change.text_at(&["op"]), printable(change.text_at(&["path"])));
            let line =
                format!("      {op:<7} {path}  {}", change.get("value").map(shortened).unwrap_or_default());
            let _ = writeln!(text, "{}", line.trim_end());
        }
        if number(&stage, "omitted") > 0 {
            let _ = writeln!(text, "      and {} more changes", number(&stage, "omitted"));
        }
    }
    text
}

/// Without signs that do not print.
fn printable(text: &str) -> String {
    text.chars().map(|sign| if sign.is_control() { char::REPLACEMENT_CHARACTER } else { sign }).collect()
}

/// As JSON, in one line.
fn shortened(value: &Value) -> String {
    let text = printable(&value.to_string());
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_each_stage_did() {
        let long = "x".repeat(200);
        let explanation = format!(
            r#"{{"code": 403, "attempts": 2, "result": {{"message": "denied"}}, "stages": [
                {{"stage": "decode", "microseconds": 12}},
                {{"stage": "admit (mutating)", "by": "webhook a of b", "microseconds": 1234, "omitted": 3, "changes": [
                    {{"op": "add", "path": "/spec/a", "value": "{long}"}}, {{"op": "remove", "path": "/spec/\u001bb"}}]}}]}}"#
        );
        let explanation = kindom_api::json::parse(explanation.as_bytes()).unwrap();
        let shown = text("ox.farm.io/bo", &explanation);
        let expected = format!(
            "ox.farm.io/bo would be refused: 403 denied\n  attempts: 2\n  decode                 0.012 ms\n  \
             admit (mutating)       1.234 ms  webhook a of b\n      add     /spec/a  \"{}…\n      remove  /spec/\u{fffd}b\n      \
             and 3 more changes\n",
            &long[..99]
        );
        assert_eq!(shown, expected);
    }
}
