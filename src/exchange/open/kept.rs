//! What is kept of the client's message.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::Plan;
use crate::a2a::{Dialect, Part, State, text_of};
use crate::conversation::policy::Credentials;
use crate::conversation::question::Expected;
use crate::exchange::Send;
use crate::json::hex;

/// The client's parts as they are kept: the answer to a request for a credential as a receipt.
pub fn redacted(send: &Send<'_, '_>, plan: &Plan<'_>) -> Vec<Part> {
    if plan.policy.history.credentials == Credentials::Keep || !answers_credential(send, plan) {
        return send.parts.clone();
    }
    vec![receipt(send, plan)]
}

/// A message's length and keyed hash: enough to tell whether two were the same, and no more.
pub(super) fn receipt(send: &Send<'_, '_>, plan: &Plan<'_>) -> Part {
    let content = crate::a2a::write_parts(&send.parts, Dialect::V10);
    // HMAC takes a key of any length.
    let hash = Hmac::<Sha256>::new_from_slice(plan.secret).map(|mut mac| {
        mac.update(content.as_bytes());
        hex(&mac.finalize().into_bytes())
    });
    let (length, hash) = (text_of(&send.parts).len(), hash.unwrap_or_default());
    Part::Data(format!("{{\"credential\":{{\"length\":\"{length}\",\"hmac\":\"{hash}\"}}}}"))
}

/// Whether the agent's last word was a request for a credential, and this is the answer to it.
fn answers_credential(send: &Send<'_, '_>, plan: &Plan<'_>) -> bool {
    let Some(newest) = plan.context.newest() else { return false };
    let asked = newest.state == State::InputRequired
        && newest.decided.is_some_and(|decided| decided.expected == Expected::Credential);
    asked && send.task_id.as_ref().is_none_or(|task| *task == newest.task)
}
