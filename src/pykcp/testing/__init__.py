"""A public test kit: servers to test against, and a small client to talk to them."""
