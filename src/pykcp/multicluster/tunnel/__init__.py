"""Connections that a syncer opens outward, and on which the control plane then sends requests."""

PROTOCOL = "kcp-syncer-tunnel"
"""What the connection is switched to: HTTP, with the syncer as the server."""
PATH = "/tunnel"
"""Below the virtual workspace of a syncer."""
IDLE_SECONDS = 60.0
"""After which the control plane closes a connection that it has not used. The syncer opens a new
one: connections that were lost on the way are not relied upon for longer."""
SERVER_HEADER, SERVERS_HEADER = "kcp-server", "kcp-servers"
"""Of the answer to a syncer: which server it is connected with, and how many there are."""
