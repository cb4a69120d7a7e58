//! The end of a reply as sentences, with everything that is not the agent's own prose masked out: code, quotes, links, tables.
//!
//! Only the last [`WINDOW`] bytes are looked at, in one pass forward, so the cost has a bound whatever the reply is. The masked copy has the
//! same length in bytes as the window: a position in it is a position in the reply.

use std::iter::Peekable;
use std::ops::Range;

use super::draft;

const WINDOW: usize = 4096;
/// Stands for every byte of what is not judged. Not white space, not a letter: it ends a word but no clause.
const MASK: u8 = 1;

/// What ended a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Question,
    Other,
}

/// What sort of line a sentence stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text,
    Item,
    Heading,
}

#[derive(Clone, Debug)]
pub(super) struct Sentence {
    /// In the page's `clean`.
    pub range: Range<usize>,
    pub mark: Mark,
    pub line: Line,
}

#[derive(Debug)]
pub(super) struct Page {
    /// Where `clean` begins in the reply's text.
    pub base: usize,
    /// Lower case, masked.
    pub clean: String,
    pub sentences: Vec<Sentence>,
    /// The last line is not judged.
    pub ends_masked: bool,
}

pub(super) fn read(text: &str) -> Page {
    let text = text.trim_end();
    let base = ceil(text, text.len().saturating_sub(WINDOW));
    let window = &text[base..];
    let mut clean = Vec::with_capacity(window.len());
    let mut lines = Vec::new();
    let mut fenced = starts_fenced(window, base > 0);
    let mut ends_masked = false;
    let all: Vec<_> = window.split_inclusive('\n').collect();
    let quoted = draft::quoted(&all);
    for (line, quoted) in all.into_iter().zip(quoted) {
        let start = clean.len();
        let fence = is_fence(line);
        let kind = if fence || fenced || quoted { None } else { kind(line) };
        match kind {
            Some(_) => mask_line(line, &mut clean),
            None => clean.resize(start + line.len(), MASK),
        }
        fenced ^= fence;
        ends_masked = kind.is_none();
        lines.extend(kind.map(|kind| (kind, start..clean.len())));
    }
    // Whole characters were masked, so this is UTF-8; if it were not, nothing would be judged.
    let clean = String::from_utf8(clean).unwrap_or_default();
    let mut page = Page { base, clean, sentences: Vec::new(), ends_masked };
    for (kind, range) in lines {
        split(&page.clean, range, kind, &mut page.sentences);
    }
    page
}

/// The character boundary at or before `at`. (The standard library's needs a newer compiler than the crate.)
pub(super) fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

/// The character boundary at or after `at`.
pub(super) fn ceil(text: &str, at: usize) -> usize {
    (at..text.len()).find(|&i| text.is_char_boundary(i)).unwrap_or(text.len())
}

fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}

/// A window cut out of a longer text that holds an odd number of fences began inside one: replies end outside code more often than in it.
fn starts_fenced(window: &str, cut: bool) -> bool {
    cut && window.lines().filter(|line| is_fence(line)).count() % 2 == 1
}

/// The sort of line; `None` for those that are not judged.
fn kind(line: &str) -> Option<Line> {
    let line = line.trim_start();
    match line.chars().next()? {
        '|' | '>' | '＞' => None,
        '#' => Some(Line::Heading),
        '•' | '‣' | '▪' | '●' | '◦' | '·' | '–' | '—' | '☐' | '□' => Some(Line::Item),
        '-' | '*' | '+' if line[1..].starts_with([' ', '\t']) => Some(Line::Item),
        '(' if is_numbered(&line[1..]) => Some(Line::Item),
        _ if is_numbered(line) => Some(Line::Item),
        _ => Some(Line::Text),
    }
}

/// `1.`, `12)`, `a)`, `２、` and the like.
fn is_numbered(line: &str) -> bool {
    let digits = line.chars().take(3).take_while(|c| c.is_numeric()).count();
    let rest = line.trim_start_matches(char::is_numeric);
    match digits {
        0 => line.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && line.as_bytes().get(1) == Some(&b')'),
        1 | 2 => {
            rest.starts_with([')', '、', '）', '．']) || rest.strip_prefix('.').is_some_and(|r| r.starts_with(' '))
        }
        _ => false,
    }
}

/// Openers that wait for their counterpart within the line; one that finds none stays an ordinary character.
#[derive(Default)]
struct Open {
    code: Option<(usize, usize)>,
    quotes: [Option<usize>; 7],
}

