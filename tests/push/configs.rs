//! Configurations: set, shown, listed and deleted in both dialects, and refused where they must be.

use super::*;

fn ask(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "p", "method": method, "params": params })
}

async fn result(proxy: &Proxy, method: &str, params: Value) -> Value {
    let answer = proxy.call(&ask(method, params)).await;
    assert!(answer.get("error").is_none() && answer["id"] == "p", "{answer}");
    answer["result"].clone()
}

async fn code(proxy: &Proxy, method: &str, params: Value) -> i64 {
    proxy.call(&ask(method, params)).await["error"]["code"].as_i64().expect("an error")
}

const OPS: &str = "tasks/pushNotificationConfig/";

#[tokio::test]
async fn both_dialects_have_them_as_their_servers_do() {
    let agent = Agent::saying(|_| "Fine.".to_owned());
    let proxy = relay(&agent);
    proxy.send("hi", json!({ "contextId": "c" })).await;
    let config = json!({ "id": "p1", "url": HOOK, "token": "t", "authentication": { "schemes": ["Bearer", "Basic"] } });
    let set = result(&proxy, &format!("{OPS}set"), json!({ "taskId": "u-1", "pushNotificationConfig": config })).await;
    let shown = json!({ "taskId": "u-1", "pushNotificationConfig": config });
    assert_eq!(set, shown);
    let one = json!({ "id": "u-1", "pushNotificationConfigId": "p1" });
    assert_eq!(result(&proxy, &format!("{OPS}get"), one.clone()).await, shown);
    assert_eq!(result(&proxy, &format!("{OPS}list"), json!({ "id": "u-1" })).await, json!([shown]));
    let flat = json!({ "taskId": "u-1", "id": "p2", "url": "http://hooks.internal:9/x",
        "authentication": { "scheme": "Bearer", "credentials": "c" } });
    assert_eq!(result(&proxy, "CreateTaskPushNotificationConfig", flat.clone()).await, flat);
    let two = json!({ "taskId": "u-1", "id": "p2" });
    assert_eq!(result(&proxy, "GetTaskPushNotificationConfig", two.clone()).await, flat);
    let first =
        json!({ "taskId": "u-1", "id": "p1", "url": HOOK, "token": "t", "authentication": { "scheme": "Bearer" } });
    let list = result(&proxy, "ListTaskPushNotificationConfigs", json!({ "taskId": "u-1" })).await;
    assert_eq!(list, json!({ "configs": [first, flat] }));
    assert_eq!(result(&proxy, "DeleteTaskPushNotificationConfig", two.clone()).await, Value::Null);
    assert_eq!(result(&proxy, &format!("{OPS}delete"), one.clone()).await, Value::Null);
    assert_eq!(result(&proxy, "DeleteTaskPushNotificationConfig", two).await, Value::Null, "what is gone is gone");
    assert_eq!(code(&proxy, &format!("{OPS}get"), one).await, -32001);
    assert_eq!(result(&proxy, &format!("{OPS}list"), json!({ "id": "u-1" })).await, json!([]));
    assert_eq!(agent.calls(), 1, "the agent has no part in it");
    // Without an id it has the task's, and takes its own place.
    for url in [HOOK, "https://hooks.example/b"] {
        result(&proxy, "CreateTaskPushNotificationConfig", json!({ "taskId": "u-1", "url": url })).await;
    }
    let list = result(&proxy, "ListTaskPushNotificationConfigs", json!({ "taskId": "u-1" })).await;
    assert_eq!(list, json!({ "configs": [{ "taskId": "u-1", "id": "u-1", "url": "https://hooks.example/b" }] }));
}

