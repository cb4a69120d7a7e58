//! The command line: help, usage, and `check`.

use serde_json::json;

use super::agent::{Agent, Reserved, card, mixed_card, showing};
use super::process::{File, arg, run};

#[tokio::test]
async fn help_says_what_each_command_does() {
    for (args, words) in [
        (&["--help"][..], &["serve", "check", "demo", "chat", "Conversations for stateless A2A agents"][..]),
        (&["serve", "--help"], &["stand in front of an agent", "--config", "--listen", "127.0.0.1:8080", "--upstream"]),
        (&["check", "--help"], &["every finding at once", "--config", "--online"]),
        (&["demo", "--help"], &["stateless", "--once", "--port", "without network"]),
        (&["chat", "--help"], &["Talk to an agent", "--raw", "--context", "--header", "Exit codes", "pipe"]),
    ] {
        let ended = run(args).await;
        assert_eq!((ended.code, &*ended.err), (Some(0), ""));
        let said = ended.out.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        for words in words {
            assert!(said.contains(&words.to_lowercase()), "{args:?} without {words:?}:\n{}", ended.out);
        }
    }
}

#[tokio::test]
async fn the_version_is_the_packages() {
    let ended = run(["--version"]).await;
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.out, concat!("a2a-multiturn ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[tokio::test]
async fn what_was_typed_wrong_ends_with_2() {
    for (args, words) in [
        (&[][..], "Usage"),
        (&["serve"], "--upstream"),
        (&["serve", "--config", "a", "--upstream", "http://b"], "cannot be used with"),
        (&["serve", "--config", "a", "--listen", "127.0.0.1:1"], "cannot be used with"),
        (&["serve", "--listen", "localhost", "--upstream", "http://b"], "--listen"),
        (&["check"], "--config"),
        (&["chat"], "URL"),
        (&["talk"], "talk"),
    ] {
        let ended = run(args).await;
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(ended.err.contains(words), "{args:?} without {words:?}: {}", ended.err);
    }
}

#[tokio::test]
async fn check_lists_every_mistake_with_its_line() {
    let file = File::new(
        "[upstream]\nurl = 'ftp://a'\n[histroy]\n[guard]\nwait = 30\n[rewrite]\nlevel = 'loud'\n[listener]\naddress = 'localhost:1'\n",
    );
    let path = file.path();
    let ended = run(["check", "--config", arg(&path)]).await;
    assert_eq!((ended.code, &*ended.out), (Some(1), ""));
    let lines: Vec<_> = ended.err.lines().map(|line| line.replace(arg(&path), "proxy.toml")).collect();
    for (line, begins) in lines.iter().zip([
        "proxy.toml:2:7: error: upstream.url: ",
        "proxy.toml:3:2: error: histroy: unknown key; did you mean `history`?",
        "proxy.toml:5:8: error: guard.wait: ",
        "proxy.toml:7:9: error: rewrite.level: ",
        "proxy.toml:9:11: error: listener.address: ",
        "proxy.toml: 5 errors, 0 warnings",
    ]) {
        assert!(line.starts_with(begins), "{line} is not {begins}");
    }
    assert_eq!(lines.len(), 6, "{lines:#?}");
}

async fn online(upstream: &str) -> super::process::Ended {
    let file = File::new(&format!("[upstream]\nurl = '{upstream}'\nconnect_timeout = '2s'\n"));
    run(["check", "--online", "--config", arg(&file.path())]).await
}

#[tokio::test]
async fn check_online_tells_what_the_agent_speaks() {
    let mut offered = mixed_card("http://localhost/a2a/v1/");
    let more = json!({ "url": "http://localhost:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0" });
    offered["supportedInterfaces"].as_array_mut().unwrap().push(more);
    let agent = Agent::start(showing(offered));
    let ended = online(&agent.url()).await;
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{}", ended.out);
    for words in ["ok: 1 route", "\"Clerk\" speaks A2A", "0.3", "1.0", "JSONRPC, GRPC", "calls go to", &agent.url()] {
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
    }
    assert!(ended.out.contains("shown without: removed interface \"http://localhost:50051\" (GRPC)"), "{}", ended.out);
}

#[tokio::test]
async fn check_online_tells_what_is_wrong_with_the_card() {
    let grpc = json!({ "name": "G", "supportedInterfaces": [
        { "url": "http://localhost:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0" },
    ] });
    for (card, words) in [
        (grpc, "error: the proxy can serve no interface of the agent card"),
        (json!([1]), "error: its card cannot be read: the agent card is no JSON object"),
        (card(""), "error: the proxy can serve no interface"),
    ] {
        let agent = Agent::start(showing(card));
        let ended = online(&agent.url()).await;
        assert_eq!(ended.code, Some(1), "{}", ended.out);
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
    }
    let nobody = Reserved::new();
    let ended = online(&format!("http://{}", nobody.address())).await;
    assert_eq!(ended.code, Some(1), "{}", ended.out);
    assert!(ended.out.contains("refused"), "{}", ended.out);
}
