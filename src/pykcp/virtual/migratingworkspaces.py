"""`/services/migratingworkspaces/clusters/<cluster>/…`: a logical cluster during migration.

The destination shard reads the stored entries of a logical cluster here, page by page (gate
`LogicalClusterMigration`). Only other shards have access, and only during the migration.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from pykcp.auth.authz.attributes import Decision, Verdict
from pykcp.auth.user import EXTERNAL_LOGICAL_CLUSTER_ADMIN
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Forbidden, NotFound
from pykcp.registry.keys import resource_prefix
from pykcp.registry.moving.outgoing import MIGRATING
from pykcp.registry.resource import Resource
from pykcp.registry.stored import StoreReader
from pykcp.server.call import Call, Handler
from pykcp.server.media.answers import PageNotFound, send_object
from pykcp.server.media.bodies import read_sent, sent_of
from pykcp.types import Object
from pykcp.virtual.framework import FixedView, Parts, Visit, restricted, split_clusters

DUMPS = GroupVersionResource("migration.kcp.io", "v1alpha1", "logicalclusterdumps")
PATH = f"/apis/{DUMPS.group}/{DUMPS.version}/{DUMPS.resource}"
_ENTRIES, _BYTES = 1000, 2 * 1024 * 1024
_NOT_ONE_OF_US = f"user is not in group {EXTERNAL_LOGICAL_CLUSTER_ADMIN}"


class MigratingWorkspaces:
    name = "migratingworkspaces"
    checks: tuple[str, ...] = ("migratingworkspaces",)

    def __init__(self, parts: Parts) -> None:
        base = parts.directory.find_system(*DUMPS)
        assert base is not None
        # Upstream's definition is namespaced, which makes no difference: it is never stored.
        shown = base.viewed(definition=restricted(base.definition, ("create",), {}))
        shown.namespaced = False
        self._view = DumpView(shown, parts)

    def visit(self, path: str) -> Visit | None:
        place = split_clusters(path)
        if place is None or place[0] == WILDCARD:
            return None
        return Visit(self._view, *place)


class DumpView(FixedView):
    def __init__(self, resource: Resource, parts: Parts) -> None:
        super().__init__({DUMPS: resource})
        self._parts = parts

    async def authorize(self, call: Call) -> Decision:
        if EXTERNAL_LOGICAL_CLUSTER_ADMIN in call.user.groups:
            return Decision(Verdict.ALLOW)
        return Decision(Verdict.DENY, _NOT_ONE_OF_US)

    async def enter(self, call: Call) -> None:
        if call.info.path != PATH:
            raise PageNotFound
        if EXTERNAL_LOGICAL_CLUSTER_ADMIN not in call.user.groups:
            raise Forbidden.resource(DUMPS.group, DUMPS.resource, "", _NOT_ONE_OF_US)

    def handler(self, call: Call) -> Handler | None:
        return self._dump

    def _dump(self, call: Call) -> None:
        found = self._parts.lookup.logical_cluster(call.cluster)
        annotations = (found["metadata"].get("annotations") or {}) if found is not None else {}
        if not annotations.get(MIGRATING):
            raise NotFound.resource(DUMPS.group, DUMPS.resource, call.cluster)
        asked: Object = {}
        if call.exchange.request.body:
            asked = read_sent(sent_of(call), call.resource, call.context.warn)
        spec = asked.get("spec") or {}
        entries, token = page(
            call.resource.services.store,
            list(self._prefixes(call.cluster)),
            spec.get("continue") or "",
            spec.get("limit") or 0,
            spec.get("maxBytes") or 0,
        )
        status: Object = {"entries": entries}
        if token:
            status["continue"] = token
        head = {"kind": "LogicalClusterDump", "apiVersion": f"{DUMPS.group}/{DUMPS.version}"}
        metadata = asked.get("metadata") or {}
        send_object(call, {**head, "metadata": metadata, "spec": spec, "status": status}, 201)

    def _prefixes(self, cluster: str) -> Iterator[str]:
        """Where the cluster's objects are, in the order of keys."""
        definitions = self._parts.directory.definitions(cluster)
        prefixes = {resource_prefix(*d.storage, d.identity) for d in definitions if not d.ephemeral}
        return (f"{prefix}{cluster}/" for prefix in sorted(prefixes))


def page(
    store: StoreReader, prefixes: list[str], token: str, limit: int, size: int
) -> tuple[list[Object], str]:
    """Entries from a key on, and the key where the next page begins; at least one if any."""
    limit, size = limit if limit > 0 else _ENTRIES, size if size > 0 else _BYTES
    entries: list[Object] = []
    total = 0
    for prefix in prefixes:
        for key in store.keys(prefix):
            entry = store.get(key) if key >= token else None
            if entry is None:
                continue
            if len(entries) >= limit or (entries and total + len(entry.value) > size):
                return entries, key
            entries.append({"key": key, "value": base64.b64encode(entry.value).decode()})
            total += len(entry.value)
    return entries, ""
