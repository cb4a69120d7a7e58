//! How the story looks: who says what, and a mark where something is not as it should be.

use std::io::{self, Write};

use crate::a2a::State;

/// Columns that a line has.
const WIDTH: usize = 98;

/// Where text begins, behind who says it.
const INDENT: usize = 9;

/// Where remarks stand beside what was said.
const REMARKS: usize = 62;

pub(super) struct Screen<W> {
    pub out: W,
    pub colours: bool,
}

/// The colours, as terminals number them.
#[derive(Clone, Copy)]
enum Ink {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
}

impl<W: Write> Screen<W> {
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// The head of a chapter.
    pub fn head(&mut self, text: &str) -> io::Result<()> {
        let text = self.inked(Ink::Bold, text);
        self.line(&text)
    }

    /// What the person says.
    pub fn you(&mut self, text: &str, remark: &str) -> io::Result<()> {
        self.spoken("you", "", Ink::Bold, text, remark)
    }

    /// What comes back.
    pub fn them(&mut self, who: &str, state: Option<State>, text: &str, remark: &str) -> io::Result<()> {
        let ink = match state {
            Some(State::InputRequired | State::AuthRequired) => Ink::Yellow,
            Some(State::Failed | State::Rejected | State::Canceled) => Ink::Red,
            _ => Ink::Green,
        };
        let state = state.map_or("message".to_owned(), |state| state.to_string());
        self.spoken(who, &format!("[{state}] "), ink, text, remark)
    }

    /// Where there is no room for text and remark, the text has it.
    fn spoken(&mut self, who: &str, state: &str, ink: Ink, text: &str, remark: &str) -> io::Result<()> {
        let text = cut(text, WIDTH - INDENT - state.len());
        let used = INDENT + state.len() + text.chars().count();
        let mut line = format!("  {}  {}{text}", self.inked(Ink::Cyan, &format!("{who:<5}")), self.inked(ink, state));
        if !remark.is_empty() && used < REMARKS {
            line += &format!("{}{}", " ".repeat(REMARKS - used), self.inked(Ink::Dim, remark));
        }
        self.line(&line)
    }

    /// Something beside the conversation.
    pub fn aside(&mut self, text: &str) -> io::Result<()> {
        let text = self.inked(Ink::Dim, &format!("  {}", cut(text, WIDTH - 2)));
        self.line(&text)
    }

    /// What is not as it should be.
    pub fn unmet(&mut self, expected: &str) -> io::Result<()> {
        let text = self.inked(Ink::Red, &format!("  ✗ expected: {expected}"));
        self.line(&text)
    }

    fn inked(&self, ink: Ink, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("\u{1b}[{}m{text}\u{1b}[0m", ink as u8) } else { text.to_owned() }
    }
}

/// `text` on one line of at most `width` columns.
fn cut(text: &str, width: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= width {
        return text;
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
