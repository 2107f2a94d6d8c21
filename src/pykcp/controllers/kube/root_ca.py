"""Publishes the server's CA in a ConfigMap of every active namespace.

The ConfigMap is restored when it is deleted or changed. If the CA differs from that of the last
start, every namespace is reconciled once: `default` in `root` records which CA was published
last and is therefore updated after all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pykcp.clients.interface import Client
from pykcp.controllers.runtime.controller import Controller, ObjectKey
from pykcp.controllers.runtime.feed import LogFeed
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.namespaces import is_active_event, is_terminating
from pykcp.machinery import meta
from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.resources import CONFIG_MAPS, NAMESPACES
from pykcp.machinery.status import AlreadyExists, NotFound, StatusError
from pykcp.registry.codec import decode
from pykcp.registry.keys import resource_prefix, split_key
from pykcp.storage.interface import Event, Query, Store
from pykcp.types import Object

NAME = "root-ca-cert-publisher"
CONFIG_MAP = "kube-root-ca.crt"
DESCRIPTION_ANNOTATION = "kubernetes.io/description"
DESCRIPTION = (
    "The certificate authorities by which clients inside can check that they talk to this API "
    "server. It is kept by the server; do not rely on it for anything else."
)
_NAMESPACES = resource_prefix("", NAMESPACES.resource)
_LAST = ObjectKey(ROOT, "", "default")
_AT_A_TIME = 32


class RootCA:
    def __init__(
        self,
        store: Store,
        client: Client,
        ca_bundle: str,
        metrics: ControllerMetrics | None = None,
        also_visit: Callable[[ObjectKey], Awaitable[None]] | None = None,
    ) -> None:
        """`also_visit` is called for every namespace when the CA is another one."""
        self._store, self._client = store, client
        self._also_visit = also_visit
        self._data = {"ca.crt": ca_bundle}
        self._is_visiting = not self._is_right(self._found(_LAST))
        self.controller = Controller(NAME, self.reconcile, workers=16, metrics=metrics)

    def follow(self, feed: LogFeed) -> None:
        feed.on(_NAMESPACES, self._on_namespace)
        feed.on(resource_prefix("", CONFIG_MAPS.resource), self._on_config_map)
        feed.at_start(self._visit_all)

    def _on_namespace(self, event: Event) -> None:
        if is_active_event(event):
            parts = split_key(event.key)
            key = ObjectKey(parts.cluster, "", parts.name)
            if event.created and self._is_right(self._found(key)):
                return  # it came with its namespace
            self.controller.add(key)

    def _on_config_map(self, event: Event) -> None:
        if not event.created and event.key.endswith(f"/{CONFIG_MAP}"):
            parts = split_key(event.key)
            if event.deleted and self._is_gone(parts.cluster, parts.namespace):
                return
            self.controller.add(ObjectKey(parts.cluster, "", parts.namespace))

    def _is_gone(self, cluster: str, namespace: str) -> bool:
        return self._client.get(cluster, NAMESPACES, namespace) is None

    async def _visit_all(self) -> None:
        """Publish another CA everywhere; a failure ends this, and it is begun again."""
        if not self._is_visiting:
            return
        after = ""
        while True:
            page = await self._store.list(Query(_NAMESPACES, after=after, limit=_AT_A_TIME))
            keys = [_key_of(decode(value)) for value in page.values]
            await asyncio.gather(*(self._visit(key) for key in keys))
            if not page.next_after:
                break
            after = page.next_after
        self._is_visiting = False
        self.controller.add(_LAST)

    async def _visit(self, key: ObjectKey) -> None:
        await self.reconcile(key)
        if self._also_visit is not None:
            await self._also_visit(key)

    async def reconcile(self, key: ObjectKey) -> None:
        """The key is the namespace's."""
        if key == _LAST and self._is_visiting:
            return
        found = self._found(key)
        if self._is_right(found):
            return
        cluster, _, namespace = key
        try:
            if found is None:
                await self._client.create(
                    cluster, CONFIG_MAPS, ca_map(namespace, self._data["ca.crt"])
                )
            else:
                await self._client.change(
                    cluster, CONFIG_MAPS, CONFIG_MAP, self._restore, namespace
                )
        except AlreadyExists:
            self.controller.add(key)  # a concurrent write: check whether it is correct
        except NotFound:
            return  # the namespace is gone, or the object went, of which there is another event
        except StatusError as error:
            if not is_terminating(error):
                raise

    def _found(self, key: ObjectKey) -> Object | None:
        return self._client.get(key.cluster, CONFIG_MAPS, CONFIG_MAP, key.name)

    def _is_right(self, found: Object | None) -> bool:
        return (
            found is not None
            and found.get("data") == self._data
            and bool(meta.annotation(found, DESCRIPTION_ANNOTATION))
        )

    def _restore(self, live: Object) -> None:
        live["data"] = self._data
        meta.set_annotation(live, DESCRIPTION_ANNOTATION, DESCRIPTION)


def ca_map(namespace: str, ca_bundle: str) -> Object:
    """The ConfigMap with the CA."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": CONFIG_MAP,
            "namespace": namespace,
            "annotations": {DESCRIPTION_ANNOTATION: DESCRIPTION},
        },
        "data": {"ca.crt": ca_bundle},
    }


def _key_of(namespace: Object) -> ObjectKey:
    return ObjectKey(meta.cluster(namespace), "", meta.name(namespace))
