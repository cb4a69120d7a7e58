//! Every kind of finding, and what a file without one means.

mod documented;

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::conversation::policy::{HistoryPolicy, Mode, Placement, Policy, Reject};
use crate::conversation::principal::RouteId;

const AGENT: &str = "[upstream]\nurl = 'http://agent.example'\n";

/// What is said of a text, a finding a line.
fn said(text: &str) -> Vec<String> {
    let findings = match Config::from_str(text, "proxy.toml") {
        Ok(loaded) => loaded.warnings,
        Err(findings) => findings,
    };
    findings.iter().map(ToString::to_string).collect()
}

fn loaded(text: &str) -> Config {
    let Loaded { config, warnings } = Config::from_str(text, "proxy.toml").unwrap();
    assert_eq!(warnings.to_string(), "");
    config
}

#[test]
fn one_setting_alone() {
    for (setting, finding) in [
        // Types.
        (
            "[guard]\nreplay_duplicates = 'true'",
            "2:21: error: guard.replay_duplicates: expected `true` or `false`, found a value of type string; write true without quotes",
        ),
        (
            "[guard]\nreplay_duplicates = 1",
            "2:21: error: guard.replay_duplicates: expected `true` or `false`, found a value of type integer",
        ),
        (
            "[history]\nmax_turns = '40'",
            "2:13: error: history.max_turns: expected a whole number, found a value of type string",
        ),
        (
            "[reply]\nskip = 'tool'",
            "2:8: error: reply.skip: expected a list of strings, found a value of type string; put it in brackets: [\"…\"]",
        ),
        ("[reply]\nskip = [\n  'tool',\n  '',\n]", "4:3: error: reply.skip: expected a string, found nothing"),
        ("[rewrite]\nmarkers = [1]", "2:12: error: rewrite.markers: expected a string, found a value of type integer"),
        ("history = 3", "1:11: error: history: expected a table, found a value of type integer; write `[history]`"),
        (
            "upstream = 'http://a'",
            "1:12: error: upstream: expected a table, found a value of type string; write `[upstream]`",
        ),
        // Words.
        (
            "[history]\nplacement = 'inlin'",
            "2:13: error: history.placement: \"inlin\" is not one of \"inline\", \"part\", \"data\"; did you mean \"inline\"?",
        ),
        (
            "[rewrite]\nlevel = 'loud'",
            "2:9: error: rewrite.level: \"loud\" is not one of \"off\", \"explicit\", \"strict\", \"balanced\"",
        ),
        (
            "[log]\nformat = 'JSON'",
            "2:10: error: log.format: \"JSON\" is not one of \"auto\", \"text\", \"json\"; did you mean \"json\"?",
        ),
        // Ranges.
        ("[history]\nmax_turns = 0", "2:13: error: history.max_turns: 0 is too little: at least 1"),
        ("[history]\nmax_turns = -1", "2:13: error: history.max_turns: -1 is out of range"),
        ("[rewrite]\ncap = 5_000_000_000", "2:7: error: rewrite.cap: 5000000000 is out of range"),
        ("[guard]\nlease = '999ms'", "2:9: error: guard.lease: 999ms is too little: at least 1s"),
        ("[limits]\nreply_bytes = 0", "2:15: error: limits.reply_bytes: 0 is too little: at least 1"),
        ("[limits]\nid_bytes = 8", "2:12: error: limits.id_bytes: 8 is too little: at least 36"),
        // Durations and sizes.
        ("[guard]\nwait = 30", "2:8: error: guard.wait: a duration needs a unit; for seconds write \"30s\""),
        (
            "[guard]\nwait = '30 sec'",
            "2:8: error: guard.wait: \"30 sec\" is not a duration; write it as \"500ms\", \"30s\", \"10m\", \"1h\" or \"7d\"",
        ),
        (
            "[guard]\nwait = 's'",
            "2:8: error: guard.wait: \"s\" is not a duration; write it as \"500ms\", \"30s\", \"10m\", \"1h\" or \"7d\"",
        ),
        ("[guard]\nwait = '9999d'", "2:8: error: guard.wait: \"9999d\" is longer than ten years"),
        (
            "[store]\nbytes = '1 tonne'",
            "2:9: error: store.bytes: \"1 tonne\" is not a size; write it as \"128KiB\" or \"16MiB\"",
        ),
        ("[store]\nbytes = '16MB'", "2:9: error: store.bytes: \"16MB\" is not a size; did you mean \"16MiB\"?"),
        ("[store]\nbytes = '16k'", "2:9: error: store.bytes: \"16k\" is not a size; did you mean \"16KiB\"?"),
        ("[store]\nbytes = '99999999999GiB'", "2:9: error: store.bytes: \"99999999999GiB\" is out of range"),
        // Addresses, URLs and paths.
        (
            "[listener]\naddress = 'localhost:8080'",
            "2:11: error: listener.address: \"localhost:8080\" is not an address with a port; write \"127.0.0.1:8080\"",
        ),
        (
            "[listener]\naddress = '127.0.0.1'",
            "2:11: error: listener.address: \"127.0.0.1\" is not an address with a port; write it as \"127.0.0.1:8080\" or \"[::1]:8080\"",
        ),
        (
            "[listener]\npublic_url = 'agents.example.com'",
            "2:14: error: listener.public_url: a URL needs a scheme; write it with http:// or https:// in front",
        ),
        (
            "[listener]\npublic_url = 'https://a.example/?x=1'",
            "2:14: error: listener.public_url: a base URL has no query",
        ),
        (
            "[listener]\nhealth_path = true",
            "2:15: error: listener.health_path: expected a path or `false`, found `true`; the default is \"/\"",
        ),
        (
            "[listener]\nhealth_path = 'ops'",
            "2:15: error: listener.health_path: \"ops\" does not start with a slash; write \"/ops\"",
        ),
        // Headers, identity, origins, filters.
        ("[identity]\nfrom = 'header:a b'", "2:8: error: identity.from: \"a b\" is not the name of a header"),
        (
            "[identity]\nfrom = 'header:Authorization'",
            "2:8: error: identity.from: this header holds a credential; write \"authorization\"",
        ),
        (
            "[identity]\nfrom = 'header:Cookie'",
            "2:8: error: identity.from: this header holds a credential; name one that holds a user's name",
        ),
        (
            "[identity]\nfrom = 'anyone'",
            "2:8: error: identity.from: \"anyone\" is not one of \"authorization\", \"header:NAME\", \"anonymous\"",
        ),
        ("[upstream.headers]\n'a b' = 'x'", "2:1: error: upstream.headers.a b: not the name of a header"),
        ("[upstream.headers]\nHost = 'x'", "2:1: error: upstream.headers.Host: the proxy sets this header itself"),
        (
            "[upstream.headers]\nA2A-Version = '1.0'",
            "2:1: error: upstream.headers.A2A-Version: A2A's own headers are the client's and pass as they are",
        ),
        ("[upstream.headers]\nX-Key = \"sec\\nret\"", "2:9: error: upstream.headers.X-Key: not a value for a header"),
        (
            "[cors]\norigins = ['https://a.example/']",
            "2:12: error: cors.origins: an origin is scheme, host and port alone; write \"https://a.example\"",
        ),
        ("[log]\nfilter = 'hyper=debug,wran'", "2:10: error: log.filter: \"wran\" is no level; did you mean \"warn\"?"),
        (
            "[log]\nfilter = 'a=b=c'",
            "2:10: error: log.filter: not a filter: error parsing level filter: expected one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number 0-5",
        ),
        // Keys.
        ("[histroy]", "1:2: error: histroy: unknown key; did you mean `history`?"),
        ("[history]\nmax-turns = 3", "2:1: error: history.max-turns: unknown key; did you mean `max_turns`?"),
        ("[history]\nlease = '3s'", "2:1: error: history.lease: unknown key; it stands in `[guard]`"),
        (
            "[guard]\nconnections = 3",
            "2:1: error: guard.connections: unknown key; it stands in `[listener]` or `[upstream]`",
        ),
        (
            "[[route]]\nconversation_key = 'contextId'",
            "2:20: error: route.conversation_key: \"contextId\" is not one of \"principal\", \"header:NAME\"",
        ),
        (
            "[[route]]\nconversation_key = 'header:a b'",
            "2:20: error: route.conversation_key: \"a b\" is not the name of a header",
        ),
        (
            "[guard]\nmode = 'quue'",
            "2:8: error: guard.mode: \"quue\" is not one of \"exclusive\", \"queue\", \"allow\"; did you mean \"queue\"?",
        ),
        ("mode = 'observe'", "1:1: error: mode: unknown key; it stands in `[[route]]` or `[guard]`"),
        ("[history]\nzebra = 3", "2:1: error: history.zebra: unknown key"),
        ("[history.store]", "1:10: error: history.store: unknown key; this table stands at the top level"),
        (
            "[listener]\nlisten = '127.0.0.1:1'",
            "2:1: error: listener.listen: no longer called so; write `listener.address`",
        ),
        ("'guard.wait' = '3s'", "1:1: error: guard.wait: unknown key"),
        ("\"a\\nb\" = 1", "1:1: error: a\\nb: unknown key"),
        (
            "[guard]\nwait = \"3\\ns\"",
            "2:8: error: guard.wait: \"3\\ns\" is not a duration; write it as \"500ms\", \"30s\", \"10m\", \"1h\" or \"7d\"",
        ),
        // What is no TOML.
        ("[guard]\nwait = 30s", "2:8: error: string values must be quoted, expected literal string; write \"30s\""),
        ("[guard]\nwait = '1s'\nwait = '2s'", "3:1: error: duplicate key"),
    ] {
        // A broken `upstream` is the agent itself.
        let agent = if setting.starts_with("upstream") { "" } else { AGENT };
        let text = format!("{setting}\n{agent}");
        let said = said(&text);
        assert_eq!(said, [format!("proxy.toml:{finding}")], "{setting}");
    }
}

