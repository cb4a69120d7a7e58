//! The agent card as clients see it (semantics 9).

use serde_json::{Value, json};

use super::agent::{Agent, Answer, card, mixed_card, saying, showing};
use super::process::Proxy;
use super::wire::{Message, Request, Wire};
use crate::support::send_03;

const NEWER: &str = "/.well-known/agent-card.json";
const OLDER: &str = "/.well-known/agent.json";

fn urls(card: &Value) -> Vec<String> {
    let listed = ["supportedInterfaces", "additionalInterfaces"];
    let listed = listed.iter().flat_map(|name| card[name].as_array().cloned().unwrap_or_default());
    let all = [card["url"].clone()].into_iter().chain(listed.map(|each| each["url"].clone()));
    all.filter_map(|url| url.as_str().map(str::to_owned)).collect()
}

// card-url
#[tokio::test]
async fn every_url_leads_to_the_proxy() {
    let agent = Agent::saying(|_| "Noted.".into());
    let proxy = Proxy::before(&agent.url()).await;
    for path in [NEWER, OLDER] {
        let card = proxy.ask(&Request::get(path)).await;
        assert_eq!((card.status(), card.header("content-type")), (200, Some("application/json")));
        assert_eq!(urls(&card.json()), [(); 3].map(|()| format!("{}/", proxy.url())), "{path}");
        assert!(!card.text().contains(&agent.address.to_string()), "{}", card.text());
        let declared = card.json()["capabilities"]["extensions"][0].clone();
        assert_eq!(declared["uri"], "https://github.com/a2aproject/A2A/issues/2061#v1");
        assert_eq!(declared["params"]["reply_artifacts"][0], "response");
    }
}

#[tokio::test]
async fn routes_show_their_cards_under_the_public_url_and_their_prefix() {
    let (ada, bob) = (Agent::saying(|_| "Ada.".into()), Agent::saying(|_| "Bob.".into()));
    let proxy = Proxy::with(&format!(
        "[listener]\npublic_url = 'https://agents.example.com/gate/'\n[[route]]\nprefix = '/ada'\nupstream = '{}'\n[[route]]\n\
         prefix = '/x/bob'\nupstream = '{}'\n",
        ada.url(),
        bob.url()
    ))
    .await;
    for prefix in ["/ada", "/x/bob"] {
        for path in [NEWER, OLDER] {
            let card = proxy.ask(&Request::get(&format!("{prefix}{path}"))).await;
            let expected = format!("https://agents.example.com/gate{prefix}/");
            assert_eq!(urls(&card.json()), [(); 3].map(|()| expected.clone()), "{prefix}{path}");
        }
    }
    assert_eq!(proxy.ask(&Request::get(NEWER)).await.status(), 404);
}

#[tokio::test]
async fn what_is_not_served_is_removed_and_json_rpc_stands_first() {
    let mut offered = card("http://0.0.0.0:1/rest");
    offered["preferredTransport"] = json!("HTTP+JSON");
    offered["additionalInterfaces"] = json!([
        { "url": "http://0.0.0.0:1/rest", "transport": "HTTP+JSON" },
        { "url": "0.0.0.0:50051", "transport": "GRPC" },
        { "url": "http://0.0.0.0:1/rpc", "transport": "JSONRPC" },
        { "url": "http://elsewhere.example/rpc", "transport": "JSONRPC" },
    ]);
    offered["signatures"] = json!([{ "protected": "e30", "signature": "AA" }]);
    let agent = Agent::start(showing(offered));
    let proxy = Proxy::before(&agent.url()).await;
    let card = proxy.ask(&Request::get(NEWER)).await.json();
    let (rpc, rest) = (format!("{}/rpc", proxy.url()), format!("{}/rest", proxy.url()));
    assert_eq!((card["url"].as_str(), card["preferredTransport"].as_str()), (Some(&*rpc), Some("JSONRPC")));
    let left = json!([{ "url": rpc, "transport": "JSONRPC" }, { "url": rest, "transport": "HTTP+JSON" }]);
    assert_eq!(card["additionalInterfaces"], left);
    assert!(card.get("signatures").is_none() && card.get("supportedInterfaces").is_none(), "{card}");
}

#[tokio::test]
async fn a_card_of_which_nothing_is_left_is_told() {
    let agent = Agent::start(showing(json!({ "name": "G", "supportedInterfaces": [
        { "url": "http://localhost:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0" },
    ] })));
    let proxy = Proxy::before(&agent.url()).await;
    assert!(proxy.messages().iter().any(|line| line.contains("no JSON-RPC interface")), "{:#?}", proxy.messages());
    let card = proxy.ask(&Request::get(NEWER)).await;
    assert_eq!(card.status(), 502);
    let why = card.json()["error"].as_str().unwrap().to_owned();
    assert!(why.contains("can serve no interface") && why.contains("GRPC"), "{why}");
}

