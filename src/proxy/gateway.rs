//! A configuration, put together: store, layers, upstreams and cards behind one listener.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{FutureExt, try_join_all};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower_layer::Layer;

use super::card::{Cards, Discovered};
use super::push::Courier;
use super::store::{self, Kept};
use super::{DrainOutcome, Mount, Proxy, RouteService, SetupError};
use crate::a2a::card::Seen;
use crate::config::{Config, Identity, Route};
use crate::conversation::policy::Mode;
use crate::middleware::{ConversationLayer, Relay};

/// How long, after connections were cut, leases may take to be given back.
const GIVING_BACK: Duration = Duration::from_millis(500);

/// A proxy that listens, with the layers whose turns outlive their requests.
#[derive(Debug)]
pub struct Gateway {
    proxy: Proxy,
    layers: Vec<ConversationLayer>,
    /// `None` where no route relays push notifications.
    courier: Option<Courier>,
    drain: Duration,
    report: String,
}

impl Gateway {
    /// Reads the agents' cards, binds the listener, puts everything behind it.
    ///
    /// # Errors
    /// What keeps the proxy from serving at all; an agent that is down does not.
    pub async fn assemble(mut config: Config) -> Result<Self, SetupError> {
        let found = try_join_all(config.routes.iter().map(Cards::discover)).await?;
        for (route, found) in config.routes.iter_mut().zip(&found) {
            route.upstream.url = found.base.clone();
        }
        let Kept { store, place } = store::open(&config).await?;
        let mut layers = Vec::new();
        let mut relays = Vec::new();
        let wake = Arc::new(Notify::new());
        let mut cards = found.iter().map(|found| &found.cards);
        let proxy = Proxy::bind(&config, &store.secret(), |route, upstream| {
            let layer = ConversationLayer::new(route.policy.clone(), Arc::clone(&store));
            let Some(cards) = cards.next() else { return Mount { agent: layered(&layer, upstream), card: None } };
            let mut layer = layer.with_card(cards.rewriting());
            if route.relays_push() {
                let relay = relay(&config, cards, &wake);
                layer = layer.with_push(Arc::clone(&relay));
                relays.push((route.prefix.clone(), relay));
            }
            layers.push(layer.clone());
            Mount { agent: layered(&layer, upstream), card: Some(cards.service()) }
        })
        .await?;
        let agents = config.agent_base(proxy.local_addr(), proxy.public_url());
        for (route, layer) in config.routes.iter().zip(&layers) {
            layer.reached_at(&format!("{agents}{}", route.prefix));
        }
        let public = proxy.public_url().to_string();
        for (route, found) in config.routes.iter().zip(&found) {
            found.cards.set_base(&format!("{}{}", public.trim_end_matches('/'), route.prefix));
        }
        for (prefix, relay) in &relays {
            relay.set_base(&format!("{agents}{prefix}"));
        }
        let courier = (!relays.is_empty()).then(|| Courier::new(&config.push, store, wake)).transpose()?;
        let report = report(&config, &proxy, &found, &place);
        Ok(Self { proxy, layers, courier, drain: config.listener.drain, report })
    }

    /// Where it listens, which agents and dialects it found, which store, which identity rule, and what to know about it: for people, a line
    /// each.
    pub fn report(&self) -> &str {
        &self.report
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.proxy.local_addr()
    }

    /// Serves until `shutdown`, then lets running requests, and turns whose clients have left, finish within the listener's `drain`.
    /// `at_once` ends the wait for them.
    pub async fn serve(self, shutdown: impl Future<Output = ()>, at_once: impl Future<Output = ()>) -> DrainOutcome {
        let (asked, end) = (OnceLock::new(), at_once.shared());
        let shutdown = async {
            shutdown.await;
            let _ = asked.set(Instant::now());
        };
        let stop = CancellationToken::new();
        let courier = self.courier.map(|courier| AbortOnDropHandle::new(tokio::spawn(courier.run(stop.clone()))));
        let layers = &self.layers;
        let conclude = || layers.iter().for_each(ConversationLayer::conclude);
        let outcome = self.proxy.serve(shutdown, end.clone(), conclude).await;
        let rest = async {
            for layer in &self.layers {
                layer.drained().await;
            }
            stop.cancel();
            if let Some(courier) = courier {
                let _ = courier.await;
            }
        };
        let left = self.drain.saturating_sub(asked.get().map(Instant::elapsed).unwrap_or_default());
        // Leases of what was cut are given back, which is soon done.
        let left = if outcome == DrainOutcome::Finished { left } else { GIVING_BACK };
        let done = tokio::select! {
            biased;
            () = rest => true,
            () = tokio::time::sleep(left) => false,
            () = end => false,
        };
        if done || outcome != DrainOutcome::Finished { outcome } else { DrainOutcome::Unfinished }
    }
}

fn relay(config: &Config, cards: &Cards, wake: &Arc<Notify>) -> Arc<Relay> {
    let push = &config.push;
    Arc::new(Relay::new(push.webhooks.clone(), push.outbox, cards.agent_pushes(), Arc::clone(wake)))
}

fn layered(layer: &ConversationLayer, upstream: super::Upstream) -> RouteService {
    RouteService::new(layer.layer(upstream))
}

fn report(config: &Config, proxy: &Proxy, found: &[Discovered], place: &str) -> String {
    let mut out = String::new();
    let public = proxy.public_url().to_string();
    let public = public.trim_end_matches('/');
    let _ = writeln!(out, "listening on {} (clients reach it at {public})", proxy.local_addr());
    for (route, found) in config.routes.iter().zip(found) {
        let _ = writeln!(out, "route {}: {public}{}/ -> {}", route.id.as_str(), route.prefix, found.base);
        out += &agent(route, found);
        let _ = writeln!(
            out,
            "  callers: {}",
            callers(&route.identity, proxy.local_addr().ip().to_canonical().is_loopback())
        );
    }
    let _ = writeln!(out, "store: {place}");
    out
}

fn agent(route: &Route, found: &Discovered) -> String {
    let mut out = match &found.seen {
        Ok(seen) => format!("  agent: {}\n", described(seen)),
        Err(why) => format!("  agent: not there yet ({why}); it is asked again when a client asks for its card\n"),
    };
    for warning in found.seen.iter().flat_map(|seen| &seen.warnings) {
        let _ = writeln!(out, "  its card: {warning}");
    }
    if route.policy.mode == Mode::Observe {
        out += "  mode: observe; nothing is changed\n";
    }
    out
}

/// An agent in a few words, as its card has it.
pub fn described(seen: &Seen) -> String {
    let join = |words: Vec<String>| words.join(", ");
    let dialects = join(seen.dialects.iter().map(ToString::to_string).collect());
    let bindings = join(seen.bindings.iter().map(ToString::to_string).collect());
    let name = seen.name.as_deref().unwrap_or("without a name");
    let stream = if seen.streaming { "streams" } else { "does not stream" };
    format!("{name:?} speaks A2A {dialects} over {bindings}, {stream}")
}

fn callers(identity: &Identity, loopback: bool) -> String {
    match (identity, loopback) {
        (Identity::Authorization, true) => {
            "told apart by their Authorization header; those without share one anonymous principal (loopback)"
                .to_owned()
        }
        (Identity::Authorization, false) => {
            "told apart by their Authorization header; those without are forwarded without conversation".to_owned()
        }
        (Identity::Header(name), _) => {
            format!(
                "told apart by the header {name}, which a trusted proxy in front must set; those without are forwarded without \
                 conversation"
            )
        }
        (Identity::Anonymous, _) => "all one principal: whoever knows a contextId can go on with it".to_owned(),
    }
}
