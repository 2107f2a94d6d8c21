"""Concurrent clients, and clusters in which all users have all permissions."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Self

from pykcp.testing.client import Reply, TestClient
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess

_GROUP = "rbac.authorization.k8s.io"


class Flood:
    """Threads that send one request after the other, as fast as they can, until it is over."""

    def __init__(self, send: Callable[[int, int], Reply], threads: int) -> None:
        """`send` is given the number of its thread and of the round."""
        self._send = send
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(threads)
        ]
        self.replies: list[Reply] = []
        """With the beginnings of their bodies."""

    @property
    def codes(self) -> Counter[int]:
        return Counter(reply.status for reply in [*self.replies])

    def _run(self, number: int) -> None:
        for round_ in itertools.count():
            if self._is_over.is_set():
                return
            reply = self._send(number, round_)
            self.replies.append(Reply(reply.status, reply.headers, reply.body[:100]))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()


def make_open_cluster(shard: ServerProcess, name: str, users: Iterable[str]) -> TestClient:
    """A logical cluster in use, in which these users may do everything."""
    client = make_cluster(shard, name)
    status = {"status": {"phase": "Ready"}}
    path = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster/status"
    assert client.patch(path, status).status == 200
    binding = {
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": user} for user in users],
    }
    assert client.post(f"/apis/{_GROUP}/v1/clusterrolebindings", binding).status == 201
    return client
