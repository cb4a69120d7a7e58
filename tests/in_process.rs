//! The example that users copy does what it says.

#[allow(dead_code, reason = "its main is not run here")]
#[path = "../examples/in_process.rs"]
mod example;

#[tokio::test]
async fn two_turns() {
    let mut out = Vec::new();
    example::talk(&mut out).await.unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(
        out.starts_with("sent:      My name is Ada\nwas given: My name is Ada\ncame back: Nice to meet you.\n"),
        "{out}"
    );
    assert!(out.contains("\"text\":\"My name is Ada\""), "{out}");
    assert!(out.ends_with("What is my name?\ncame back: You are Ada.\n\n"), "{out}");
}
