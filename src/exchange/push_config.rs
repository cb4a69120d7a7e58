//! Push configurations as they stand in requests and answers of both dialects.

use super::{Refusal, Send};
use crate::a2a::{Call, Dialect, Push};
use crate::conversation::policy::Limits;
use crate::json::{Edits, Kind, Value, quote};
use crate::push::{Callback, PushConfig, Webhooks};

/// Bytes of a webhook's URL, and of what goes into a header for it.
const LONGEST: usize = 4096;

/// The members of a send's configuration that hold one: 0.3's, 1.0's, and that of 0.3's protobuf form.
const MEMBERS: [&str; 3] = ["pushNotificationConfig", "taskPushNotificationConfig", "pushNotification"];

/// What a client asks of the configurations of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushCall {
    /// This one is to be set.
    Set(PushConfig),
    /// One is to be shown.
    Get {
        /// The task.
        task: String,
        /// The configuration's id; the task's where none is named.
        id: String,
    },
    /// All are to be shown.
    List {
        /// The task.
        task: String,
    },
    /// One is to go.
    Delete {
        /// The task.
        task: String,
        /// The configuration's id; the task's where none is named.
        id: String,
    },
}

impl PushCall {
    /// Reads a call of one of the four methods.
    ///
    /// # Errors
    /// -32602 where something is missing or not as it must be, a URL that may not be called among it.
    pub fn read(push: Push, call: &Call<'_, '_>, rules: &Rules<'_>) -> Result<Self, Refusal> {
        let params = call.params;
        // 0.3 calls the task's id `id` in three of the methods, 1.0 the configuration's.
        let (task, id) = match (call.dialect, push) {
            (Dialect::V03 | Dialect::Proto03, Push::Set) => ("taskId", ""),
            (Dialect::V03 | Dialect::Proto03, _) => ("id", "pushNotificationConfigId"),
            (Dialect::V10, _) => ("taskId", "id"),
        };
        let task = super::send::id(params, task, rules.limits)?
            .ok_or_else(|| Refusal::invalid_params(format!("{task} is required, a string")))?;
        let named = if id.is_empty() { None } else { super::send::id(params, id, rules.limits)? };
        let id = named.unwrap_or_else(|| task.clone());
        Ok(match push {
            Push::Set => {
                let config = match call.dialect {
                    Dialect::V03 | Dialect::Proto03 => params.some(MEMBERS[0]).unwrap_or(params),
                    Dialect::V10 => params,
                };
                Self::Set(rules.read(config, call.dialect)?.of_task(&task))
            }
            Push::Get => Self::Get { task, id },
            Push::List => Self::List { task },
            Push::Delete => Self::Delete { task, id },
        })
    }

    /// The task that it is about.
    pub fn task(&self) -> &str {
        match self {
            Self::Set(config) => &config.task,
            Self::Get { task, .. } | Self::List { task } | Self::Delete { task, .. } => task,
        }
    }
}

/// By what configurations are read.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Which webhooks may be called.
    pub webhooks: &'a Webhooks,
    /// How long an id may be.
    pub limits: &'a Limits,
    /// Whether the client activated the extension.
    pub active: bool,
}

impl Rules<'_> {
    /// The configuration that comes with a send, of a task that is not known yet.
    ///
    /// # Errors
    /// As [`PushCall::read`].
    pub fn in_send(&self, send: &Send<'_, '_>) -> Result<Option<PushConfig>, Refusal> {
        let configuration = send.call.params.some("configuration");
        let found = MEMBERS.iter().find_map(|name| configuration?.some(name));
        found.map(|config| self.read(config, send.call.dialect)).transpose()
    }

    fn read(&self, config: Value<'_, '_>, dialect: Dialect) -> Result<PushConfig, Refusal> {
        if config.kind() != Kind::Object || config.has_duplicate_names() {
            return Err(Refusal::invalid_params("a push configuration is an object in which no member stands twice"));
        }
        let url = line(config, "url")?.unwrap_or_default();
        self.webhooks.check(&url).map_err(|why| Refusal::invalid_params(format!("the webhook's url: {why}")))?;
        let authentication = config.some("authentication");
        let (schemes, credentials) = match authentication {
            Some(authentication) => (schemes(authentication)?, line(authentication, "credentials")?),
            None => (Vec::new(), None),
        };
        Ok(PushConfig {
            task: "".into(),
            id: super::send::id(config, "id", self.limits)?.unwrap_or_default(),
            // 0.3's servers notify in one form, whatever the binding.
            dialect: if dialect.is_of_03() { Dialect::V03 } else { dialect },
            url,
            token: line(config, "token")?,
            schemes,
            credentials,
            active: self.active,
        })
    }
}

/// A string that goes into a line of HTTP; an empty one counts as none.
fn line(object: Value<'_, '_>, name: &str) -> Result<Option<String>, Refusal> {
    let Some(value) = object.some(name) else { return Ok(None) };
    let text = value.str().ok_or_else(|| Refusal::invalid_params(format!("{name} must be a string")))?;
    if text.len() > LONGEST || text.bytes().any(|byte| !(b' '..=b'~').contains(&byte)) {
        return Err(Refusal::invalid_params(format!("{name} must be printable ASCII, {LONGEST} characters at most")));
    }
    Ok((!text.is_empty()).then(|| text.into_owned()))
}

