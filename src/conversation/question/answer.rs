//! For what a sentence that asks waits: words, a yes, a credential, a file.

use super::Expected;
use super::judge::Act;
use super::words::{Found, Kind};

/// An open question asks for words even where it offers to act: "which one shall I book".
pub(super) fn kind(act: Act, found: &Found) -> Expected {
    let any = |kinds: &[Kind]| kinds.iter().any(|kind| found.has(*kind));
    let asks = act == Act::Question;
    let named = named(found);
    let leave = found.has(Kind::Leave) && !any(&[Kind::Open, Kind::Choice]) && (asks || named == Expected::FreeText);
    // What is needed to go on, as a statement, is not a yes.
    let to_go_on = found.has(Kind::Proceed) && (asks || found.has(Kind::Wish));
    let wished = asks && found.has(Kind::Wish) && !found.has(Kind::Choice);
    let agreed = (found.has(Kind::Approval) || to_go_on || wished) && !any(&[Kind::Open, Kind::Vague]);
    match named {
        _ if leave => Expected::Approval,
        Expected::FreeText if found.has(Kind::Document) && !any(&[Kind::Open, Kind::Approval]) => {
            Expected::StructuredArtifact
        }
        Expected::FreeText if agreed => Expected::Approval,
        named => named,
    }
}

pub(super) fn named(found: &Found) -> Expected {
    match (found.has(Kind::Credential), found.has(Kind::Artifact)) {
        (true, _) => Expected::Credential,
        (_, true) => Expected::StructuredArtifact,
        _ => Expected::FreeText,
    }
}

/// Of two answers that are waited for, the one that needs more care.
pub(super) fn more(a: Expected, b: Expected) -> Expected {
    let rank = |e| match e {
        Expected::FreeText => 0,
        Expected::Approval => 1,
        Expected::StructuredArtifact => 2,
        Expected::Credential => 3,
    };
    if rank(b) > rank(a) { b } else { a }
}
