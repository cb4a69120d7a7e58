//! How it starts: what it says of what it found, and what it says where it cannot.

use serde_json::json;
use tokio::net::TcpListener;

use super::agent::{Agent, Reserved, saying};
use super::process::{File, Proxy, arg, run};
use super::wire::Request;
use crate::support::send_03;

/// Whether one of the lines has all of these words.
fn says(lines: &[String], words: &[&str]) -> bool {
    lines.iter().any(|line| words.iter().all(|word| line.contains(word)))
}

fn holds(lines: &[String], all: &[&[&str]]) {
    for words in all {
        assert!(says(lines, words), "{words:?} in {lines:#?}");
    }
}

#[tokio::test]
async fn without_a_file_it_says_what_it_found() {
    let agent = Agent::saying(|_| "Noted.".into());
    let proxy = Proxy::before(&agent.url()).await;
    let (here, there) = (proxy.url(), agent.url());
    holds(
        &proxy.messages(),
        &[
            &["a2a-multiturn ", env!("CARGO_PKG_VERSION")],
            &["listening on ", &here[7..], &here],
            &["route default", &here, &there],
            &["\"Clerk\"", "0.3", "1.0", "JSONRPC", "does not stream"],
            &["callers", "Authorization", "loopback"],
            &["store: disk", "/a2a-multiturn", "before a client is told", "100000 contexts", "1024 MiB"],
        ],
    );
    let answer = proxy.call("/", &send_03("hello", json!({}))).await;
    assert_eq!(answer["result"]["artifacts"][0]["parts"][0]["text"], "Noted.");
}

#[tokio::test]
async fn with_a_file_it_serves_every_route_by_its_own_rules() {
    let (ada, bob) = (Agent::saying(|_| "Ada.".into()), Agent::saying(|_| "Bob.".into()));
    let proxy = Proxy::with(&format!(
        "[log]\nformat = 'text'\n[[route]]\nprefix = '/ada'\nupstream = '{}'\n[[route]]\nprefix = '/bob'\nname = 'robert'\nupstream = '{}'\n\
         mode = 'observe'\nidentity.from = 'header:X-User'\n",
        ada.url(),
        bob.url()
    ))
    .await;
    let lines = proxy.lines();
    assert_eq!(lines[0], concat!("a2a-multiturn ", env!("CARGO_PKG_VERSION")), "text was asked for: {lines:#?}");
    holds(
        &lines,
        &[
            &["route ada: ", "/ada/ -> ", &ada.url()],
            &["route robert: ", "/bob/ -> ", &bob.url()],
            &["mode: observe"],
            &["header x-user"],
        ],
    );
    for (path, expected) in [("/ada", "Ada."), ("/ada/", "Ada."), ("/bob/", "Bob.")] {
        let answer = proxy.call(path, &send_03("hello", json!({}))).await;
        assert_eq!(answer["result"]["artifacts"][0]["parts"][0]["text"], expected, "{path}");
    }
    let nowhere = proxy.ask(&Request::call("/eve", &send_03("hello", json!({})))).await;
    assert_eq!((nowhere.status(), nowhere.json()["error"]["reason"].as_str()), (404, Some("NO_ROUTE")));
}

