"""pykcp: a kcp-compatible control plane in Python."""

__version__ = "0.1.0"
