//! Push notifications over sockets: an agent that pushes, webhooks that come and go, and those who would like to be either.

use serde_json::{Value, json};

use super::agent::{Agent, Answer, Reserved, card, saying};
use super::process::{File, Proxy, arg, run};
use super::sockets::tls;
use super::wire::{Message, Request, soon};
use crate::support::{artifact_03, get_03, message_03, send_03, task_03};

/// An agent that pushes, by its card; what is sent to it while `quick` says nothing it works on.
pub fn agent(quick: impl Fn(usize) -> Option<&'static str> + Send + Sync + 'static) -> Agent {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Agent::start(move |request: Message| {
        let base = format!("http://{}/", request.header("host").unwrap_or_default());
        std::future::ready(match (request.method(), request.path()) {
            ("GET", "/.well-known/agent-card.json") => {
                let mut card = card(&base);
                card["capabilities"]["pushNotifications"] = json!(true);
                Answer::json(&card)
            }
            ("GET", _) => Answer::of(404, "text/plain", "not here"),
            _ => {
                let call = request.json();
                if call["method"] != "message/send" {
                    // It forgets what it has done.
                    let error = json!({ "code": -32001, "message": "Task not found" });
                    return std::future::ready(Answer::json(
                        &json!({ "jsonrpc": "2.0", "id": call["id"], "error": error }),
                    ));
                }
                let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let id = format!("u-{}", count + 1);
                let context = call["params"]["message"]["contextId"].as_str().unwrap_or("c").to_owned();
                let task = quick(count).map_or_else(|| task_03(&id, "working", json!({})), |text| done(&id, text));
                let mut task = task;
                task["contextId"] = json!(context);
                Answer::json(&json!({ "jsonrpc": "2.0", "id": call["id"], "result": task }))
            }
        })
    })
}

pub fn done(id: &str, text: &str) -> Value {
    task_03(id, "completed", json!({ "artifacts": [artifact_03("response", text)] }))
}

/// Takes what it is sent, or answers with this status.
pub fn webhook(status: u16) -> impl Fn(Message) -> std::future::Ready<Answer> + Send + Sync {
    move |_| std::future::ready(Answer::of(status, "text/plain", ""))
}

async fn proxy(agent: &Agent, push: &str) -> Proxy {
    Proxy::with(&format!("[upstream]\nurl = '{}'\n[push]\n{push}\n", agent.url())).await
}

pub fn send(text: &str, ids: Value, url: &str) -> Value {
    let mut send = send_03(text, ids);
    send["params"]["configuration"] = json!({ "blocking": false, "pushNotificationConfig": {
        "url": url, "token": "hers", "authentication": { "schemes": ["Bearer"], "credentials": "key" } } });
    send
}

/// The callback that the agent was given: where it pushes, as the agent has it.
pub fn callback(agent: &Agent, proxy: &Proxy) -> (String, String) {
    let config = agent.last().json()["params"]["configuration"]["pushNotificationConfig"].clone();
    let (url, token) = (config["url"].as_str().unwrap().to_owned(), config["token"].as_str().unwrap().to_owned());
    (url.strip_prefix(&proxy.url()).unwrap_or_else(|| panic!("{url}")).to_owned(), token)
}

pub async fn push(proxy: &Proxy, path: &str, token: &str, body: &Value) -> u16 {
    let request = Request::call(path, body).with("x-a2a-notification-token", token);
    proxy.ask(&request).await.status()
}

pub fn states(webhook: &Agent) -> Vec<String> {
    let state = |told: &Message| told.json()["status"]["state"].as_str().unwrap_or_default().to_owned();
    webhook.seen().iter().map(state).collect()
}

#[tokio::test]
async fn a_webhook_sees_each_change_once_and_in_order_though_it_was_down() {
    let agent = agent(|_| None);
    let reserved = Reserved::new();
    let url = format!("http://{}/hook?x=1", reserved.address());
    let mut proxy = proxy(&agent, "allow = ['http://127.0.0.1']").await;
    let first = proxy.call("/", &send("weather?", json!({ "contextId": "c" }), &url)).await["result"].clone();
    assert_eq!((&first["id"], &first["status"]["state"]), (&json!("u-1"), &json!("working")));
    let (path, token) = callback(&agent, &proxy);
    assert_eq!(push(&proxy, &path, &token, &done("u-1", "Which city do you mean?")).await, 204);
    // The webhook is down: what comes waits behind what came.
    proxy.line("a push notification waits").await;
    let answer = send_03("Berlin", json!({ "contextId": "c", "taskId": "u-1" }));
    let answer = proxy.call("/", &answer).await["result"].clone();
    assert_eq!((&answer["id"], &answer["status"]["state"]), (&json!("u-1"), &json!("working")));
    let (path, token) = callback(&agent, &proxy);
    assert_eq!(push(&proxy, &path, &token, &done("u-2", "Sunny.")).await, 204);
    let webhook = reserved.start(webhook(200));
    webhook.called(4).await;
    assert_eq!(states(&webhook), ["working", "input-required", "working", "completed"]);
    for told in webhook.seen() {
        assert_eq!((told.method(), told.path()), ("POST", "/hook?x=1"));
        assert_eq!(told.header("x-a2a-notification-token"), Some("hers"));
        assert_eq!(told.header("authorization"), Some("Bearer key"));
        assert_eq!(told.header("content-type"), Some("application/json"));
        assert_eq!((&told.json()["id"], &told.json()["contextId"]), (&json!("u-1"), &json!("c")));
    }
    let asked = webhook.seen()[1].json();
    assert_eq!(asked["status"]["message"]["parts"][0]["text"], "Which city do you mean?");
    let got = proxy.call("/", &get_03("u-1")).await["result"].clone();
    assert_eq!(webhook.seen()[3].json()["artifacts"], got["artifacts"]);
    // What was delivered is delivered: the drain has nothing left to do.
    proxy.signal("-TERM");
    assert_eq!(proxy.ended().await, Some(0));
    assert_eq!(webhook.seen().len(), 4);
}

