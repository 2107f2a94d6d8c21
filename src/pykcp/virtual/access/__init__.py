"""`/services/access/clusters/<workspace>/…`: explanations of access decisions. Not in kcp."""

from pykcp.virtual.access.workspace import AccessWorkspace

__all__ = ["AccessWorkspace"]
