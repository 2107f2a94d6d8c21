"""What a program may ask of an API server, in its own process or across the network.

A controller knows these protocols and nothing of where the server is:

`Reader` and `Writer`  the verbs of the API; they ask the server, so they are async.
`Feed`                 changes of chosen kinds in all logical clusters, as they happen.
`Lister`               what the process has at hand of those kinds; it answers at once.

Inside a shard all of them are answered by the registry (`registry.local`), whose verbs do not
suspend unless there is something to wait for. `clients.remote` answers them over HTTP: its feed
keeps what it follows in memory, and its lister reads that. Errors of the API are raised as
`StatusError` by both.

Some controllers need what only a shard has: changes of every kind that exists (`ShardFeed`).
Their types say so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from pykcp.machinery.metadata import Metadata
from pykcp.machinery.object_keys import ObjectKey, ObjectRef
from pykcp.machinery.resources import GroupVersionResource
from pykcp.types import Object

PAGE = 500
"""Objects in a page, unless the caller says otherwise."""

ObjectPage: TypeAlias = list[Object]
MetadataPage: TypeAlias = list[Metadata]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Reader(Protocol):
    """Reads objects of any logical cluster. `*` as the cluster means all of them."""

    async def get(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> Object | None:
        """The object, or None if there is none."""

    async def list(
        self,
        cluster: str,
        kind: GroupVersionResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> list[Object]:
        """All objects of a cluster, of one of its namespaces, of a selection."""

    def pages(
        self,
        cluster: str,
        kind: GroupVersionResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        size: int = PAGE,
    ) -> AsyncIterator[ObjectPage]:
        """The same, a page at a time, for kinds with many objects.

        An object that is created meanwhile may be missing, one that is deleted may be there.
        """

    def metadata(
        self, cluster: str, kind: GroupVersionResource, namespace: str = "", *, size: int = PAGE
    ) -> AsyncIterator[MetadataPage]:
        """The metadata of all objects, a page at a time: a tenth of the work of `pages`."""


class Writer(Protocol):
    """Writes objects of any logical cluster, under one user and one field manager."""

    async def create(self, cluster: str, kind: GroupVersionResource, obj: Object) -> Object:
        """Create; AlreadyExists if there is one of that name."""

    async def update(
        self, cluster: str, kind: GroupVersionResource, obj: Object, subresource: str = ""
    ) -> Object:
        """Write an object back; Conflict if it changed since it was read."""

    async def change(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        make: Callable[[Object], Any],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Read, change and write; retried after a conflict. NotFound if there is none.

        `make` changes the object in place, or returns another one; what it raises is passed on.
        Nothing is written if it changes nothing.
        """

    async def patch(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        patch: Any,
        namespace: str = "",
        subresource: str = "",
        *,
        form: str = MERGE_PATCH,
    ) -> Object:
        """Apply a merge patch, or a JSON patch. NotFound if there is none."""

    async def apply(
        self,
        cluster: str,
        kind: GroupVersionResource,
        obj: Object,
        subresource: str = "",
        *,
        force: bool = False,
    ) -> Object:
        """Server-side apply under this client's field manager."""

    async def delete(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        namespace: str = "",
        uid: str | None = None,
        propagation: str | None = None,
        resource_version: str | None = None,
    ) -> bool:
        """Delete; False if it was gone already, Conflict if it is not the one that was meant."""

    async def delete_collection(
        self,
        cluster: str,
        kind: GroupVersionResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: str | None = None,
    ) -> None:
        """Delete all objects of a cluster, of one of its namespaces, of a selection."""


class Client(Reader, Writer, Protocol):
    """Both; what most controllers are given."""


# --- changes -------------------------------------------------------------------


