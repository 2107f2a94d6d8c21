"""The objects of a namespace, as far as the operator has seen them.

What it has written itself counts at once: otherwise a certificate would be issued twice before
the first one comes back by the watch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from pykcp.clients.remote.feed import RemoteFeed
from pykcp.machinery.resources import GroupVersionResource
from pykcp.programs.operator.compiled import CONFIG_MAP, SECRET
from pykcp.programs.operator.drivers.kubernetes.driver import CONFIG_MAPS, HOST, SECRETS
from pykcp.programs.operator.kinds.definitions import defaulted
from pykcp.programs.operator.names import API_VERSION, KINDS
from pykcp.programs.operator.records import ConfigRecord, Records
from pykcp.types import Object

_CATCHES_UP = 30.0
"""Seconds after which a write that the watch does not show was undone by another writer."""


class NamespaceReader:
    def __init__(self, feed: RemoteFeed) -> None:
        self._feed = feed
        self._cluster = HOST
        """By what the feed knows the server; one that knows kcp names a logical cluster."""
        self._written: dict[tuple[str, str, str], tuple[Object, float]] = {}

    def objects(self, namespace: str) -> list[Object]:
        """Those of the operator's own kinds, with defaults."""
        found = []
        for kind, resource in KINDS.items():
            for obj in self._all(resource, namespace):
                obj |= {"apiVersion": API_VERSION, "kind": kind}
                found.append(defaulted(obj))
        return found

    def namespaces(self) -> set[str]:
        """Those that have objects of the operator."""
        return {
            key.namespace for resource in KINDS.values() for key in self._feed.lister.keys(resource)
        }

    def records(self, namespace: str) -> Records:
        made = {}
        for kind, resource in ((SECRET, SECRETS), (CONFIG_MAP, CONFIG_MAPS)):
            for obj in self._all(resource, namespace):
                made[kind, obj["metadata"]["name"]] = {**obj, "kind": kind}
        now = time.monotonic()
        for key, (obj, until) in [*self._written.items()]:
            of, kind, name = key
            seen = made.get((kind, name))
            if until < now or (seen is not None and _version(seen) >= _version(obj)):
                del self._written[key]
            elif of == namespace:
                made[kind, name] = obj
        return Records(ConfigRecord.from_object(obj) for obj in made.values())

    def wrote(self, namespace: str, obj: Object) -> None:
        key = (namespace, str(obj["kind"]), str(obj["metadata"]["name"]))
        self._written[key] = (obj, time.monotonic() + _CATCHES_UP)

    def get(self, resource: GroupVersionResource, namespace: str, name: str) -> Object | None:
        return self._feed.lister.get(self._cluster, resource, name, namespace)

    def _all(self, resource: GroupVersionResource, namespace: str) -> Iterator[Object]:
        for key in self._feed.lister.keys(resource):
            if key.namespace == namespace:
                self._cluster = key.cluster
                found = self._feed.lister.get(key.cluster, resource, key.name, namespace)
                if found is not None:
                    yield found


def _version(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)
