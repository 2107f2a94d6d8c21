"""What a cluster says about its types: discovery, CRDs, OpenAPI v3, or v2 of old servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec
import orjson

from pykcp.clients.interface import Reader
from pykcp.machinery.negotiation.resource import ImportedResource, listed_resources
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS, GroupVersionResource
from pykcp.machinery.status import Forbidden, NotFound, StatusError
from pykcp.multicluster.computing import Compute, compute_here
from pykcp.multicluster.importing.jobs import IMPORTED
from pykcp.types import Object


class ClusterDocuments(Reader, Protocol):
    """A client that reads objects and documents of a cluster."""

    async def send(self, method: str, target: str, body: Object | None = None) -> Object: ...

    async def document(self, target: str) -> bytes:
        """A document as it is. Raises StatusError."""

    def raw_pages(self, cluster: str, kind: GroupVersionResource) -> AsyncIterator[list[bytes]]:
        """All objects as they are."""


def is_wanted(resource: ImportedResource, wanted: Iterable[str]) -> bool:
    """Whether a list of types names a resource: `deployments.apps`, `pods`, `*.example.com`, `*`."""
    return is_named(resource.group, resource.plural, wanted)


def is_named(group: str, plural: str, wanted: Iterable[str]) -> bool:
    """The same of a type by its names."""
    full = f"{plural}.{group or 'core'}"
    names = {"*", f"*.{group or 'core'}", full, f"{plural}.{group}" if group else plural}
    return not names.isdisjoint(wanted)


def _document_of(resource: ImportedResource) -> str:
    """The name of the OpenAPI document that describes a resource."""
    group, version = resource.group, resource.version
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _crd_name(resource: ImportedResource) -> str:
    return f"{resource.plural}.{resource.group or 'core'}"


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata


_decode_named = msgspec.json.Decoder(_Named).decode


class TypeDefinition(NamedTuple):
    """A type of a cluster."""

    resource: ImportedResource
    """With the subresources that a workspace can serve, too."""
    schema: Object
    columns: list[Object]


class ClusterTypes:
    """One look at the types of a cluster."""

    def __init__(
        self,
        client: ClusterDocuments,
        prefix: str = "",
        compute: Compute = compute_here,
        tenant: str = "",
    ) -> None:
        """`prefix`: what the client puts before all paths; `compute`: how schemas are read, for
        `tenant`.
        """
        self._client, self._prefix = client, prefix
        self._compute, self._tenant = compute, tenant
        self._crds: dict[str, bytes] | None = None
        self._documents: Mapping[str, Object] | None = None
        self._texts: dict[str, bytes] = {}
        self._wanted: frozenset[str] | None = None
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

    def expect(self, resources: Iterable[ImportedResource]) -> None:
        """Schemas of no other resources will be asked for: their CRDs need not be kept."""
        self._wanted = frozenset(_crd_name(resource) for resource in resources)

    async def schema(self, resource: ImportedResource) -> Object:
        """The schema of a resource. Raises Unconvertible, StatusError."""
        return (await self.definition(resource)).schema

    async def definition(self, resource: ImportedResource) -> TypeDefinition:
        """The same, with what else its CRD says. Raises Unconvertible, StatusError."""
        if self._crds is None:
            self._crds = await self._read_crds()
        crd = self._crds.get(_crd_name(resource))
        document = None if crd is not None else await self._document(_document_of(resource))
        text = await self._compute(IMPORTED, resource, crd, document, tenant=self._tenant)
        found: Object = orjson.loads(text)
        subresources = frozenset(found["subresources"])
        return TypeDefinition(
            resource._replace(subresources=subresources), found["schema"], found["columns"]
        )

    async def _read_crds(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        try:
            async for page in self._client.raw_pages("", CUSTOM_RESOURCE_DEFINITIONS):
                for crd in page:
                    name = _decode_named(crd).metadata.name
                    if self._wanted is None or name in self._wanted:
                        found[name] = crd
        except (NotFound, Forbidden):
            return {}
        return found

    async def _document(self, path: str) -> bytes:
        if self._documents is None:
            self._documents = await self._index()
        entry = self._documents.get(path)
        target = "/openapi/v2"  # servers before 1.24, and aggregated ones
        if entry is not None:
            target = entry["serverRelativeURL"].removeprefix(self._prefix)
        if target not in self._texts:
            self._texts[target] = await self._client.document(target)
        return self._texts[target]

    async def _index(self) -> Mapping[str, Object]:
        try:
            paths: Mapping[str, Object] = (await self._client.send("GET", "/openapi/v3"))["paths"]
        except (NotFound, KeyError):
            return {}
        return paths
