"""Which types are synced, and how the cluster serves them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.types import Object

NEVER_SYNCED = frozenset(
    (("", "namespaces"), ("", "events"), ("events.k8s.io", "events"), ("", "nodes"))
)
"""Namespaces are mapped to others; the rest is of one cluster only."""
ACCEPTED = "Accepted"
"""The state of a type that is synchronized."""
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?").fullmatch


class Discovering(Protocol):
    """A client that reads documents of a server."""

    async def send(self, method: str, target: str, body: Object | None = None) -> Object: ...


@dataclass(frozen=True, slots=True)
class WantedType:
    """A type as it is named by users; the version is chosen by the cluster if it is empty."""

    group: str
    resource: str
    version: str = ""

    def __str__(self) -> str:
        return ".".join(part for part in (self.resource, self.version, self.group) if part)


@dataclass(frozen=True, slots=True)
class ServedType:
    kind: GroupVersionResource
    is_namespaced: bool
    has_status: bool


def synced_types(cluster: Object, *, is_accepted: bool) -> tuple[str, ...]:
    """The types that the status of a Cluster lists, with their versions: those to synchronize, or
    the others, of which something may be left from before.
    """
    listed = (cluster.get("status") or {}).get("syncedResources") or ()
    return tuple(
        ".".join(one[part] for part in ("resource", "version", "group") if one.get(part))
        for one in listed
        if (one.get("state") == ACCEPTED) is is_accepted
    )


def parse_type(text: str) -> WantedType:
    """`deployments.apps`, `configmaps`, or with a version: `deployments.v1.apps`."""
    resource, _, rest = text.partition(".")
    version, _, group = rest.partition(".")
    if _VERSION(version):
        return WantedType(group, resource, version)
    return WantedType(rest, resource)


async def served_type(client: Discovering, wanted: WantedType) -> ServedType | None:
    """How the server serves a type; None if it does not. Raises StatusError if it cannot be asked."""
    version = wanted.version
    try:
        if not version:
            version = await _preferred_version(client, wanted.group)
        path = f"/apis/{wanted.group}/{version}" if wanted.group else f"/api/{version}"
        document = await client.send("GET", path)
    except NotFound:
        return None
    listed = {entry["name"]: entry for entry in document.get("resources") or ()}
    found = listed.get(wanted.resource)
    if found is None or not {"list", "watch", "patch"} <= set(found.get("verbs") or ()):
        return None
    return ServedType(
        GroupVersionResource(wanted.group, version, wanted.resource),
        bool(found.get("namespaced")),
        f"{wanted.resource}/status" in listed,
    )


async def _preferred_version(client: Discovering, group: str) -> str:
    if not group:
        return "v1"
    document = await client.send("GET", f"/apis/{group}")
    version: str = document["preferredVersion"]["version"]
    return version
