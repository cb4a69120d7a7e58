//! What a card says about its agent, and what is wrong with it.

use super::address::{Address, below, path_of};
use super::interface::{Interface, Interfaces};
use super::{Binding, CardError, Dialect, Places, Seen, at_agent};
use crate::json::Value;

/// Faults beyond these are counted: a card may list thousands of interfaces.
const LINES: usize = 8;

/// As [`super::read`].
pub(super) fn read(card: Value<'_, '_>, places: &Places<'_>) -> Result<Seen, CardError> {
    let found = Interfaces::of(card, places)?;
    let mut warnings = faults(&found);
    let primary = found.primary().and_then(|each| each.address.as_ref().ok());
    let (mount, rpc_path) = primary.map_or((places.mount.to_owned(), None), |address| {
        let (mount, path) = mount(address, places, &mut warnings);
        (mount, Some(path))
    });
    let says = |name: &str| card.some("capabilities").and_then(|of| of.get(name)?.bool()) == Some(true);
    Ok(Seen {
        name: card.some("name").and_then(|name| Some(name.str()?.into_owned())),
        dialects: each_once(found.all().filter_map(|each| each.dialect)),
        bindings: each_once(found.all().map(|each| each.binding)),
        rpc_path,
        mount,
        streaming: says("streaming"),
        push: says("pushNotifications"),
        warnings,
    })
}

/// What the route's base stands for at the agent, and the path of the main interface there.
///
/// The configured path, where that covers the interface. A path beside it is believed, and then stands alone; one above it is not: the
/// route would open to clients what the configuration did not name (mostly something in front of the agent strips the path off).
fn mount(address: &Address, places: &Places<'_>, warnings: &mut Vec<String>) -> (String, String) {
    let configured = places.mount;
    if let (Some(rest), None) = (places.behind_base(address), places.path) {
        return (configured.to_owned(), at_agent(configured, rest));
    }
    let said = places.path.unwrap_or(&address.path);
    let path = at_agent("", said);
    let own = path_of(&path).trim_end_matches('/');
    if below(said, configured).is_some() {
        return (configured.to_owned(), path);
    }
    warnings.push(format!(
        "the path of the main JSON-RPC interface, {path}, is not under {configured}, that of the configured upstream"
    ));
    let mount = if below(configured, own).is_some() { configured } else { own };
    (mount.to_owned(), path)
}

fn faults(found: &Interfaces<'_, '_>) -> Vec<String> {
    let mut faults: Vec<_> = found.all().flat_map(interface_faults).take(LINES).collect();
    if found.primary().is_none() {
        faults.push("it lists no JSON-RPC interface with a usable URL".to_owned());
    }
    if found.main.is_none() && !found.additional.is_empty() {
        faults.push("it has `additionalInterfaces` but no `url`".to_owned());
    }
    let version = found.card.some("protocolVersion").and_then(|version| version.str());
    if found.supported.is_empty() && version.is_some_and(|version| Dialect::of_version(&version) != Some(Dialect::V03))
    {
        faults.push("its `protocolVersion` is not 0.3, but it has no `supportedInterfaces`".to_owned());
    }
    faults
}

fn interface_faults(interface: &Interface<'_, '_>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut say = |what: &str| faults.push(format!("interface \"{}\": {what}", interface.said()));
    match &interface.address {
        // What stands there for gRPC and others is theirs.
        _ if !matches!(interface.binding, Binding::JsonRpc | Binding::HttpJson) => {}
        Err(fault) => say(&fault.to_string()),
        Ok(address) if address.relative => say("its URL is not absolute, which clients cannot use"),
        Ok(_) => {}
    }
    if interface.dialect.is_none() {
        say("its `protocolVersion` is none that the proxy knows");
    }
    if interface.guessed {
        say("it does not name its binding; JSON-RPC is assumed");
    }
    faults
}

fn each_once<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for each in all {
        if !seen.contains(&each) {
            seen.push(each);
        }
    }
    seen
}
