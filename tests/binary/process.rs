//! The binary as a process.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::wire::{Message, Request, Wire, soon};

/// With a folder for state in which nobody else has any.
fn command<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_a2a-multiturn"));
    command
        .env("XDG_STATE_HOME", state)
        .env_remove("STATE_DIRECTORY")
        .args(args)
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// How a process ended, and what it printed.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs to the end.
pub async fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ended {
    fed(args, "").await
}

/// As [`run`], with this on its standard input.
pub async fn fed<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, input: &str) -> Ended {
    let state = tempfile::tempdir().unwrap();
    let mut child = command(args, state.path()).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // One that ends before it has read all of it is the business of the test.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = soon("the end of the process", child.wait_with_output()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ended { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// A configuration in a folder of its own.
pub struct File {
    folder: TempDir,
}

impl File {
    pub fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("proxy.toml"), text).unwrap();
        Self { folder }
    }

    /// Something beside it.
    pub fn beside(self, name: &str, text: &str) -> Self {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        self
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("proxy.toml")
    }
}

/// A running proxy.
pub struct Proxy {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    count: watch::Receiver<usize>,
    pub address: SocketAddr,
    _file: Option<File>,
    _state: TempDir,
}

impl Proxy {
    /// In front of an agent, without a file.
    pub async fn before(upstream: &str) -> Self {
        Self::start(["serve", "--listen", "127.0.0.1:0", "--upstream", upstream].map(OsStr::new), None).await
    }

    /// In front of an agent, with a store that outlives it.
    pub async fn keeping(upstream: &str, store: &str) -> Self {
        let args = ["serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--store", store];
        Self::start(args.map(OsStr::new), None).await
    }

    /// With a file, in which `listener.address` need not be.
    pub async fn with(text: &str) -> Self {
        Self::of(File::new(&with_address(text))).await
    }

    pub async fn of(file: File) -> Self {
        let path = file.path();
        Self::start([OsStr::new("serve"), OsStr::new("--config"), path.as_os_str()], Some(file)).await
    }

    /// With a file, and a store that others may share.
    #[cfg(feature = "redis")]
    pub async fn sharing(store: &str, text: &str) -> Self {
        let file = File::new(&with_address(text));
        Self::start(["serve", "--config", arg(&file.path()), "--store", store].map(OsStr::new), Some(file)).await
    }

    /// The same, with the certificate authorities of this file alone.
    #[cfg(feature = "redis")]
    pub async fn sharing_over_tls(store: &str, text: &str, authorities: &Path) -> Self {
        let file = File::new(&with_address(text));
        let state = tempfile::tempdir().unwrap();
        let mut command = command(["serve", "--config", arg(&file.path()), "--store", store], state.path());
        command.env("SSL_CERT_FILE", authorities);
        Self::of_command(command, state, Some(file)).await
    }

    async fn start<const N: usize>(args: [&OsStr; N], file: Option<File>) -> Self {
        let state = tempfile::tempdir().unwrap();
        Self::of_command(command(args, state.path()), state, file).await
    }

    async fn of_command(mut command: Command, state: TempDir, file: Option<File>) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (counter, count) = watch::channel(0);
        let (noted, mut stderr) = (Arc::clone(&lines), BufReader::new(child.stderr.take().unwrap()).lines());
        tokio::spawn(async move {
            while let Ok(Some(line)) = stderr.next_line().await {
                noted.lock().unwrap().push(line);
                counter.send_modify(|count| *count += 1);
            }
        });
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut proxy = Self { child, lines, count, address, _file: file, _state: state };
        let line = proxy.line("listening on ").await;
        let rest = line.split_once("listening on ").unwrap().1;
        proxy.address = rest.split(' ').next().unwrap().parse().unwrap();
        // It is the last that is said before it serves.
        proxy.line("store: ").await;
        proxy
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has printed so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for a line with these words.
    pub async fn line(&mut self, words: &str) -> String {
        let found = || self.lines().into_iter().find(|line| line.contains(words));
        let mut count = self.count.clone();
        let waited = tokio::time::timeout(super::wire::SOON, async {
            loop {
                if let Some(line) = found() {
                    return line;
                }
                if count.changed().await.is_err() {
                    return found().unwrap_or_else(|| panic!("ended without {words:?}: {:#?}", self.lines()));
                }
            }
        });
        waited.await.unwrap_or_else(|_| panic!("waited in vain for {words:?}: {:#?}", self.lines()))
    }

    /// The messages of its log, which is JSON here, and the start-up report's.
    pub fn messages(&self) -> Vec<String> {
        self.lines().iter().map(|line| message(line)).collect()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it runs").to_string();
        assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Its exit code, once it has ended.
    pub async fn ended(&mut self) -> Option<i32> {
        soon("the end of the proxy", self.child.wait()).await.unwrap().code()
    }

    pub async fn connect(&self) -> Wire {
        Wire::connect(self.address).await
    }

    /// One request on a connection of its own.
    pub async fn ask(&self, request: &Request) -> Message {
        self.connect().await.ask(request).await
    }

    pub async fn call(&self, path: &str, call: &Value) -> Value {
        self.ask(&Request::call(path, call)).await.json()
    }
}

/// The message of a line of JSON log; of any other line, the line.
pub fn message(line: &str) -> String {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|_| Value::from(line));
    event["fields"]["message"].as_str().map_or_else(|| line.to_owned(), str::to_owned)
}

fn with_address(text: &str) -> String {
    match text.contains("address =") {
        true => text.to_owned(),
        false if text.contains("[listener]") => text.replace("[listener]", "[listener]\naddress = '127.0.0.1:0'"),
        false => format!("[listener]\naddress = '127.0.0.1:0'\n{text}"),
    }
}

pub fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}
