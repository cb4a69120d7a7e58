//! The interfaces of a card: what it lists, and where.

use super::address::{Address, Fault, origin};
use super::{Binding, CardError, Dialect, Places};
use crate::json::{Kind, Value};

/// One interface: the pair `url` and `preferredTransport` of a 0.3 card, or an element of a list.
#[derive(Clone, Debug)]
pub(super) struct Interface<'d, 't> {
    /// The object in which its `url` stands.
    pub object: Value<'d, 't>,
    /// How calls are wrapped there.
    pub binding: Binding,
    /// What is spoken there; `None`: a version that the proxy does not know.
    pub dialect: Option<Dialect>,
    /// Whether it does not say so itself, as an element of a list must.
    pub guessed: bool,
    /// Where it stands.
    pub address: Result<Address, Fault>,
}

impl<'d, 't> Interface<'d, 't> {
    fn new(object: Value<'d, 't>, binding: &str, dialect: Option<Dialect>, mount: &str) -> Self {
        let named = object.some(binding);
        Self {
            object,
            // Absent, it is JSON-RPC on a 0.3 card by its specification (5.5.5), and in a list by what nearly all agents speak.
            binding: named.map_or(Binding::JsonRpc, Binding::of),
            dialect,
            guessed: named.is_none() && binding != "preferredTransport",
            address: object.some("url").map_or(Err(Fault::Missing), |url| {
                url.str().map_or(Err(Fault::Characters), |text| Address::parse(&text, mount))
            }),
        }
    }

    /// Its URL as the agent wrote it, for people to read.
    pub fn said(&self) -> String {
        said(self.object.some("url").map_or("", |url| url.raw()))
    }
}

/// What an agent wrote, for a log line: no control characters, no bidirectional tricks, and not too long.
pub(super) fn said(raw: &str) -> String {
    let plain: String = raw.trim_matches('"').chars().take(120).collect();
    plain.escape_debug().to_string()
}

/// All interfaces of a card.
#[derive(Debug)]
pub(super) struct Interfaces<'d, 't> {
    /// The card.
    pub card: Value<'d, 't>,
    /// 0.3: `url` and `preferredTransport`.
    pub main: Option<Interface<'d, 't>>,
    /// 0.3: `additionalInterfaces`, one for each element.
    pub additional: Vec<Interface<'d, 't>>,
    /// 1.0: `supportedInterfaces`, one for each element.
    pub supported: Vec<Interface<'d, 't>>,
    /// The origins that stand for the agent.
    origins: Vec<String>,
}

impl<'d, 't> Interfaces<'d, 't> {
    /// Finds them.
    ///
    /// # Errors
    /// What is no object, and objects in which two readers would read different URLs.
    pub fn of(card: Value<'d, 't>, places: &Places<'_>) -> Result<Self, CardError> {
        if card.kind() != Kind::Object {
            return Err(CardError::NotAnObject);
        }
        refuse_duplicates(card, "the card")?;
        let mut found = Self {
            card,
            main: card
                .some("url")
                .map(|_| Interface::new(card, "preferredTransport", Some(Dialect::V03), places.mount)),
            additional: list(card, "additionalInterfaces", |each| {
                Interface::new(each, "transport", Some(Dialect::V03), places.mount)
            })?,
            supported: list(card, "supportedInterfaces", |each| {
                Interface::new(each, "protocolBinding", version(each), places.mount)
            })?,
            origins: Vec::new(),
        };
        found.origins = found.own_origins(places);
        Ok(found)
    }

    /// All of them, those of 1.0 first.
    pub fn all(&self) -> impl Iterator<Item = &Interface<'d, 't>> {
        self.supported.iter().chain(self.legacy())
    }

    /// Those of 0.3.
    pub fn legacy(&self) -> impl Iterator<Item = &Interface<'d, 't>> {
        self.main.iter().chain(&self.additional)
    }

    /// The main one: the first JSON-RPC interface with a usable URL.
    pub fn primary(&self) -> Option<&Interface<'d, 't>> {
        self.all().find(|each| each.binding == Binding::JsonRpc && each.address.is_ok())
    }

    /// Whether `address` is the agent's: relative, or of an origin that stands for it.
    pub fn is_own(&self, address: &Address) -> bool {
        address.origin.as_ref().is_none_or(|origin| self.origins.contains(origin))
    }

    /// The configured upstream's own origin, and whatever host the main interface of each dialect names (semantics 9). One that points at
    /// the proxy already says nothing about the agent's.
    fn own_origins(&self, places: &Places<'_>) -> Vec<String> {
        let mut origins: Vec<_> =
            places.origin.split_once("://").and_then(|(a, b)| origin(a, b).ok()).into_iter().collect();
        origins.extend(main_origin(self.supported.iter(), places));
        origins.extend(main_origin(self.legacy(), places));
        origins
    }
}

/// Of the first JSON-RPC interface; of the first other one where there is none.
fn main_origin<'i, 'd: 'i, 't: 'd>(
    interfaces: impl Iterator<Item = &'i Interface<'d, 't>>,
    places: &Places<'_>,
) -> Option<String> {
    let http = interfaces.filter(|each| matches!(each.binding, Binding::JsonRpc | Binding::HttpJson));
    let usable = http.filter_map(|each| Some((each.binding, each.address.as_ref().ok()?)));
    let elsewhere = usable.filter(|(_, address)| places.behind_base(address).is_none());
    elsewhere.min_by_key(|(binding, _)| *binding != Binding::JsonRpc)?.1.origin.clone()
}

fn list<'d, 't>(
    card: Value<'d, 't>,
    name: &str,
    interface: impl Fn(Value<'d, 't>) -> Interface<'d, 't>,
) -> Result<Vec<Interface<'d, 't>>, CardError> {
    let Some(list) = card.some(name) else { return Ok(Vec::new()) };
    if list.kind() != Kind::Array {
        return Err(CardError::NotAList(name.to_owned()));
    }
    let each = |element| refuse_duplicates(element, name).map(|()| interface(element));
    list.elements().map(each).collect()
}

/// Refuses an object in which a name stands twice: the agent's readers might take the one that is not rewritten.
pub(super) fn refuse_duplicates(object: Value<'_, '_>, place: &str) -> Result<(), CardError> {
    if object.has_duplicate_names() { Err(CardError::DuplicateNames(place.to_owned())) } else { Ok(()) }
}

/// What an element of `supportedInterfaces` speaks; without a version what such lists are for.
fn version(interface: Value<'_, '_>) -> Option<Dialect> {
    match interface.some("protocolVersion") {
        Some(version) => Dialect::of_version(&version.str()?),
        None => Some(Dialect::V10),
    }
}