#[test]
fn urls_of_agents() {
    for (url, finding) in [
        ("localhost:9999", "a URL needs a scheme; write it with http:// or https:// in front"),
        ("ftp://a.example", "the scheme must be http or https"),
        ("http://", "not a URL: empty string"),
        ("http://me:secret@a.example", "a URL must not hold credentials: they belong into a header"),
        ("", "expected a URL such as \"http://127.0.0.1:9999\", found nothing"),
        ("http://localhost:8080", "this is the proxy's own address: it would call itself"),
    ] {
        let shown = said(&format!("[[route]]\nupstream = '{url}'"));
        assert_eq!(shown.len(), 1, "{url}: {shown:?}");
        assert!(shown[0].ends_with(&format!("error: route.upstream: {finding}")), "{url}: {shown:?}");
        let told = said(&format!("[upstream]\nurl = '{url}'"));
        assert_eq!(
            told,
            [format!("proxy.toml:2:{}: error: upstream.url: {finding}", if url.contains("8080") { 1 } else { 7 })]
        );
    }
}

#[test]
fn settings_together() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let authority = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    let certificate = file("ca.pem", &authority.cert.pem());
    let key = file("key.pem", &authority.signing_key.serialize_pem());
    let other = file("other.pem", "hello");
    let ca = |ca: &str| format!("upstream.ca = '{ca}'\nupstream.url = 'https://agent.example'\n");
    let cases: Vec<(String, Vec<String>)> = [
        ("", "proxy.toml: error: upstream.url: there is no agent; set `upstream.url = \"http://…\"`"),
        ("route = []", "proxy.toml:1:1: error: route: there is no agent; name one: `[upstream]` and `url = \"http://…\"`, or a `[[route]]` for each"),
        ("[route]\nprefix = '/'", "proxy.toml:1:2: error: route: routes are a list; write `[[route]]`"),
        ("\n[[route]]\nprefix = '/'", "proxy.toml:2:1: error: route.upstream.url: there is no agent; set `route.upstream.url = \"http://…\"`"),
        ("listener.address = '0.0.0.0:80'\nupstream.url = 'http://a'", "proxy.toml:1:10: error: listener.address: 0.0.0.0:80 is no address that clients can call; set `listener.public_url` to the base URL under which they reach the proxy"),
        ("listener.address = '[::]:80'\nlistener.public_url = 'https://p.example'\nupstream.url = 'http://a'", ""),
        ("listener.address = '192.0.2.1:80'\nupstream.url = 'http://a'\nidentity.from = 'anonymous'", "proxy.toml:3:10: warning: identity.from: whoever reaches 192.0.2.1:80 is the same principal and may read all conversations of this route; tell callers apart with \"authorization\" or \"header:NAME\", or listen on 127.0.0.1"),
        ("upstream.url = 'http://a'\nidentity.from = 'anonymous'", ""),
        ("upstream.url = 'http://a'\ncors = { origins = ['*'], credentials = true }", "proxy.toml:2:27: error: cors.credentials: credentials cannot be allowed to every origin: browsers refuse it; list the origins"),
        ("upstream.url = 'http://a'\nstore.context_bytes = '2GiB'", "proxy.toml:2:7: error: store.context_bytes: `store.context_bytes` is more than `store.bytes`: one conversation would not fit"),
        ("upstream.url = 'http://a'\nhistory.policy = 'agent_fetched'", ""),
        ("listener.address = '0.0.0.0:80'\nproxy.agent_url = 'http://p:80'\nlistener.public_url = 'https://p.example'\nupstream.url = 'http://a'\nhistory.policy = 'agent_fetched'", ""),
        ("upstream.url = 'http://a'\nhistory.turn_bytes = '1MiB'", "proxy.toml:2:9: warning: history.turn_bytes: `history.turn_bytes` is more than `history.max_bytes`: no turn of that length is shown"),
        ("upstream.url = 'http://a'\nlimits.request_bytes = '64KiB'", "proxy.toml:2:8: warning: limits.request_bytes: `history.max_bytes` leaves no room in `limits.request_bytes` for a message"),
        ("upstream.url = 'http://a'\nguard.max_turn = '2s'", "proxy.toml:2:7: warning: guard.max_turn: `guard.max_turn` is less than `guard.lease`: a turn stays held until its lease ends"),
        ("upstream = { url = 'http://a', headers = { Authorization = 'x' } }\nidentity.unknown_ids = 'forward'", "proxy.toml:2:10: error: identity.unknown_ids: the agent is called with one credential for all (`upstream.headers`), so it would show each caller the tasks of all; write \"refuse\""),
        ("[[route]]\nupstream = 'http://a'\n[[route]]\nupstream = 'http://b'\nprefix = '//'", "proxy.toml:5:1: error: route.prefix: route `default` (line 1) has the prefix \"/\" already"),
        ("[[route]]\nprefix='/a'\nupstream = 'http://a'\n[[route]]\nupstream = 'http://b'\nprefix = '/a/'\nname='b'", "proxy.toml:6:1: error: route.prefix: route `a` (line 2) has the prefix \"/a\" already"),
        ("[[route]]\nname='b'\nupstream = 'http://a'\n[[route]]\nupstream = 'http://b'\nprefix = '/b'", "proxy.toml:6:1: error: route.prefix: route `b` (line 2) has this name already"),
        ("[[route]]\nupstream = 'http://a'\nprefix = '/a/../b'", "proxy.toml:3:10: error: route.prefix: \"/a/../b\" has the segment \"..\", which clients take away"),
        ("[[route]]\nupstream = 'http://a'\nprefix = 'a'", "proxy.toml:3:10: error: route.prefix: \"a\" does not start with a slash; write \"/a\""),
        ("[[route]]\nupstream = 'http://a'\nname = 'a b'", "proxy.toml:3:8: error: route.name: \"a b\" is not a name; use letters, digits, `-`, `_`, `.` and `/`"),
        ("[[route]]\nupstream = 'http://a'\nlease = '1s'", "proxy.toml:3:1: error: route.lease: unknown key; it stands in `[route.guard]`"),
        ("[[route]]\nupstream = 'http://a'\n[route.store]", "proxy.toml:3:8: error: route.store: unknown key; this table stands at the top level"),
    ]
    .into_iter()
    .map(|(text, finding)| (text.to_owned(), finding))
    .chain([
        (ca(&certificate), ""),
        (ca("/nowhere.pem"), "proxy.toml:1:10: error: upstream.ca: /nowhere.pem: cannot be read: No such file or directory (os error 2)"),
        (ca(&certificate).replace("https", "http"), "proxy.toml:1:10: warning: upstream.ca: of no use: the agent is called over plain http"),
    ])
    .map(|(text, finding)| (text, Vec::from_iter((!finding.is_empty()).then(|| finding.to_owned()))))
    .chain([
        (ca(&key), vec![format!("proxy.toml:1:10: error: upstream.ca: {key}: holds a private key and no certificate: name the file of the authority's certificate")]),
        (ca(&other), vec![format!("proxy.toml:1:10: error: upstream.ca: {other}: holds no certificate: it should have a block that starts with -----BEGIN CERTIFICATE-----")]),
    ])
    .collect();
    for (text, findings) in cases {
        assert_eq!(said(&text), findings, "{text}");
    }
}