#[tokio::test]
async fn an_agent_that_is_down_may_come_later() {
    let place = Reserved::new();
    let proxy = Proxy::before(&format!("http://{}", place.address())).await;
    holds(&proxy.messages(), &[&["agent: not there yet", "refused", "asked again"]]);
    let refused = proxy.ask(&Request::call("/", &send_03("hello", json!({ "contextId": "c" })))).await;
    let error = refused.json();
    assert_eq!(refused.status(), 200);
    assert_eq!((error["id"].as_i64(), error["error"]["code"].as_i64()), (Some(1), Some(-32603)));
    assert_eq!(error["error"]["data"][0]["reason"], "UPSTREAM_UNREACHABLE", "{error}");
    let card = proxy.ask(&Request::get("/.well-known/agent-card.json")).await;
    assert_eq!(card.status(), 502, "{}", card.text());
    assert!(card.json()["error"].as_str().unwrap().contains("could not be reached"), "{}", card.text());
    let _agent = place.start(saying(|_| "Noted.".into()));
    let card = proxy.ask(&Request::get("/.well-known/agent-card.json")).await;
    assert_eq!(card.json()["url"], format!("{}/", proxy.url()));
    // The lease of the refused one is free.
    let answer = proxy.call("/", &send_03("hello", json!({ "contextId": "c" }))).await;
    assert_eq!(answer["result"]["status"]["state"], "completed", "{answer}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let agent = Agent::saying(|_| "Noted.".into());
    let ended = run(["serve", "--listen", &address, "--upstream", &agent.url()]).await;
    assert_eq!(ended.code, Some(1));
    for words in ["cannot listen on", &address, "in use"] {
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    }
}

#[tokio::test]
async fn what_cannot_be_served_is_told_with_what_to_do() {
    for (args, words) in [
        (
            ["--listen", "0.0.0.0:0", "--upstream", "http://127.0.0.1:9"],
            &["0.0.0.0:0 is no address that clients can call", "listener.public_url", "--config"][..],
        ),
        (["--listen", "[::]:0", "--upstream", "http://127.0.0.1:9"], &["listener.public_url"]),
        (["--listen", "127.0.0.1:0", "--upstream", "ftp://127.0.0.1:9"], &["http or https"]),
        (["--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:9"], &["http://"]),
        (["--listen", "127.0.0.1:0", "--upstream", "http://user:secret@127.0.0.1:9"], &["credentials", "header"]),
        (["--listen", "127.0.0.1:9", "--upstream", "http://127.0.0.1:9"], &["proxy's own address"]),
    ] {
        let ended = run(["serve"].into_iter().chain(args)).await;
        assert_eq!(ended.code, Some(1), "{args:?}: {}", ended.err);
        for words in words {
            assert!(ended.err.contains(words), "{args:?} without {words:?}: {}", ended.err);
        }
        assert!(!ended.err.contains("secret"), "{}", ended.err);
    }
}

#[tokio::test]
async fn a_file_with_errors_is_not_served() {
    let file = File::new("[upstream]\nurl = 'agent.example'\n");
    let ended = run(["serve", "--config", arg(&file.path())]).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("proxy.toml:2:7: error: upstream.url: ") && ended.err.contains("1 error"),
        "{}",
        ended.err
    );
    let ended = run(["serve", "--config", "/nowhere/proxy.toml"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("/nowhere/proxy.toml") && ended.err.contains("No such file"), "{}", ended.err);
}

#[tokio::test]
async fn where_conversations_are_kept_is_said_and_obeyed() {
    let agent = Agent::saying(|_| "Noted.".into());
    let proxy = Proxy::keeping(&agent.url(), "memory").await;
    holds(&proxy.messages(), &[&["store: memory", "end with this process"]]);
    let file = File::new(&format!(
        "[listener]\naddress = '127.0.0.1:0'\n[store]\nurl = 'disk:kept'\n[upstream]\nurl = '{}'\n",
        agent.url()
    ));
    let kept = file.path().with_file_name("kept");
    let proxy = Proxy::of(file).await;
    holds(&proxy.messages(), &[&["store: disk", kept.to_str().unwrap()]]);
    assert!(kept.join("version").exists());
}

#[tokio::test]
async fn a_folder_that_will_not_do_is_told_with_what_to_do() {
    let agent = Agent::saying(|_| "Noted.".into());
    let folder = tempfile::tempdir().unwrap();
    let store = format!("disk:{}", folder.path().join("store").display());
    let _one = Proxy::keeping(&agent.url(), &store).await;
    let without = ["this program was built without the store redis://127.0.0.1:9", "--store memory"];
    let out_of_reach = ["cannot keep conversations in Redis", "Connection refused"];
    for (store, words) in [
        (&*store, &["held by another process", "--store disk:PATH"][..]),
        ("disk:/dev/null/store", &["cannot be written", "--store memory"]),
        ("redis://127.0.0.1:9", if cfg!(feature = "redis") { &out_of_reach } else { &without }),
    ] {
        let ended = run(["serve", "--listen", "127.0.0.1:0", "--upstream", &agent.url(), "--store", store]).await;
        assert_eq!(ended.code, Some(1), "{}", ended.err);
        for words in words {
            assert!(ended.err.contains(words), "{words:?} in {}", ended.err);
        }
    }
}