fn mask_line(line: &str, clean: &mut Vec<u8>) {
    let mut open = Open::default();
    let (mut at, mut before) = (0, ' ');
    while let Some(&byte) = line.as_bytes().get(at) {
        // Most of most texts: neither a sign nor the start of a link.
        if (byte.is_ascii_alphanumeric() || byte == b' ') && !matches!(byte, b'h' | b'H' | b'w' | b'W') {
            clean.push(byte.to_ascii_lowercase());
            (at, before) = (at + 1, char::from(byte));
            continue;
        }
        let rest = &line[at..];
        let Some(c) = rest.chars().next() else { break };
        let len = match c {
            '`' => ticks(rest, clean, &mut open),
            'h' | 'H' | 'w' | 'W' => link(rest, clean),
            _ => c.len_utf8(),
        };
        if c != '`' && len == c.len_utf8() {
            push(c, clean);
            if is_quote(c) {
                quote(c, before, rest[len..].chars().next().unwrap_or(' '), clean, &mut open);
            }
        }
        at += len;
        before = if len == c.len_utf8() { c } else { line[..at].chars().next_back().unwrap_or(' ') };
    }
}

/// A run of backticks closes one of the same length.
fn ticks(rest: &str, clean: &mut Vec<u8>, open: &mut Open) -> usize {
    let run = rest.len() - rest.trim_start_matches('`').len();
    let start = clean.len();
    clean.resize(start + run, b' ');
    match open.code.take() {
        Some((n, from)) if n == run => clean[from..].fill(MASK),
        Some(other) => open.code = Some(other),
        None => open.code = Some((run, start)),
    }
    run
}

/// A link, up to white space or a closing bracket; the mark that ends the sentence is not part of it.
fn link(rest: &str, clean: &mut Vec<u8>) -> usize {
    let starts = |p: &str| rest.get(..p.len()).is_some_and(|r| r.eq_ignore_ascii_case(p));
    if !["http://", "https://", "www."].into_iter().any(starts) {
        return 1;
    }
    let end = rest
        .find(|c: char| c.is_whitespace() || matches!(c, ')' | ']' | '>' | '"' | '。' | '，' | '？' | '」'))
        .unwrap_or(rest.len());
    let len = rest[..end].trim_end_matches(['.', ',', '?', '!', ';', ':', '*', '_']).len();
    clean.resize(clean.len() + len, MASK);
    len
}

