//! Cards as agents write them, and as they must not be believed.

use proptest::prelude::*;

use super::*;
use crate::a2a::EXTENSION_URI;

const BASE: &str = "https://p.example/agents/a";
const NOW: Serves<'_> = Serves {
    bindings: &[Binding::JsonRpc],
    dialects: &[Dialect::V03, Dialect::V10],
    streaming: true,
    push: true,
    rules: "{\"level\":\"balanced\"}",
};
const LATER: Serves<'_> = Serves { bindings: &[Binding::JsonRpc, Binding::HttpJson], ..NOW };

fn at(mount: &str) -> Places<'_> {
    Places { base: BASE, origin: "http://x:9001", mount, path: None }
}

/// The card behind the proxy, with the extension's declaration written as `"EXT"`.
fn shown(card: &str, places: &Places<'_>, serves: &Serves<'_>) -> Result<String, CardError> {
    let body = rewrite(card.as_bytes(), places, serves)?.body;
    Doc::scan(body.as_bytes())?;
    let extension = declared();
    assert_eq!(body.matches(EXTENSION_URI).count(), 1, "{body}");
    Ok(body.replace(&extension, "\"EXT\""))
}

fn declared() -> String {
    let body = rewrite(b"{\"url\":\"/\"}", &at(""), &NOW).unwrap().body;
    let from = body.find("[{").unwrap() + 1;
    body[from..body.len() - 3].to_owned()
}

const CAPABLE: &str = "\"capabilities\":{\"extensions\":[]}";

fn with_capabilities(members: &str) -> String {
    format!("{{{members},{CAPABLE}}}")
}

#[test]
fn shows_the_cards_of_the_sdks() {
    for (card, expected) in [
        (
            // Python 0.3.
            r#"{"additionalInterfaces":[{"transport":"JSONRPC","url":"http://127.0.0.1:41030/"},{"transport":"HTTP+JSON","url":"http://127.0.0.1:41030"}],"capabilities":{"extensions":[{"description":"does nothing","uri":"https://example.com/ext/one"}],"pushNotifications":true,"streaming":true},"name":"peer03","preferredTransport":"JSONRPC","protocolVersion":"0.3.0","provider":{"organization":"peers","url":"https://example.com"},"url":"http://127.0.0.1:41030/","version":"1.0.0"}"#,
            r#"{"additionalInterfaces":[{"transport":"JSONRPC","url":"https://p.example/agents/a/"}],"capabilities":{"extensions":[{"description":"does nothing","uri":"https://example.com/ext/one"},"EXT"],"pushNotifications":true,"streaming":true},"name":"peer03","preferredTransport":"JSONRPC","protocolVersion":"0.3.0","provider":{"organization":"peers","url":"https://example.com"},"url":"https://p.example/agents/a/","version":"1.0.0"}"#,
        ),
        (
            // Python 1.0, with gRPC.
            r#"{"name":"peer10","supportedInterfaces":[{"url":"http://127.0.0.1:41100/","protocolBinding":"JSONRPC","protocolVersion":"1.0"},{"url":"http://127.0.0.1:41100/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"},{"url":"127.0.0.1:41150","protocolBinding":"GRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true,"extensions":[]}}"#,
            r#"{"name":"peer10","supportedInterfaces":[{"url":"https://p.example/agents/a/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":true,"extensions":["EXT"]}}"#,
        ),
        (
            // JavaScript 1.0 with legacy cards: mixed, and stays so.
            r#"{"url":"http://127.0.0.1:41201/","preferredTransport":"JSONRPC","protocolVersion":"0.3","capabilities":{},"additionalInterfaces":[{"url":"http://127.0.0.1:41201/rest","transport":"HTTP+JSON"}],"supportedInterfaces":[{"url":"http://127.0.0.1:41201/","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":""},{"url":"http://127.0.0.1:41201/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0","tenant":""},{"url":"http://127.0.0.1:41201/","protocolBinding":"JSONRPC","protocolVersion":"0.3","tenant":""}],"signatures":[]}"#,
            r#"{"url":"https://p.example/agents/a/","preferredTransport":"JSONRPC","protocolVersion":"0.3","capabilities":{"extensions":["EXT"]},"additionalInterfaces":[],"supportedInterfaces":[{"url":"https://p.example/agents/a/","protocolBinding":"JSONRPC","protocolVersion":"1.0","tenant":""},{"url":"https://p.example/agents/a/","protocolBinding":"JSONRPC","protocolVersion":"0.3","tenant":""}],"signatures":[]}"#,
        ),
        (
            // fasta2a: no slash at the end.
            r#"{"name":"f","supportedInterfaces":[{"url":"http://localhost:8000","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":false,"pushNotifications":false}}"#,
            r#"{"name":"f","supportedInterfaces":[{"url":"https://p.example/agents/a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{"streaming":false,"pushNotifications":false,"extensions":["EXT"]}}"#,
        ),
    ] {
        assert_eq!(shown(card, &at(""), &NOW).unwrap(), expected);
    }
}

