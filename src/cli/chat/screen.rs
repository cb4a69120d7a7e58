//! Where a conversation is shown. Text of the agent is data: it must not steer the terminal, nor pass for what the program says.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use crate::a2a::State;
use crate::cli::client::{Client, Tap};

/// Takes lines beside the conversation: errors, and the wire.
pub(super) type Notes = Arc<dyn Fn(&str) + Send + Sync>;

pub(super) struct Screen<W> {
    out: W,
    notes: Notes,
    /// A person types and reads: there are prompts, and replies of several lines.
    pub person: bool,
    /// `out` is a terminal.
    terminal: bool,
}

impl<W: Write> Screen<W> {
    pub fn new(out: W, notes: Notes, person: bool, terminal: bool) -> Self {
        Self { out, notes, person, terminal }
    }

    /// Says who is there.
    pub fn greet(&mut self, client: &Client) -> io::Result<()> {
        if !self.person {
            return Ok(());
        }
        let name = client.name().unwrap_or("an agent without a name");
        self.line(&format!("{name}, A2A {} at {}; /help lists the commands", version(client), client.url()))?;
        match client.named_elsewhere() {
            Some(url) => self.line(&format!("(its card names {url}; messages go to the host that you named)")),
            None => Ok(()),
        }
    }

    pub fn prompt(&mut self, asked: bool) -> io::Result<()> {
        if self.person {
            self.out.write_all(if asked { b"answer> " } else { b"you> " })?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// A reply, or none of its text where it has none.
    pub fn reply(&mut self, state: Option<State>, text: &str) -> io::Result<()> {
        let state = state.map_or("message".to_owned(), |state| state.to_string());
        let text = text.trim_end();
        self.line(&format!("[{state}]{}{text}", if text.is_empty() { "" } else { " " }))
    }

    /// A line; further lines in it are set in for a person, so that none looks like a prompt, and folded for a program.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        let text = text.replace("\r\n", "\n");
        let text = if self.terminal { visible(&text) } else { Cow::Borrowed(&*text) };
        let text =
            if self.person { text.replace('\n', "\n  ") } else { text.replace('\n', "\\n").replace('\r', "\\r") };
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// A line that only a person needs.
    pub fn hint(&mut self, text: &str) -> io::Result<()> {
        if self.person { self.line(&format!("({text})")) } else { Ok(()) }
    }

    /// A line beside the conversation.
    pub fn note(&self, text: &str) {
        (self.notes)(&visible(text));
    }

    /// Shows the wire.
    pub fn tap(&self) -> Tap {
        let notes = Arc::clone(&self.notes);
        Box::new(move |line| notes(&visible(line)))
    }

    /// Leaves the terminal as it is expected.
    pub fn leave(&mut self) -> io::Result<()> {
        if self.person { writeln!(self.out) } else { Ok(()) }
    }
}

fn version(client: &Client) -> &'static str {
    match client.dialect() {
        crate::a2a::Dialect::V03 | crate::a2a::Dialect::Proto03 => "0.3",
        crate::a2a::Dialect::V10 => "1.0",
    }
}

/// `text` with pictures of its control characters: they would move the cursor, set titles, or turn the order of what is read.
fn visible(text: &str) -> Cow<'_, str> {
    let picture = |character: char| match character {
        '\n' | '\t' => None,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(character)),
        '\u{7f}' => Some('\u{2421}'),
        '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some(char::REPLACEMENT_CHARACTER),
        _ => None,
    };
    if text.chars().any(|character| picture(character).is_some()) {
        text.chars().map(|character| picture(character).unwrap_or(character)).collect()
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, person: bool, terminal: bool) -> String {
        let mut screen = Screen::new(Vec::new(), Arc::new(|_: &str| {}), person, terminal);
        screen.reply(Some(State::Completed), text).unwrap();
        String::from_utf8(screen.out).unwrap()
    }

    #[test]
    fn a_terminal_is_not_steered() {
        let hostile = "a\u{1b}[2Jb\u{9b}31m\u{7f}\u{202e}c\r\nyou> d\re";
        assert_eq!(line(hostile, true, true), "[completed] a␛[2Jb\u{fffd}31m␡\u{fffd}c\n  you> d␍e\n");
        assert_eq!(line(hostile, false, true), "[completed] a␛[2Jb\u{fffd}31m␡\u{fffd}c\\nyou> d␍e\n");
    }

    #[test]
    fn a_program_gets_one_line_and_every_character() {
        assert_eq!(line("a\u{1b}[1mb\n\nc\r", false, false), "[completed] a\u{1b}[1mb\\n\\nc\n");
        assert_eq!(line("", false, false), "[completed]\n");
    }
}
