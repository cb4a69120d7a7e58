//! Bodies and queries: what a request says beside its path, as the parameters that the other binding has.

use std::borrow::Cow;

use super::path::{Operation, decoded};
use crate::a2a::{Dialect, Push};
use crate::json::{Doc, Edits, Kind, Value, quote};

/// The body of a send, in the names that are read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical<'t> {
    /// The body: the client's own, or its protobuf names in their JSON form.
    pub text: Cow<'t, str>,
    /// The dialect in which it is spelled, where it tells.
    pub dialect: Option<Dialect>,
}

/// The names that one official client of 0.3 writes as its protobuf has them; every reader of that form takes both.
const REQUEST: [(&str, &str); 1] = [("request", "message")];
const MESSAGE: [(&str, &str); 4] = [
    ("message_id", "messageId"),
    ("context_id", "contextId"),
    ("task_id", "taskId"),
    ("reference_task_ids", "referenceTaskIds"),
];
const CONFIGURATION: [(&str, &str); 4] = [
    ("history_length", "historyLength"),
    ("push_notification", "pushNotification"),
    ("push_notification_config", "pushNotificationConfig"),
    ("accepted_output_modes", "acceptedOutputModes"),
];

/// Reads the body of a send. Names of the protobuf form of 0.3 come in the spelling in which they are read; what else is odd stays, and is
/// found where it is read.
pub fn canonical<'t>(doc: &Doc<'t>) -> Canonical<'t> {
    let root = doc.root();
    let message = root.some("request").or_else(|| root.some("message")).filter(|value| value.kind() == Kind::Object);
    let proto = root.some("request").is_some() || message.is_some_and(|message| message.some("content").is_some());
    if !proto {
        let spelled = message.and_then(|message| message.some("parts")).map(|_| Dialect::V10);
        return Canonical { text: Cow::Borrowed(doc.text()), dialect: spelled };
    }
    let mut edits = Edits::new();
    rename(&mut edits, root, &REQUEST);
    if let Some(message) = message {
        rename(&mut edits, message, &MESSAGE);
    }
    if let Some(configuration) = root.some("configuration") {
        rename(&mut edits, configuration, &CONFIGURATION);
    }
    let text = if edits.is_empty() { Cow::Borrowed(doc.text()) } else { Cow::Owned(edits.apply(doc.text())) };
    Canonical { text, dialect: Some(Dialect::Proto03) }
}

/// Gives the members of `object` other names. One that stands there under both is found to stand twice.
fn rename(edits: &mut Edits, object: Value<'_, '_>, names: &[(&str, &str)]) {
    for member in object.members() {
        if let Some((_, new)) = names.iter().find(|(old, _)| *old == member.name()) {
            let range = member.range();
            edits.replace(range.start..member.value.range().start, format!("{}:", quote(new)));
        }
    }
}

/// The parameters of an operation on push configurations: path and body, as the other binding has them. The ids are the path's.
///
/// # Errors
/// What is wrong with the body of one that sets.
pub fn push_params(push: Push, operation: &Operation, dialect: Dialect, body: &[u8]) -> Result<String, &'static str> {
    let (task, config) = (quote(&operation.task), quote(&operation.config));
    if push != Push::Set {
        let [of_task, of_config] =
            if dialect.is_of_03() { ["id", "pushNotificationConfigId"] } else { ["taskId", "id"] };
        let config = if operation.config.is_empty() { String::new() } else { format!(",\"{of_config}\":{config}") };
        return Ok(format!("{{\"{of_task}\":{task}{config}}}"));
    }
    let doc = Doc::scan(body).map_err(|_| "the body is no JSON")?;
    let outer = doc.root().some("config").unwrap_or(doc.root());
    let inner = outer.some("pushNotificationConfig").unwrap_or(outer);
    if [doc.root(), outer, inner].iter().any(|value| value.kind() != Kind::Object || value.has_duplicate_names()) {
        return Err("the body is an object in which no member stands twice");
    }
    if dialect.is_of_03() {
        return Ok(format!("{{\"taskId\":{task},\"pushNotificationConfig\":{}}}", inner.raw()));
    }
    let own = Doc::scan(inner.raw().as_bytes()).map_err(|_| "the body is no JSON")?;
    let mut edits = Edits::new();
    edits.set_string_member(own.root(), "taskId", &operation.task);
    Ok(edits.apply(own.text()))
}

