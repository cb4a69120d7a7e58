//! The `a2a-multiturn` command.

fn main() {}
