//! What the agent said in so many words: a marker, a JSON status, metadata. It wins over every rule, both ways.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;

use super::{Decision, Expected, Reason, Reply, Settings, judge};

/// Where a marker stands at the very start or the very end of the text, with the white space behind it: what is to be removed from every
/// copy that the client sees. The end is looked at first. At level `off` nothing is removed, so it is not to be asked.
pub fn marker_range(text: &str, markers: &[String]) -> Option<Range<usize>> {
    let head = text.len() - text.trim_start().len();
    let tail = text.trim_end().len();
    let core = text.get(head..tail)?;
    let longest = |found: &dyn Fn(&str) -> bool| markers.iter().filter(|m| found(m)).map(String::len).max();
    if let Some(len) = longest(&|m| ends_with(core, m)) {
        // The white space in front stays: in a stream it has gone out before the marker came.
        return Some(if tail - len == head { 0..text.len() } else { tail - len..text.len() });
    }
    let end = head + longest(&|m| starts_with(core, m))?;
    Some(0..text.len() - text[end..].trim_start().len())
}

fn ends_with(text: &str, marker: &str) -> bool {
    !marker.is_empty() && text.strip_suffix(marker).is_some_and(|rest| !joined(rest, marker))
}

fn starts_with(text: &str, marker: &str) -> bool {
    !marker.is_empty() && text.strip_prefix(marker).is_some_and(|rest| !joined(marker, rest))
}

/// A marker that is a bare word must not be taken for a part of a longer one: `WAIT` in `WAITING`.
fn joined(left: &str, right: &str) -> bool {
    left.chars().next_back().is_some_and(char::is_alphanumeric)
        && right.chars().next().is_some_and(char::is_alphanumeric)
}

pub(super) fn decide(reply: &Reply<'_>, settings: &Settings) -> Option<Decision> {
    marked(reply, settings).or_else(|| json(reply)).or_else(|| metadata(reply, settings))
}

fn marked(reply: &Reply<'_>, settings: &Settings) -> Option<Decision> {
    let range = marker_range(reply.text, &settings.markers)?;
    let rest = if range.start == 0 { &reply.text[range.end..] } else { &reply.text[..range.start] };
    Some(waiting(Reason::Marker, judge::expected(rest), vec![range]))
}

/// A JSON reply as agents write it. A duplicate key makes it unreadable here, and the reply is then not explicit.
#[derive(Deserialize)]
struct Body {
    status: String,
    question: Option<Value>,
    message: Option<Value>,
    expected_input: Option<Value>,
}

fn json(reply: &Reply<'_>) -> Option<Decision> {
    let (body, words) = match reply.data {
        Some(data) => (read(data)?, Vec::new()),
        None => (read(object(reply.text)?)?, status_word(reply.text)),
    };
    if body.status == "completed" {
        return Some(Decision { words, ..Decision::not(Reason::JsonStatus, 1.0) });
    }
    if !is_required(&body.status) {
        return None;
    }
    let shown = [&body.question, &body.message].into_iter().flatten().find_map(Value::as_str).map(str::to_owned);
    let expected = body.expected_input.and_then(|e| serde_json::from_value(e).ok());
    let expected = expected.unwrap_or_else(|| judge::expected(shown.as_deref().unwrap_or_default()));
    Some(Decision { shown, ..waiting(Reason::JsonStatus, expected, words) })
}

fn read(text: &str) -> Option<Body> {
    serde_json::from_str(text).ok()
}

/// The object that the whole text is. Models like to put a fence around it.
pub(super) fn object(text: &str) -> Option<&str> {
    let text = text.trim();
    let fenced = text.strip_prefix("```json").or_else(|| text.strip_prefix("```")).and_then(|t| t.strip_suffix("```"));
    let text = fenced.unwrap_or(text).trim();
    (text.starts_with('{') && text.ends_with('}')).then_some(text)
}

fn status_word(text: &str) -> Vec<Range<usize>> {
    text.find("\"status\"").map(|at| at..at + 8).into_iter().collect()
}

fn is_required(status: &str) -> bool {
    matches!(status, "input_required" | "input-required")
}

fn metadata(reply: &Reply<'_>, settings: &Settings) -> Option<Decision> {
    if settings.metadata.is_empty() {
        return None;
    }
    let metadata: Value = serde_json::from_str(reply.metadata?).ok()?;
    match settings.metadata.iter().find_map(|key| says(metadata.get(key)?))? {
        true => Some(waiting(Reason::Metadata, judge::expected(reply.text), Vec::new())),
        false => Some(Decision::not(Reason::Metadata, 1.0)),
    }
}

fn says(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(required) => Some(*required),
        Value::String(word) if is_required(word) || word == "required" || word == "true" => Some(true),
        Value::String(word) if matches!(word.as_str(), "completed" | "complete" | "false") => Some(false),
        _ => None,
    }
}

fn waiting(reason: Reason, expected: Expected, words: Vec<Range<usize>>) -> Decision {
    Decision { waiting: true, expected, words, ..Decision::not(reason, 1.0) }
}
