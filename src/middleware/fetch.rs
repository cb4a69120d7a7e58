//! The conversation, fetched by the agent (semantics 1, `agent_fetched`): what is misused is answered as what does not exist.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use uuid::Uuid;

use super::body::ReplyBody;
use super::core::{Core, millis, mint};
use super::respond;
use super::send::{Exchange, Outcome};
use crate::a2a::Binding;
use crate::a2a::{Call, Verb, message};
use crate::conversation::policy::ConversationKey;
use crate::conversation::principal::{ContextKey, Principal, RouteId};
use crate::conversation::transcript::Turn;
use crate::exchange::{Grant, Pointing, Refusal, bearer, derived_id, is_grant, transcript};
use crate::json::{Doc, Edits};
use crate::store::Found;
use crate::task::both_sides;

impl Core {
    /// The token for a conversation that a request carries.
    pub(super) fn token<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        self.reached_at.get()?;
        bearer(headers).filter(|token| is_grant(token))
    }

    fn grant(&self, token: &str, route: &RouteId) -> Option<Grant> {
        Grant::read(token, &self.store.secret(), self.now()).filter(|grant| grant.key.route == *route)
    }

    /// The contextId that a message means which names none.
    pub(super) fn conversation(&self, route: &RouteId, principal: &Principal, headers: &HeaderMap) -> Option<String> {
        let which = match self.policy.conversation_key.as_ref()? {
            ConversationKey::Principal => "",
            ConversationKey::Header(name) => headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())?,
        };
        let key = ContextKey { route: route.clone(), principal: principal.clone(), context_id: which.into() };
        Some(derived_id(&self.store.secret(), "conversation", &key))
    }
}

/// A GET of a transcript.
pub(super) async fn fetch(core: &Core, head: &http::request::Parts, context_id: &str) -> Response<ReplyBody> {
    let route = head.extensions.get::<RouteId>().cloned().unwrap_or_default();
    let grant = core.token(&head.headers).and_then(|token| core.grant(token, &route));
    // An unknown token is looked up no less than a known one.
    let nobody = || ContextKey { route: route.clone(), principal: mint().into(), context_id: context_id.into() };
    let key = grant.as_ref().map_or_else(nobody, |grant| grant.key.clone());
    let found = match core.store.context(&key).await {
        Ok(found) => found.filter(|found| *found.key.context_id == *context_id),
        Err(error) => {
            tracing::error!(%error, "the store failed");
            return plain(StatusCode::SERVICE_UNAVAILABLE, "{\"error\":\"the conversation store is unavailable\"}");
        }
    };
    match grant.zip(found) {
        Some((grant, found)) => plain(StatusCode::OK, &transcript(&grant, &found.context)),
        None => plain(StatusCode::NOT_FOUND, "{\"error\":\"no such transcript\"}"),
    }
}

fn plain(status: StatusCode, json: &str) -> Response<ReplyBody> {
    let mut response = respond::json_of(&Binding::json_rpc(), json.to_owned(), status.as_u16());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl Exchange {
    /// How the agent is pointed to a conversation: for as long as the turn may last in which it asks.
    pub(super) fn pointing(&self) -> Option<Pointing<'_>> {
        let base = self.core.reached_at.get()?;
        let mut nonce = [0; 24];
        nonce[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        nonce[16..].copy_from_slice(&Uuid::new_v4().as_bytes()[..8]);
        Some(Pointing { base, lifetime: millis(self.core.policy.guard.max_turn), nonce })
    }

    /// An operation of the agent's, with a token for a conversation: it may read that one, and nothing else.
    pub(super) async fn fetched(&mut self, call: &Call<'_, '_>, token: &str) -> Outcome {
        let grant = self.core.grant(token, &self.route);
        // Without a grant it is a caller who has nothing.
        self.principal = grant.as_ref().map_or_else(|| mint().into(), |grant| grant.key.principal.clone());
        self.identified = true;
        let context_id = grant.map_or_else(mint, |grant| grant.key.context_id.to_string());
        match call.verb {
            Verb::List => self.list_of(call, &context_id).await,
            Verb::Get => self.task_of(call, &context_id).await,
            _ => Err(Refusal::unsupported("more than reading with this token")),
        }
    }

    async fn task_of(&self, call: &Call<'_, '_>, context_id: &str) -> Outcome {
        let id = call.params.some("id").and_then(|id| id.str());
        let id = id.ok_or_else(|| Refusal::invalid_params("id is required, a string"))?;
        let found = self.find(&id).await?.filter(|found| *found.key.context_id == *context_id);
        let found = found.ok_or_else(Refusal::task_not_found)?;
        let task = found.context.task(&id).ok_or_else(Refusal::task_not_found)?;
        let turn = found.context.newest_turn_of(task).ok_or_else(Refusal::task_not_found)?;
        let length = call.params.some("historyLength").and_then(|length| length.u64());
        let task = self.conversation_task(&found, &turn, call, length, true);
        Ok(respond::own(&call.binding, &task, false))
    }

    /// A client task whose history holds both sides of all its turns, the oldest first.
    pub(super) fn conversation_task(
        &self,
        found: &Found,
        turn: &Turn,
        call: &Call<'_, '_>,
        history_length: Option<u64>,
        artifacts: bool,
    ) -> String {
        let task = self.recorded_task(found, turn, call.dialect, Some(0), artifacts);
        let Some(client) = found.context.task(&turn.task) else { return task };
        let turns =
            client.attempts.iter().filter_map(|attempt| attempt.turn).filter_map(|number| found.context.turn(number));
        let ids = (&*turn.task, &*found.key.context_id);
        let said: Vec<_> = turns.flat_map(|turn| both_sides(&turn)).collect();
        let said: Vec<_> =
            said.iter().map(|(role, id, parts)| message(call.dialect, *role, id, parts, ids, None)).collect();
        let first = history_length.map_or(0, |most| said.len().saturating_sub(most as usize));
        let Ok(doc) = Doc::scan(task.as_bytes()) else { return task };
        let mut edits = Edits::new();
        edits.set_member(doc.root(), "history", &format!("[{}]", said[first..].join(",")));
        edits.apply(&task)
    }
}