#[tokio::test]
async fn a_webhook_that_fails_is_asked_again() {
    let agent = agent(|_| Some("Fine."));
    let answers = std::sync::Mutex::new(vec![200, 429, 500]);
    let webhook = Agent::start(move |_| {
        let status = answers.lock().unwrap().pop().unwrap_or(200);
        std::future::ready(Answer::of(status, "text/plain", "no"))
    });
    let proxy = proxy(&agent, "allow = ['http://127.0.0.1']").await;
    proxy.call("/", &send("hi", json!({}), &webhook.url())).await;
    webhook.called(3).await;
    assert_eq!(states(&webhook), ["completed"; 3]);
}

#[tokio::test]
async fn what_is_due_is_delivered_before_the_end() {
    let agent = agent(|_| Some("Fine."));
    let webhook = Agent::start(webhook(200));
    let mut proxy = proxy(&agent, "allow = ['http://127.0.0.1']").await;
    for _ in 0..20 {
        proxy.call("/", &send("hi", json!({}), &webhook.url())).await;
    }
    proxy.signal("-TERM");
    assert_eq!(proxy.ended().await, Some(0));
    assert_eq!(webhook.seen().len(), 20);
}

#[tokio::test]
async fn a_configuration_that_is_deleted_hears_no_more() {
    let agent = agent(|_| Some("Fine."));
    let reserved = Reserved::new();
    let mut proxy = proxy(&agent, "allow = ['http://127.0.0.1']").await;
    proxy.call("/", &send("hi", json!({}), &format!("http://{}", reserved.address()))).await;
    proxy.line("a push notification waits").await;
    let delete = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/pushNotificationConfig/delete",
        "params": { "id": "u-1", "pushNotificationConfigId": "u-1" } });
    assert_eq!(proxy.call("/", &delete).await["result"], Value::Null);
    proxy.line("a push notification went with its configuration").await;
}

#[tokio::test]
async fn who_is_not_the_agent_is_turned_away() {
    let agent = agent(|_| None);
    let webhook = Agent::start(webhook(200));
    let proxy = proxy(&agent, "allow = ['http://127.0.0.1']").await;
    let mut others = Vec::new();
    for context in ["a", "b"] {
        proxy.call("/", &send("go", json!({ "contextId": context }), &webhook.url())).await;
        others.push(callback(&agent, &proxy));
    }
    webhook.called(2).await;
    let ((mine, token), (other, others_token)) = (others[0].clone(), others[1].clone());
    let paid = done("u-1", "You are paid.");
    for (path, token) in [(&mine, ""), (&mine, "hers"), (&mine, &*others_token), (&other, &*token)] {
        assert_eq!(push(&proxy, path, token, &paid).await, 401);
    }
    assert_eq!(push(&proxy, &other, &others_token, &paid).await, 204, "it says nothing of another's task");
    let got = proxy.ask(&Request::get(&mine)).await;
    assert_eq!(got.status(), 401, "nothing is shown there");
    // The right one still works, so that nothing was used up or locked.
    assert_eq!(push(&proxy, &mine, &token, &done("u-1", "All done.")).await, 204);
    webhook.called(3).await;
    assert_eq!(states(&webhook), ["working", "working", "completed"]);
    assert!(!webhook.seen()[2].text().contains("paid"));
    let warned = proxy.messages().iter().any(|line| line.contains("cannot be told from others"));
    assert!(!warned, "an agent that pushes is no caller");
}

#[tokio::test]
async fn no_webhook_leads_inside() {
    let agent = agent(|_| Some("Fine."));
    let inside = Agent::start(webhook(200));
    let port = inside.address.port();
    let mut proxy = proxy(&agent, "timeout = '5s'").await;
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        format!("https://[::ffff:127.0.0.1]:{port}/"),
        format!("https://2130706433:{port}/"),
        format!("https://0x7f.1:{port}/"),
        "https://169.254.169.254/".to_owned(),
    ] {
        let answer = proxy.call("/", &send("hi", json!({}), &url)).await;
        assert_eq!(answer["error"]["code"], -32602, "{url}");
    }
    assert!(agent.seen().is_empty(), "before any call");
    // A name tells only when it is looked up.
    let answer = proxy.call("/", &send("hi", json!({}), &format!("https://localhost:{port}/"))).await;
    assert_eq!(answer["result"]["status"]["state"], "completed");
    let line = proxy.line("a push notification is not delivered").await;
    assert!(line.contains("its address is not public"), "{line}");
    assert!(inside.seen().is_empty());
}

