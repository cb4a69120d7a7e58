//! The card that clients see: every URL points at the proxy, and what it does not serve is gone.

use super::address::{Address, below};
use super::interface::{Interface, Interfaces};
use super::removed::{Removals, Removed};
use super::{Binding, CardError, Dialect, Places, Serves, capabilities};
use crate::json::{Edits, Value, quote};

/// One card being rewritten.
struct Rewrite<'a, 'd, 't> {
    card: Value<'d, 't>,
    places: &'a Places<'a>,
    serves: &'a Serves<'a>,
    edits: Edits,
    /// Members of the card that go: taken out together, since commas between neighbours are shared.
    gone: Vec<&'static str>,
    warnings: Vec<String>,
}

/// The edits that make `card` the proxy's, and what there is to say about them.
///
/// # Errors
/// As [`super::rewrite`].
pub(super) fn rewrite<'d>(
    card: Value<'d, '_>,
    places: &Places<'_>,
    serves: &Serves<'_>,
) -> Result<(Edits, Vec<String>), CardError> {
    let found = Interfaces::of(card, places)?;
    let mut rewrite = Rewrite { card, places, serves, edits: Edits::new(), gone: Vec::new(), warnings: Vec::new() };
    rewrite.interfaces(&found)?;
    capabilities::adapt(card, serves, &mut rewrite.edits, &mut rewrite.warnings)?;
    rewrite.signatures();
    rewrite.edits.remove_members(card, &rewrite.gone);
    Ok((rewrite.edits, rewrite.warnings))
}

/// An interface that stays, with its new URL.
struct Kept<'i, 'd, 't> {
    interface: &'i Interface<'d, 't>,
    url: String,
}

impl Kept<'_, '_, '_> {
    /// The list element's text, with no byte changed but the URL's.
    fn text(&self) -> String {
        let object = self.interface.object;
        let Some(url) = object.get("url").filter(|url| url.str().as_deref() != Some(&self.url)) else {
            return object.raw().to_owned();
        };
        let (start, end) = (url.range().start - object.range().start, url.range().end - object.range().start);
        format!("{}{}{}", &object.raw()[..start], quote(&self.url), &object.raw()[end..])
    }

    fn binding(&self) -> Binding {
        self.interface.binding
    }

    fn is_not_json_rpc(&self) -> bool {
        self.binding() != Binding::JsonRpc
    }
}

