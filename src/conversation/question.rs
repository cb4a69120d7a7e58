//! Whether the agent is waiting for the user.
