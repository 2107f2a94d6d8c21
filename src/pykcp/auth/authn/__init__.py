"""Authentication: one file per kind of credential, and the chain that tries them."""
