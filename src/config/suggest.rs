//! Which known word a mistyped one was meant to be.

/// The nearest of the known words, if one is near enough: one slip in three characters.
pub(super) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let reach = (typed.chars().count() / 3).max(1);
    let near = known.into_iter().map(|word| (distance(typed, word), word)).filter(|&(slips, _)| slips <= reach);
    near.min_by_key(|&(slips, _)| slips).map(|(_, word)| word)
}

/// Slips from one word to the other: characters added, left out, replaced, or two neighbours swapped. Case does not count, nor does `-`
/// for `_`.
fn distance(from: &str, to: &str) -> usize {
    let fold = |word: &str| word.to_lowercase().replace('-', "_").chars().collect::<Vec<_>>();
    let (from, to) = (fold(from), fold(to));
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        for (from, to, slips) in [
            ("history", "history", 0),
            ("histroy", "history", 1),
            ("max-turns", "max_turns", 0),
            ("Policy", "policy", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("lease", "leases", 1),
            ("wait", "guard", 4),
        ] {
            assert_eq!(distance(from, to), slips, "{from} {to}");
        }
    }

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["history", "guard", "wait"];
        assert_eq!(nearest("histroy", known), Some("history"));
        assert_eq!(nearest("gaurd", known), Some("guard"));
        assert_eq!(nearest("store", known), None);
    }
}
