//! What a person types: messages and commands, line by line.

use std::io::{self, BufRead};

use tokio::sync::mpsc;

/// What `/help` says.
pub(super) const HELP: &str = "\
/new      begin another conversation
/task     the task's id and state
/context  the conversation's id
/raw      show or hide what goes over the wire
/quit     end
//…       a message that begins with a slash";

/// A line of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Empty,
    Text(String),
    Command(Command),
    /// It looks like a command.
    Unknown(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    New,
    Task,
    Context,
    Raw,
    Help,
    Quit,
}

impl Line {
    fn read(line: &str) -> Self {
        let line = line.trim();
        let Some(name) = line.strip_prefix('/') else {
            return if line.is_empty() { Self::Empty } else { Self::Text(line.to_owned()) };
        };
        // Paths (/etc/hosts) and comments (//) are messages.
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Self::Text(line.strip_prefix("//").map_or(line.to_owned(), |rest| format!("/{rest}")));
        }
        Self::Command(match name {
            "new" => Command::New,
            "task" => Command::Task,
            "context" => Command::Context,
            "raw" => Command::Raw,
            "help" => Command::Help,
            "quit" | "exit" => Command::Quit,
            _ => return Self::Unknown(line.to_owned()),
        })
    }
}

/// Where lines come from.
pub(super) struct Input(mpsc::Receiver<Line>);

impl Input {
    /// Standard input, to its end. Read by a thread of its own, since a read cannot be given up; it ends with the process.
    pub fn stdin() -> Self {
        let (lines, input) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut stdin = io::stdin().lock();
            let mut line = Vec::new();
            // What cannot be read any more is as good as its end.
            while stdin.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                if lines.blocking_send(Line::read(&String::from_utf8_lossy(&line))).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Self(input)
    }

    /// Messages, of which none is a command.
    pub fn given(messages: Vec<String>) -> Self {
        Self::of(messages.into_iter().map(Line::Text).collect())
    }

    /// Lines as they might be typed.
    #[cfg(test)]
    pub fn typed(lines: &[&str]) -> Self {
        Self::of(lines.iter().map(|line| Line::read(line)).collect())
    }

    fn of(all: Vec<Line>) -> Self {
        let (lines, input) = mpsc::channel(all.len().max(1));
        // There is room for all of them.
        all.into_iter().for_each(|line| drop(lines.try_send(line)));
        Self(input)
    }

    pub async fn next(&mut self) -> Option<Line> {
        self.0.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_makes_a_command_of_a_word_only() {
        for (typed, line) in [
            ("  \r\n", Line::Empty),
            ("Oslo\r\n", Line::Text("Oslo".into())),
            ("/new", Line::Command(Command::New)),
            ("/quit\n", Line::Command(Command::Quit)),
            ("/nwe", Line::Unknown("/nwe".into())),
            ("/etc/hosts is empty", Line::Text("/etc/hosts is empty".into())),
            ("//new", Line::Text("/new".into())),
            ("/", Line::Text("/".into())),
            ("/new thing", Line::Text("/new thing".into())),
        ] {
            assert_eq!(Line::read(typed), line, "{typed}");
        }
    }
}
