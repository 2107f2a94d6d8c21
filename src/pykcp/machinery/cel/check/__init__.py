"""Types: what an expression may refer to, and whether it is well-typed."""
