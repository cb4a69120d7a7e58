//! The files that the phrases stand in, and how they are read.

use super::Kind;

/// The kinds by the names that they have in the files.
pub(super) const KINDS: [(&str, Kind); 27] = [
    ("question", Kind::Question),
    ("request", Kind::Request),
    ("order", Kind::Order),
    ("step", Kind::Step),
    ("closer", Kind::Closer),
    ("still", Kind::Still),
    ("not", Kind::Not),
    ("courtesy", Kind::Courtesy),
    ("follow", Kind::Follow),
    ("done", Kind::Done),
    ("address", Kind::Address),
    ("open", Kind::Open),
    ("choice", Kind::Choice),
    ("vague", Kind::Vague),
    ("approval", Kind::Approval),
    ("wish", Kind::Wish),
    ("proceed", Kind::Proceed),
    ("offer", Kind::Offer),
    ("leave", Kind::Leave),
    ("credential", Kind::Credential),
    ("artifact", Kind::Artifact),
    ("document", Kind::Document),
    ("make", Kind::Make),
    ("questions", Kind::Questions),
    ("piece", Kind::Piece),
    ("repeat", Kind::Repeat),
    ("willing", Kind::Willing),
];

pub(super) type Row = (Kind, &'static str);

pub(super) const FILES: &[&str] = &[
    include_str!("am_ha_yo_zu.txt"),
    include_str!("ar.txt"),
    include_str!("bn.txt"),
    include_str!("cs.txt"),
    include_str!("de.txt"),
    include_str!("el.txt"),
    include_str!("en.txt"),
    include_str!("es.txt"),
    include_str!("fa.txt"),
    include_str!("fi.txt"),
    include_str!("fil.txt"),
    include_str!("fr.txt"),
    include_str!("he.txt"),
    include_str!("hi.txt"),
    include_str!("hu.txt"),
    include_str!("hy_ka.txt"),
    include_str!("id.txt"),
    include_str!("it.txt"),
    include_str!("ja.txt"),
    include_str!("ko.txt"),
    include_str!("my_km_lo.txt"),
    include_str!("nl.txt"),
    include_str!("pl.txt"),
    include_str!("pt.txt"),
    include_str!("ro.txt"),
    include_str!("ru.txt"),
    include_str!("sv_da_no.txt"),
    include_str!("sw.txt"),
    include_str!("ta_te.txt"),
    include_str!("th.txt"),
    include_str!("tr_az.txt"),
    include_str!("uk.txt"),
    include_str!("ur.txt"),
    include_str!("vi.txt"),
    include_str!("zh.txt"),
];

/// The phrases of a file. A line that is not indented names the kind of those below it, or is a comment.
pub(super) fn rows(file: &'static str) -> impl Iterator<Item = Row> {
    let mut kind = None;
    file.lines().flat_map(move |line| {
        if !line.starts_with(' ') {
            kind = KINDS.iter().find(|(name, _)| *name == line).map(|(_, kind)| *kind);
        }
        let kind = kind.filter(|_| line.starts_with(' '));
        kind.into_iter().flat_map(move |kind| line.split('|').map(move |phrase| (kind, phrase.trim())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_files_is_a_kind_a_comment_or_phrases_in_lower_case() {
        for (line, file) in FILES.iter().flat_map(|file| file.lines().map(move |line| (line, file.lines().next()))) {
            let known = line.is_empty() || line.starts_with('#') || KINDS.iter().any(|(name, _)| *name == line);
            assert!(known || line.starts_with("  "), "{file:?}: {line}");
        }
        for (kind, phrase) in FILES.iter().copied().flat_map(rows) {
            assert!(phrase.trim_start_matches('^').starts_with(char::is_alphanumeric), "{kind:?} {phrase}");
            assert_eq!(phrase.to_lowercase(), phrase, "{kind:?}");
        }
    }

    #[test]
    fn kinds_are_numbered_as_they_are_listed() {
        assert!(KINDS.iter().enumerate().all(|(at, (_, kind))| *kind as usize == at));
    }
}
