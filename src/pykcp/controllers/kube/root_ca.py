"""Publishes the server's CA in a ConfigMap of every active namespace.

The ConfigMap is restored when it is deleted or changed. If the CA differs from that of the last
start, every namespace is reconciled once: `default` in `root` records which CA was published
last and is therefore updated after all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.namespaces import is_now_active, is_terminating
from pykcp.machinery import meta
from pykcp.machinery.kcp.clusters import ROOT, WILDCARD
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import CONFIG_MAPS, NAMESPACES
from pykcp.machinery.status import AlreadyExists, NotFound, StatusError
from pykcp.types import Object

NAME = "root-ca-cert-publisher"
CONFIG_MAP = "kube-root-ca.crt"
DESCRIPTION_ANNOTATION = "kubernetes.io/description"
DESCRIPTION = (
    "The certificate authorities by which clients inside can check that they talk to this API "
    "server. It is kept by the server; do not rely on it for anything else."
)
_LAST = ObjectKey(ROOT, "", "default")
_AT_A_TIME = 32


class RootCA:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        ca_bundle: str,
        metrics: ControllerMetrics | None = None,
        also_visit: Callable[[ObjectKey], Awaitable[None]] | None = None,
    ) -> None:
        """`also_visit` is called for every namespace when the CA is another one."""
        self._lister, self._client = lister, client
        self._also_visit = also_visit
        self._data = {"ca.crt": ca_bundle}
        self._is_visiting = not self._is_right(self._found(_LAST))
        self.controller = Controller(NAME, self.reconcile, workers=16, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(NAMESPACES, self._on_namespace)
        feed.on(CONFIG_MAPS, self._on_config_map)
        feed.at_start(self._visit_all)

    def _on_namespace(self, change: Change) -> None:
        if is_now_active(change):
            key = change.key
            if change.created and self._is_right(self._found(key)):
                return  # it came with its namespace
            self.controller.add(key)

    def _on_config_map(self, change: Change) -> None:
        if not change.created and change.name == CONFIG_MAP:
            if change.deleted and not self._lister.has(
                change.cluster, NAMESPACES, change.namespace
            ):
                return
            self.controller.add(ObjectKey(change.cluster, "", change.namespace))

    async def _visit_all(self) -> None:
        """Publish another CA everywhere; a failure ends this, and it is begun again."""
        if not self._is_visiting:
            return
        async for page in self._client.pages(WILDCARD, NAMESPACES, size=_AT_A_TIME):
            await asyncio.gather(*(self._visit(_key_of(namespace)) for namespace in page))
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
        return self._lister.get(key.cluster, CONFIG_MAPS, CONFIG_MAP, key.name)

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
