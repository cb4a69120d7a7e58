//! Streams as the SDKs' servers sent them, recorded by `tests/peers/record.py`: wherever the wire cuts them in two, and byte by byte, the client
//! is told the same as of the whole, and the same settles.
//! Every offset is tried of the four plain agents' recordings, every 8th of those that
//! differ from them in little more than ids (all in the long run).

use std::fs;
use std::path::Path;

use a2a_multiturn::conversation::principal::{ContextKey, Principal, RouteId};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::stage::{Stage, proxy, settles_down, state};
use crate::support::{events, message_03, message_10};

/// What is sent in each case, in what state the client's stream closes (an error tells of a failure too), and what of the reply settles.
const CASES: [(&str, &str, &str, &str); 11] = [
    ("stream", "!stream 3 0 One, two — 你好 🙂, three.", "completed", "One, two — 你好 🙂, three."),
    ("say", "!say The kettle is on.", "completed", "The kettle is on."),
    ("ask", "!ask Which city do you mean?", "input-required", "Which city do you mean?"),
    ("status", "!status The light is green.", "completed", "The light is green."),
    ("message", "!message The door is shut.", "", "The door is shut."),
    ("input", "!input Please name a colour.", "input-required", "Please name a colour."),
    ("auth", "!auth Please log in.", "auth-required", ""),
    ("fail", "!fail The milk is gone.", "failed", "The milk is gone."),
    ("raise", "!raise The roof is off.", "failed", ""),
    ("two", "!two The kettle is on.", "completed", "The kettle is on."),
    ("silent", "!silent", "completed", ""),
];

struct Recording {
    name: String,
    raw: Bytes,
    /// The connection broke at its end.
    torn: bool,
    target: &'static str,
    request: Value,
}

/// What the client was told, and what settled.
#[derive(Debug)]
struct Outcome {
    told: String,
    settled: String,
}

impl Recording {
    fn of(peer: &str, case: &str, text: &str, dialect: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
        let name = format!("{peer}-{case}");
        let (raw, torn) = match fs::read(folder.join(format!("{name}.sse"))) {
            Ok(raw) => (raw, false),
            Err(_) => (fs::read(folder.join(format!("{name}.torn.sse"))).expect(&name), true),
        };
        let ids = json!({ "messageId": "m-1", "contextId": "c" });
        let rpc = |method: &str, message: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "message": message } });
        let (target, request) = match dialect {
            "0.3" => ("/", rpc("message/stream", message_03(text, ids))),
            "1.0" => ("/", rpc("SendStreamingMessage", message_10(text, ids))),
            "0.3 HTTP+JSON" => {
                let mut message = message_10(text, ids);
                message["content"] = message.as_object_mut().and_then(|message| message.remove("parts")).unwrap();
                ("/v1/message:stream", json!({ "message": message }))
            }
            _ => ("/rest/message:stream", json!({ "message": message_10(text, ids) })),
        };
        Self { name, raw: raw.into(), torn, target, request }
    }

    async fn replayed(&self, pieces: impl IntoIterator<Item = Bytes>) -> Outcome {
        let stage = Stage::default();
        let (proxy, _) = proxy(&stage);
        let feed = stage.stream();
        pieces.into_iter().for_each(|piece| feed.bytes(piece));
        if self.torn {
            feed.breaks();
        } else {
            drop(feed);
        }
        let answer = proxy.response_to(http::Method::POST, self.target, self.request.to_string()).await;
        let told = answer.into_body().collect().await.unwrap().to_bytes();
        let told = String::from_utf8(told.to_vec()).unwrap();
        settles_down(&proxy).await;
        let key = ContextKey { route: RouteId::default(), principal: Principal::default(), context_id: "c".into() };
        let found = proxy.store.context(&key).await.unwrap().expect("the context is known");
        assert!(found.in_flight.is_none() || self.name.ends_with("-auth"), "{}: {:?}", self.name, found.in_flight);
        let context = &found.context;
        let turns: Vec<_> = context.turns.iter().chain(&context.apart).map(|kept| kept.turn().unwrap()).collect();
        let settled = format!("{} of {turns:?}, {:?}, {}", context.turns.len(), context.tasks, context.rewrites);
        Outcome { told, settled }
    }

    /// Ids that the proxy minted are others each time.
    fn same(&self, one: &Outcome, other: &Outcome) -> bool {
        let same = |one: &str, other: &str| one == other || self.plain(one) == self.plain(other);
        // A line end more between two events is none.
        let told = |one: &Outcome| format!("{:?}", events(&one.told.replace("\r\n", "\n")));
        (one.told == other.told || same(&told(one), &told(other))) && same(&one.settled, &other.settled)
    }

    /// Without the UUIDs that are not the recording's.
    fn plain(&self, text: &str) -> String {
        let raw = std::str::from_utf8(&self.raw).unwrap();
        let is_id = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
        let mut plain = String::with_capacity(text.len());
        let mut rest = text;
        // A UUID is 36 long; its first dash is the ninth.
        while let Some(dash) = rest.find('-') {
            let from = dash.saturating_sub(8);
            match rest.get(from..from + 36).filter(|id| id.bytes().all(|byte| is_id(&byte)) && !raw.contains(id)) {
                Some(_) => {
                    plain += &rest[..from];
                    plain += "MINTED";
                    rest = &rest[from + 36..];
                }
                None => {
                    plain += &rest[..=dash];
                    rest = &rest[dash + 1..];
                }
            }
        }
        plain + rest
    }
}