#[test]
fn a_url_keeps_the_rest_of_its_path() {
    for (url, mount, rest) in [
        ("http://x:9001/a2a/tock/", "", "/a2a/tock/"),
        ("http://x:9001/a2a/tock/", "/a2a/tock", "/"),
        ("http://x:9001/a2a/tock", "/a2a/tock", ""),
        ("http://x:9001/a2a/tock/rpc?v=1#top", "/a2a/tock", "/rpc?v=1"),
        ("HTTP://0.0.0.0:1/rpc", "", "/rpc"),
        ("http://[::1]:9/rpc", "", "/rpc"),
        ("http://user:secret@x:9001/", "", "/"),
        ("http://x", "", ""),
        ("http://x?agent=a", "", "?agent=a"),
        (" http://x/ ", "", "/"),
        ("/rpc", "", "/rpc"),
        ("rpc", "/a", "/rpc"),
        ("localhost:9001/rpc", "", "/rpc"),
        // An agent that was told where the proxy is.
        ("https://p.example/agents/a/", "", "/"),
        ("https://P.example:443/agents/a/rpc", "/tock", "/rpc"),
        ("https://p.example/agents/ab", "", "/agents/ab"),
    ] {
        let expected = with_capabilities(&format!("\"url\":\"{BASE}{rest}\"")).replace("[]", "[\"EXT\"]");
        let card = with_capabilities(&format!("\"url\":\"{url}\""));
        assert_eq!(shown(&card, &at(mount), &NOW).unwrap(), expected, "{url} {mount}");
        let seen = read(card.as_bytes(), &at(mount)).unwrap();
        assert_eq!(at_agent(&seen.mount, rest), seen.rpc_path.unwrap(), "a call must find its way back: {url} {mount}");
    }
}

#[test]
fn what_would_lead_astray_is_no_url() {
    for url in [
        "",
        " ",
        "ftp://x/",
        "//x/rpc",
        "javascript:alert(1)",
        "http://",
        "http://:9001/",
        "http://x:99999/",
        "http://x:9001/../b",
        "http://x:9001/a/%2E%2e/b",
        "http://x:9001/..",
        "http://x:9001\\\\@evil.example/",
        "http://x:9001/\\u0000",
        "http://x:9001/\\r\\nHost: evil",
        "http://x:9001/<script>",
        "http://x:9001/\\u202e",
        "http://x:9001/\u{202e}",
        "http://a:b:c/",
    ] {
        let card = with_capabilities(&format!(
            "\"supportedInterfaces\":[{{\"protocolBinding\":\"JSONRPC\",\"url\":\"{url}\"}}]"
        ));
        let error = rewrite(card.as_bytes(), &at(""), &NOW).unwrap_err();
        assert!(matches!(error, CardError::NothingLeft(_)), "{url}: {error}");
        assert!(!error.to_string().contains(['\0', '\r', '\n', '\u{202e}']), "{error:?}");
        let seen = read(card.as_bytes(), &at("")).unwrap();
        assert_eq!((seen.rpc_path, seen.warnings.len()), (None, 2), "{url}");
    }
}

