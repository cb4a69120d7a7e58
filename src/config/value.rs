//! How a value is written: one reader for each kind. A reader knows nothing of keys.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, Error, IntoDeserializer};
use toml::Spanned;
use toml::de::DeValue;

use super::suggest;

/// A value as it was typed.
pub(super) type Typed<'a> = Spanned<DeValue<'a>>;

/// Why a value cannot be read.
#[derive(Debug)]
pub(super) struct Wrong {
    /// Where in the file, in bytes.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl Wrong {
    pub fn new(value: &Typed<'_>, message: impl Into<String>) -> Self {
        Self { span: value.span(), message: message.into(), help: None }
    }

    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// A value of another type than the one that is described.
    fn kind(value: &Typed<'_>, wanted: &str) -> Self {
        Self::new(value, format!("expected {wanted}, found a value of type {}", value.get_ref().type_str()))
    }
}

/// `true` or `false`.
pub(super) fn flag(value: &Typed<'_>) -> Result<bool, Wrong> {
    let wrong = || Wrong::kind(value, "`true` or `false`");
    value.get_ref().as_bool().ok_or_else(|| match value.get_ref().as_str() {
        Some(word @ ("true" | "false")) => wrong().help(format!("write {word} without quotes")),
        _ => wrong(),
    })
}

/// A string that says something; `wanted` describes it.
pub(super) fn text<'a>(value: &'a Typed<'_>, wanted: &str) -> Result<&'a str, Wrong> {
    let text = value.get_ref().as_str().ok_or_else(|| Wrong::kind(value, wanted))?;
    if text.is_empty() { Err(Wrong::new(value, format!("expected {wanted}, found nothing"))) } else { Ok(text) }
}

/// A list of strings. An empty one among them would match everything, which nobody means.
pub(super) fn words(value: &Typed<'_>) -> Result<Vec<String>, Wrong> {
    let list = value.get_ref().as_array().ok_or_else(|| {
        let wrong = Wrong::kind(value, "a list of strings");
        if value.get_ref().is_str() { wrong.help("put it in brackets: [\"…\"]") } else { wrong }
    })?;
    list.iter().map(|item| text(item, "a string").map(str::to_owned)).collect()
}

/// One word of those that a type has, spelled as serde spells them.
pub(super) fn word<T: DeserializeOwned>(value: &Typed<'_>) -> Result<T, Wrong> {
    let typed = text(value, "a string")?;
    let reader: StrDeserializer<'_, NotOneOf> = typed.into_deserializer();
    T::deserialize(reader).map_err(|NotOneOf(known)| {
        let list = known.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        let wrong = Wrong::new(value, format!("{typed:?} is not one of {list}"));
        match suggest::nearest(typed, known.iter().copied()) {
            Some(word) => wrong.help(format!("did you mean \"{word}\"?")),
            None => wrong,
        }
    })
}

/// A number without a unit.
pub(super) fn number<T: TryFrom<u64>>(value: &Typed<'_>) -> Result<T, Wrong> {
    let integer = value.get_ref().as_integer().ok_or_else(|| Wrong::kind(value, "a whole number"))?;
    let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        let message = format!("{integer} is out of range");
        Wrong::new(value, message)
    })
}

/// Bytes: a number, or a number with a unit.
pub(super) fn size(value: &Typed<'_>) -> Result<usize, Wrong> {
    if value.get_ref().is_integer() {
        return number(value);
    }
    let typed = text(value, "a size such as \"16MiB\", or a number of bytes")?;
    let unknown = || Wrong::new(value, format!("{typed:?} is not a size")).help("write it as \"128KiB\" or \"16MiB\"");
    let (number, unit) = amount(typed).ok_or_else(unknown)?;
    let bytes = SIZES.iter().find(|(name, _)| *name == unit).ok_or_else(|| {
        let lax = SIZES.iter().find(|(name, _)| unit.len() <= name.len() && same_size(name, unit));
        match lax {
            Some((name, _)) => unknown().help(format!("did you mean \"{number}{name}\"?")),
            None => unknown(),
        }
    })?;
    let bytes = number.checked_mul(bytes.1).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| Wrong::new(value, format!("{typed:?} is out of range")))
}

/// Whether `m`, `MB` or `mib` means `MiB`.
fn same_size(name: &str, unit: &str) -> bool {
    let letter = |word: &str| word.chars().next().map(|letter| letter.to_ascii_lowercase());
    unit.is_ascii() && letter(name) == letter(unit) && ["", "b", "ib"].contains(&&*unit[1..].to_ascii_lowercase())
}

/// A number with a unit of time.
pub(super) fn duration(value: &Typed<'_>) -> Result<Duration, Wrong> {
    if let Some(integer) = value.get_ref().as_integer() {
        return Err(Wrong::new(value, "a duration needs a unit").help(format!("for seconds write \"{integer}s\"")));
    }
    let typed = text(value, "a duration such as \"30s\"")?;
    let unknown = || {
        let wrong = Wrong::new(value, format!("{typed:?} is not a duration"));
        wrong.help("write it as \"500ms\", \"30s\", \"10m\", \"1h\" or \"7d\"")
    };
    let (number, unit) = amount(typed).ok_or_else(unknown)?;
    let millis = DURATIONS.iter().find(|(name, _)| *name == unit).ok_or_else(unknown)?.1;
    let duration = number.checked_mul(millis).map(Duration::from_millis).filter(|&duration| duration <= LONGEST);
    duration.ok_or_else(|| Wrong::new(value, format!("{typed:?} is longer than ten years")))
}

/// A number and what stands behind it.
fn amount(typed: &str) -> Option<(u64, &str)> {
    let digits = typed.find(|character: char| !character.is_ascii_digit()).unwrap_or(typed.len());
    let (number, unit) = typed.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start_matches(' ')))
}

/// A reader that refuses what is less.
pub(super) fn least<T: PartialOrd + fmt::Debug>(
    least: T,
    read: impl FnOnce(&Typed<'_>) -> Result<T, Wrong>,
) -> impl FnOnce(&Typed<'_>) -> Result<T, Wrong> {
    move |value| {
        let number = read(value)?;
        if number < least {
            return Err(Wrong::new(value, format!("{number:?} is too little: at least {least:?}")));
        }
        Ok(number)
    }
}

/// What serde says about a word that a type does not have.
#[derive(Debug)]
struct NotOneOf(&'static [&'static str]);

impl Error for NotOneOf {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self(known)
    }
}

impl fmt::Display for NotOneOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not one of {:?}", self.0)
    }
}

impl std::error::Error for NotOneOf {}

const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

const DURATIONS: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// A clock that counts from the start of the machine does not reach much further.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
