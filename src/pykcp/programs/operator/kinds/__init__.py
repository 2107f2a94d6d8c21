"""The kinds of `operator.kcp.io`: schemas with defaults and rules, and the objects read by them."""
