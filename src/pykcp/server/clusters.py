"""From `/clusters/<path>` to a logical cluster's name: kcp's local proxy.

Names pass as they are; paths are looked up. What does not exist is refused in
kcp's words before anybody is asked who they are, so that the answer does not
depend on it.
"""

from __future__ import annotations

from typing import Protocol

from pykcp.machinery import clusters
from pykcp.machinery.status import BadRequest, NotFound
from pykcp.server.call import Call


class PathIndex(Protocol):
    def find(self, path: str) -> str | None:
        """The name of the logical cluster at a path of several segments, if it is here."""


class ClusterResolver:
    def __init__(self, index: PathIndex) -> None:
        self._index = index

    def resolve(self, call: Call) -> None:
        path = call.info.cluster
        if not path:
            if call.info.path.startswith("/clusters"):
                raise NotFound.path()
            if call.info.path == "/metrics":
                call.cluster = clusters.ROOT  # whose RBAC says who may read the shard's metrics
            return
        if call.info.path.startswith("/clusters/"):
            raise NotFound.path()
        if path == clusters.WILDCARD or clusters.is_system(path):
            return
        if not clusters.is_valid_path(path):
            raise BadRequest(f'invalid cluster: "{path}" does not match the regex')
        if ":" in path:
            name = self._index.find(path)
            if name is None:
                raise NotFound.resource("tenancy.kcp.io", "workspaces", path)
            call.cluster = name
