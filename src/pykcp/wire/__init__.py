"""HTTP/2 and HTTP/1.1 over TLS, for a server that moves bytes.

This layer knows nothing of Kubernetes.
The rest of the server sees `exchange` (requests, answers, streams) and starts a `Listener`.
`http2`, `hpack`, `huffman`, `frames` and `heads` are pure: no event loop, no clock, no socket.
It imports only the standard library, httptools and wsproto.
"""
