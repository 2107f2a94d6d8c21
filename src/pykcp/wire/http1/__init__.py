"""HTTP/1.1, parsed by httptools."""