impl<'d, 't> Rewrite<'_, 'd, 't> {
    fn interfaces(&mut self, found: &Interfaces<'d, 't>) -> Result<(), CardError> {
        let mut removals = Removals::default();
        let main = self.kept(found.main.as_slice(), found, &mut removals);
        let additional = self.kept(&found.additional, found, &mut removals);
        let supported = self.kept(&found.supported, found, &mut removals);
        if main.is_empty() && additional.is_empty() && supported.is_empty() {
            return Err(CardError::NothingLeft(removals.to_string()));
        }
        self.warnings.extend(removals.lines());
        let demoted = found.main.as_ref().and_then(|said| self.legacy(said, main.first(), &additional, &supported));
        self.list("additionalInterfaces", &found.additional, &additional, demoted);
        self.list("supportedInterfaces", &found.supported, &supported, None);
        if supported.is_empty() && !found.supported.is_empty() {
            // An empty list would still say 1.0 to some clients.
            self.gone.push("supportedInterfaces");
        }
        Ok(())
    }

    /// Those that stay: JSON-RPC first, else in their order.
    fn kept<'i>(
        &self,
        list: &'i [Interface<'d, 't>],
        found: &Interfaces<'d, 't>,
        removals: &mut Removals,
    ) -> Vec<Kept<'i, 'd, 't>> {
        let mut kept = Vec::new();
        for interface in list {
            match self.url(interface, found) {
                Ok(url) => kept.push(Kept { interface, url }),
                Err(reason) => removals.add(interface, &reason),
            }
        }
        kept.sort_by_key(Kept::is_not_json_rpc);
        kept
    }

    /// Its URL at the proxy.
    fn url(&self, interface: &Interface<'_, '_>, found: &Interfaces<'_, '_>) -> Result<String, Removed> {
        if !self.serves.bindings.contains(&interface.binding) {
            return Err(Removed::Binding(interface.binding));
        }
        if !interface.dialect.is_some_and(|dialect| self.serves.dialects.contains(&dialect)) {
            return Err(Removed::Version);
        }
        let address = interface.address.as_ref().map_err(|fault| *fault)?;
        Ok(format!("{}{}", self.places.base(), self.rest(interface.binding, address, found)?))
    }

    /// What follows the base there: what the path at the agent has behind the mount, so that a call finds its way back.
    fn rest<'p>(
        &'p self,
        binding: Binding,
        address: &'p Address,
        found: &Interfaces<'_, '_>,
    ) -> Result<&'p str, Removed> {
        let behind_base = self.places.behind_base(address);
        if behind_base.is_none() && !found.is_own(address) {
            return Err(Removed::Foreign);
        }
        let configured = self.places.path.filter(|_| binding == Binding::JsonRpc);
        if let (None, Some(rest)) = (configured, behind_base) {
            return Ok(rest);
        }
        let outside = || Removed::Outside(self.places.mount.to_owned());
        below(configured.unwrap_or(&address.path), self.places.mount).ok_or_else(outside)
    }

    /// The pair `url` and `preferredTransport`: the main interface's where it is JSON-RPC and stays, else that of the next best. Gives the
    /// former main one as a list element where it is served too and would otherwise be lost.
    fn legacy(
        &mut self,
        said: &Interface<'d, 't>,
        main: Option<&Kept<'_, 'd, 't>>,
        additional: &[Kept<'_, 'd, 't>],
        supported: &[Kept<'_, 'd, 't>],
    ) -> Option<String> {
        let spoken = supported.iter().filter(|each| each.interface.dialect == Some(Dialect::V03));
        let choice = main.into_iter().chain(additional).chain(spoken).min_by_key(|each| each.is_not_json_rpc());
        let Some(choice) = choice else {
            self.gone.extend(["url", "preferredTransport", "additionalInterfaces"]);
            self.warnings
                .push("nothing of the card's 0.3 part can be served: 0.3 clients cannot read it any more".to_owned());
            return None;
        };
        self.edits.set_string_member(self.card, "url", &choice.url);
        if choice.binding() == said.binding {
            return None;
        }
        self.edits.set_string_member(self.card, "preferredTransport", &choice.binding().to_string());
        let main = main
            .filter(|main| !additional.iter().any(|each| each.binding() == main.binding() && each.url == main.url))?;
        Some(format!("{{\"url\":{},\"transport\":\"{}\"}}", quote(&main.url), main.binding()))
    }

    /// Puts what stays of a list into the places of what stays, so that the space between stays too.
    fn list(&mut self, name: &str, all: &[Interface<'d, 't>], kept: &[Kept<'_, 'd, 't>], further: Option<String>) {
        let texts = kept.iter().map(Kept::text);
        if let Some(further) = further {
            let items: Vec<_> = texts.chain([further]).collect();
            return self.edits.set_member(self.card, name, &format!("[{}]", items.join(",")));
        }
        let mut slots: Vec<_> = kept.iter().map(|each| each.interface.object.range()).collect();
        slots.sort_unstable_by_key(|slot| slot.start);
        for (slot, text) in slots.iter().zip(texts) {
            if self.card.doc().text()[slot.clone()] != text {
                self.edits.replace(slot.clone(), text);
            }
        }
        if let Some(list) = self.card.some(name).filter(|_| kept.len() < all.len()) {
            let stays =
                |each: Value<'_, '_>| slots.binary_search_by_key(&each.range().start, |slot| slot.start).is_ok();
            self.edits.remove_elements(list, |each| !stays(each));
        }
    }

    /// A signature covers the card as it was (1.0, 8.4).
    fn signatures(&mut self) {
        let signed = self.card.some("signatures").is_some_and(|list| list.elements().next().is_some());
        if signed && !(self.edits.is_empty() && self.gone.is_empty()) {
            self.gone.push("signatures");
            self.warnings
                .push("`signatures` are removed: they do not hold for the card as the proxy shows it".to_owned());
        }
    }
}
