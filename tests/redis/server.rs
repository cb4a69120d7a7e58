//! A Redis or Valkey of the test's own, on loopback, ended by its process id.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// What the tests run over.
pub const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// A running server.
pub struct Server {
    program: &'static str,
    arguments: Vec<String>,
    folder: TempDir,
    child: Child,
    /// Where it listens: 0 is on its socket alone.
    pub port: u16,
}

/// A port that is free: picked by the kernel.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// The same for a node of a cluster, which takes the port that is 10,000 higher too.
pub fn free_port_of_a_node() -> u16 {
    loop {
        let bus = free_port();
        if bus > 20_000 && TcpListener::bind((Ipv4Addr::LOCALHOST, bus - 10_000)).is_ok() {
            return bus - 10_000;
        }
    }
}

impl Server {
    /// Starts a server that listens on a socket in a folder of its own, and keeps nothing.
    pub fn on_socket(program: &'static str) -> Self {
        Self::start(program, 0, &["--save", "", "--appendonly", "no"])
    }

    /// Starts a server, and waits until it says that it is ready.
    pub fn start(program: &'static str, port: u16, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments: Vec<String> = more.iter().map(|argument| (*argument).to_owned()).collect();
        let child = run(program, port, &folder, &arguments);
        Self { program, arguments, folder, child, port }
    }

    /// The address of its socket.
    pub fn socket_url(&self) -> String {
        format!("redis+unix://{}/socket", self.folder.path().display())
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its folder, where what it keeps is.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, as a lost machine would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, over what it kept.
    pub fn restart(&mut self) {
        self.child = run(self.program, self.port, &self.folder, &self.arguments);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(program: &str, port: u16, folder: &TempDir, more: &[String]) -> Child {
    let at = folder.path().display().to_string();
    let mut child = Command::new(program)
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--unixsocket", &format!("{at}/socket")])
        .args(["--dir", &at, "--daemonize", "no", "--logfile", ""])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; the section `redis` of tests/run installs it"));
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said = Vec::new();
    let ready = told.by_ref().any(|line| {
        said.push(line.clone());
        line.contains("eady to accept connections")
    });
    assert!(ready, "{program} did not come up: {said:#?}");
    // It would stop if nobody read on.
    std::thread::spawn(move || told.for_each(drop));
    child
}