#[test]
fn json_rpc_stands_first_and_the_rest_is_served_or_gone() {
    let rest_first = r#""url":"http://x:9001/rest","preferredTransport":"HTTP+JSON","additionalInterfaces":[{"url":"http://x:9001/rpc","transport":"JSONRPC","x":1e3}]"#;
    let grpc_first = r#""url":"x:9002","preferredTransport":"GRPC","additionalInterfaces":[ {"url":"x:9002","transport":"GRPC"}, {"url":"http://x:9001/rpc","transport":"JSONRPC"} ]"#;
    let listed = r#""supportedInterfaces":[ {"protocolBinding":"HTTP+JSON","url":"http://x:9001/rest"} , {"protocolBinding":"JSONRPC","url":"http://x:9001/rpc"} ]"#;
    let empty = r#""url":"","additionalInterfaces":[{"url":"/rpc","transport":"JSONRPC"}]"#;
    let foreign = r#""url":"http://x:9001/rpc","additionalInterfaces":[{"url":"https://else.example/rpc","transport":"JSONRPC"}]"#;
    let borrowed = r#""url":"x:9002","preferredTransport":"GRPC","supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"0.3","url":"http://x:9001/rpc"}]"#;
    let only_new = r#""supportedInterfaces":[{"protocolBinding":"JSONRPC","url":"http://x:9001/"}],"url":"x:9002","preferredTransport":"GRPC","additionalInterfaces":[]"#;
    let only_old = r#""supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"2.0","url":"http://x:9001/"}],"url":"http://x:9001/""#;
    for (card, serves, expected) in [
        (
            rest_first,
            &NOW,
            r#""url":"B/rpc","preferredTransport":"JSONRPC","additionalInterfaces":[{"url":"B/rpc","transport":"JSONRPC","x":1e3}]"#,
        ),
        (
            rest_first,
            &LATER,
            r#""url":"B/rpc","preferredTransport":"JSONRPC","additionalInterfaces":[{"url":"B/rpc","transport":"JSONRPC","x":1e3},{"url":"B/rest","transport":"HTTP+JSON"}]"#,
        ),
        (
            grpc_first,
            &NOW,
            r#""url":"B/rpc","preferredTransport":"JSONRPC","additionalInterfaces":[ {"url":"B/rpc","transport":"JSONRPC"} ]"#,
        ),
        (listed, &NOW, r#""supportedInterfaces":[ {"protocolBinding":"JSONRPC","url":"B/rpc"} ]"#),
        (
            listed,
            &LATER,
            r#""supportedInterfaces":[ {"protocolBinding":"JSONRPC","url":"B/rpc"} , {"protocolBinding":"HTTP+JSON","url":"B/rest"} ]"#,
        ),
        (empty, &NOW, r#""url":"B/rpc","additionalInterfaces":[{"url":"B/rpc","transport":"JSONRPC"}]"#),
        (foreign, &NOW, r#""url":"B/rpc","additionalInterfaces":[]"#),
        (
            borrowed,
            &NOW,
            r#""url":"B/rpc","preferredTransport":"JSONRPC","supportedInterfaces":[{"protocolBinding":"JSONRPC","protocolVersion":"0.3","url":"B/rpc"}]"#,
        ),
        (only_new, &NOW, r#""supportedInterfaces":[{"protocolBinding":"JSONRPC","url":"B/"}]"#),
        (only_old, &NOW, r#""url":"B/""#),
    ] {
        let expected = with_capabilities(&expected.replace("\"B", &format!("\"{BASE}")))
            .replace(CAPABLE, "\"capabilities\":{\"extensions\":[\"EXT\"]}");
        assert_eq!(shown(&with_capabilities(card), &at(""), serves).unwrap(), expected, "{card}");
    }
}

#[test]
fn a_former_main_interface_is_listed_once() {
    let card = with_capabilities(
        r#""url":"http://x/rest","preferredTransport":"HTTP+JSON","additionalInterfaces":[{"url":"http://x/rest","transport":"HTTP+JSON"},{"url":"http://x/rpc","transport":"JSONRPC"}]"#,
    );
    let body = shown(&card, &at(""), &LATER).unwrap();
    assert_eq!(body.matches("/rest").count(), 1, "{body}");
    assert!(body.find("/rpc\",\"transport").unwrap() < body.find("/rest").unwrap(), "{body}");
}

#[test]
fn the_configured_path_is_believed_above_the_cards() {
    let card = br#"{"url":"http://x:9001/","additionalInterfaces":[]}"#;
    let path = |mount, path| Places { path: Some(path), ..at(mount) };
    for (places, rest, rpc_path, mount) in
        [(path("", "/rpc"), "/rpc", "/rpc", ""), (path("/tenants/a", "/tenants/a/"), "/", "/tenants/a/", "/tenants/a")]
    {
        let seen = read(card, &places).unwrap();
        assert_eq!((seen.rpc_path.as_deref(), seen.mount.as_str()), (Some(rpc_path), mount));
        assert!(rewrite(card, &places, &NOW).unwrap().body.contains(&format!("\"url\":\"{BASE}{rest}\"")));
    }
}

#[test]
fn a_path_beside_the_configured_one_is_mounted_alone_and_one_above_it_is_not() {
    let beside = br#"{"url":"http://x:9001/rpc/"}"#;
    let seen = read(beside, &at("/cards")).unwrap();
    assert_eq!((seen.mount.as_str(), seen.rpc_path.as_deref(), seen.warnings.len()), ("/rpc", Some("/rpc/"), 1));
    let body = rewrite(beside, &at(&seen.mount), &NOW).unwrap().body;
    assert!(body.contains(&format!("{BASE}/\"")), "{body}");

    let above = br#"{"url":"http://agent/"}"#;
    let seen = read(above, &at("/tenants/a")).unwrap();
    assert_eq!((seen.mount.as_str(), seen.warnings.len()), ("/tenants/a", 1));
    let error = rewrite(above, &at(&seen.mount), &NOW).unwrap_err().to_string();
    assert!(error.contains("[upstream] path = \"/tenants/a/\""), "{error}");
}

#[test]
fn switches_go_off_where_nothing_is_served() {
    let serves = Serves { streaming: false, push: false, ..NOW };
    for (capabilities, expected, warnings) in [
        (
            r#"{ "streaming":true,"pushNotifications":true }"#,
            r#"{ "streaming":false,"pushNotifications":false ,"extensions":["EXT"]}"#,
            2,
        ),
        (r#"{"streaming":false}"#, r#"{"streaming":false,"extensions":["EXT"]}"#, 0),
        (r#"{"extensions":null}"#, r#"{"extensions":["EXT"]}"#, 0),
        ("null", r#"{"extensions":["EXT"]}"#, 0),
    ] {
        let card = format!("{{\"url\":\"http://x/\",\"capabilities\":{capabilities}}}");
        let expected = format!("{{\"url\":\"{BASE}/\",\"capabilities\":{expected}}}");
        assert_eq!(shown(&card, &at(""), &serves).unwrap(), expected);
        assert_eq!(rewrite(card.as_bytes(), &at(""), &serves).unwrap().warnings.len(), warnings);
    }
    let card = br#"{"url":"http://x/","capabilities":[]}"#;
    assert_eq!(rewrite(card, &at(""), &serves).unwrap().warnings.len(), 1);
}

#[test]
fn the_extension_stands_there_once_and_with_our_rules() {
    let ours = declared();
    let theirs = format!("{{\"uri\":\"{EXTENSION_URI}\",\"required\":true}}");
    for list in
        [format!("[{theirs}]"), format!("[{theirs},{ours}]"), format!("[{ours}, {theirs}]"), format!("[{ours}]")]
    {
        let card = format!("{{\"url\":\"http://x/\",\"capabilities\":{{\"extensions\":{list}}}}}");
        let expected = format!("{{\"url\":\"{BASE}/\",\"capabilities\":{{\"extensions\":[\"EXT\"]}}}}");
        assert_eq!(shown(&card, &at(""), &NOW).unwrap(), expected);
    }
    assert!(matches!(rewrite(b"{\"url\":\"/\"}", &at(""), &Serves { rules: "[", ..NOW }), Err(CardError::Rules)));
}

// card-signature
#[test]
fn nothing_to_change_means_the_same_bytes_and_else_signatures_go() {
    let card = |url: &str| {
        let extension = declared();
        format!(
            "{{ \"signatures\" : [{{\"protected\":\"e30\"}}],\t\"url\":\"{url}\", \"x-unknown\":{{\"keep\":1.50E-7,\"keep\":2}},\n \
             \"capabilities\":{{\"extensions\":[ {extension} ]}} , \"securitySchemes\":{{\"o\":{{\"openIdConnectUrl\":\"https://o/\"}}}}}}"
        )
    };
    let untouched = card(&format!("{BASE}/"));
    let rewritten = rewrite(untouched.as_bytes(), &at(""), &NOW).unwrap();
    assert_eq!((rewritten.body, rewritten.warnings.len()), (untouched.clone(), 0));

    let rewritten = rewrite(card("http://x/").as_bytes(), &at(""), &NOW).unwrap();
    let expected = untouched.replace("\"signatures\" : [{\"protected\":\"e30\"}],\t", "");
    assert_eq!((rewritten.body, rewritten.warnings.len()), (expected, 1));
}

#[test]
fn refuses_what_cannot_be_read_in_one_way() {
    for (card, expected) in [
        ("", "the agent card is no JSON"),
        ("<html>", "the agent card is no JSON"),
        ("[]", "the agent card is no JSON object"),
        ("null", "the agent card is no JSON object"),
        (r#"{"url":"/","url":"/b"}"#, "the agent card has two members of the same name in the card"),
        (r#"{"url":"/","\u0075rl":"/b"}"#, "the agent card has two members of the same name in the card"),
        (
            r#"{"supportedInterfaces":[{"url":"/","url":"/b"}]}"#,
            "the agent card has two members of the same name in supportedInterfaces",
        ),
        (
            r#"{"url":"/","capabilities":{"a":1,"a":1}}"#,
            "the agent card has two members of the same name in capabilities",
        ),
        (r#"{"url":"/","additionalInterfaces":{}}"#, "`additionalInterfaces` in the agent card is no array"),
        ("{}", "the proxy can serve no interface of the agent card: it lists none"),
        (
            r#"{"supportedInterfaces":[{"url":"x:1","protocolBinding":"GRPC"},7]}"#,
            "the proxy can serve no interface of the agent card: interface \"x:1\" (GRPC): GRPC is not served by the proxy; \
             interface \"\" (JSONRPC): there is no URL",
        ),
    ] {
        assert_eq!(rewrite(card.as_bytes(), &at(""), &NOW).unwrap_err().to_string(), expected, "{card}");
    }
}

#[test]
fn reads_what_the_agent_offers() {
    let card = r#"{"name":"n","url":"http://x:9001/","protocolVersion":"0.3","capabilities":{"streaming":true},"supportedInterfaces":[{"url":"h:1","protocolBinding":"GRPC","protocolVersion":"1.0"},{"url":"http://x:9001/v1?a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}"#;
    assert_eq!(
        read(card.as_bytes(), &at("")).unwrap(),
        Seen {
            name: Some("n".to_owned()),
            dialects: vec![Dialect::V10, Dialect::V03],
            bindings: vec![Binding::Grpc, Binding::JsonRpc],
            rpc_path: Some("/v1?a".to_owned()),
            mount: String::new(),
            streaming: true,
            push: false,
            warnings: Vec::new(),
        }
    );
    for (card, warnings) in [
        (r#"{"url":"/rpc"}"#, 1),
        (r#"{"url":"http://x/","protocolVersion":"1.0"}"#, 1),
        (r#"{"additionalInterfaces":[{"url":"http://x/"}]}"#, 2),
        (r#"{"supportedInterfaces":[{"url":"http://x/","protocolBinding":"JSONRPC","protocolVersion":"9"}]}"#, 1),
    ] {
        assert_eq!(read(card.as_bytes(), &at("")).unwrap().warnings.len(), warnings, "{card}");
    }
    let unknown = read(br#"{"url":"http://x/a"}"#, &Places { base: "", ..at("") }).unwrap();
    assert_eq!(unknown.rpc_path.as_deref(), Some("/a"));
}

#[test]
fn many_interfaces_are_no_trouble() {
    let each = |n| match n % 3 {
        0 => "{\"url\":\"http://x:9001/rpc\",\"protocolBinding\":\"JSONRPC\"}",
        1 => "{\"url\":\"http://x:9001/rest\",\"protocolBinding\":\"HTTP+JSON\"}",
        _ => "{\"url\":\"http://else/\",\"protocolBinding\":\"JSONRPC\"}",
    };
    let list: Vec<_> = (0..10_000).map(each).collect();
    let card = format!("{{\"supportedInterfaces\":[{}]}}", list.join(","));
    let rewritten = rewrite(card.as_bytes(), &at(""), &LATER).unwrap();
    let doc = Doc::scan(rewritten.body.as_bytes()).unwrap();
    assert_eq!(doc.root().get("supportedInterfaces").unwrap().elements().count(), 6667);
    assert_eq!(rewritten.warnings.len(), 9);
}

#[test]
fn an_extended_card_is_edited_inside_its_result() {
    let text = r#"{ "jsonrpc":"2.0","id":1e3 ,"result": {"url":"http://x/rpc","signatures":[1]} , "x":0 }"#;
    let doc = Doc::scan(text.as_bytes()).unwrap();
    let mut edits = Edits::new();
    edits.set_member(doc.root(), "x", "1");
    let warnings = rewrite_value(doc.root().get("result").unwrap(), &mut edits, &at(""), &NOW).unwrap();
    let expected = format!(
        r#"{{ "jsonrpc":"2.0","id":1e3 ,"result": {{"url":"{BASE}/rpc","capabilities":{{"extensions":["EXT"]}}}} , "x":1 }}"#
    );
    assert_eq!((edits.apply(text).replace(&declared(), "\"EXT\""), warnings.len()), (expected, 1));
}

#[test]
fn a_tag_is_strong_and_the_bodys() {
    assert_eq!(etag(b"abc"), "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"");
}

proptest! {
    #[test]
    fn no_card_leads_past_the_proxy(
        url in "(http://(x:9001|0.0.0.0|else\\.example|p\\.example)|https://p\\.example/agents/a|/)?[/.a%2e:@\\\\?#\\[\\] \u{e9}-]{0,12}",
        other in "(http://(x:9001|else\\.example))?[/.ab%:@?]{0,8}",
        transport in "JSONRPC|HTTP\\+JSON|GRPC",
    ) {
        let card = serde_json::json!({
            "url": url, "preferredTransport": transport,
            "additionalInterfaces": [{"url": other, "transport": "JSONRPC"}, {"url": url, "transport": "HTTP+JSON"}],
            "supportedInterfaces": [{"url": other, "protocolBinding": transport, "protocolVersion": "1.0"}],
        });
        let rewritten = rewrite(card.to_string().as_bytes(), &at(""), &LATER);
        prop_assume!(rewritten.is_ok());
        let shown: serde_json::Value = serde_json::from_str(&rewritten.unwrap().body).unwrap();
        let lists = ["additionalInterfaces", "supportedInterfaces"].map(|name| shown[name].as_array().cloned().unwrap_or_default());
        for url in lists.iter().flatten().map(|each| &each["url"]).chain(shown.get("url")) {
            let rest = url.as_str().unwrap().strip_prefix(BASE).unwrap_or("not the proxy");
            prop_assert!(rest.is_empty() || rest.starts_with(['/', '?']), "{}", url);
            prop_assert!(rest.parse::<http::Uri>().is_ok() || rest.is_empty() || rest.starts_with('?'), "{}", url);
        }
    }
}
