//! JSON as bytes: one borrowed pass that remembers where things stand, and edits that leave every other byte as it came.
