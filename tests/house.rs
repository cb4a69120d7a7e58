//! The house rules that a machine can hold.

mod imports;

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a folder, but what tools made there.
fn files(folder: &Path) -> Vec<PathBuf> {
    const MADE: [&str; 5] = [".git", ".peers", "__pycache__", "node_modules", "target"];
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if MADE.contains(&name) || name.ends_with(".log") => {}
            _ if kind.is_dir() => found.extend(files(&path)),
            _ if kind.is_file() => found.push(path),
            _ => {}
        }
    }
    found
}

/// What `cargo tree` prints. Without network: what it names was there to build this.
fn tree(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).args(["tree", "--offline", "--locked", "--prefix", "none", "--format", "{p}"]);
    let output = command.args(arguments).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn packages(tree: &str) -> Vec<&str> {
    tree.lines().filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn the_layer_alone_has_no_server_in_it() {
    const BINARY: [&str; 11] = [
        "axum",
        "clap",
        "fjall",
        "hyper",
        "hyper-rustls",
        "hyper-util",
        "redis",
        "rustls",
        "toml",
        "tower-http",
        "mio",
    ];
    let (alone, whole) = (tree(&["--no-default-features", "-e", "normal"]), tree(&["-e", "normal"]));
    let (alone, whole) = (packages(&alone), packages(&whole));
    assert!(alone.contains(&"a2a-multiturn") && whole.contains(&"clap") && whole.contains(&"rustls"), "{whole:?}");
    for name in BINARY {
        assert!(!alone.contains(&name), "{name} in {alone:?}");
    }
}

#[test]
fn there_is_one_crypto_provider() {
    let all = tree(&["-e", "normal,build,dev"]);
    assert!(packages(&all).contains(&"aws-lc-rs"));
    for name in ["ring", "openssl", "openssl-sys", "native-tls"] {
        assert!(!packages(&all).contains(&name), "{name}");
    }
}

#[test]
fn lints_are_as_promised() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    for (tool, lint, level) in [
        ("rust", "unsafe_code", "forbid"),
        ("rust", "missing_docs", "warn"),
        ("rustdoc", "broken_intra_doc_links", "warn"),
        ("clippy", "await_holding_invalid_type", "warn"),
        ("clippy", "dbg_macro", "warn"),
        ("clippy", "print_stdout", "warn"),
        ("clippy", "todo", "warn"),
    ] {
        assert_eq!(manifest["lints"][tool].get(lint).and_then(toml::Value::as_str), Some(level), "{tool} {lint}");
    }
}

/// What is on one person's machine is on no other.
#[test]
fn no_file_names_a_place_on_somebodys_machine() {
    // Put together here, so that this file is not one that names them.
    let places = [["/ro", "ot/"], ["/wo", "rk/"], ["/ho", "me/"], ["/Us", "ers/"], ["../sha", "red"]]
        .map(|parts| parts.concat());
    let mut found = Vec::new();
    for path in files(root()) {
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for (at, line) in text.lines().enumerate() {
            let named = places.iter().any(|place| line.match_indices(&**place).any(|(at, _)| begins_a_path(line, at)));
            found.extend(named.then(|| format!("{}:{}: {line}", path.display(), at + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Behind a host or another folder it is part of a longer path.
fn begins_a_path(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '}')
}