/// Lower case where that keeps the length; markdown's emphasis becomes white space.
fn push(c: char, clean: &mut Vec<u8>) {
    if c.is_ascii_alphanumeric() || c == ' ' {
        return clean.push(c.to_ascii_lowercase() as u8);
    }
    if is_lower(c) {
        return clean.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    let mut lower = c.to_lowercase();
    let c = match (c, lower.next(), lower.next()) {
        ('*' | '_' | '~' | '\u{1}', ..) => ' ',
        (_, Some(l), None) if l.len_utf8() == c.len_utf8() => l,
        _ => c,
    };
    clean.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// The letters of most texts that have no lower case or are: to ask the tables for every one of them takes longer than all the rest.
fn is_lower(c: char) -> bool {
    matches!(c, 'а'..='џ' | 'α'..='ώ' | 'ß'..='ÿ' | '\u{590}'..='\u{109f}' | '\u{3000}'..='\u{a63f}' | '\u{ac00}'..='\u{d7a3}')
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '«' | '»' | '‘' | '’' | '“' | '”' | '„' | '「' | '」' | '『' | '』' | '《' | '》')
}

/// A letter, a digit or a sign inside a word, of any script. The standard library's tables call the signs of Indic words none, and asking
/// them is slow; what is no letter stands in few places.
pub(super) fn is_word(c: char) -> bool {
    match c {
        '\0'..='\x7f' => c.is_ascii_alphanumeric(),
        '\u{80}'..='\u{bf}' => matches!(c, 'ª' | 'µ' | 'º' | '²' | '³' | '¹'),
        '\u{d7}' | '\u{f7}' | '\u{37e}' | '\u{387}' | '\u{55a}'..='\u{55f}' | '\u{589}' | '\u{58a}' => false,
        '\u{5be}' | '\u{5c0}' | '\u{5c3}' | '\u{5f3}' | '\u{5f4}' => false,
        '\u{60c}' | '\u{61b}' | '\u{61e}' | '\u{61f}' | '\u{66a}'..='\u{66d}' | '\u{6d4}' => false,
        '\u{964}' | '\u{965}' | '\u{970}' | '\u{e3f}' | '\u{e4f}' | '\u{e5a}' | '\u{e5b}' => false,
        '\u{104a}'..='\u{104f}' | '\u{10fb}' | '\u{1361}'..='\u{1368}' | '\u{17d4}'..='\u{17da}' => false,
        '\u{200c}' | '\u{200d}' => true,
        '\u{2000}'..='\u{2bff}'
        | '\u{2e00}'..='\u{2e7f}'
        | '\u{3000}'..='\u{3004}'
        | '\u{3008}'..='\u{3020}'
        | '\u{3030}' => false,
        '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe1f}' | '\u{fe30}'..='\u{fe6f}' => false,
        '\u{ff00}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff65}' => false,
        '\u{fff0}'..='\u{ffff}' | '\u{1f000}'..='\u{1faff}' | '\u{e0000}'.. => false,
        _ => true,
    }
}

fn quote(c: char, before: char, next: char, clean: &mut [u8], open: &mut Open) {
    let (slot, opens, closes) = match c {
        '"' => (0, true, true),
        // An apostrophe stands inside a word, or after a blank that tokenisers put there.
        '\'' | '‘' | '’' => {
            (5, !before.is_alphanumeric() && next.is_alphanumeric(), !next.is_alphanumeric() && c != '‘')
        }
        '“' => (1, true, open.quotes[1].is_some_and(|from| clean[from..].starts_with("„".as_bytes()))),
        '„' => (1, true, false),
        '”' => (1, false, true),
        '«' => (2, true, false),
        '»' => (2, false, true),
        '「' => (3, true, false),
        '」' => (3, false, true),
        '『' => (4, true, false),
        '』' => (4, false, true),
        '《' => (6, true, false),
        '》' => (6, false, true),
        _ => return,
    };
    let here = clean.len() - c.len_utf8();
    match open.quotes[slot].take() {
        Some(from) if closes => clean[from..].fill(MASK),
        Some(from) if !opens => open.quotes[slot] = Some(from),
        _ if opens => open.quotes[slot] = Some(here),
        _ => {}
    }
}

/// Splits one line into sentences. A rest without letters or digits (an emoji, a bracket) belongs to no sentence.
fn split(clean: &str, line: Range<usize>, kind: Line, out: &mut Vec<Sentence>) {
    let text = &clean[..line.end];
    let mut start = line.start + list_mark(&text[line.start..], kind);
    let (mut worded, mut asks, mut before) = (false, false, ' ');
    let mut chars = text[start..].char_indices().peekable();
    let offset = start;
    while let Some((i, c)) = chars.next() {
        if is_word(c) && c != '՞' {
            (worded, before) = (true, c);
            continue;
        }
        let next = chars.peek().map_or(' ', |&(_, c)| c);
        let end = offset + i + c.len_utf8();
        asks |= is_question(c, before, next);
        if ends(c, before, next) && !(c == '.' && is_short(&text[start..end - 1])) {
            let end = tail(&mut chars, &mut asks).map_or(end, |i| offset + i);
            if worded {
                out.push(Sentence { range: start..end, mark: mark(asks), line: kind });
                (start, asks) = (end, false);
            }
            worded = false;
        }
        before = c;
    }
    if worded {
        out.push(Sentence { range: start..line.end, mark: mark(asks), line: kind });
    }
}

/// Takes what may follow the mark and still belong to the sentence; where that ends.
fn tail(chars: &mut Peekable<impl Iterator<Item = (usize, char)>>, asks: &mut bool) -> Option<usize> {
    let mut end = None;
    while let Some((i, c)) = chars.next_if(|(_, c)| is_tail(*c)) {
        *asks |= is_question(c, ' ', ' ');
        end = Some(i + c.len_utf8());
    }
    end
}

fn is_tail(c: char) -> bool {
    const CLOSING: &str = ".!！。)]）\"”'’»」』… \t\u{a0}\u{3000}";
    CLOSING.contains(c) || is_question(c, ' ', ' ')
}

/// The length of a list's or heading's mark, which ends no sentence.
fn list_mark(line: &str, kind: Line) -> usize {
    let bare = line.trim_start();
    let mark = match kind {
        Line::Text => 0,
        _ if is_numbered(bare) => bare.find([')', '.', '、', '）', '．']).map_or(0, |i| i + 1),
        _ => 0,
    };
    line.len() - bare.len() + mark
}

fn mark(asks: bool) -> Mark {
    if asks { Mark::Question } else { Mark::Other }
}

/// A question mark of any script. The Armenian one stands inside the word; Greek uses the semicolon, so that one depends on its neighbour.
fn is_question(c: char, before: char, next: char) -> bool {
    match c {
        '?' => !(next.is_ascii_alphanumeric() || matches!(next, '=' | '&' | '/')),
        '？' | '؟' | '\u{37e}' | '՞' | '፧' | '⁇' | '⁈' | '⁉' | '‽' | '﹖' | '︖' | '❓' | '❔' | '⸮' => {
            true
        }
        ';' => matches!(before, '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}'),
        _ => false,
    }
}

fn ends(c: char, before: char, next: char) -> bool {
    match c {
        '.' => !next.is_alphanumeric() && next != ',',
        '!' | '。' | '！' | '…' | '।' | '॥' | '։' | '።' | '．' | '۔' => true,
        '՞' => false,
        _ => is_question(c, before, next),
    }
}

/// Whether the dot after this belongs to a short form: `e.g.`, `p.m.`, `Dr.`
fn is_short(text: &str) -> bool {
    let word = text.rsplit([' ', '(', '\n']).next().unwrap_or_default();
    let dotted = word.len() >= 3 && word.is_ascii() && word.as_bytes()[word.len() - 2] == b'.';
    dotted
        || matches!(word, "mr" | "mrs" | "ms" | "dr" | "st" | "vs" | "approx" | "incl" | "z.b" | "bzw" | "sr" | "sra")
}
