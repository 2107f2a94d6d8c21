"""kcp-cluster-cached-resources-controller: reconciles ClusterCachedResources.

Each gets a finalizer, an identity and annotations with the names of its resource for the cache
server; then its objects are copied (`cached_copies`) and counted.
"""

from __future__ import annotations

from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.apis.identity_secrets import BadIdentity, ensure_secret, identity_of
from pykcp.controllers.cache.cached_copies import CachedCopies, RequestedCopies
from pykcp.controllers.cache.published import Copy, PublishedCopies
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.object_keys import ObjectKey, resource_id
from pykcp.machinery.resources import (
    API_BINDINGS,
    CLUSTER_CACHED_RESOURCES,
    CUSTOM_RESOURCE_DEFINITIONS,
    LOGICAL_CLUSTERS,
    SECRETS,
    GroupVersionResource,
)
from pykcp.machinery.status import NotFound, StatusError, qualified
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.clock import Timestamps
from pykcp.registry.codec import copy as deep_copy
from pykcp.registry.resource import Resource
from pykcp.types import Object

NAME = "kcp-cluster-cached-resources-controller"
FINALIZER = "cache.kcp.io/clustercachedresource"
KIND_ANNOTATION = "cache.kcp.io/resource-kind"
SCOPE_ANNOTATION = "cache.kcp.io/resource-scope"
VALID, STARTED, IDENTITY_VALID = "ResourceValid", "ReplicationStarted", "IdentityValid"
_OWN = kind_id(CLUSTER_CACHED_RESOURCES)
_COUNT_SECONDS = 0.05
"""Counts may be so old: a thousand objects are not counted a thousand times."""