#[tokio::test]
async fn a_client_that_has_the_card_is_told_so() {
    let script = saying(|_| "Noted.".into());
    let agent = Agent::start(move |request: Message| {
        let conditional = request.header("if-none-match").is_some();
        let answer = script(request);
        async move {
            assert!(!conditional, "the proxy needs the whole card");
            answer.await.with("etag", "\"the-agents\"").with("cache-control", "max-age=60").with("vary", "Accept")
        }
    });
    let proxy = Proxy::before(&agent.url()).await;
    let mut wire = proxy.connect().await;
    let card = wire.ask(&Request::get(NEWER)).await;
    let etag = card.header("etag").unwrap().to_owned();
    assert_ne!(etag, "\"the-agents\"");
    assert_eq!((card.header("cache-control"), card.header("vary")), (Some("max-age=60"), Some("Accept")));
    for tags in [etag.clone(), format!("W/{etag}"), format!("\"x\", {etag}"), "*".to_owned()] {
        let unchanged = wire.ask(&Request::get(NEWER).with("if-none-match", &tags)).await;
        assert_eq!((unchanged.status(), unchanged.header("etag")), (304, Some(&*etag)), "{tags}");
    }
    let changed = wire.ask(&Request::get(NEWER).with("if-none-match", "\"the-agents\"")).await;
    assert_eq!((changed.status(), changed.body), (200, card.body.clone()));
    let head = wire.ask(&Request::method("HEAD", NEWER)).await;
    assert_eq!((head.status(), head.header("etag")), (200, Some(&*etag)));
    assert_eq!(head.header("content-length"), Some(&*card.body.len().to_string()));
    // The connection is still in step.
    assert_eq!(wire.ask(&Request::get(NEWER)).await.body, card.body);
}

#[tokio::test]
async fn the_last_card_outlives_the_agent() {
    let agent = Agent::saying(|_| "Noted.".into());
    let mut proxy = Proxy::before(&agent.url()).await;
    let card = proxy.ask(&Request::get(NEWER)).await;
    drop(agent);
    for path in [NEWER, OLDER] {
        let shown = proxy.ask(&Request::get(path)).await;
        assert_eq!((shown.status(), shown.body), (200, card.body.clone()));
    }
    proxy.line("as it was last seen").await;
}

#[tokio::test]
async fn a_card_for_those_who_may_see_it_is_not_shown_to_others() {
    let script = saying(|_| "Noted.".into());
    let agent = Agent::start(move |request: Message| {
        let allowed = request.header("authorization") == Some("Bearer ada") || request.header("x-key").is_some();
        let answer = script(request);
        async move {
            match allowed {
                true => answer.await,
                false => Answer::of(401, "text/plain", "who are you?").with("www-authenticate", "Bearer"),
            }
        }
    });
    let proxy = Proxy::before(&agent.url()).await;
    let ada = Request::get(NEWER).with("authorization", "Bearer ada");
    assert_eq!(proxy.ask(&ada).await.status(), 200);
    let other = proxy.ask(&Request::get(NEWER)).await;
    assert_eq!((other.status(), other.header("www-authenticate")), (401, Some("Bearer")), "{}", other.text());
    assert_eq!(proxy.ask(&ada).await.status(), 200);
    drop(agent);
    assert_eq!(proxy.ask(&Request::get(NEWER)).await.status(), 502);
}

#[tokio::test]
async fn the_agent_may_be_named_by_its_cards_url() {
    for at in [NEWER, OLDER, "/cards/clerk.json"] {
        let agent = Agent::start(move |request: Message| {
            let url = format!("http://{}/", request.header("host").unwrap());
            let answer = if request.method() == "GET" && request.path() != at {
                Answer::of(404, "text/plain", "not here")
            } else if request.method() == "GET" {
                Answer::json(&card(&url))
            } else {
                Answer::json(&json!({ "jsonrpc": "2.0", "id": 1, "result": request.path() }))
            };
            async move { answer }
        });
        let proxy = Proxy::before(&format!("{}{at}", agent.url())).await;
        for path in [NEWER, OLDER] {
            let card = proxy.ask(&Request::get(path)).await;
            assert_eq!(urls(&card.json()), [format!("{}/", proxy.url())], "{at} {}", card.text());
        }
        let answer = proxy.call("/", &json!({ "jsonrpc": "2.0", "id": 1, "method": "where" })).await;
        assert_eq!(answer["result"], "/", "{at}");
    }
}

