"""Every active namespace has a service account `default`; it comes back when it is deleted."""

from __future__ import annotations

from pykcp.clients.interface import Client
from pykcp.controllers.runtime.controller import Controller, ObjectKey
from pykcp.controllers.runtime.feed import LogFeed
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.namespaces import is_active_event, is_terminating
from pykcp.machinery.resources import NAMESPACES, SERVICE_ACCOUNTS
from pykcp.machinery.status import AlreadyExists, StatusError
from pykcp.registry.keys import resource_prefix, split_key
from pykcp.storage.interface import Event

NAME = "service-account-controller"
ACCOUNT = "default"


class DefaultAccounts:
    def __init__(self, client: Client, metrics: ControllerMetrics | None = None) -> None:
        self._client = client
        self.controller = Controller(NAME, self.reconcile, workers=16, metrics=metrics)

    def follow(self, feed: LogFeed) -> None:
        feed.on(resource_prefix("", NAMESPACES.resource), self._on_namespace)
        feed.on(resource_prefix("", SERVICE_ACCOUNTS.resource), self._on_account)

    def _on_namespace(self, event: Event) -> None:
        if is_active_event(event):
            parts = split_key(event.key)
            if event.created and self._has_account(parts.cluster, parts.name):
                return  # it came with its namespace
            self.controller.add(ObjectKey(parts.cluster, "", parts.name))

    def _on_account(self, event: Event) -> None:
        if event.deleted and event.key.endswith(f"/{ACCOUNT}"):
            parts = split_key(event.key)
            if self._client.get(parts.cluster, NAMESPACES, parts.namespace) is not None:
                self.controller.add(ObjectKey(parts.cluster, "", parts.namespace))

    def _has_account(self, cluster: str, namespace: str) -> bool:
        return self._client.get(cluster, SERVICE_ACCOUNTS, ACCOUNT, namespace) is not None

    async def reconcile(self, key: ObjectKey) -> None:
        """The key is the namespace's."""
        cluster, _, namespace = key
        if self._has_account(cluster, namespace):
            return
        found = self._client.get(cluster, NAMESPACES, namespace)
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
