"""HTTP/2 (RFC 9113): a pure state machine and its driver."""
