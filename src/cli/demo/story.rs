//! The conversation that shows what the proxy is for. What it prints happened, and it checks that it is what should happen.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::http::HeaderMap;

use super::Agent;
use super::screen::Screen;
use crate::a2a::{Dialect, Part, Role, State, message, read_parts};
use crate::a2a::{Verb, jsonrpc};
use crate::cli::client::{Client, ClientError, Reply};
use crate::json::{Doc, quote};

/// For an answer. The sample agent takes two seconds at most.
const PATIENCE: Duration = Duration::from_secs(20);

const NAME: &str = "My name is Ada";
const ASK: &str = "What is my name?";
const BOOK: &str = "Book a room";
const SLOW: &str = "Do something slow";

/// The code of a refusal on a route that refuses with errors.
const BUSY: i64 = -32050;

/// Why the story did not end well.
#[derive(Debug, thiserror::Error)]
pub enum StoryError {
    /// The agent or the proxy could not be started, or not be waited for.
    #[error("cannot be served: {0}")]
    Start(#[source] io::Error),
    /// Nothing can be shown.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    /// The agent or the proxy cannot be talked to at all.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It was told to its end, and this was not as it should be.
    #[error("not as it should be: {}", .0.join("; "))]
    Unmet(Vec<String>),
}

/// Talks to `agent`, directly and through the proxy at `proxy_url`, and prints it: one screen, without colours.
///
/// # Errors
/// Nothing could be said or shown, or the proxy did not do what it is there for.
pub async fn story(agent: &Agent, proxy_url: &str, out: &mut impl Write) -> Result<(), StoryError> {
    tell(agent, proxy_url, &mut Screen { out, colours: false }).await
}

/// As [`story`].
pub(super) async fn tell(agent: &Agent, proxy_url: &str, screen: &mut Screen<impl Write>) -> Result<(), StoryError> {
    let connect = async |url: &str| Client::connect(url, HeaderMap::new(), PATIENCE, None).await;
    let directly = connect(&format!("http://{}", agent.addr())).await?;
    let proxied = connect(proxy_url).await?;
    let mut story = Story { screen, unmet: Vec::new() };
    story.alone(&directly).await?;
    let Ids { context, task } = story.together(&proxied).await?;
    story.one_at_a_time(agent, &proxied, &context).await?;
    story.given(&agent.last_given())?;
    story.yours(&proxied, proxy_url, (&context, &task))?;
    if story.unmet.is_empty() { Ok(()) } else { Err(StoryError::Unmet(story.unmet)) }
}

struct Story<'s, W> {
    screen: &'s mut Screen<W>,
    unmet: Vec<String>,
}

/// What the conversation came to; empty where it came to nothing.
struct Ids {
    context: String,
    task: String,
}

type Answered = Result<Reply, ClientError>;

