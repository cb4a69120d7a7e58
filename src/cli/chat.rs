//! `chat`: a person, or a script, talks to an agent, through the proxy or directly.

mod screen;
mod stdin;
mod talk;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue};

use self::screen::Screen;
use self::stdin::{Command, Input, Line};
use self::talk::Talk;
use super::client::{Client, ClientError};

/// Talk to an agent, through the proxy or directly: see states, and answer on the same task when asked.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct ChatArgs {
    /// The agent, or the proxy in front of it: its base URL, or that of its card.
    #[arg(value_name = "URL")]
    pub url: String,
    /// Send TEXT and end after the reply; may be given several times, for several turns.
    #[arg(short, long, value_name = "TEXT")]
    pub message: Vec<String>,
    /// Go on with the conversation that has this contextId.
    #[arg(long, value_name = "ID")]
    pub context: Option<String>,
    /// A header for every request, such as 'Authorization: Bearer …'; may be given several times.
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    pub header: Vec<(HeaderName, HeaderValue)>,
    /// Show every request and response on standard error.
    #[arg(long)]
    pub raw: bool,
    /// How long to wait for a reply.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// One line a paragraph: clap breaks them where the terminal does.
const NOTES: &str = "\
Lines that begin with a slash are commands: /new begins another conversation, /task and /context tell the ids, /raw shows or hides what \
goes over the wire, /quit ends, /help lists them. Two slashes at the start send the rest with one.

In a pipe there are no prompts. Every line of input is a message, every reply one line of output ([state] text, line breaks as \\n), and \
the first error ends it.

Exit codes: 0 the conversation ended; 1 the agent answered with an error, or a task failed; 2 usage; 3 nobody answered.";

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("'Name: value' is expected")?;
    let name = name.trim().parse().map_err(|_| "this is no name of a header")?;
    let mut value: HeaderValue = value.trim().parse().map_err(|_| "a header cannot have this value")?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Holds the conversation on standard input and output.
pub async fn chat(args: ChatArgs) -> ExitCode {
    let terminal = io::stdout().is_terminal();
    let person = terminal && io::stdin().is_terminal() && args.message.is_empty();
    // Standard error may be closed, and there is no other place to say so.
    let notes = |line: &str| drop(writeln!(io::stderr(), "{line}"));
    let mut screen = Screen::new(io::stdout(), Arc::new(notes), person, terminal);
    let input = if args.message.is_empty() { Input::stdin() } else { Input::given(args.message.clone()) };
    match converse(args, input, &mut screen).await {
        Ok(code) => ExitCode::from(code),
        // Whoever reads the replies has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            screen.note(&format!("cannot write: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The conversation, up to its exit code.
async fn converse(args: ChatArgs, mut input: Input, screen: &mut Screen<impl Write>) -> io::Result<u8> {
    let headers: HeaderMap = args.header.into_iter().collect();
    let tap = args.raw.then(|| screen.tap());
    let client = match Client::connect(&args.url, headers, args.timeout, tap).await {
        Ok(client) => client,
        Err(error) => return Ok(told(screen, &error)),
    };
    screen.greet(&client)?;
    let mut talk = Talk::new(client, args.context, args.timeout, args.raw);
    loop {
        screen.prompt(talk.asked())?;
        let Some(line) = input.next().await else { break };
        if let ControlFlow::Break(code) = step(line, &mut talk, screen).await? {
            return Ok(code);
        }
    }
    screen.leave()?;
    Ok(0)
}

/// One line. A person can put right what went wrong; to a script's next line it would be another conversation.
async fn step(line: Line, talk: &mut Talk, screen: &mut Screen<impl Write>) -> io::Result<ControlFlow<u8>> {
    let failed = match line {
        Line::Empty => None,
        Line::Command(Command::Quit) => return Ok(ControlFlow::Break(0)),
        Line::Command(command) => obey(command, talk, screen)?,
        Line::Unknown(name) => {
            screen.note(&format!("there is no command {name}; /help lists them, //… sends a slash"));
            Some(2)
        }
        Line::Text(text) => match talk.say(&text).await {
            Ok(said) => {
                screen.reply(said.state, &said.text)?;
                said.failed.then_some(1)
            }
            Err(error) => Some(told(screen, &error)),
        },
    };
    Ok(match failed {
        Some(code) if !screen.person => ControlFlow::Break(code),
        _ => ControlFlow::Continue(()),
    })
}

fn obey(command: Command, talk: &mut Talk, screen: &mut Screen<impl Write>) -> io::Result<Option<u8>> {
    match command {
        Command::New => {
            talk.forget();
            screen.hint("a new conversation")?;
        }
        Command::Task => screen.line(&talk.task())?,
        Command::Context => screen.line(&talk.context())?,
        Command::Raw => {
            let shown = talk.toggle_raw(screen.tap());
            screen.hint(if shown { "the wire is shown" } else { "the wire is hidden" })?;
        }
        Command::Help | Command::Quit => screen.line(stdin::HELP)?,
    }
    Ok(None)
}

fn told(screen: &Screen<impl Write>, error: &ClientError) -> u8 {
    screen.note(&error.to_string());
    error.exit_code()
}
