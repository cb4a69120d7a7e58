//! What the routes' services are given, and what never reaches them.

use std::sync::{Arc, Mutex};

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};

use super::*;
use crate::config::Cors;
use crate::conversation::principal::{Principal, RouteId, Unidentified};

/// Asks an app without sockets.
async fn ask(app: &App, request: http::request::Builder) -> Response<ReplyBody> {
    app.clone().call(request.body(Empty::new()).unwrap()).await.unwrap()
}

/// Services that say which of them was asked, and by whom.
fn mount(name: &'static str) -> Mount {
    let said = |name: String| {
        RouteService::from_fn(move |request| {
            let extensions = request.extensions();
            let caller = match (extensions.get::<Principal>(), extensions.get::<Unidentified>()) {
                (Some(principal), None) => principal.as_str().to_owned(),
                (None, Some(_)) => "nobody".to_owned(),
                _ => panic!("neither or both"),
            };
            let route = extensions.get::<RouteId>().unwrap().as_str();
            let said = format!("{name} {route} {caller} {}", request.uri().path());
            async move { Ok(Response::new(ReplyBody::whole(said))) }
        })
    };
    Mount { agent: said(name.to_owned()), card: Some(said(format!("{name}-card"))) }
}

fn app(listener: &Listener, routes: &[Route]) -> App {
    let mounts = routes.iter().map(|route| (route, mount("agent")));
    App::new(listener, &Uri::from_static("http://front.example"), &[1; 32], mounts).unwrap()
}

fn routes() -> Vec<Route> {
    ["", "/ada"]
        .map(|prefix| {
            let id = if prefix.is_empty() { "root" } else { "ada" };
            Route { id: id.into(), prefix: prefix.to_owned(), ..route("http://agent.internal") }
        })
        .into()
}

async fn said(response: Response<ReplyBody>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().into()).unwrap()
}

#[tokio::test]
async fn a_request_is_led_to_its_route() {
    let app = app(&config("http://a").listener, &routes());
    for (path, expected) in [
        ("/", "agent root anonymous /"),
        ("/ada", "agent ada anonymous /ada"),
        ("/ada/x", "agent ada anonymous /ada/x"),
        ("/adam", "agent root anonymous /adam"),
        ("/ada/.well-known/agent-card.json", "agent-card ada anonymous /ada/.well-known/agent-card.json"),
        ("/.well-known/agent.json", "agent-card root anonymous /.well-known/agent.json"),
        ("/x/.well-known/agent.json", "agent root anonymous /x/.well-known/agent.json"),
    ] {
        assert_eq!(said(ask(&app, Request::get(path)).await).await, expected);
    }
    let posted = ask(&app, Request::post("/.well-known/agent.json")).await;
    assert!(said(posted).await.starts_with("agent root"));
}

#[tokio::test]
async fn what_no_route_should_see_is_answered_here() {
    let app = app(&config("http://a").listener, &routes()[1..]);
    for (request, expected) in [
        (Request::get("/"), StatusCode::NOT_FOUND),
        (Request::get("/adam"), StatusCode::NOT_FOUND),
        (Request::options("*"), StatusCode::NOT_FOUND),
        (Request::get("/ada/../x"), StatusCode::BAD_REQUEST),
        (Request::get("/ada/%2E%2e/x"), StatusCode::BAD_REQUEST),
        (Request::connect("ada:443"), StatusCode::NOT_IMPLEMENTED),
        (Request::get("/livez"), StatusCode::OK),
        (Request::head("/readyz"), StatusCode::OK),
    ] {
        assert_eq!(ask(&app, request).await.status(), expected);
    }
    app.health().drain();
    assert_eq!(ask(&app, Request::get("/readyz")).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask(&app, Request::get("/livez")).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn callers_without_credential_are_one_only_on_a_loopback_listener() {
    let mut listener = config("http://a").listener;
    for (address, expected) in
        [("127.0.0.1:0", "anonymous"), ("[::ffff:127.0.0.1]:0", "anonymous"), ("0.0.0.0:0", "nobody")]
    {
        listener.address = address.parse().unwrap();
        let answer = said(ask(&app(&listener, &routes()), Request::post("/")).await).await;
        assert_eq!(answer, format!("agent root {expected} /"));
    }
    let app = app(&listener, &routes());
    let ada = said(ask(&app, Request::post("/").header("authorization", "Bearer ada")).await).await;
    assert!(ada.starts_with("agent root authorization:") && !ada.contains("Bearer"), "{ada}");
    let hidden = Request::post("/").header("authorization", "Bearer ada").header("connection", "authorization");
    assert_eq!(said(ask(&app, hidden).await).await, "agent root nobody /");
}

fn browsers(origins: &[&str], credentials: bool) -> Cors {
    let origins = origins.iter().map(|&origin| origin.to_owned()).collect();
    Cors { origins, credentials, max_age: Duration::from_secs(60) }
}

#[tokio::test]
async fn a_preflight_is_answered_where_the_route_has_a_rule() {
    let mut routes = routes();
    routes[1].cors = Some(browsers(&["https://app.example", "https://b.example"], true));
    let app = app(&config("http://a").listener, &routes);
    let preflight = |path: &str, origin: &str| {
        Request::options(path)
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,a2a-version")
    };
    let allowed = ask(&app, preflight("/ada", "https://app.example")).await;
    let header = |name: &str| allowed.headers().get(name).and_then(|value| value.to_str().ok());
    assert_eq!(header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(header("access-control-allow-credentials"), Some("true"));
    assert_eq!(header("access-control-allow-methods"), Some("POST"));
    assert_eq!(header("access-control-allow-headers"), Some("authorization,a2a-version"));
    assert_eq!(header("access-control-max-age"), Some("60"));
    let refused = ask(&app, preflight("/ada", "https://evil.example")).await;
    assert!(!refused.headers().contains_key("access-control-allow-origin"));
    assert!(said(ask(&app, preflight("/", "https://app.example")).await).await.starts_with("agent root"));
    assert!(said(ask(&app, Request::options("/ada")).await).await.starts_with("agent ada"));
}

#[tokio::test]
async fn replies_and_the_proxys_own_errors_can_be_read_by_a_browser() {
    let mut route = route("http://agent.internal");
    route.cors = Some(browsers(&["*"], false));
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    let agent = RouteService::from_fn(move |_| {
        *counted.lock().unwrap() += 1;
        async {
            let source = io::Error::from(io::ErrorKind::ConnectionRefused);
            Err(upstream::UpstreamError::Unreachable(source.into()).into())
        }
    });
    let listener = config("http://a").listener;
    let public = Uri::from_static("http://front.example");
    let app = App::new(&listener, &public, &[1; 32], [(&route, Mount { agent, card: None })]).unwrap();
    for (path, status) in [("/", 502), ("/a/../b", 400)] {
        let answer = ask(&app, Request::post(path).header("origin", "https://app.example")).await;
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        let exposed = answer.headers()["access-control-expose-headers"].to_str().unwrap();
        assert!(exposed.contains("a2a-extensions") && exposed.contains("retry-after"), "{exposed}");
    }
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[test]
fn rules_that_browsers_would_refuse_are_refused_first() {
    assert!(matches!(cors::layer(&browsers(&["*"], true)), Err(SetupError::CredentialsForAll)));
    assert!(matches!(cors::layer(&browsers(&["a\nb"], false)), Err(SetupError::Origin(_))));
}