/// Follows the card as a client does, and sends.
async fn follow(proxy: &Proxy, prefix: &str) -> Message {
    let card = proxy.ask(&Request::get(&format!("{prefix}{NEWER}"))).await.json();
    let url = card["url"].as_str().unwrap().strip_prefix(&proxy.url()).unwrap().to_owned();
    proxy.ask(&Request::call(&url, &send_03("hello", json!({})))).await
}

#[tokio::test]
async fn an_interface_under_a_path_is_reached_at_that_path() {
    for (base, prefix, rpc) in [
        ("", "/", "/a2a/v1/"),
        ("", "/", "/a2a/v1"),
        ("", "/clerk", "/a2a/v1/"),
        ("/a2a", "/clerk", "/a2a/v1/"),
        ("/a2a/v1", "/", "/a2a/v1/"),
        ("/a2a/v1/", "/clerk", "/a2a/v1"),
        // The card is elsewhere than what it names.
        ("/cards", "/clerk", "/rpc/"),
    ] {
        let at = format!("{}{NEWER}", base.trim_end_matches('/'));
        let script = saying(|_| "Noted.".into());
        let agent = Agent::start(move |request: Message| {
            let shown = (request.path() == at).then(|| Answer::json(&mixed_card(&format!("http://localhost{rpc}"))));
            let rest = (shown.is_none() && request.path() == rpc).then(|| script(request));
            async move {
                match (shown, rest) {
                    (Some(card), _) => card,
                    (None, Some(rest)) => rest.await,
                    (None, None) => Answer::of(404, "text/plain", "not here"),
                }
            }
        });
        let route = format!("[[route]]\nprefix = '{prefix}'\nupstream = '{}{base}'\n", agent.url());
        let proxy = Proxy::with(&route).await;
        let answer = follow(&proxy, prefix.trim_end_matches('/')).await;
        assert_eq!(answer.status(), 200, "{base} {prefix} {rpc}: {}", answer.text());
        assert_eq!(answer.json()["result"]["status"]["state"], "completed");
        assert_eq!(agent.last().path(), rpc, "{base} {prefix}");
    }
}

#[tokio::test]
async fn the_extended_card_leads_to_the_proxy_too() {
    for (method, wrapped) in [
        ("agent/getAuthenticatedExtendedCard", card("http://a/rpc")),
        ("GetExtendedAgentCard", mixed_card("http://a/rpc")),
    ] {
        let script = saying(|_| "Noted.".into());
        let agent = Agent::start(move |request: Message| {
            let shown = (request.method() == "POST").then(|| {
                let mut result = wrapped.clone();
                result["secret"] = json!("only for those who may");
                Answer::json(&json!({ "jsonrpc": "2.0", "id": request.json()["id"], "result": result }))
            });
            let rest = script(request);
            async move {
                match shown {
                    Some(shown) => shown,
                    None => rest.await,
                }
            }
        });
        let proxy = Proxy::before(&agent.url()).await;
        let answer = proxy.call("/", &json!({ "jsonrpc": "2.0", "id": "x", "method": method })).await;
        assert_eq!(
            (answer["id"].as_str(), answer["result"]["secret"].as_str()),
            (Some("x"), Some("only for those who may"))
        );
        let urls = urls(&answer["result"]);
        assert!(!urls.is_empty() && urls.iter().all(|url| url.starts_with(&proxy.url())), "{method}: {answer}");
        let extensions = answer["result"]["capabilities"]["extensions"].as_array().map_or(0, Vec::len);
        assert_eq!(extensions, 1, "{answer}");
    }
}

#[tokio::test]
async fn an_agent_that_hangs_over_its_card_does_not_hold_the_client() {
    let (open, gate) = tokio::sync::watch::channel(true);
    let script = saying(|_| "Noted.".into());
    let agent = Agent::start(move |request: Message| {
        let (mut gate, answer) = (gate.clone(), script(request));
        async move {
            gate.wait_for(|open| *open).await.unwrap();
            answer.await
        }
    });
    let proxy = Proxy::before(&agent.url()).await;
    let card = proxy.ask(&Request::get(NEWER)).await;
    open.send(false).unwrap();
    let mut wire = Wire::connect(proxy.address).await;
    let shown = wire.ask(&Request::get(NEWER)).await;
    assert_eq!((shown.status(), shown.body), (200, card.body));
}
