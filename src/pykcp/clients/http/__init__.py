"""HTTP requests to other servers: HTTP/2, and HTTP/1.1 for servers that do not speak it."""
