"""What a virtual workspace is made of; `docs/design/virtual-workspaces.md` shows how to write one.

A virtual workspace has a name, its first segment under `/services/`, and finds for the rest
of a path the *view* that it leads to. A view says which resources there are, who may do
what with them, and as whom they do it. Everything else (reads, watches, writes, discovery,
OpenAPI, tables, audit, flow control) is the server's own and works as in any workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

import orjson

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.loader import shared_type
from pykcp.auth.authz.attributes import Decision, Verdict
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.kcp import clusters
from pykcp.machinery.schema.crd import SchemaStore, definition_from_crd
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.resource import Resource
from pykcp.server.app import ApiServer
from pykcp.server.call import Call, Handler
from pykcp.server.dispatch import Paths
from pykcp.types import Object
from pykcp.wire.exchange import Stream

ResourceKey = tuple[str, str, str]
"""Group, version, plural."""


class Parts(NamedTuple):
    """What most virtual workspaces are made of."""

    directory: Directory
    lookup: ObjectLookup
    authorizer: Authorizer


class VirtualView:
    """One place of a virtual workspace. Subclasses say what is in it."""

    _server: ApiServer | None = None
    paths: Paths | None = None
    """Answers what is not a resource; None: with discovery, OpenAPI and the like."""
    forwards = False
    """Requests go on to the shard itself, as the user that `enter` left in the call."""

    serves_inactive = False
    """Resources are also served for logical clusters that are marked inactive."""

    def served_by(self, make: Callable[[VirtualView], ApiServer]) -> ApiServer:
        """The server of this view, made on the first visit."""
        if self._server is None:
            self._server = make(self)
        return self._server

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        """A resource as this view shows it; None if it does not."""
        return None

    def is_loaded(self, cluster: str) -> bool:
        """Whether `definitions` answers at once; otherwise `load` is awaited first."""
        return True

    async def load(self, cluster: str) -> None:
        """Make `definitions` ready in slices, where they may be many."""

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        """What discovery and OpenAPI show."""
        return ()

    def exists(self) -> bool:
        """Whether there is anything here at all; otherwise all paths lead nowhere."""
        return True

    def handler(self, call: Call) -> Handler | None:
        """Of a verb that is served in a way of its own; None: as usual."""
        return None

    async def authorize(self, call: Call) -> Decision:
        """Whether a user may do this; `system:masters` is not asked. May raise AccessUndecided."""
        raise NotImplementedError

    def peek(self, call: Call) -> Decision | None:
        """`authorize` and `enter` at once, if the user may and that is known; None otherwise."""
        return None

    async def enter(self, call: Call) -> None:
        """Last step before the request is served: set as whom, or refuse."""

    def opened(self, call: Call, stream: Stream) -> None:
        """A watch has begun."""


class AccessUndecided(Exception):
    """What the decision depends on is not there."""


DENIED = Decision(Verdict.DENY, "access denied")
"""A refusal that says no more than that."""


class Visit(NamedTuple):
    """Where a path leads."""

    view: VirtualView
    cluster: str
    """The logical cluster, or `*`."""
    path: str
    """What is left of the path: `/api/…`, `/apis/…`."""


class VirtualWorkspace(Protocol):
    name: str
    checks: tuple[str, ...]
    """Names under which `/readyz` speaks of it."""

    def visit(self, path: str) -> Visit | None:
        """Where the path below `/services/<name>` leads; None if nowhere."""


def split_head(path: str, count: int) -> tuple[str, ...] | None:
    """`/a/b/rest…` → (`a`, `b`, `/rest…`) for a count of 2; None if there are not as many."""
    parts = path.split("/", count + 1)
    if parts[0] or len(parts) < count + 2 or not all(parts[1:-1]):
        return None
    return (*parts[1:-1], f"/{parts[-1]}")


def split_clusters(path: str) -> tuple[str, str] | None:
    """`/clusters/<name or *>/rest` → (name, `/rest`); paths of workspaces lead nowhere."""
    head, _, rest = path.removeprefix("/clusters/").partition("/")
    if not path.startswith("/clusters/") or not head:
        return None
    if head != clusters.WILDCARD and not clusters.is_name(head):
        return None
    return head, f"/{rest}"


def restricted(
    definition: ResourceDefinition,
    verbs: tuple[str, ...],
    subresources: Mapping[str, tuple[str, ...]],
    origin: str = "",
) -> ResourceDefinition:
    """A kind with the verbs and subresources that a view has of it."""
    versions = tuple(
        replace(
            version,
            subresources=tuple(
                replace(s, verbs=subresources[s.name])
                for s in version.subresources
                if s.name in subresources
            ),
        )
        for version in definition.all_versions
    )
    fingerprint = f"{definition.fingerprint or definition.name}:{','.join(verbs)}"
    return replace(
        definition, all_versions=versions, verbs=verbs, origin=origin, fingerprint=fingerprint
    )


def stored_form(obj: Object) -> bytes:
    """What the store would hold of an object that is not in it, for those who send stored ones."""
    rest = {k: v for k, v in obj.items() if k not in ("kind", "apiVersion", "metadata")}
    metadata = obj["metadata"]
    version = metadata.get("resourceVersion") or "0"
    return orjson.dumps({"metadata": {"resourceVersion": version, **metadata}, **rest})


class OwnKind(NamedTuple):
    """A kind that only a view has: it is computed, never stored."""

    group: str
    version: str
    plural: str
    kind: str
    description: str
    spec: Object
    """Schema of its spec."""
    status: Object
    columns: tuple[tuple[str, str, str], ...]
    """Name, type and path of each column that kubectl shows."""
    verbs: tuple[str, ...]

    def definition(self) -> ResourceDefinition:
        version: Object = {
            "name": self.version,
            "served": True,
            "storage": True,
            "additionalPrinterColumns": [
                {"name": name, "type": form, "jsonPath": path} for name, form, path in self.columns
            ],
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "description": self.description,
                    "properties": {"spec": self.spec, "status": self.status},
                }
            },
        }
        names = {"plural": self.plural, "singular": self.kind.lower(), "kind": self.kind}
        name = f"{self.plural}.{self.group}"
        crd: Object = {
            "metadata": {"name": name},
            "spec": {
                "group": self.group,
                "scope": "Cluster",
                "names": names,
                "versions": [version],
            },
        }
        found = definition_from_crd(crd, SchemaStore(shared_type))
        return replace(found, verbs=self.verbs, fingerprint=name)


class FixedView(VirtualView):
    """A view whose resources are known from the start."""

    def __init__(self, resources: Mapping[ResourceKey, Resource]) -> None:
        self._resources = resources
        self._definitions = tuple(dict.fromkeys(r.definition for r in resources.values()))

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return self._definitions
