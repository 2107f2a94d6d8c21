"""What a cluster says about its types: discovery, CRDs, OpenAPI v3, or v2 of old servers."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from pykcp.clients.interface import Reader
from pykcp.machinery.negotiation.openapi import models_of
from pykcp.machinery.negotiation.resource import (
    ImportedResource,
    imported_schema,
    listed_resources,
)
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.status import Forbidden, NotFound, StatusError
from pykcp.types import Object


class ClusterDocuments(Reader, Protocol):
    """A client that reads objects and documents of a cluster."""

    async def send(self, method: str, target: str, body: Object | None = None) -> Object: ...


def is_wanted(resource: ImportedResource, wanted: Iterable[str]) -> bool:
    """Whether a list of types names a resource: `deployments.apps`, `pods`, `*.example.com`, `*`."""
    group = resource.group
    names = {
        "*",
        f"*.{group or 'core'}",
        resource.name,
        f"{resource.plural}.{group}" if group else resource.plural,
    }
    return not names.isdisjoint(wanted)


def _document_of(resource: ImportedResource) -> str:
    """The name of the OpenAPI document that describes a resource."""
    group, version = resource.group, resource.version
    return f"apis/{group}/{version}" if group else f"api/{version}"


class ClusterTypes:
    """One look at the types of a cluster."""

    def __init__(self, client: ClusterDocuments, prefix: str = "") -> None:
        """`prefix`: what the client puts before all paths."""
        self._client, self._prefix = client, prefix
        self._crds: dict[str, Object] | None = None
        self._documents: Mapping[str, Object] | None = None
        self._models: dict[str, Mapping[str, Object]] = {}
        self._old_models: Mapping[str, Object] | None = None
        """Of OpenAPI v2: one document of megabytes for all groups."""
        self.unavailable: list[str] = []
        """Group versions that could not be read: what they have is not known."""

    async def resources(self, groups: Container[str] | None = None) -> list[ImportedResource]:
        """Every resource in its preferred version, if it can be listed and watched.

        `groups`: only these. Raises StatusError if the cluster cannot be asked.
        """
        found: list[ImportedResource] = []
        if groups is None or "" in groups:
            found += await self._of_version("", "v1", "/api/v1")
        for group in (await self._client.send("GET", "/apis")).get("groups") or ():
            name = group["name"]
            if groups is None or name in groups:
                version = (group.get("preferredVersion") or group["versions"][0])["version"]
                found += await self._of_version(name, version, f"/apis/{name}/{version}")
        return found

    async def fingerprint(self, resources: Iterable[ImportedResource]) -> str:
        """Changes with the OpenAPI documents of the resources, or with the version of a server that
        tells no hashes of them.
        """
        if self._documents is None:
            self._documents = await self._index()
        if not self._documents:
            return str((await self._client.send("GET", "/version")).get("gitVersion") or "")
        paths = sorted({_document_of(resource) for resource in resources})
        return " ".join(
            (self._documents.get(path) or {}).get("serverRelativeURL", "") for path in paths
        )

    async def _of_version(self, group: str, version: str, path: str) -> list[ImportedResource]:
        try:
            return listed_resources(group, version, await self._client.send("GET", path))
        except StatusError:
            if not group:
                raise
            self.unavailable.append(f"{group}/{version}")  # an aggregated server that is away
            return []

    async def schema(self, resource: ImportedResource) -> Object:
        """The schema of a resource. Raises Unconvertible, StatusError."""
        if self._crds is None:
            self._crds = await self._read_crds()
        crd = self._crds.get(f"{resource.plural}.{resource.group or 'core'}")
        models = {} if crd is not None else await self._models_of(resource)
        await asyncio.sleep(0)  # large schemas take milliseconds each
        return imported_schema(resource, crd, models)

    async def _read_crds(self) -> dict[str, Object]:
        found: dict[str, Object] = {}
        try:
            async for page in self._client.pages("", CUSTOM_RESOURCE_DEFINITIONS, size=50):
                found.update((crd["metadata"]["name"], crd) for crd in page)
                await asyncio.sleep(0)
        except (NotFound, Forbidden):
            return {}
        return found

    async def _models_of(self, resource: ImportedResource) -> Mapping[str, Object]:
        path = _document_of(resource)
        found = self._models.get(path)
        if found is None:
            found = self._models[path] = await self._read_models(path)
        return found

    async def _read_models(self, path: str) -> Mapping[str, Object]:
        if self._documents is None:
            self._documents = await self._index()
        entry = self._documents.get(path)
        if entry is None:  # servers before 1.24, and aggregated ones
            if self._old_models is None:
                self._old_models = models_of(await self._client.send("GET", "/openapi/v2"))
            return self._old_models
        url = entry["serverRelativeURL"]
        return models_of(await self._client.send("GET", url.removeprefix(self._prefix)))

    async def _index(self) -> Mapping[str, Object]:
        try:
            paths: Mapping[str, Object] = (await self._client.send("GET", "/openapi/v3"))["paths"]
        except (NotFound, KeyError):
            return {}
        return paths