#[test]
fn everything_is_told_in_one_run_in_the_order_of_the_file() {
    let text = "\
[upstream]
url = 'localhost:1'

[guard]
lease = '0s'
max_trun = '1h'

[[route]]
prefix = 'a'

  [route.histroy]
  max_turns = 3

[[route]]
prefix = '/b'
upstream = 'http://b.example'
cors = { origins = ['*'], credentials = true }

[listener]
address = '0.0.0.0:80'
";
    let places = [
        (2, "upstream.url"),
        (5, "guard.lease"),
        (6, "guard.max_trun"),
        (9, "route.prefix"),
        (11, "route.histroy"),
        (17, "route.cors.credentials"),
        (20, "listener.address"),
    ];
    let findings = Config::from_str(text, "proxy.toml").unwrap_err();
    let told =
        findings.iter().map(|finding| (finding.position.unwrap().line, finding.key.as_str())).collect::<Vec<_>>();
    assert_eq!(told, places);
    assert_eq!(findings.count(Severity::Error), places.len());
}

#[test]
fn a_value_without_quotes_hides_nothing() {
    let places = |text: &str| {
        let findings = Config::from_str(text, "proxy.toml").unwrap_err();
        findings.iter().map(|finding| finding.position.unwrap().line).collect::<Vec<_>>()
    };
    assert_eq!(places("[guard]\nwait = 30s\nleese = 1\n[upstream]\nurl = 'x://y'\n"), [2, 3, 5]);
    // A broken table would make known keys unknown.
    assert_eq!(places("[guard\nwait = '30s'\n[upstream]\nurl = 'x://y'\n"), [1]);
    // What follows in a line from a first error in it is not told.
    assert_eq!(places("[reply]\nskip = ['a'\nthoughts = 1\n"), [3]);
}

