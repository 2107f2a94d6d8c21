"""Providers and consumers of APIs, for tests: exports, bindings, and views of them."""

from __future__ import annotations

import itertools
from typing import Any

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.rights import RBAC, grant
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

APIS = "/apis/apis.kcp.io/v1alpha2"
SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
_numbers = itertools.count(1)


def schema(plural: str, group: str, prefix: str = "today", **properties: Any) -> Object:
    """A namespaced resource with a spec and a status."""
    kind = plural[:-1].capitalize()
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apis.kcp.io/v1alpha1",
        "kind": "APIResourceSchema",
        "metadata": {"name": f"{prefix}.{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "singular": plural[:-1],
                "kind": kind,
                "listKind": f"{kind}List",
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
                            "spec": {"type": "object", "properties": properties}
                            if properties
                            else anything,
                            "status": anything,
                        },
                    },
                }
            ],
        },
    }


def claim(resource: str, *verbs: str, group: str = "", identity: str = "") -> Object:
    out: Object = {"group": group, "resource": resource, "verbs": list(verbs) or ["*"]}
    return {**out, "identityHash": identity} if identity else out


def accepted(claim: Object, **selector: Any) -> Object:
    return {**claim, "state": "Accepted", "selector": selector or {"matchAll": True}}


def _workspace(shard: ServerProcess, name: str) -> TestClient:
    client = make_cluster(shard, name)
    path = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster/status"
    reply = client.patch(path, {"status": {"phase": "Ready"}})
    assert reply.status == 200, reply
    return client


class ExportProvider:
    """A workspace with one export, and a user who may do everything with its content."""

    def __init__(
        self, shard: ServerProcess, *plurals: str, claims: tuple[Object, ...] = (), user: str = ""
    ) -> None:
        number = next(_numbers)
        self._shard = shard
        self.cluster, self.group = f"provider{number}", f"wild{number}.west"
        self.client = _workspace(shard, self.cluster)
        self.export = f"export{number}"
        resources = []
        for plural in plurals or ("cowboys",):
            made = schema(plural, self.group)
            assert self.client.post(SCHEMAS, made).status == 201
            resources.append(
                {"name": plural, "group": self.group, "schema": made["metadata"]["name"]}
            )
        body = {
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIExport",
            "metadata": {"name": self.export},
            "spec": {"resources": resources, "permissionClaims": list(claims)},
        }
        reply = self.client.post(f"{APIS}/apiexports", body)
        assert reply.status == 201, reply
        self.user = user
        if user:
            grant(self.client, user, "*", "apiexports/content", "apis.kcp.io", self.export)
        self.identity: str = eventually(self._identity)

    def _identity(self) -> str:
        found = self.client.get(f"{APIS}/apiexports/{self.export}").json
        identity: str = (found.get("status") or {}).get("identityHash") or ""
        return identity

    def change(self, **spec: Any) -> None:
        reply = self.client.patch(f"{APIS}/apiexports/{self.export}", {"spec": spec})
        assert reply.status == 200, reply

    def path(self, plural: str = "cowboys", namespace: str = "") -> str:
        middle = f"/namespaces/{namespace}" if namespace else ""
        return f"/apis/{self.group}/v1{middle}/{plural}"

    def view(self, cluster: str = "*", user: str | None = None) -> TestClient:
        """The view of the export; as system:masters for the user ""."""
        user = self.user if user is None else user
        client = self._shard.client()
        if user:
            client = client.with_token(f"{user}-token")
        client.prefix = f"/services/apiexport/{self.cluster}/{self.export}/clusters/{cluster}"
        return client

    def consumer(self, *claims: Object) -> Consumer:
        consumer = Consumer(self._shard)
        consumer.bind(self, *claims)
        return consumer


class Consumer:
    def __init__(self, shard: ServerProcess) -> None:
        self.cluster = f"consumer{next(_numbers)}"
        self.client = _workspace(shard, self.cluster)

    def bind(self, provider: ExportProvider, *claims: Object) -> None:
        name = provider.export
        body = {
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIBinding",
            "metadata": {"name": name},
            "spec": {
                "reference": {"export": {"path": provider.cluster, "name": provider.export}},
                "permissionClaims": list(claims),
            },
        }
        made = self.client.post(f"{APIS}/apibindings", body)
        assert made.status == 201, made
        eventually(lambda: self._is_settled(name))

    def _is_settled(self, name: str) -> bool:
        binding = self.client.get(f"{APIS}/apibindings/{name}").json
        status = binding.get("status") or {}
        wanted = binding["spec"].get("permissionClaims") or ()
        accepted = sum(claim["state"] == "Accepted" for claim in wanted)
        return status.get("phase") == "Bound" and accepted == len(
            status.get("appliedPermissionClaims") or ()
        )

    def make(
        self, provider: ExportProvider, name: str, plural: str = "cowboys", **spec: Any
    ) -> Object:
        kind = plural[:-1].capitalize()
        made = self.client.post(
            provider.path(plural, "default"),
            {
                "apiVersion": f"{provider.group}/v1",
                "kind": kind,
                "metadata": {"name": name},
                "spec": spec,
            },
        )
        assert made.status == 201, made
        out: Object = made.json
        return out


__all__ = ["APIS", "RBAC", "SCHEMAS", "Consumer", "ExportProvider", "accepted", "claim", "schema"]
