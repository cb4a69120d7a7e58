//! The agent card, as the proxy shows it.
