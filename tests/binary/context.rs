//! `context`: what a store keeps, while no proxy holds it.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::agent::{Agent, said};
use super::process::{Ended, Proxy, arg, fed, run};
use crate::support::{get_03, send_03};

/// The tools, on a folder.
async fn context(folder: &Path, args: &[&str]) -> Ended {
    let store = format!("disk:{}", arg(folder));
    run(["context"].iter().chain(args).chain(&["--store", &store])).await
}

fn lines(ended: &Ended) -> Vec<Value> {
    assert_eq!((ended.code, &*ended.err), (Some(0), ""));
    ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Two conversations: one with three turns of which the last is a question, one with a turn that failed.
async fn talk(agent: &Agent, folder: &Path) -> Proxy {
    let proxy = Proxy::keeping(&agent.url(), &format!("disk:{}", arg(folder))).await;
    for (text, context) in [("one", "a"), ("two", "a"), ("three", "a"), ("boom", "b"), ("four", "b")] {
        proxy.call("/", &send_03(text, json!({ "contextId": context }))).await;
    }
    proxy
}

fn agent() -> Agent {
    Agent::saying(|text| match text.lines().last().unwrap_or_default() {
        "three" => "Which one do you want?".into(),
        text => format!("re {text}"),
    })
}

async fn stopped(mut proxy: Proxy) {
    proxy.signal("-TERM");
    assert_eq!(proxy.ended().await, Some(0));
}

#[tokio::test]
async fn a_store_that_a_proxy_holds_is_left_to_it() {
    let (folder, agent) = (TempDir::new().unwrap(), agent());
    let folder = folder.path().join("store");
    let _proxy = talk(&agent, &folder).await;
    for args in [&["list"][..], &["export"], &["delete", "--all"]] {
        let ended = context(&folder, args).await;
        assert_eq!(ended.code, Some(1));
        assert!(ended.err.contains("held by a running proxy") && ended.err.contains("--admin URL"), "{}", ended.err);
    }
}

#[tokio::test]
async fn a_conversation_is_carried_from_one_store_to_another() {
    let (folder, agent) = (TempDir::new().unwrap(), agent());
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    stopped(talk(&agent, &old).await).await;
    let listed = lines(&context(&old, &["list"]).await);
    let find = |context: &str| listed.iter().find(|line| line["contextId"] == context).unwrap();
    assert_eq!((listed.len(), &find("a")["turns"], &find("b")["turns"]), (2, &json!(3), &json!(2)));
    let question = find("a")["open"][0].as_str().unwrap().to_owned();
    let shown = lines(&context(&old, &["show", "a"]).await);
    let texts: Vec<_> = shown.iter().map(|turn| turn["user"]["parts"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
    // What is exported is a record as digest verify reads one.
    let exported = context(&old, &["export", "--with-secret"]).await.out;
    let verified = fed(["digest", "verify", "-"], &exported).await;
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    let file = folder.path().join("exported");
    std::fs::write(&file, &exported).unwrap();
    for said in ["2 contexts put in, 0 were there already\n", "0 contexts put in, 2 were there already\n"] {
        let imported = context(&new, &["import", arg(&file)]).await;
        assert_eq!((imported.code, &*imported.out, &*imported.err), (Some(0), said, ""));
    }
    let again = context(&new, &["export", "--with-secret"]).await.out;
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&again), sorted(&exported), "whole");
    // The conversation goes on there: the open question is answered on its task, and the agent is shown what was said.
    let proxy = Proxy::keeping(&agent.url(), &format!("disk:{}", arg(&new))).await;
    let answer = proxy.call("/", &send_03("the left", json!({ "contextId": "a", "taskId": question }))).await;
    assert_eq!(
        (&answer["result"]["id"], &answer["result"]["status"]["state"]),
        (&json!(question), &json!("completed"))
    );
    let given = said(&agent.last().json());
    assert!(["one", "re two", "Which one do you want?"].iter().all(|text| given.contains(text)), "{given}");
}

#[tokio::test]
async fn what_is_deleted_is_gone() {
    let (folder, agent) = (TempDir::new().unwrap(), agent());
    let folder = folder.path().join("store");
    stopped(talk(&agent, &folder).await).await;
    let ended = context(&folder, &["delete"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("say which"), "{}", ended.err);
    assert_eq!(context(&folder, &["delete", "nobody"]).await.code, Some(1));
    assert_eq!(context(&folder, &["delete", "a"]).await.out, "1 contexts deleted\n");
    assert_eq!(lines(&context(&folder, &["list"]).await).len(), 1);
    assert_eq!(context(&folder, &["show", "a"]).await.code, Some(1));
    assert!(!holds(&folder, b"re two") && holds(&folder, b"re four"));
    let proxy = Proxy::keeping(&agent.url(), &format!("disk:{}", arg(&folder))).await;
    assert_eq!(proxy.call("/", &get_03("u-2")).await["error"]["code"], -32001);
}

/// Whether some file in the folder has these bytes.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).any(|path| match path.is_dir() {
        true => holds(&path, bytes),
        false => memchr::memmem::find(&std::fs::read(&path).unwrap(), bytes).is_some(),
    })
}

#[tokio::test]
async fn what_cannot_be_worked_on_is_told() {
    let folder = TempDir::new().unwrap();
    let missing = context(&folder.path().join("nothing"), &["list"]).await;
    assert_eq!(missing.code, Some(1));
    assert!(missing.err.contains("there is no store in") && !folder.path().join("nothing").exists(), "{}", missing.err);
    for (store, words) in [("memory", "disk:PATH"), ("redis://127.0.0.1:9", "disk:PATH")] {
        let ended = run(["context", "list", "--store", store]).await;
        assert_eq!(ended.code, Some(1));
        assert!(ended.err.contains(words), "{}", ended.err);
    }
    let file = folder.path().join("lines");
    for (text, words) in
        [("{", "line 1"), ("{}", "record.version"), ("\n{\"record\":{\"version\":1}}", "line 2: record.route")]
    {
        std::fs::write(&file, text).unwrap();
        let ended = context(&folder.path().join("new"), &["import", arg(&file)]).await;
        assert_eq!(ended.code, Some(1));
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    }
}