class Change:
    """One change of one object. It is shared by all handlers: none of them may alter it."""

    __slots__ = (
        "_before",
        "cluster",
        "created",
        "deleted",
        "name",
        "namespace",
        "resource",
        "revision",
        "terms",
        "value",
    )

    def __init__(
        self,
        ref: tuple[str, str, str, str],
        revision: int,
        value: bytes,
        terms: str,
        created: bool,
        deleted: bool,
        before: Callable[[str, int], bytes | None],
    ) -> None:
        self.resource, self.cluster, self.namespace, self.name = ref
        self.revision = revision
        self.value = value
        """The object as JSON; of a deleted one, its last state."""
        self.terms = terms
        """Labels and selectable fields, see `machinery.terms`; of a deleted one, its last."""
        self.created = created
        self.deleted = deleted
        self._before = before

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.cluster, self.namespace, self.name)

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(self.resource, self.cluster, self.namespace, self.name)

    def previous(self) -> bytes | None:
        """The object before this change, if it is still known."""
        return self._before(str(self.ref), self.revision)


Handler = Callable[[Change], None]
"""Called for each change as it happens: it must be quick, and neither wait nor write."""


class Feed(Protocol):
    """Changes of selected kinds in all logical clusters, in order per object.

    After an interruption (a restart, a lost connection) a change may be delivered again, and
    several changes of one object may be delivered as one: handlers must be level-based.
    """

    def on(
        self, kind: GroupVersionResource, handler: Handler, *, from_the_start: bool = False
    ) -> None:
        """Call the handler for changes of a kind.

        A feed starts with recent changes, or, if `from_the_start`, with all existing objects; then
        it delivers live changes.
        """

    def at_start(self, resume: Callable[[], Awaitable[None]]) -> None:
        """Run this once after the initial changes: finds work that the feed does not deliver."""

    async def synced(self) -> None:
        """Return when the feed has delivered the state at its start."""


class ShardFeed(Feed, Protocol):
    """The feed of a shard's own log, which also delivers changes of kinds not known in advance."""

    def on_everything(self, handler: Handler, *, with_updates: bool = True) -> None:
        """Call the handler for every change of every object, or only for those that are created
        or deleted."""

    def on_deletions(self, handler: Handler) -> None:
        """Call the handler for every object that is deleted."""

    def on_resource(self, resource: str, handler: Handler) -> None:
        """Call the handler for changes of what `resource_id` names."""


# --- what is at hand -----------------------------------------------------------


class Lister(Protocol):
    """What this process has at hand: it answers without a request, so it may be a moment old.

    A shard has everything at hand, a remote client the kinds that its feed follows. Objects are
    found by index entries, too (`registry.indexes`), which both compute alike.
    """

    def get(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> Object | None: ...

    def has(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> bool: ...

    def stored(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> bytes | None:
        """What `get` decodes: for objects that may be large, or of which little is needed."""

    def value(self, ref: ObjectRef) -> bytes | None:
        """The object as JSON, in the version in which it is stored; None if there is none."""

    def version(self, ref: ObjectRef) -> int | None:
        """The revision of its last change; None if there is none. Cheaper than decoding it."""

    def keys(
        self, kind: GroupVersionResource, cluster: str = "*", *, limit: int = 0
    ) -> list[ObjectKey]:
        """The objects of a kind, in one cluster or in all; for those of which there are few."""

    def find(
        self,
        index: str,
        kind: GroupVersionResource | None = None,
        *,
        after: ObjectRef | None = None,
        limit: int = 0,
    ) -> list[ObjectRef]:
        """The objects that carry an index entry, of one kind or of any, in the order of `str`:
        at most `limit` of them; go on with the last one as `after`.
        """

    def values_of(
        self, resource: str, cluster: str, namespace: str = ""
    ) -> AsyncIterator[list[bytes]]:
        """Everything of a resource as JSON, a page at a time."""

    def metadata_of(
        self, resource: str, cluster: str, namespace: str = ""
    ) -> AsyncIterator[MetadataPage]:
        """The metadata of everything of a resource, a page at a time."""

    async def count(
        self, resource: str, cluster: str = "*", namespace: str = "", *, labels: str = ""
    ) -> int:
        """How many there are of a resource, all or those of a label selector."""