#[tokio::test]
async fn somebody_else_s_task_has_none() {
    let agent = Agent::saying(|_| "Fine.".to_owned());
    let proxy = relay(&agent).as_principal("ada");
    proxy.send("hi", json!({ "contextId": "c" })).await;
    let eve = proxy.as_principal("eve");
    for (method, params) in [
        ("set", json!({ "taskId": "u-1", "pushNotificationConfig": { "url": HOOK } })),
        ("get", json!({ "id": "u-1" })),
        ("list", json!({ "id": "u-1" })),
        ("delete", json!({ "id": "u-1", "pushNotificationConfigId": "u-1" })),
    ] {
        let method = format!("{OPS}{method}");
        let foreign = eve.call(&ask(&method, params.clone())).await;
        let unknown = params.to_string().replace("u-1", "u-9").parse::<Value>().unwrap();
        assert_eq!(foreign, proxy.call(&ask(&method, unknown)).await, "as one that does not exist");
        assert_eq!(foreign["error"]["code"], -32001);
    }
}

#[tokio::test]
async fn a_webhook_that_may_not_be_called_is_refused_before_any_call() {
    let agent = Agent::saying(|_| "Fine.".to_owned());
    let proxy = relay(&agent);
    proxy.send("hi", json!({ "contextId": "c" })).await;
    for url in [
        "http://hooks.example/",
        "https://127.0.0.1/",
        "https://[::ffff:10.0.0.1]/",
        "https://2130706433/",
        "https://169.254.169.254/latest",
        "https://u:p@hooks.example/",
        "file:///etc/passwd",
        "",
    ] {
        let config = json!({ "url": url });
        let set = json!({ "taskId": "u-1", "pushNotificationConfig": config });
        assert_eq!(code(&proxy, &format!("{OPS}set"), set).await, -32602, "{url}");
        let answer = proxy.call(&with_config(send_03("go", json!({})), config)).await;
        assert_eq!(answer["error"]["code"], -32602, "{url}");
    }
    for config in [
        json!({ "url": HOOK, "token": "a\r\nx-evil: 1" }),
        json!({ "url": HOOK, "token": 7 }),
        json!({ "url": HOOK, "authentication": { "schemes": ["Bearer x\n"] } }),
        json!({ "url": HOOK, "authentication": { "schemes": ["Bearer"], "credentials": "é" } }),
        json!("https://hooks.example"),
    ] {
        let answer = proxy.call(&with_config(send_03("go", json!({})), config.clone())).await;
        assert_eq!(answer["error"]["code"], -32602, "{config}");
    }
    assert_eq!(agent.calls(), 1);
    assert!(outbox(&proxy).await.is_empty());
}

#[tokio::test]
async fn a_configuration_that_is_set_later_hears_the_rest() {
    let agent = Agent::answering(|seen| {
        json!({ "result": match seen.method() {
            "message/send" => working("u-1"),
            "tasks/get" => ended("u-1", "Which one do you mean?"),
            _ => json!({ "taskId": "u-1" }),
        } })
    });
    let proxy = relay(&agent);
    proxy.send("go", json!({ "contextId": "c" })).await;
    assert!(outbox(&proxy).await.is_empty());
    let set = json!({ "taskId": "u-1", "pushNotificationConfig": { "url": HOOK } });
    result(&proxy, &format!("{OPS}set"), set).await;
    let asked = agent.last();
    assert_eq!((asked.method(), &asked.json["params"]["taskId"]), ("tasks/pushNotificationConfig/set", &json!("u-1")));
    assert!(!asked.raw.contains("hooks.example"), "{}", asked.raw);
    let callback = given_in(&asked.json["params"]["pushNotificationConfig"]);
    assert_eq!(push(&proxy, &callback, &ended("u-1", "Which one do you mean?")).await, StatusCode::NO_CONTENT);
    assert_eq!(told_states(&proxy).await.0, ["input-required"]);
}

#[tokio::test]
async fn a_message_that_answers_a_task_may_bring_one() {
    let agent = Agent::saying(|seen| if seen.sends == 0 { "Which city?" } else { "Sunny." }.to_owned());
    let proxy = relay(&agent);
    proxy.send("weather", json!({ "contextId": "c" })).await;
    let answer = with_config(send_03("Berlin", json!({ "contextId": "c", "taskId": "u-1" })), json!({ "url": HOOK }));
    assert_eq!(state(&proxy.call(&answer).await["result"]), "completed");
    given(&agent.last());
    assert_eq!(told_states(&proxy).await.0, ["completed"]);
}
