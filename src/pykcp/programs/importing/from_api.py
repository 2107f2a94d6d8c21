"""Reading a running kcp by its API, as the administrator of its shard.

Each logical cluster is asked which kinds it serves, and all objects of those that can be listed are
read. It takes longer than reading etcd, and objects may change meanwhile: stop other clients first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from http.client import HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson

from pykcp.clients.kubeconfig import load_endpoint, make_context
from pykcp.machinery.kcp import clusters
from pykcp.programs.importing.found import FoundObject
from pykcp.programs.kit.errors import SettingsError

_SECONDS = 60.0
_PAGE = 500
_BUILT_IN = ("", "apps", "batch", "autoscaling", "policy", "extensions")
"""Groups without a dot that Kubernetes itself serves."""


async def objects_of_server(kubeconfig: str, context: str) -> AsyncIterator[FoundObject]:
    """Raises OSError, SettingsError."""
    server = _Server(kubeconfig, context)
    try:
        listed = await server.items("*", "/apis/core.kcp.io/v1alpha1/logicalclusters")
        names = sorted({_cluster(obj) for obj in listed})
        for name in names:
            if name.startswith("system:"):
                continue
            identities = await server.identities(name)
            for path, group, resource in await server.resources(name):
                identity = identities.get((group, resource), "")
                is_custom = bool(identity) or not _is_built_in(group)
                for obj in await server.items(name, path):
                    metadata = obj["metadata"]
                    yield FoundObject(
                        group, resource, identity, name, metadata.get("namespace") or "",
                        metadata["name"], is_custom, obj,
                    )  # fmt: skip
    finally:
        server.close()


def _cluster(obj: Any) -> str:
    name: str = obj["metadata"]["annotations"]["kcp.io/cluster"]
    return name


def _is_built_in(group: str) -> bool:
    return group in _BUILT_IN or group.endswith(".k8s.io")


class _Server:
    def __init__(self, kubeconfig: str, context: str) -> None:
        endpoint = load_endpoint(kubeconfig, context)
        url = urlsplit(endpoint.url)
        self._connection = HTTPSConnection(
            url.netloc, context=make_context(endpoint), timeout=_SECONDS
        )
        self._headers = {"Accept": "application/json"}
        if endpoint.token:
            self._headers["Authorization"] = f"Bearer {endpoint.token}"

    def close(self) -> None:
        self._connection.close()

    async def get(self, path: str) -> Any:
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> Any:
        self._connection.request("GET", path, headers=self._headers)
        reply = self._connection.getresponse()
        body = reply.read()
        if reply.status != 200:
            raise SettingsError(f"kcp answered {reply.status} to GET {path}: {body[:300].decode()}")
        return orjson.loads(body)

    async def items(self, cluster: str, path: str) -> list[Any]:
        """All objects of a collection, with their types."""
        found: list[Any] = []
        token = ""
        while True:
            query = urlencode({"limit": _PAGE, **({"continue": token} if token else {})})
            page = await self.get(f"{clusters.request_path(cluster)}{path}?{query}")
            kind = page["kind"].removesuffix("List")
            for item in page.get("items") or ():
                item.setdefault("apiVersion", page["apiVersion"])
                item.setdefault("kind", kind)
                found.append(item)
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return found

    async def identities(self, cluster: str) -> dict[tuple[str, str], str]:
        """Identities of the resources that are bound in a logical cluster."""
        bindings = await self.items(cluster, "/apis/apis.kcp.io/v1alpha2/apibindings")
        return {
            (bound.get("group") or "", bound["resource"]): bound["schema"]["identityHash"]
            for binding in bindings
            for bound in (binding.get("status") or {}).get("boundResources") or ()
        }

    async def resources(self, cluster: str) -> list[tuple[str, str, str]]:
        """Path, group and name of each collection, in the version that the server prefers."""
        prefix, found = clusters.request_path(cluster), []
        groups = await self.get(f"{prefix}/apis")
        versions = [("/api/v1", "")]
        for group in groups["groups"]:
            preferred = group["preferredVersion"]["groupVersion"]
            if group["name"] == "apis.kcp.io":
                preferred = "apis.kcp.io/v1alpha2"
            versions += [(f"/apis/{preferred}", group["name"])]
            versions += [
                (f"/apis/{one['groupVersion']}", group["name"])
                for one in group["versions"]
                if one["groupVersion"] != preferred
            ]
        seen: set[tuple[str, str]] = set()
        for path, group in versions:
            for resource in _listable(await self.get(f"{prefix}{path}")):
                if (group, resource) not in seen:
                    seen.add((group, resource))
                    found.append((f"{path}/{resource}", group, resource))
        return found


def _listable(document: Any) -> Iterator[str]:
    for resource in document.get("resources") or ():
        if "/" not in resource["name"] and {"list", "create"} <= set(resource["verbs"]):
            yield resource["name"]
