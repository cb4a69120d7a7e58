//! Sockets: the listener and its routes, the upstream and its connections.
