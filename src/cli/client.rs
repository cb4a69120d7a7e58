//! A small A2A client for the command line: the card, a send, a poll. JSON-RPC only, one answer at a time, no streams.
//!
//! It calls no other origin than the one that was typed, whatever the card names: the person's credentials go with every request.

mod card;
mod fault;
mod http;
mod pretty;
mod reply;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::http::{HeaderMap, Uri};

use self::card::Found;
pub use self::fault::ClientError;
use self::http::{Http, Received};
pub use self::reply::Reply;
use crate::a2a::card::{Located, locate};
use crate::a2a::{Dialect, Part, Role, message};
use crate::a2a::{Verb, jsonrpc};
use crate::json::quote;

/// Is told what goes over the wire, in lines for a person to read.
pub type Tap = Box<dyn Fn(&str) + Send + Sync>;

/// How long a card may take: agents serve it from memory.
const CARD_TIME: Duration = Duration::from_secs(15);

/// An agent that was found.
pub struct Client {
    http: Http,
    found: Found,
    next_id: AtomicU64,
    timeout: Duration,
    tap: Option<Tap>,
}

impl Client {
    /// Reads the card of the agent at `url` (its base, or its card's own URL). `headers` go with every request, `timeout` is for one answer.
    ///
    /// # Errors
    /// A URL that is none, nobody there, or an agent that this client cannot talk to.
    pub async fn connect(
        url: &str,
        headers: HeaderMap,
        timeout: Duration,
        tap: Option<Tap>,
    ) -> Result<Self, ClientError> {
        let located = locate(url);
        let http = Http::new(&checked(&located)?, headers)?;
        let card = read_card(&http, &located, tap.as_ref()).await?;
        let found = card::find(&card, &located)?;
        Ok(Self { http, found, next_id: AtomicU64::new(1), timeout, tap })
    }

    /// What the agent calls itself.
    pub fn name(&self) -> Option<&str> {
        self.found.name.as_deref()
    }

    /// What is spoken with it: the newest that it offers.
    pub fn dialect(&self) -> Dialect {
        self.found.dialect
    }

    /// Where messages go.
    pub fn url(&self) -> &Uri {
        &self.found.url
    }

    /// What the card names instead, where that is another place.
    pub fn named_elsewhere(&self) -> Option<&str> {
        self.found.elsewhere.as_deref()
    }

    /// From now on tells `tap` what goes over the wire, or nobody.
    pub fn set_tap(&mut self, tap: Option<Tap>) {
        self.tap = tap;
    }

    /// Sends a message and waits for the answer; the ids are those of the conversation and of the task that it answers.
    ///
    /// # Errors
    /// No answer, or one that is an error or no A2A.
    pub async fn send(&self, text: &str, context: Option<&str>, task: Option<&str>) -> Result<Reply, ClientError> {
        let ids = (task.unwrap_or_default(), context.unwrap_or_default());
        let id = uuid::Uuid::new_v4().to_string();
        let message = message(self.dialect(), Role::User, &id, &[Part::Text(text.to_owned())], ids, None);
        // 1.0 waits for the answer unless told otherwise, and its drafts do not agree on the flag's name.
        let configuration = match self.dialect() {
            Dialect::V03 | Dialect::Proto03 => ",\"configuration\":{\"acceptedOutputModes\":[],\"blocking\":true}",
            Dialect::V10 => "",
        };
        self.call(Verb::Send, &format!("{{\"message\":{message}{configuration}}}")).await
    }

    /// Asks for a task as it stands.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn get(&self, task: &str) -> Result<Reply, ClientError> {
        self.call(Verb::Get, &format!("{{\"id\":{}}}", quote(task))).await
    }

    async fn call(&self, verb: Verb, params: &str) -> Result<Reply, ClientError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        let body = jsonrpc::request(&id, jsonrpc::method(verb, self.dialect()), params);
        tell(self.tap.as_ref(), || format!("> POST {}\n{}", self.url(), pretty::pretty(body.as_bytes())));
        let received = self.http.post(self.url(), self.dialect(), body, self.timeout).await?;
        tell(self.tap.as_ref(), || told(&received));
        reply::read(&received, self.url())
    }
}

fn tell(tap: Option<&Tap>, line: impl Fn() -> String) {
    if let Some(tap) = tap {
        tap(&line());
    }
}

fn told(received: &Received) -> String {
    format!("< {} {}\n{}", received.status, received.media_type, pretty::pretty(&received.body))
}

/// The origin as a URL. Credentials in it would end up in messages and logs.
fn checked(located: &Located) -> Result<Uri, ClientError> {
    let usage = |why: &str| ClientError::Usage(format!("{} is no URL of an agent: {why}", located.origin));
    let origin: Uri = located.origin.parse().map_err(|_| usage("http://HOST:PORT or https://HOST is expected"))?;
    if !matches!(origin.scheme_str(), Some("http" | "https")) || origin.host().is_none_or(str::is_empty) {
        return Err(usage("http://HOST:PORT or https://HOST is expected"));
    }
    if located.origin.contains('@') {
        return Err(ClientError::Usage("credentials in a URL are not sent: use --header 'Authorization: …'".into()));
    }
    Ok(origin)
}

/// The card, from the first place that has one.
async fn read_card(http: &Http, located: &Located, tap: Option<&Tap>) -> Result<Vec<u8>, ClientError> {
    let mut missing = None;
    for url in &located.card_urls {
        let url: Uri = url.parse().map_err(|_| ClientError::Usage(format!("{url} is no URL")))?;
        tell(tap, || format!("> GET {url}"));
        let received = http.get(&url, CARD_TIME).await?;
        tell(tap, || told(&received));
        if received.status.is_success() && received.looks_like_json() {
            return Ok(received.body.into());
        }
        // What the newer place says is what most agents mean.
        missing.get_or_insert_with(|| fault::no_card(&received, &url));
    }
    Err(missing.unwrap_or_else(|| ClientError::NotA2a("there is no agent card".into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_before_anything_is_sent() {
        for (url, fine) in [
            ("http://127.0.0.1:1", true),
            ("127.0.0.1:1/agents/a", true),
            ("https://[::1]:8443/x", true),
            ("ftp://x", false),
            ("http://", false),
            ("", false),
            ("http://a b", false),
            ("http://user:secret@x", false),
        ] {
            let checked = checked(&locate(url));
            assert_eq!(checked.is_ok(), fine, "{url}");
            assert!(!checked.is_err_and(|error| error.to_string().contains("secret")));
        }
    }
}