async fn replay(peer: &str, dialect: &str, stride: usize) {
    for (case, text, closing, reply) in CASES {
        let recording = Recording::of(peer, case, text, dialect);
        let raw = &recording.raw;
        let whole = recording.replayed([raw.clone()]).await;
        let told = events(&whole.told.replace("\r\n", "\n"));
        let last = told.last().unwrap();
        let closes = if last.get("error").is_some() { "failed" } else { state(last) };
        let closes = closes.to_lowercase().replace("task_state_", "").replace('_', "-");
        assert_eq!(closes, closing, "{}: {}", recording.name, whole.told);
        assert!(whole.settled.contains(reply), "{}: {}", recording.name, whole.settled);
        for at in (0..=raw.len()).step_by(stride) {
            let cut = recording.replayed([raw.slice(..at), raw.slice(at..)]).await;
            assert!(recording.same(&cut, &whole), "{} at {at}: {cut:#?}\nwhole: {whole:#?}", recording.name);
        }
        let alone = recording.replayed((0..raw.len()).map(|at| raw.slice(at..=at))).await;
        assert!(recording.same(&alone, &whole), "{}, byte by byte: {alone:#?}\nwhole: {whole:#?}", recording.name);
    }
}

macro_rules! peers {
    ($($name:ident: $peer:literal, $dialect:literal, $stride:literal;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            replay($peer, $dialect, $stride).await;
        }
    )*};
}

peers! {
    py03: "py03", "0.3", 1;
    py10: "py10", "1.0", 1;
    py10compat_03: "py10compat-0.3", "0.3", 8;
    py10compat_10: "py10compat-1.0", "1.0", 8;
    js03: "js03", "0.3", 1;
    js10: "js10", "1.0", 1;
    js10compat_03: "js10compat-0.3", "0.3", 8;
    js10compat_10: "js10compat-1.0", "1.0", 8;
    py03_http: "py03http", "0.3 HTTP+JSON", 1;
    py10_http: "py10http", "1.0 HTTP+JSON", 4;
    js03_http: "js03http", "0.3 HTTP+JSON", 4;
    js10_http: "js10http", "1.0 HTTP+JSON", 4;
}

macro_rules! every_offset {
    ($($name:ident: $peer:literal, $dialect:literal;)*) => {$(
        #[tokio::test(start_paused = true)]
        #[ignore = "the long run: tests/long/ignored"]
        async fn $name() {
            replay($peer, $dialect, 1).await;
        }
    )*};
}

every_offset! {
    every_offset_of_py10compat_03: "py10compat-0.3", "0.3";
    every_offset_of_py10compat_10: "py10compat-1.0", "1.0";
    every_offset_of_js10compat_03: "js10compat-0.3", "0.3";
    every_offset_of_js10compat_10: "js10compat-1.0", "1.0";
    every_offset_of_py10_http: "py10http", "1.0 HTTP+JSON";
    every_offset_of_js03_http: "js03http", "0.3 HTTP+JSON";
    every_offset_of_js10_http: "js10http", "1.0 HTTP+JSON";
}
