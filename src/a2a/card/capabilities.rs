//! What a card says about what its agent can do: switches that the proxy may turn off, and the extension that it declares.

use super::interface::refuse_duplicates;
use super::{CardError, Serves};
use crate::a2a::EXTENSION_URI;
use crate::json::{Doc, Edits, Kind, Value, quote};

const DESCRIPTION: &str = "Keeps the conversation: earlier turns are put in front of a message, one turn at a time, and a reply that \
asks something is input-required.";

/// The extension's declaration, as it stands in the card (0.3 and 1.0 spell it alike).
fn declaration(rules: &str) -> Result<String, CardError> {
    match Doc::scan(rules.as_bytes()) {
        Ok(doc) if doc.root().kind() == Kind::Object => Ok(format!(
            "{{\"uri\":{},\"description\":{},\"required\":false,\"params\":{rules}}}",
            quote(EXTENSION_URI),
            quote(DESCRIPTION)
        )),
        _ => Err(CardError::Rules),
    }
}

/// Turns off what is not served, and declares the extension once.
pub(super) fn adapt(
    card: Value<'_, '_>,
    serves: &Serves<'_>,
    edits: &mut Edits,
    warnings: &mut Vec<String>,
) -> Result<(), CardError> {
    let declaration = declaration(serves.rules)?;
    let Some(capabilities) = card.some("capabilities") else {
        let push = if serves.push { "\"pushNotifications\":true," } else { "" };
        edits.set_member(card, "capabilities", &format!("{{{push}\"extensions\":[{declaration}]}}"));
        return Ok(());
    };
    if capabilities.kind() != Kind::Object {
        warnings.push("`capabilities` is no object: it stays, and the extension is not declared".to_owned());
        return Ok(());
    }
    refuse_duplicates(capabilities, "capabilities")?;
    for (name, served) in [("streaming", serves.streaming), ("pushNotifications", serves.push)] {
        if !served && capabilities.get(name).and_then(|value| value.bool()) == Some(true) {
            edits.set_member(capabilities, name, "false");
            warnings.push(format!("`capabilities.{name}` is shown as false: the proxy does not serve it"));
        }
    }
    if serves.push {
        // The proxy pushes what it sees, also of an agent that never does.
        edits.set_member(capabilities, "pushNotifications", "true");
    }
    match capabilities.some("extensions") {
        None => edits.set_member(capabilities, "extensions", &format!("[{declaration}]")),
        Some(list) if list.kind() == Kind::Array => declare(list, &declaration, edits)?,
        Some(_) => {
            warnings.push("`capabilities.extensions` is no array: it stays, and ours is not declared".to_owned());
        }
    }
    Ok(())
}

/// Exactly once, and with our rules: what an agent declares under the same URI holds for itself and not for who stands in front.
fn declare(list: Value<'_, '_>, declaration: &str, edits: &mut Edits) -> Result<(), CardError> {
    let ours = |each: &Value<'_, '_>| each.get("uri").and_then(|uri| uri.str()).as_deref() == Some(EXTENSION_URI);
    for extension in list.elements() {
        refuse_duplicates(extension, "capabilities.extensions")?;
    }
    let Some(first) = list.elements().find(ours) else {
        edits.append(list, declaration);
        return Ok(());
    };
    if !same(first.raw(), declaration) {
        edits.replace(first.range(), declaration);
    }
    edits.remove_elements(list, |each| ours(&each) && each.range() != first.range());
    Ok(())
}

/// Whether two texts say the same, whatever their spacing and order.
fn same(one: &str, other: &str) -> bool {
    let value = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    one == other || value(one).is_some_and(|one| Some(one) == value(other))
}
