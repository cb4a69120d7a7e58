//! `chat` and `demo`: the commands that talk.

use super::agent::{Agent, Reserved, said};
use super::process::{Proxy, fed, run};

fn clerk(text: &str) -> String {
    match text.lines().last().unwrap_or_default() {
        "Book a room" => "Which city do you mean?".into(),
        "Oslo" if text.contains("Which city") => "Booked a room in Oslo.".into(),
        _ => "What?".into(),
    }
}

#[tokio::test]
async fn a_question_in_a_pipe_is_answered_on_the_same_task() {
    let agent = Agent::saying(clerk);
    let proxy = Proxy::before(&agent.url()).await;
    let ended = fed(["chat", &proxy.url()], "Book a room\n/task\nOslo\n/task\n/context\n").await;
    assert_eq!((ended.code, &*ended.err), (Some(0), ""));
    let lines: Vec<_> = ended.out.lines().collect();
    assert_eq!(
        lines,
        [
            "[input-required] Which city do you mean?",
            "task u-1 input-required",
            "[completed] Booked a room in Oslo.",
            "task u-1 completed",
            "context agent-context"
        ]
    );
    // The finished task of the agent's own was not sent back to it.
    let last = agent.last().json();
    assert!(last["params"]["message"]["taskId"].as_str().is_none_or(str::is_empty), "{last}");
    assert!(said(&last).ends_with("\nOslo"));
}

#[tokio::test]
async fn without_the_proxy_the_same_agent_asks_for_nothing() {
    let agent = Agent::saying(clerk);
    let ended = fed(["chat", &agent.url()], "Book a room\nOslo\n").await;
    assert_eq!((ended.code, &*ended.out), (Some(0), "[completed] Which city do you mean?\n[completed] What?\n"));
}

#[tokio::test]
async fn messages_may_be_given_and_the_wire_be_shown() {
    let agent = Agent::saying(clerk);
    let proxy = Proxy::before(&agent.url()).await;
    let args = ["chat", &proxy.url(), "-m", "Book a room", "-m", "Oslo", "--raw", "--context", "mine"];
    let ended = run(args).await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out, "[input-required] Which city do you mean?\n[completed] Booked a room in Oslo.\n");
    assert!(ended.err.contains("SendMessage") && ended.err.contains("TASK_STATE_INPUT_REQUIRED"), "{}", ended.err);
    assert_eq!(agent.last().json()["params"]["message"]["contextId"], "mine");
}

#[tokio::test]
async fn what_went_wrong_is_in_the_exit_code() {
    let nobody = Reserved::new();
    let ended = run(["chat", &format!("http://{}", nobody.address()), "-m", "hello"]).await;
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert!(ended.err.contains("is the agent running?"), "{}", ended.err);
    // Through the proxy it is the proxy that answers.
    let agent = Agent::saying(clerk);
    let proxy = Proxy::before(&agent.url()).await;
    drop(agent);
    let ended = run(["chat", &proxy.url(), "-m", "hello"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("could not be reached"), "{}", ended.err);
}

#[tokio::test]
async fn the_demo_shows_what_it_promises() {
    let ended = run(["demo", "--once"]).await;
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{}", ended.out);
    for words in [
        "I don't know your name.",
        "Your name is Ada.",
        "input-required",
        "Which city do you mean?",
        "in flight",
        "curl ",
        "a2a-multiturn chat ",
        "a2a-multiturn serve --upstream",
    ] {
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
    }
    assert!(ended.out.lines().count() <= 60, "it fits a screen: {}", ended.out.lines().count());
}

#[tokio::test]
async fn a_port_that_the_demo_cannot_have_is_told() {
    let taken = Reserved::new().start(super::agent::saying(|_| String::new()));
    let ended = run(["demo", "--once", "--port", &taken.address.port().to_string()]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("cannot listen on") && ended.err.contains("in use"), "{}", ended.err);
}
