"""Maintains the service account `default` in every active namespace."""

from __future__ import annotations

from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.namespaces import is_now_active, is_terminating
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import NAMESPACES, SERVICE_ACCOUNTS
from pykcp.machinery.status import AlreadyExists, StatusError

NAME = "service-account-controller"
ACCOUNT = "default"


class DefaultAccounts:
    def __init__(
        self, lister: Lister, client: Client, metrics: ControllerMetrics | None = None
    ) -> None:
        self._lister, self._client = lister, client
        self.controller = Controller(NAME, self.reconcile, workers=16, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(NAMESPACES, self._on_namespace)
        feed.on(SERVICE_ACCOUNTS, self._on_account)

    def _on_namespace(self, change: Change) -> None:
        if is_now_active(change):
            if change.created and self._has_account(change.cluster, change.name):
                return  # it came with its namespace
            self.controller.add(change.key)

    def _on_account(self, change: Change) -> None:
        is_one = change.deleted and change.name == ACCOUNT
        if is_one and self._lister.has(change.cluster, NAMESPACES, change.namespace):
            self.controller.add(ObjectKey(change.cluster, "", change.namespace))

    def _has_account(self, cluster: str, namespace: str) -> bool:
        return self._lister.has(cluster, SERVICE_ACCOUNTS, ACCOUNT, namespace)

    async def reconcile(self, key: ObjectKey) -> None:
        """The key is the namespace's."""
        cluster, _, namespace = key
        if self._has_account(cluster, namespace):
            return
        found = await self._client.get(cluster, NAMESPACES, namespace)
        if found is None or (found.get("status") or {}).get("phase") != "Active":
            return
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": namespace},
        }
        try:
            await self._client.create(cluster, SERVICE_ACCOUNTS, account)
        except AlreadyExists:
            return
        except StatusError as error:
            if not is_terminating(error):
                raise