impl<W: Write> Story<'_, W> {
    async fn alone(&mut self, agent: &Client) -> io::Result<()> {
        self.screen.head("A stateless agent, called directly")?;
        let first = self.turn(agent, NAME, (None, None), "").await?;
        let second = self.turn(agent, ASK, (context(&first), None), "the same contextId").await?;
        self.expect(
            says(&second, State::Completed, "I don't know your name."),
            "the agent alone does not know the name",
        )
    }

    async fn together(&mut self, proxy: &Client) -> io::Result<Ids> {
        self.screen.head("\nThe same agent behind the proxy")?;
        let first = self.turn(proxy, NAME, (None, None), "").await?;
        let context = context(&first);
        let second = self.turn(proxy, ASK, (context, None), "the same contextId").await?;
        self.expect(says(&second, State::Completed, "Ada"), "the agent knows the name")?;
        let asked = self.turn(proxy, BOOK, (context, None), "").await?;
        self.expect(says(&asked, State::InputRequired, "Which city"), "the question is input-required")?;
        let task = task(&asked);
        let booked = self.turn(proxy, "Oslo", (context, task), "answers that task").await?;
        self.expect(says(&booked, State::Completed, "Oslo"), "the answer reaches the agent with the question")?;
        self.expect(self::task(&booked) == task && task.is_some(), "the task id stays over question and answer")?;
        let owned = |id: Option<&str>| id.unwrap_or_default().to_owned();
        Ok(Ids { context: owned(context), task: owned(task) })
    }

    async fn one_at_a_time(&mut self, agent: &Agent, proxy: &Client, context: &str) -> io::Result<()> {
        self.screen.head("\nOne turn at a time")?;
        let context = Some(context).filter(|context| !context.is_empty());
        let runs = |body: &str| body.contains(SLOW);
        let ended = AtomicBool::new(false);
        let slow = async {
            let slow = proxy.send(SLOW, context, None).await;
            ended.store(true, Ordering::Relaxed);
            slow
        };
        let refused = async {
            let running = agent.is_given(PATIENCE, runs).await;
            let refused = proxy.send("Are you there?", context, None).await;
            (refused, running && !ended.load(Ordering::Relaxed), runs(&agent.last_given()))
        };
        let (slow, (refused, at_once, untouched)) = tokio::join!(slow, refused);
        self.screen.you(SLOW, "")?;
        self.screen.you("Are you there?", "while that still runs")?;
        self.them("proxy", &refused)?;
        self.expect(is_busy(&refused) && at_once, "a send while a turn runs is refused at once")?;
        self.expect(untouched, "the agent is not called with it")?;
        self.them("agent", &slow)?;
        self.expect(slow.is_ok_and(|reply| reply.state == Some(State::Completed)), "the turn that runs ends well")
    }

    /// What the agent was given with the last message, folded.
    fn given(&mut self, body: &str) -> io::Result<()> {
        self.screen.head(&format!("\nWhat the agent was given with \"{SLOW}\""))?;
        let text = text_of(body).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let folded = if lines.len() > 6 { lines.len() - 4 } else { 0 };
        for (at, line) in lines.iter().enumerate() {
            match at {
                2 if folded > 0 => self.screen.aside(&format!("… {folded} lines …"))?,
                at if at > 2 && at < 2 + folded => {}
                _ => self.screen.aside(line)?,
            }
        }
        let once = [NAME, BOOK].iter().all(|said| text.matches(said).count() == 1);
        self.expect(once && text.ends_with(SLOW), "the agent is given each earlier turn once, and the new message last")
    }

    fn yours(&mut self, proxy: &Client, base: &str, (context, task): (&str, &str)) -> io::Result<()> {
        self.screen.head("\nGo on from here")?;
        let dialect = proxy.dialect();
        let ask = message(dialect, Role::User, "m-1", &[Part::Text(ASK.to_owned())], ("", context), None);
        let send = jsonrpc::request("1", jsonrpc::method(Verb::Send, dialect), &format!("{{\"message\":{ask}}}"));
        let get = jsonrpc::request("2", jsonrpc::method(Verb::Get, dialect), &format!("{{\"id\":{}}}", quote(task)));
        self.screen.line(&curl(proxy, &send))?;
        self.screen.line(&curl(proxy, &get))?;
        self.screen.line(&format!("  a2a-multiturn chat {base} --context {context}"))?;
        self.screen.line("Now yours: a2a-multiturn serve --upstream http://localhost:9999  (where your agent listens)")
    }

    async fn turn(
        &mut self,
        client: &Client,
        text: &str,
        (context, task): (Option<&str>, Option<&str>),
        remark: &str,
    ) -> io::Result<Answered> {
        self.screen.you(text, remark)?;
        let answered = client.send(text, context, task).await;
        self.them("agent", &answered)?;
        Ok(answered)
    }

    fn them(&mut self, who: &str, answered: &Answered) -> io::Result<()> {
        match answered {
            Ok(reply) => {
                let remark = reply.task.as_ref().map(|id| format!("task {}", id.chars().take(8).collect::<String>()));
                self.screen.them(who, reply.state, &reply.text(), &remark.unwrap_or_default())
            }
            Err(error) => self.screen.them(who, Some(State::Failed), &error.to_string(), ""),
        }
    }

    fn expect(&mut self, met: bool, expected: &str) -> io::Result<()> {
        if met {
            return Ok(());
        }
        self.unmet.push(expected.to_owned());
        self.screen.unmet(expected)
    }
}

fn context(answered: &Answered) -> Option<&str> {
    answered.as_ref().ok().and_then(|reply| reply.context.as_deref())
}

fn task(answered: &Answered) -> Option<&str> {
    answered.as_ref().ok().and_then(|reply| reply.task.as_deref())
}

fn says(answered: &Answered, state: State, words: &str) -> bool {
    answered.as_ref().is_ok_and(|reply| reply.state == Some(state) && reply.text().contains(words))
}

fn is_busy(answered: &Answered) -> bool {
    match answered {
        Ok(reply) => reply.state == Some(State::Failed) && reply.text().contains("in flight"),
        Err(ClientError::Refused { code, .. }) => *code == BUSY,
        Err(_) => false,
    }
}

/// The text of the message in a request.
fn text_of(body: &str) -> Option<String> {
    let doc = Doc::scan(body.as_bytes()).ok()?;
    let call = jsonrpc::read(doc.root()).ok()??;
    let parts = read_parts(call.params.some("message")?);
    Some(parts.iter().filter_map(Part::text).collect::<Vec<_>>().join("\n"))
}

/// A command that a person can paste. White space between members is JSON too, and the lines fit a screen.
fn curl(proxy: &Client, request: &str) -> String {
    let request = [",\"params\"", ",\"parts\""]
        .iter()
        .fold(request.to_owned(), |request, member| request.replacen(member, &format!(",\n  {}", &member[1..]), 1));
    let version = if proxy.dialect() == Dialect::V10 { " -H 'A2A-Version: 1.0'" } else { "" };
    format!("  curl {} -H 'Content-Type: application/json'{version} -d '\n  {request}'", proxy.url())
}