#[test]
fn nothing_follows_from_a_value_that_could_not_be_read() {
    let text = format!("{AGENT}[listener]\naddress = '0.0.0.0:80'\npublic_url = 'nonsense'\n");
    assert_eq!(said(&text).len(), 1);
}

#[test]
fn what_routes_have_from_one_line_is_told_once() {
    let route = "[[route]]\nupstream = 'http://a'\nprefix = ";
    let text = format!("[cors]\norigins = ['*']\ncredentials = true\n{route}'/a'\n{route}'/b'\n");
    assert_eq!(said(&text).len(), 1);
}

#[test]
fn a_secret_is_never_repeated() {
    let text = "[upstream]\nurl = 'http://me:s3cret@a'\nheaders = { X-Key = \"s3cret\\n\" }\n";
    let findings = Config::from_str(text, "proxy.toml").unwrap_err();
    assert_eq!(findings.iter().count(), 2);
    assert!(!format!("{findings} {findings:?}").contains("s3cret"));
    let config = loaded(&format!("{AGENT}headers = {{ X-Key = 's3cret' }}\n"));
    assert!(!format!("{config:?}").contains("s3cret"));
}

#[test]
fn a_route_overrides_key_by_key() {
    let config = loaded(
        "\
[upstream]
connect_timeout = '1s'
headers = { X-One = '1', X-Two = '2' }
[history]
max_turns = 7
placement = 'part'
[guard]
reject = 'error'
[cors]
origins = ['https://a.example']

[[route]]
name = 'first'
prefix = '/team/one/'
upstream = 'http://one.example:81/'
mode = 'observe'

[[route]]
prefix = '/team/two'
[route.upstream]
url = 'https://two.example/card.json'
pool_idle = '1h'
headers = { x-two = 'zwei', X-Three = '3' }
[route.history]
placement = 'data'
policy = 'none'
[route.guard]
wait = '500ms'
[route.cors]
max_age = '1m'
",
    );
    let [one, two] = config.routes.as_slice() else { panic!("{config:?}") };
    assert_eq!((one.id.as_str(), one.prefix.as_str(), one.policy.mode), ("first", "/team/one", Mode::Observe));
    assert_eq!((two.id.as_str(), two.prefix.as_str(), two.policy.mode), ("team/two", "/team/two", Mode::Converse));
    assert_eq!((one.policy.history.max_turns, one.policy.history.placement), (7, Placement::Part));
    assert_eq!((two.policy.history.max_turns, two.policy.history.placement), (7, Placement::Data));
    assert_eq!(one.policy.history.policy, HistoryPolicy::ClientSupplied);
    assert_eq!(two.policy.history.policy, HistoryPolicy::None);
    assert_eq!((two.policy.guard.reject, two.policy.guard.wait), (Reject::Error, Duration::from_millis(500)));
    assert_eq!(two.upstream.connect_timeout, Duration::from_secs(1));
    assert_eq!(one.upstream.headers.len(), 2);
    let headers = two.upstream.headers.iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap()));
    assert_eq!(headers.collect::<BTreeSet<_>>(), ["x-one=1", "x-two=zwei", "x-three=3"].map(str::to_owned).into());
    let cors = two.cors.as_ref().unwrap();
    assert_eq!(
        (cors.origins.as_slice(), cors.max_age),
        (["https://a.example".to_owned()].as_slice(), Duration::from_secs(60))
    );
}

