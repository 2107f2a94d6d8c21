"""A provider's controller: one reconcile function for the objects of all consumers."""

from __future__ import annotations

import asyncio
from typing import Any

from pykcp.aio.owner import spawn
from pykcp.client import Provider, Reconciliation, RetryLater, Workspace

SCHEMA = {
    "apiVersion": "apis.kcp.io/v1alpha1",
    "kind": "APIResourceSchema",
    "metadata": {"name": "v1.widgets.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                        "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    },
                },
            }
        ],
    },
}
EXPORT = {
    "apiVersion": "apis.kcp.io/v1alpha2",
    "kind": "APIExport",
    "metadata": {"name": "widgets"},
    "spec": {
        "resources": [
            {
                "group": "example.org",
                "name": "widgets",
                "schema": "v1.widgets.example.org",
                "storage": {"crd": {}},
            }
        ],
        "permissionClaims": [{"group": "", "resource": "configmaps", "verbs": ["*"]}],
    },
}


async def test_consumers_are_reconciled(team: Workspace) -> None:
    provider = await team.create("provider")
    await provider.apply(SCHEMA)
    await provider.apply(EXPORT)
    runtime = Provider(provider, "widgets", "widgets.example.org")
    calls: list[str] = []
    deleted = asyncio.Event()

    @runtime.reconciler
    async def reconcile(item: Reconciliation) -> None:
        calls.append(item.place.name)
        if item.object is None:
            deleted.set()
            return
        if len(calls) == 1:
            raise ValueError("the first try fails")
        if len(calls) == 2:
            raise RetryLater(0.01)
        size = item.object["spec"]["size"]
        await item.objects.patch(item.place.name, {"status": {"size": size}}, subresource="status")
        await item.workspace.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "made", "namespace": item.place.namespace},
                "data": {"size": str(size)},
            }
        )

    running = spawn(runtime.run(), name="provider")
    try:
        for name in ("one", "two"):
            consumer = await team.create(name)
            await consumer.bind("widgets", provider.path, accept_claims=True)
            await consumer.apply(widget("w", 3))
            await consumer.objects("widgets").wait("w", has_size(3), timeout=20)
            made = await consumer.objects("configmaps").wait("made", lambda _: True)
            assert made["data"] == {"size": "3"}
        assert await provider.endpoints("widgets")
        await (team / "one").objects("widgets").delete("w")
        async with asyncio.timeout(60):
            await deleted.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def widget(name: str, size: int) -> dict[str, Any]:
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"size": size},
    }


def has_size(size: int) -> Any:
    return lambda obj: (obj.get("status") or {}).get("size") == size
