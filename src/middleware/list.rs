//! ListTasks: the principal's client tasks, from the record.

use super::core::mint;
use super::operate::page_token;
use super::respond;
use super::send::{Exchange, Outcome, store_refusal};
use crate::a2a::{Call, Dialect, State};
use crate::exchange::Refusal;
use crate::json::{Value, quote};
use crate::store::{Found, ListQuery};

const PAGE: u64 = 50;
const LARGEST_PAGE: u64 = 100;

impl Exchange {
    /// The principal's tasks.
    pub(super) async fn list(&self, call: &Call<'_, '_>) -> Outcome {
        self.listing(call, None).await
    }

    /// The tasks of this context alone, their histories with both sides.
    pub(super) async fn list_of(&self, call: &Call<'_, '_>, context_id: &str) -> Outcome {
        self.listing(call, Some(context_id)).await
    }

    async fn listing(&self, call: &Call<'_, '_>, only: Option<&str>) -> Outcome {
        if call.dialect.is_of_03() {
            return Err(Refusal::no_method("tasks/list"));
        }
        if !self.identified {
            return Err(Refusal::unsupported("ListTasks without a credential"));
        }
        let params = call.params;
        let size = number(params, "pageSize")?.unwrap_or(PAGE);
        if !(1..=LARGEST_PAGE).contains(&size) {
            return Err(Refusal::invalid_params(format!("pageSize must be from 1 to {LARGEST_PAGE}")));
        }
        let query = ListQuery {
            route: self.route.clone(),
            principal: self.principal.clone(),
            context_id: word(params, "contextId").or(only.map(str::to_owned)),
            state: word(params, "status").map(|state| State::read(&state)).filter(|state| *state != State::Unknown),
            updated_since: since(params)?,
            after: word(params, "pageToken").map(|token| read_token(&token)).transpose()?,
            limit: size as usize + 1,
        };
        let elsewhere = only.is_some() && query.context_id.as_deref() != only;
        // What a token does not open is as empty as a context that nobody knows.
        let query = if elsewhere { ListQuery { principal: mint().into(), ..query } } else { query };
        let mut listed = self.core.store.list(query).await.map_err(|error| store_refusal(&error))?;
        let more = listed.tasks.len() > size as usize;
        listed.tasks.truncate(size as usize);
        let last = listed.tasks.last().filter(|_| more);
        let token = last.map(|(_, _, task)| page_token(task.updated_at, &task.id)).unwrap_or_default();
        let artifacts = params.some("includeArtifacts").and_then(|include| include.bool()) == Some(true);
        let length = number(params, "historyLength")?;
        let tasks: Vec<_> = listed
            .tasks
            .into_iter()
            .filter_map(|(key, context, task)| {
                let turn = context.failed_turn_of(&task).filter(|_| task.state != State::InputRequired);
                let turn = turn.or_else(|| context.newest_turn_of(&task))?;
                let found = Found { key, context, in_flight: None };
                Some(match only {
                    Some(_) => self.conversation_task(&found, &turn, call, length, artifacts),
                    None => self.recorded_task(&found, &turn, Dialect::V10, length.or(Some(0)), artifacts),
                })
            })
            .collect();
        let result = format!(
            "{{\"tasks\":[{}],\"nextPageToken\":{},\"pageSize\":{size},\"totalSize\":{}}}",
            tasks.join(","),
            quote(&token),
            listed.total
        );
        Ok(respond::own(&call.binding, &result, false))
    }
}

fn word(params: Value<'_, '_>, name: &str) -> Option<String> {
    params.some(name).and_then(|value| value.str()).filter(|text| !text.is_empty()).map(std::borrow::Cow::into_owned)
}

fn number(params: Value<'_, '_>, name: &str) -> Result<Option<u64>, Refusal> {
    let Some(value) = params.some(name) else { return Ok(None) };
    value.u64().map(Some).ok_or_else(|| Refusal::invalid_params(format!("{name} must be a whole number, not negative")))
}

fn since(params: Value<'_, '_>) -> Result<Option<u64>, Refusal> {
    let Some(text) = word(params, "statusTimestampAfter") else { return Ok(None) };
    let time = humantime::parse_rfc3339_weak(&text).ok();
    let millis =
        time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).map(|since| since.as_millis() as u64);
    millis.map(Some).ok_or_else(|| Refusal::invalid_params("statusTimestampAfter must be a time as RFC 3339 has it"))
}

fn read_token(token: &str) -> Result<(u64, String), Refusal> {
    let refusal = || Refusal::invalid_params("pageToken is none of this proxy's");
    let bytes: Option<Vec<u8>> =
        (0..token.len()).step_by(2).map(|at| u8::from_str_radix(token.get(at..at + 2)?, 16).ok()).collect();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(refusal)?;
    let (updated_at, id) = text.split_once(':').ok_or_else(refusal)?;
    Ok((updated_at.parse().map_err(|_| refusal())?, id.to_owned()))
}
