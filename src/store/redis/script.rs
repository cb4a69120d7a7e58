//! The scripts: what is done on the server in one step. None knows a rule of the conversation.

use std::sync::LazyLock;

use redis::{Cmd, Script, ToRedisArgs, cmd};

/// A script.
pub(super) struct Lua {
    text: &'static str,
    hash: LazyLock<String>,
}

macro_rules! scripts {
    ($($name:ident: $file:literal,)*) => {
        $(pub(super) static $name: Lua = Lua {
            text: include_str!($file),
            hash: LazyLock::new(|| Script::new(include_str!($file)).get_hash().to_owned()),
        };)*
    };
}

scripts! {
    READ: "lua/read.lua",
    WRITE: "lua/write.lua",
    ENTER: "lua/enter.lua",
    OWN: "lua/own.lua",
    STRIKE: "lua/strike.lua",
    PUSH: "lua/push.lua",
    TAKE: "lua/take.lua",
    DONE: "lua/done.lua",
}

impl Lua {
    pub(super) fn on<'k>(&'static self, keys: &'k [String]) -> Invocation<'k> {
        Invocation { lua: self, keys, arguments: Vec::new() }
    }
}

/// A script with its arguments.
pub(super) struct Invocation<'k> {
    lua: &'static Lua,
    keys: &'k [String],
    arguments: Vec<Vec<u8>>,
}

impl Invocation<'_> {
    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        argument.write_redis_args(&mut self.arguments);
        self
    }

    pub(super) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.lua.hash)
    }

    /// The text comes along: the server keeps it for the next time.
    pub(super) fn by_text(&self) -> Cmd {
        self.command("EVAL", self.lua.text)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        cmd(name).arg(script).arg(self.keys.len()).arg(self.keys).arg(&self.arguments).take()
    }
}