class CachedResources:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        directory: Directory,
        published: PublishedCopies,
        shard: str,
        now: Timestamps,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._directory = lister, client, directory
        self._published, self._now = published, now
        self._clusters: set[str] = set()
        """Logical clusters with ClusterCachedResources; events in other clusters are ignored."""
        self.controller: Controller[ObjectKey] = Controller(NAME, self.reconcile, metrics=metrics)
        self.copies = CachedCopies(lister, client, published, shard, self._count_soon, metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(CLUSTER_CACHED_RESOURCES, self._on_own)
        for kind in (SECRETS, CUSTOM_RESOURCE_DEFINITIONS, API_BINDINGS):
            feed.on(kind, self._on_other)
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)
        feed.at_start(self._resume)
        self._published.listen(self._on_copy)

    async def _resume(self) -> None:
        for key in self._lister.keys(CLUSTER_CACHED_RESOURCES):
            self._add(key)

    def _on_own(self, change: Change) -> None:
        self._add(change.key)

    def _add(self, key: ObjectKey) -> None:
        self._clusters.add(key.cluster)
        self.controller.add(key)

    def _on_other(self, change: Change) -> None:
        """A secret may be the identity, a definition the one that is waited for."""
        cluster = change.cluster
        if cluster in self._clusters:
            for key in self._lister.keys(CLUSTER_CACHED_RESOURCES, cluster):
                self._add(key)

    def _on_cluster(self, change: Change) -> None:
        if change.deleted:
            self._clusters.discard(change.cluster)

    def _on_copy(self, copy: Copy) -> None:
        if copy.resource == _OWN:
            self.controller.add(ObjectKey(copy.cluster, "", copy.name))

    def _count_soon(self, key: ObjectKey) -> None:
        self.controller.add_after(key, _COUNT_SECONDS)

    async def reconcile(self, key: ObjectKey) -> None:
        found = await self._client.get(key.cluster, CLUSTER_CACHED_RESOURCES, key.name)
        if found is None:
            self.copies.forget(key)
        elif meta.is_deleting(found):
            await self._let_go(key, found)
        else:
            await self._tend(key, found)

    async def _tend(self, key: ObjectKey, found: Object) -> None:
        resource = self._resource(key.cluster, found)
        try:
            found = await self._prepare(key, found, resource)
        except NotFound:
            return
        after = deep_copy(found)
        after.setdefault("status", {})
        wanted = await self._judge(key, after, resource)
        if wanted is not None:
            is_new = self.copies.want(wanted)
            after["status"]["phase"] = "Ready"
            after["status"]["resourceCounts"] = await self._counts(wanted)
            mark_true(after, VALID, self._now())
            mark_true(after, STARTED, self._now())
            if is_new and await self._is_known(key, wanted.identity):
                await self.copies.compare(wanted)
            elif is_new:
                self.copies.forget(key)  # the cache has to know it first; then we are called again
        else:
            self.copies.forget(key)
        await self._write_status(key, found, after)

    def _resource(self, cluster: str, found: Object) -> Resource | None:
        return self._directory.find(cluster, *kind_of(found))

    async def _is_known(self, key: ObjectKey, identity: str) -> bool:
        """Whether the cache could serve the copies."""
        copy = await self._published.get(CLUSTER_CACHED_RESOURCES, key.cluster, key.name)
        if copy is None or not meta.annotation(copy, KIND_ANNOTATION):
            return False
        known: bool = (copy.get("status") or {}).get("identityHash") == identity
        return known

    async def _prepare(self, key: ObjectKey, found: Object, resource: Resource | None) -> Object:
        """Finalizer, annotations and the reference to a secret, in one write if any is missing."""
        named = {} if resource is None or resource.namespaced else names_of(resource)
        annotations = meta.annotations(found)
        has_all = all(annotations.get(name) == value for name, value in named.items())
        needs_secret = bool(named) and secret_of(found) is None
        if FINALIZER in meta.finalizers(found) and has_all and not needs_secret:
            return found
        reference = await self._secret(key, found) if needs_secret else None

        def complete(live: Object) -> None:
            metadata = live["metadata"]
            if FINALIZER not in meta.finalizers(live):
                metadata["finalizers"] = [*meta.finalizers(live), FINALIZER]
            if named:
                metadata["annotations"] = {**meta.annotations(live), **named}
            if reference is not None:
                identity = live["spec"].get("identity") or {}
                live["spec"]["identity"] = {**identity, "secretRef": reference}

        return await self._client.change(key.cluster, CLUSTER_CACHED_RESOURCES, key.name, complete)

    async def _secret(self, key: ObjectKey, found: Object) -> Object:
        try:
            return await ensure_secret(self._client, key.cluster, key.name)
        except StatusError as error:
            after = deep_copy(found)
            text = f"Error creating identity secret: {error.message}"
            mark_false(after, IDENTITY_VALID, "IdentityGenerationFailed", text, self._now())
            await self._write_status(key, found, after)
            raise

    async def _judge(
        self, key: ObjectKey, after: Object, resource: Resource | None
    ) -> RequestedCopies | None:
        """What is to be copied; None, and conditions that say why not."""
        if resource is None:
            return None
        kind, now = kind_of(after), self._now()
        if resource.namespaced:
            text = f"Resource {qualified(kind.group, kind.resource)} is not cluster-scoped"
            mark_false(after, VALID, "ResourceNotClusterScoped", text, now)
            return None
        status = after["status"]
        try:
            status["identityHash"] = await identity_of(
                self._client, key.cluster, secret_of(after) or {}, status.get("identityHash") or ""
            )
        except BadIdentity as error:
            mark_false(after, IDENTITY_VALID, "IdentityVerificationFailed", str(error), now)
            return None
        mark_true(after, IDENTITY_VALID, now)
        return RequestedCopies(key, resource, kind, status["identityHash"], selector_text(after))

    async def _counts(self, wanted: RequestedCopies) -> Object:
        cluster = wanted.owner.cluster
        local = await self._lister.count(wanted.stored, cluster, labels=wanted.labels)
        return {"cache": len(self._published.names(wanted.cached, cluster)), "local": local}

    async def _let_go(self, key: ObjectKey, found: Object) -> None:
        """Take the copies away, then the finalizer."""
        self.copies.forget(key)
        if FINALIZER not in meta.finalizers(found):
            return
        await self.copies.remove_mark(key)
        identity = (found.get("status") or {}).get("identityHash") or ""
        kind = kind_of(found)
        cached = resource_id(kind.group, kind.resource, identity)
        names = self._published.names(cached, key.cluster) if identity else []
        if names:
            await self._show_leaving(key, found)
        for name in names:
            await self._published.purge(kind, identity, key.cluster, name)

        def release(live: Object) -> None:
            left = [f for f in meta.finalizers(live) if f != FINALIZER]
            live["metadata"]["finalizers"] = left

        try:
            await self._client.change(key.cluster, CLUSTER_CACHED_RESOURCES, key.name, release)
        except NotFound:
            return

    async def _show_leaving(self, key: ObjectKey, found: Object) -> None:
        after = deep_copy(found)
        after["status"]["phase"] = "Deleting"
        mark_false(after, VALID, "Deleting", "Published resource deleting", self._now())
        await self._write_status(key, found, after)

    async def _write_status(self, key: ObjectKey, before: Object, after: Object) -> None:
        status = after.get("status") or {}
        if status == (before.get("status") or {}):
            return

        def change(live: Object) -> None:
            live["status"] = status

        try:
            await self._client.change(
                key.cluster, CLUSTER_CACHED_RESOURCES, key.name, change, subresource="status"
            )
        except NotFound:
            return


def kind_of(found: Object) -> GroupVersionResource:
    spec = found["spec"]
    return GroupVersionResource(
        spec.get("group") or "", spec.get("version") or "", spec["resource"]
    )


def names_of(resource: Resource) -> dict[str, str]:
    """What the cache has to know of a resource in order to serve it."""
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return {KIND_ANNOTATION: resource.kind, SCOPE_ANNOTATION: scope}


def secret_of(found: Object) -> Object | None:
    reference: Object | None = (found["spec"].get("identity") or {}).get("secretRef")
    return reference


def selector_text(found: Object) -> str:
    """Only labels that have to match exactly count, as in kcp."""
    wanted = (found["spec"].get("labelSelector") or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(wanted.items()))
