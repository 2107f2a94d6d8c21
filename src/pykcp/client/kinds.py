"""The kinds that a workspace serves, found by any name that kubectl accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pykcp.client.transport import Transport
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.types import Object

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ACCEPT = f"{_AGGREGATED},application/json"


class KindInfo(NamedTuple):
    """A kind at one version, as discovery describes it."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool
    names: frozenset[str] = frozenset()
    """Every name of it without its group, in lower case."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> GroupVersionResource:
        return GroupVersionResource(self.group, self.version, self.plural)


WORKSPACE_KIND = KindInfo("tenancy.kcp.io", "v1alpha1", "workspaces", "Workspace", False)
LOGICAL_CLUSTER_KIND = KindInfo(
    "core.kcp.io", "v1alpha1", "logicalclusters", "LogicalCluster", False
)
BINDING_KIND = KindInfo("apis.kcp.io", "v1alpha2", "apibindings", "APIBinding", False)
ENDPOINT_SLICE_KIND = KindInfo(
    "apis.kcp.io", "v1alpha1", "apiexportendpointslices", "APIExportEndpointSlice", False
)


class KindDirectory:
    """The kinds of one workspace; read when first needed, and again for one that is missing."""

    def __init__(self, transport: Transport, base: str) -> None:
        """`base`: the path before `/api`."""
        self._transport, self._base = transport, base
        self._kinds: list[KindInfo] = []

    async def find(self, name: str) -> KindInfo:
        """By plural, singular, kind or short name; with `.group` or `.version.group` if several
        groups have it. Raises NotFound.
        """
        return await self._first(lambda: find_kind(self._kinds, name), name)

    async def of_object(self, obj: Object) -> KindInfo:
        """The kind of an object by its apiVersion and kind. Raises NotFound."""
        api_version, kind = obj.get("apiVersion"), obj.get("kind")

        def match() -> KindInfo | None:
            return next(
                (k for k in self._kinds if (k.api_version, k.kind) == (api_version, kind)), None
            )

        return await self._first(match, f"{kind} in {api_version}")

    async def _first(self, match: Any, name: str) -> KindInfo:
        found: KindInfo | None = match()
        if found is None:
            self._kinds = await self._read()
            found = match()
        if found is None:
            raise NotFound(f'the workspace does not serve "{name}"', kind=name)
        return found

    async def _read(self) -> list[KindInfo]:
        found: list[KindInfo] = []
        for path in ("/api", "/apis"):
            answer = await self._transport.ask("GET", self._base + path, accept=_ACCEPT)
            if answer["kind"] == "APIGroupDiscoveryList":
                found += kinds_of(answer)
                continue
            # Virtual workspaces, as those of kcp, and servers before 1.26: one document per version
            for version in versions_of(answer):
                found += await self._kinds_of(f"{self._base}{path}/{version}")
        return found

    async def _kinds_of(self, path: str) -> list[KindInfo]:
        """None for a version that is listed and not served.

        A virtual workspace lists `v1` without a kind in it, and a version can be gone since it was listed.
        """
        try:
            return list(kinds_of_version(await self._transport.ask("GET", path)))
        except NotFound:
            return []


def kinds_of(discovery: Object) -> Iterator[KindInfo]:
    """The kinds of an aggregated discovery document, preferred versions first."""
    for item in discovery.get("items") or ():
        group = (item.get("metadata") or {}).get("name", "")
        for version in item.get("versions") or ():
            for resource in version.get("resources") or ():
                yield _kind_of(group, version["version"], resource)


def versions_of(answer: Object) -> list[str]:
    """The versions that `/api` or `/apis` lists, each group's preferred one first."""
    if answer["kind"] == "APIVersions":
        return list(answer["versions"])
    found: list[str] = []
    for group in answer.get("groups") or ():
        names = [version["groupVersion"] for version in group["versions"]]
        preferred = (group.get("preferredVersion") or {}).get("groupVersion")
        found += sorted(names, key=lambda name: name != preferred)
    return found


def kinds_of_version(answer: Object) -> Iterator[KindInfo]:
    """The kinds of an APIResourceList, without subresources."""
    group, _, version = answer["groupVersion"].rpartition("/")
    for resource in answer.get("resources") or ():
        plural, kind = resource["name"], resource["kind"]
        if "/" not in plural:
            words = (
                plural,
                resource.get("singularName"),
                kind,
                *(resource.get("shortNames") or ()),
            )
            names = frozenset(word.lower() for word in words if word)
            yield KindInfo(group, version, plural, kind, bool(resource.get("namespaced")), names)


def _kind_of(group: str, version: str, resource: Mapping[str, Any]) -> KindInfo:
    kind = resource.get("responseKind") or {}
    plural = resource["resource"]
    words = (plural, resource.get("singularResource"), kind.get("kind"))
    names = {word.lower() for word in (*words, *(resource.get("shortNames") or ())) if word}
    return KindInfo(
        group,
        version,
        plural,
        kind.get("kind", ""),
        resource.get("scope") == "Namespaced",
        frozenset(names),
    )


def find_kind(kinds: Iterable[KindInfo], name: str) -> KindInfo | None:
    """The first kind of a name, as kubectl reads it: `cm`, `deployments.apps`, `pods.v1.`."""
    word, _, rest = name.lower().partition(".")
    for kind in kinds:
        if word in kind.names and rest in (
            "",
            kind.group,
            f"{kind.version}.{kind.group}",
            *((kind.version, f"{kind.version}.") if not kind.group else ()),
        ):
            return kind
    return None