#[tokio::test]
async fn a_redirection_is_not_followed() {
    let agent = agent(|_| Some("Fine."));
    let inside = Agent::start(webhook(200));
    let to = inside.url();
    let outside =
        Agent::start(move |_| std::future::ready(Answer::of(307, "text/plain", "there").with("location", &to)));
    let mut proxy = proxy(&agent, "allow = ['http://127.0.0.1']\ntimeout = '2s'").await;
    proxy.call("/", &send("hi", json!({}), &outside.url())).await;
    let line = proxy.line("a push notification waits").await;
    assert!(line.contains("307"), "{line}");
    outside.called(2).await;
    assert!(inside.seen().is_empty());
}

#[tokio::test]
async fn over_tls_a_webhook_proves_who_it_is() {
    let agent = agent(|_| Some("Fine."));
    let (acceptor, authority) = tls();
    let webhook = Agent::over_tls(acceptor, webhook(200));
    let url = format!("https://localhost:{}/", webhook.address.port());
    let text = format!("[upstream]\nurl = '{}'\n[push]\nallow = ['localhost']\nca = 'ca.pem'\n", agent.url());
    let text = format!("[listener]\naddress = '127.0.0.1:0'\n{text}");
    let trusting = Proxy::of(File::new(&text).beside("ca.pem", &authority)).await;
    trusting.call("/", &send("hi", json!({}), &url)).await;
    webhook.called(1).await;
    let mut strict = proxy(&agent, "allow = ['localhost']").await;
    strict.call("/", &send("hi", json!({}), &url)).await;
    let line = strict.line("a push notification waits").await;
    assert!(line.contains("certificate"), "{line}");
    assert_eq!(webhook.seen().len(), 1);
}

#[tokio::test]
async fn a_route_that_is_off_says_so_and_refuses() {
    let agent = agent(|_| Some("Fine."));
    let off = Proxy::with(&format!("[[route]]\nupstream = '{}'\npush = 'off'\n", agent.url())).await;
    let on = Proxy::before(&agent.url()).await;
    for (proxy, pushes) in [(&off, false), (&on, true)] {
        let card = proxy.ask(&Request::get("/.well-known/agent-card.json")).await.json();
        assert_eq!(card["capabilities"]["pushNotifications"], json!(pushes));
    }
    let answer = off.call("/", &send("hi", json!({}), "https://hooks.example/")).await;
    assert_eq!(answer["error"]["code"], -32003);
    for method in ["set", "get", "list", "delete"] {
        let params =
            json!({ "taskId": "u-1", "id": "u-1", "pushNotificationConfig": { "url": "https://hooks.example/" } });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": format!("tasks/pushNotificationConfig/{method}"), "params": params });
        assert_eq!(off.call("/", &call).await["error"]["code"], -32003, "{method}");
    }
    assert!(agent.seen().is_empty());
}

#[tokio::test]
async fn an_agent_without_push_is_told_nothing_and_its_clients_all_the_same() {
    let agent = Agent::start(saying(|_| "Fine.".into()));
    let webhook = Agent::start(webhook(200));
    let proxy = proxy(&agent, "allow = ['http://127.0.0.1']").await;
    let card = proxy.ask(&Request::get("/.well-known/agent-card.json")).await.json();
    assert_eq!(card["capabilities"]["pushNotifications"], json!(true));
    let mut call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message_03("hi", json!({})) } });
    call["params"]["configuration"] = json!({ "taskPushNotificationConfig": { "url": webhook.url() } });
    proxy.call("/", &call).await;
    assert_eq!(agent.last().json()["params"]["configuration"], json!({}));
    webhook.called(1).await;
    let told = webhook.last();
    assert_eq!(told.header("content-type"), Some("application/a2a+json"));
    assert_eq!(told.json()["task"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn relay_without_an_address_for_the_agent_does_not_start() {
    let text = "[listener]\naddress = '0.0.0.0:0'\n[identity]\nfrom = 'anonymous'\n[[route]]\nupstream = 'http://127.0.0.1:9'\npush = 'relay'\n";
    let file = File::new(text);
    let ended = soon("the end", run(["check", "--config", arg(&file.path())])).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("push: the agent cannot be told where it reaches the proxy"), "{}", ended.err);
    let told = File::new(&format!("[proxy]\nagent_url = 'http://10.0.0.1:8080'\n{text}"));
    let ended = run(["check", "--config", arg(&told.path())]).await;
    assert!(!ended.err.contains("the agent cannot be told"), "{}", ended.err);
}
