//! Lines that are a text inside the reply and not the agent's own speech to the user: a letter that it drafted, a block between two rules,
//! the questions of an FAQ, markup.

use std::ops::Range;

/// How a letter's head line begins, without its colon.
const SUBJECTS: [&str; 17] = [
    "subject",
    "betreff",
    "objet",
    "asunto",
    "assunto",
    "oggetto",
    "onderwerp",
    "temat",
    "тема",
    "主题",
    "主旨",
    "件名",
    "제목",
    "الموضوع",
    "perihal",
    "konu",
    "विषय",
];
/// How a salutation begins.
const SALUTATIONS: [&str; 25] = [
    "dear ",
    "hi ",
    "hello ",
    "hey ",
    "sehr geehrte",
    "liebe",
    "hallo ",
    "guten tag",
    "bonjour",
    "cher ",
    "chère ",
    "madame",
    "monsieur",
    "estimad",
    "querid",
    "hola ",
    "prezad",
    "olá ",
    "gentile ",
    "beste ",
    "geachte ",
    "уважаем",
    "здравствуйте",
    "尊敬的",
    "عزيزي",
];
/// How a line that closes a letter begins.
const CLOSINGS: [&str; 27] = [
    "best",
    "kind regards",
    "warm regards",
    "regards",
    "sincerely",
    "yours",
    "cheers",
    "thanks,",
    "many thanks",
    "thank you,",
    "mit freundlichen",
    "viele grüße",
    "liebe grüße",
    "beste grüße",
    "cordialement",
    "bien à vous",
    "saludos",
    "atentamente",
    "un saludo",
    "atenciosamente",
    "cordiali saluti",
    "met vriendelijke",
    "с уважением",
    "此致",
    "敬具",
    "مع خالص",
    "hormat saya",
];
/// What stands before a question that is told with its answer, before the mark.
const ASKED: [&str; 16] = [
    "q",
    "question",
    "frage",
    "f",
    "pregunta",
    "p",
    "pergunta",
    "domanda",
    "d",
    "вопрос",
    "в",
    "问",
    "問",
    "質問",
    "질문",
    "سؤال",
];
/// Elements of marked-up prose: what they hold is judged.
const PROSE: [&str; 14] = ["a", "b", "br", "div", "em", "h1", "h2", "h3", "i", "li", "p", "span", "strong", "ul"];

/// Which of the lines are not the agent's own.
pub(super) fn quoted(lines: &[&str]) -> Vec<bool> {
    let mut quoted: Vec<_> = lines.iter().map(|line| is_asked(line) || is_markup(line)).collect();
    for range in letters(lines).into_iter().chain(blocks(lines)) {
        quoted[range].fill(true);
    }
    quoted
}

/// A letter goes from its subject, or from a salutation that something stands before, to the name below its closing.
fn letters(lines: &[&str]) -> Vec<Range<usize>> {
    let Some(first) = lines.iter().position(|line| !plain(line).is_empty()) else { return Vec::new() };
    let starts = (first..lines.len()).filter(|at| is_subject(lines[*at]) || *at > first && is_salutation(lines[*at]));
    let starts: Vec<_> = starts.collect();
    if starts.is_empty() {
        return Vec::new();
    }
    // Looked for once: a reply of nothing but salutations must not cost the square of its lines.
    let closings: Vec<_> = (0..lines.len()).filter(|at| is_closing(lines[*at])).collect();
    let mut letters: Vec<Range<usize>> = Vec::new();
    for start in starts {
        if letters.last().is_some_and(|letter| letter.contains(&start)) {
            continue;
        }
        let closing = closings.partition_point(|closing| *closing <= start);
        if let Some(closing) = closings.get(closing) {
            letters.push(start..signed(lines, *closing));
        }
    }
    letters
}

/// The end of the name below the closing: two lines at most, on the next lines that are not blank.
fn signed(lines: &[&str], closing: usize) -> usize {
    let named =
        lines[closing + 1..].iter().take(3).take_while(|line| !is_rule(line) && plain(line).chars().count() <= 40);
    let named = named.map(|line| plain(line)).collect::<Vec<_>>();
    let name = named.iter().position(|line| !line.is_empty() && !line.ends_with(['?', '.', '!', '？', '؟']));
    closing + 1 + name.map_or(0, |at| at + 1)
}