/// 1.0 has one scheme, 0.3 a list.
fn schemes(authentication: Value<'_, '_>) -> Result<Vec<String>, Refusal> {
    let one = line(authentication, "scheme")?;
    let list = authentication.some("schemes").into_iter().flat_map(|list| list.elements());
    let list = list.filter_map(|scheme| scheme.str()).map(std::borrow::Cow::into_owned);
    let all: Vec<_> = one.into_iter().chain(list).take(8).collect();
    // A scheme is a token of HTTP (RFC 9110 section 11.1).
    let is_token = |scheme: &String| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        scheme.len() <= LONGEST && !scheme.is_empty() && scheme.bytes().all(plain)
    };
    if !all.iter().all(is_token) {
        return Err(Refusal::invalid_params("a scheme of authentication is one word"));
    }
    Ok(all)
}

impl PushConfig {
    /// The configuration as one of this task; without an id of its own it has the task's, as the SDKs have it.
    #[must_use]
    pub fn of_task(mut self, task: &str) -> Self {
        self.task = task.into();
        if self.id.is_empty() {
            task.clone_into(&mut self.id);
        }
        self
    }

    /// The configuration as the methods answer with it.
    pub fn written(&self, dialect: Dialect) -> String {
        let members = self.members(dialect);
        match dialect {
            Dialect::V03 => format!("{{\"taskId\":{},\"{}\":{{{members}}}}}", quote(&self.task), MEMBERS[0]),
            Dialect::Proto03 => {
                let name = format!("tasks/{}/pushNotificationConfigs/{}", self.task, self.id);
                format!("{{\"name\":{},\"{}\":{{{members}}}}}", quote(&name), MEMBERS[0])
            }
            Dialect::V10 => format!("{{\"taskId\":{},{members}}}", quote(&self.task)),
        }
    }

    fn members(&self, dialect: Dialect) -> String {
        let mut out = format!("\"id\":{},\"url\":{}", quote(&self.id), quote(&self.url));
        if let Some(token) = &self.token {
            out += &format!(",\"token\":{}", quote(token));
        }
        let mut authentication = Vec::new();
        let schemes: Vec<_> = self.schemes.iter().map(|scheme| quote(scheme)).collect();
        match (dialect, schemes.first()) {
            (Dialect::V03 | Dialect::Proto03, Some(_)) => {
                authentication.push(format!("\"schemes\":[{}]", schemes.join(",")));
            }
            (Dialect::V10, Some(first)) => authentication.push(format!("\"scheme\":{first}")),
            (_, None) => {}
        }
        authentication.extend(self.credentials.iter().map(|text| format!("\"credentials\":{}", quote(text))));
        if !authentication.is_empty() {
            out += &format!(",\"authentication\":{{{}}}", authentication.join(","));
        }
        out
    }
}

/// A list of configurations, as the method answers with it.
pub fn push_list<'a>(configs: impl Iterator<Item = &'a PushConfig>, dialect: Dialect) -> String {
    let all: Vec<_> = configs.map(|config| config.written(dialect)).collect();
    match dialect {
        Dialect::V03 => format!("[{}]", all.join(",")),
        Dialect::V10 | Dialect::Proto03 => format!("{{\"configs\":[{}]}}", all.join(",")),
    }
}

/// Puts the proxy's callback in the place of whatever configuration a send carries; with none, that goes.
pub(super) fn replace(edits: &mut Edits, send: &Send<'_, '_>, callback: Option<&Callback>) {
    if !send.pushes && callback.is_none() {
        return;
    }
    let params = send.call.params;
    let configuration = params.some("configuration");
    let mut gone = MEMBERS.to_vec();
    if let Some(callback) = callback {
        let name = match send.call.dialect {
            Dialect::V03 => MEMBERS[0],
            Dialect::V10 => MEMBERS[1],
            Dialect::Proto03 => MEMBERS[2],
        };
        let config = written(callback);
        match configuration {
            Some(configuration) => edits.set_member(configuration, name, &config),
            None => edits.set_member(params, "configuration", &format!("{{\"{name}\":{config}}}")),
        }
        gone.retain(|other| *other != name);
    }
    if let Some(configuration) = configuration {
        edits.remove_members(configuration, &gone);
    }
}

fn written(callback: &Callback) -> String {
    format!("{{\"url\":{},\"token\":{}}}", quote(&callback.url), quote(&callback.token))
}

/// The params with which the proxy's callback is set for a task of the agent's.
pub fn set_params(callback: &Callback, task: &str, dialect: Dialect) -> String {
    let (task, config) = (quote(task), written(callback));
    match dialect {
        Dialect::V03 | Dialect::Proto03 => format!("{{\"taskId\":{task},\"{}\":{config}}}", MEMBERS[0]),
        Dialect::V10 => format!("{{\"taskId\":{task},{}", &config[1..]),
    }
}