#[test]
fn an_agent_alone_is_one_route_with_the_defaults() {
    let config = loaded(AGENT);
    assert_eq!(config, Config::quick(ADDRESS, "http://agent.example".parse().unwrap()));
    let [route] = config.routes.as_slice() else { panic!("{config:?}") };
    assert_eq!((&route.id, route.prefix.as_str(), &route.policy), (&RouteId::default(), "", &Policy::default()));
    assert_eq!(loaded("[[route]]\nupstream = 'http://agent.example'"), config);
}

#[test]
fn values_mean_what_they_say() {
    let config = loaded(&format!(
        "{AGENT}[listener]\npublic_url = 'https://a.example/base/'\nhealth_path = false\n[store]\nbytes = '2 GiB'\ncontext_bytes = 0x10_000\nttl = '7d'\n"
    ));
    assert_eq!(config.listener.public_url.unwrap().to_string(), "https://a.example/base");
    assert_eq!(config.listener.health_path, None);
    assert_eq!((config.store.bytes, config.store.context_bytes), (2 << 30, 65536));
    assert_eq!(config.store.ttl, Duration::from_secs(7 * 86400));
    assert_eq!(loaded(AGENT).listener.health_path.as_deref(), Some(""));
}

#[test]
fn settings_from_the_command_line_are_checked_too() {
    let quick = |listen: &str, upstream: &str| {
        Config::quick(listen.parse().unwrap(), upstream.parse().unwrap()).findings().to_string()
    };
    assert_eq!(quick("127.0.0.1:8080", "http://a.example"), "");
    assert_eq!(
        quick("127.0.0.1:8080", "a.example:1"),
        "error: upstream.url: a URL needs a scheme; write it with http:// or https:// in front"
    );
    assert!(
        quick("0.0.0.0:8080", "http://a.example").starts_with("error: listener.address: 0.0.0.0:8080 is no address")
    );
}

#[test]
fn a_file_that_is_no_text_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.toml");
    std::fs::write(&path, [0xff]).unwrap();
    let findings = Config::from_file(&path).unwrap_err();
    assert_eq!(findings.to_string(), format!("{}: error: is not text in UTF-8", path.display()));
    assert!(Config::from_file(folder.path().join("none.toml")).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn authorities_are_looked_for_beside_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let authority = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    std::fs::write(folder.path().join("ca.pem"), authority.cert.pem()).unwrap();
    let path = folder.path().join("proxy.toml");
    std::fs::write(&path, "[upstream]\nurl = 'https://a.example'\nca = 'ca.pem'\n").unwrap();
    let config = Config::from_file(&path).unwrap().config;
    assert_eq!(config.routes[0].upstream.ca.as_deref(), Some(&*folder.path().join("ca.pem")));
}
