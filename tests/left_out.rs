//! What `cargo test` alone leaves out, since it needs more than Rust: its list of ignored tests says so. Asked for with `--ignored`, each runs
//! the section of `tests/run` that it stands for.

use std::process::Command;

fn section(name: &str) {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run");
    assert!(Command::new(run).arg(name).status().unwrap().success(), "tests/run {name}");
}

#[test]
#[ignore = "needs the A2A SDKs: tests/run peers"]
fn peers() {
    section("peers");
}

#[test]
#[ignore = "needs the A2A SDKs: tests/run mixed"]
fn mixed() {
    section("mixed");
}

#[test]
#[ignore = "needs the A2A SDKs: tests/run hostile"]
fn hostile() {
    section("hostile");
}

#[test]
#[ignore = "needs the A2A SDKs: tests/run control"]
fn control() {
    section("control");
}

#[test]
#[ignore = "needs Python: tests/run vectors"]
fn vectors() {
    section("vectors");
}

#[test]
#[ignore = "needs cargo-deny: tests/run deny"]
fn deny() {
    section("deny");
}