/// The parameters of an operation that has them in its path and query: those that are read here, as JSON.
pub fn params(task: &str, query: &str) -> String {
    let mut members = Vec::new();
    if !task.is_empty() {
        members.push(format!("\"id\":{}", quote(task)));
    }
    let mut seen = Vec::new();
    for (name, value) in pairs(query) {
        // Of a name that stands twice the first counts; the id is the path's.
        if value.is_empty() || name == "id" || seen.contains(&name) {
            continue;
        }
        members.push(format!("{}:{}", quote(&name), as_json(&name, &value)));
        seen.push(name);
    }
    format!("{{{}}}", members.join(","))
}

/// A value of a query is text; a number or a flag is one by its name.
fn as_json(name: &str, value: &str) -> String {
    let is_number = matches!(name, "historyLength" | "pageSize")
        && value.len() < 19
        && value.bytes().all(|byte| byte.is_ascii_digit());
    match (name, value) {
        (_, digits) if is_number => digits.trim_start_matches('0').parse::<u64>().unwrap_or_default().to_string(),
        ("includeArtifacts", "true" | "True" | "1") => "true".to_owned(),
        ("includeArtifacts", "false" | "False" | "0") => "false".to_owned(),
        _ => quote(value),
    }
}

/// The value of a name in a query.
pub fn in_query(query: &str, name: &str) -> Option<String> {
    pairs(query).find(|(of, _)| of == name).map(|(_, value)| value)
}

fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let text = |part: &str| String::from_utf8_lossy(&decoded(&part.replace('+', " "))).into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(move |pair| {
        pair.split_once('=').map_or((text(pair), String::new()), |(name, value)| (text(name), text(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Option<Dialect>) {
        let doc = Doc::scan(text.as_bytes()).unwrap();
        let canonical = canonical(&doc);
        (canonical.text.into_owned(), canonical.dialect)
    }

    #[test]
    fn the_dialect_is_told_by_the_shape() {
        for (text, dialect) in [
            (r#"{"message":{"messageId":"m","parts":[{"text":"a"}]}}"#, Some(Dialect::V10)),
            (r#"{"message":{"messageId":"m","content":[{"text":"a"}]}}"#, Some(Dialect::Proto03)),
            (r#"{"message":{"messageId":"m"}}"#, None),
            (r#"{"message":"m"}"#, None),
            ("{}", None),
        ] {
            assert_eq!(read(text), (text.to_owned(), dialect));
        }
    }

    #[test]
    fn protobuf_names_become_those_of_json() {
        let text = r#"{"request": {"message_id" : "m","content":[{"text":"task_id"}],"task_id":"t"},"configuration":{"blocking":true,"history_length":2}}"#;
        let expected = r#"{"message":{"messageId":"m","content":[{"text":"task_id"}],"taskId":"t"},"configuration":{"blocking":true,"historyLength":2}}"#;
        assert_eq!(read(text), (expected.to_owned(), Some(Dialect::Proto03)));
        let both = read(r#"{"message":{"messageId":"m","content":[],"message_id":"n"}}"#).0;
        assert_eq!(both.matches("messageId").count(), 2, "and what stands twice is refused where it is read");
    }

    #[test]
    fn a_query_becomes_parameters() {
        for (task, query, expected) in [
            ("", "", "{}"),
            ("t\"", "historyLength=02", r#"{"id":"t\"","historyLength":2}"#),
            ("t", "historyLength=-1&historyLength=2", r#"{"id":"t","historyLength":"-1"}"#),
            ("t", "id=other&historyLength=", r#"{"id":"t"}"#),
            (
                "",
                "contextId=a%2Bb+c&status=TASK_STATE_COMPLETED&includeArtifacts=true&pageSize=5&pageToken=66",
                r#"{"contextId":"a+b c","status":"TASK_STATE_COMPLETED","includeArtifacts":true,"pageSize":5,"pageToken":"66"}"#,
            ),
        ] {
            assert_eq!(params(task, query), expected);
        }
        assert_eq!(in_query("a=b&A2A-Version=1.0", "A2A-Version").as_deref(), Some("1.0"));
    }
}
