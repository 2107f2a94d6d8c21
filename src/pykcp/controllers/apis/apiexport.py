"""kcp-apiexport: gives every export an identity and a default endpoint slice.

The identity is the hash of a secret; another export with the same secret has the same identity.
"""

from __future__ import annotations

from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.apis.identity_secrets import BadIdentity, ensure_secret, identity_of
from pykcp.controllers.apis.metrics import ApiMetrics
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.fan_out import add_indexed, key_of
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_changes import follow_published_shards, follow_shards
from pykcp.machinery import meta
from pykcp.machinery.conditions import is_true
from pykcp.machinery.kcp.condition_marks import drop, mark_false, mark_true
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import (
    API_EXPORT_ENDPOINT_SLICES,
    API_EXPORTS,
    SECRETS,
    SHARDS,
)
from pykcp.machinery.status import AlreadyExists, NotFound, StatusError
from pykcp.registry.clock import Timestamps
from pykcp.registry.indexes.apis import OPEN_EXPORTS, exports_with_secret
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object

NAME = "kcp-apiexport"
IDENTITY_VALID = "IdentityValid"
URLS_READY = "VirtualWorkspaceURLsReady"
SKIP_SLICE = "apiexports.apis.kcp.io/skip-endpointslice"
URLS_GATE = "EnableDeprecatedAPIExportVirtualWorkspacesUrls"


class APIExports:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        lookup: ObjectLookup,
        now: Timestamps,
        *,
        shows_urls: bool = False,
        api_metrics: ApiMetrics | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """`shows_urls`: fill the old status field with the URLs of all shards."""
        self._lister, self._client, self._lookup, self._now = lister, client, lookup, now
        self._shows_urls, self._metrics = shows_urls, api_metrics
        self.controller = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(API_EXPORTS, self._on_export)
        feed.on(SECRETS, self._on_secret)
        feed.on(API_EXPORT_ENDPOINT_SLICES, self._on_slice)
        if self._shows_urls:
            follow_shards(feed, self._on_shard)
            follow_published_shards(self._lookup.replica, self._add_everything)
        feed.at_start(self._resume)
        if self._metrics is not None:
            self._metrics.exports.follow(feed)

    def _on_export(self, change: Change) -> None:
        if not change.deleted:
            self.controller.add(change.key)

    def _on_secret(self, change: Change) -> None:
        index = exports_with_secret(change.cluster, change.namespace, change.name)
        add_indexed(self.controller, self._lister, index, API_EXPORTS, key_of)

    def _on_slice(self, change: Change) -> None:
        """A default slice that is deleted comes back; its name is the export's."""
        if change.deleted:
            self.controller.add(change.key)

    def _on_shard(self, _: Change) -> None:
        self._add_everything()

    def _add_everything(self) -> None:
        for key in self._lister.keys(API_EXPORTS):
            self.controller.add(key)

    async def _resume(self) -> None:
        for ref in self._lister.find(OPEN_EXPORTS, API_EXPORTS):
            self.controller.add(ref.key)

    async def reconcile(self, key: ObjectKey) -> None:
        export = await self._lookup.read(API_EXPORTS, key.cluster, key.name)
        if export is None or meta.is_deleting(export):
            return
        if _secret_of(export) is None:
            export = await self._give_identity(key, export)
        after = {**export}
        await self._judge_identity(key, after)
        await self._ensure_slice(key, after)
        self._show_urls(key, after)
        await self._write(key, export, after)

    # --- identity

    async def _give_identity(self, key: ObjectKey, export: Object) -> Object:
        """Make a secret, or take the one that is there, and refer to it."""
        try:
            reference = await ensure_secret(self._client, key.cluster, key.name)
        except StatusError as error:
            message = f"Error creating identity secret: {error.message}"
            after = {**export}
            mark_false(after, IDENTITY_VALID, "IdentityGenerationFailed", message, self._now())
            await self._write(key, export, after)
            raise

        def refer(live: Object) -> None:
            spec = live["spec"] = {**(live.get("spec") or {})}
            spec["identity"] = {**(spec.get("identity") or {}), "secretRef": reference}

        return await self._client.change(key.cluster, API_EXPORTS, key.name, refer)

    async def _judge_identity(self, key: ObjectKey, export: Object) -> None:
        status = export["status"] = {**(export.get("status") or {})}
        try:
            known = status.get("identityHash") or ""
            secret = _secret_of(export) or {}
            status["identityHash"] = await identity_of(self._client, key.cluster, secret, known)
        except BadIdentity as error:
            reason = "IdentityVerificationFailed"
            mark_false(export, IDENTITY_VALID, reason, str(error), self._now())
        else:
            mark_true(export, IDENTITY_VALID, self._now())

    # --- where it is served

    async def _ensure_slice(self, key: ObjectKey, export: Object) -> None:
        if SKIP_SLICE in meta.annotations(export):
            return
        if await self._client.get(key.cluster, API_EXPORT_ENDPOINT_SLICES, key.name) is not None:
            return
        reference: Object = {"name": key.name}
        path = meta.annotation(export, PATH_ANNOTATION)
        if path:
            reference["path"] = path
        endpoint_slice: Object = {
            "apiVersion": "apis.kcp.io/v1alpha1",
            "kind": "APIExportEndpointSlice",
            "metadata": {
                "name": key.name,
                "ownerReferences": [
                    {
                        "apiVersion": "apis.kcp.io/v1alpha1",
                        "kind": "APIExport",
                        "name": key.name,
                        "uid": meta.uid(export),
                    }
                ],
            },
            "spec": {"export": reference},
        }
        try:
            await self._client.create(key.cluster, API_EXPORT_ENDPOINT_SLICES, endpoint_slice)
        except AlreadyExists:
            return

    def _show_urls(self, key: ObjectKey, export: Object) -> None:
        status = export["status"] = {**(export.get("status") or {})}
        if not self._shows_urls:
            drop(export, URLS_READY)
            export["status"].pop("virtualWorkspaces", None)
            return
        urls = {
            service_url(shard, "apiexport", key.cluster, key.name)
            for shard in self._lookup.all(SHARDS, "root")
        } - {""}
        status["virtualWorkspaces"] = [{"url": url} for url in sorted(urls)]
        mark_true(export, URLS_READY, self._now())

    async def _write(self, key: ObjectKey, before: Object, after: Object) -> None:
        if after.get("status") == before.get("status"):
            return
        try:
            await self._client.update(key.cluster, API_EXPORTS, after, "status")
        except NotFound:
            return
        if self._metrics is not None:
            self._metrics.exports.changed(before, after)
            if is_true(after, IDENTITY_VALID) and not is_true(before, IDENTITY_VALID):
                self._metrics.export_ready(after)


def _secret_of(export: Object) -> Object | None:
    found: Object | None = ((export.get("spec") or {}).get("identity") or {}).get("secretRef")
    return found


def service_url(shard: Object, view: str, cluster: str, name: str) -> str:
    """Where a shard serves a virtual workspace; "" if it serves none."""
    base = (shard.get("spec") or {}).get("virtualWorkspaceURL") or ""
    return f"{base.rstrip('/')}/services/{view}/{cluster}/{name}" if base else ""