/// What stands between two rules below a line that announces it.
fn blocks(lines: &[&str]) -> Vec<Range<usize>> {
    let rules: Vec<_> = (0..lines.len()).filter(|at| is_rule(lines[*at])).collect();
    let is_announced = |rule: usize| {
        let above = lines[..rule].iter().rev().map(|line| plain(line)).find(|line| !line.is_empty());
        above.is_some_and(|line| line.ends_with([':', '：']))
    };
    rules.windows(2).map(|pair| pair[0]..pair[1]).filter(|block| is_announced(block.start)).collect()
}

/// A line without white space and emphasis around it.
fn plain(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '#' | '>'))
}

fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 3 && line.bytes().all(|b| b == b'-')
        || line.len() >= 3 && line.bytes().all(|b| matches!(b, b'*' | b'_'))
}

fn is_subject(line: &str) -> bool {
    let line = plain(line);
    let head = line.split([':', '：']).next().unwrap_or_default();
    head.len() < line.len() && head.len() <= 24 && SUBJECTS.contains(&&*plain(head).to_lowercase())
}

fn is_salutation(line: &str) -> bool {
    let line = plain(line);
    line.len() <= 80 && line.ends_with([',', '，', ':', '：', '!', '、']) && is_like(line, &SALUTATIONS)
}

fn is_closing(line: &str) -> bool {
    let line = plain(line);
    line.len() <= 60 && !line.ends_with(['.', '?', ':']) && is_like(line, &CLOSINGS)
}

/// Whether the line begins so, whatever the case.
fn is_like(line: &str, starts: &[&str]) -> bool {
    let head: String = line.chars().take(20).flat_map(char::to_lowercase).collect();
    starts.iter().any(|start| head.starts_with(start))
}

/// `Q:`, `**Q1.` and the like: a question that is told together with its answer.
fn is_asked(line: &str) -> bool {
    let line = plain(line).trim_start_matches(['-', '•', ' ']);
    let line = line.trim_start_matches('*');
    let head = line.split([':', '：', '.', ')']).next().unwrap_or_default();
    let name = head.trim_end_matches(|c: char| c.is_numeric() || c == ' ');
    // The longest of them has eight letters.
    head.len() < line.len() && (1..=24).contains(&name.len()) && ASKED.contains(&&*name.to_lowercase())
}

/// A line of markup whose first element is none of prose.
fn is_markup(line: &str) -> bool {
    let line = line.trim();
    let Some(rest) = line.strip_prefix('<').filter(|_| line.ends_with('>')) else { return false };
    let name: String = rest.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
    !name.is_empty() && !PROSE.contains(&&*name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str) -> Vec<&str> {
        let lines: Vec<_> = text.lines().collect();
        quoted(&lines).into_iter().zip(&lines).filter(|(quoted, _)| !quoted).map(|(_, line)| *line).collect()
    }

    #[test]
    fn a_letter_in_the_reply_is_not_the_agents_speech() {
        let letter = "Subject: Invoice\n\nDear Ann,\n\nCould you pay?\n\nBest regards,\nTom";
        assert_eq!(own(letter), [""; 0]);
        assert_eq!(own(&format!("Here it is.\n{letter}\n\nShall I send it?")), ["Here it is.", "", "Shall I send it?"]);
        assert_eq!(own("A draft:\nHi Ann,\nare you free?\nCheers\nTom\nShall I?"), ["A draft:", "Shall I?"]);
        assert_eq!(own("Betreff: X\nHallo Ann,\nwann?\nViele Grüße\n\nTom\nPasst das?"), ["Passt das?"]);
    }

    #[test]
    fn a_reply_that_is_written_like_a_letter_is_the_agents() {
        let reply = "Dear Ann,\nwhich order do you mean?\nKind regards,\nThe team";
        assert_eq!(own(reply), reply.lines().collect::<Vec<_>>());
        assert_eq!(own("I read it.\nHi there,\nwhich one?"), ["I read it.", "Hi there,", "which one?"]);
        assert_eq!(own("Subject: none\nWhich one?"), ["Subject: none", "Which one?"]);
    }

    #[test]
    fn blocks_between_rules_count_where_they_are_announced() {
        assert_eq!(own("The text:\n---\nWho?\n---\nShall I?"), ["The text:", "---", "Shall I?"]);
        assert_eq!(own("Part one.\n---\nWho?\n---\nEnd"), ["Part one.", "---", "Who?", "---", "End"]);
    }

    #[test]
    fn the_questions_of_an_faq_and_markup_are_content() {
        assert_eq!(own("**Q: Who?**\nA: I.\nQ2. Where?\n问：谁？\nQuestion 3: When?"), ["A: I."]);
        assert_eq!(own("Quick: who?\nD) four\n<x>who?</x>\n<p>Who?</p>"), ["Quick: who?", "<p>Who?</p>"]);
    }
}
