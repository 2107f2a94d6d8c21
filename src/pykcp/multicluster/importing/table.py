"""What is known of all APIResourceImports, without their schemas.

Schemas are large. Which imports take part in a negotiated type, and which types of a cluster can
be used, is answered from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import msgspec

from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Feed, Lister
from pykcp.machinery.object_keys import ObjectKey
from pykcp.multicluster.importing.objects import AVAILABLE, COMPATIBLE
from pykcp.multicluster.names import IMPORTS, negotiated_name


class ImportSummary(NamedTuple):
    """One import."""

    negotiated: str
    """Name of the negotiated type that it takes part in."""
    location: str
    group: str
    version: str
    plural: str
    is_compatible: bool | None
    is_available: bool
    message: str
    generation: int
    """Changes with the type, not with what is reported about it."""


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _GroupVersion(msgspec.Struct):
    group: str = ""
    version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    plural: str = ""
    location: str = ""
    group_version: _GroupVersion = msgspec.field(default_factory=_GroupVersion)


class _Metadata(msgspec.Struct):
    name: str
    generation: int = 0
    annotations: dict[str, str] = {}


class _Import(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Import).decode


def state_of(value: bytes) -> ImportSummary:
    found = _decode(value)
    spec, version = found.spec, found.spec.group_version
    conditions = {one.type: one for one in found.status.conditions}
    compatible = conditions.get(COMPATIBLE)
    available = conditions.get(AVAILABLE)
    return ImportSummary(
        negotiated_name(spec.plural, version.version, version.group),
        spec.location,
        version.group,
        version.version,
        spec.plural,
        # Unknown: a binding brings the type, and what the cluster does not take it will say itself.
        None if compatible is None else compatible.status != "False",
        available is not None and available.status == "True",
        "" if compatible is None else compatible.message,
        found.metadata.generation,
    )


ImportListener: TypeAlias = Callable[[ObjectKey, ImportSummary, bool], None]
"""Is told the last state, and whether the type itself changed, came or went."""


class ImportTable:
    """`follow` a feed, then `load` what there is."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister
        self._states: dict[ObjectKey, ImportSummary] = {}
        self._of_type: dict[tuple[str, str], set[ObjectKey]] = {}
        self._of_location: dict[tuple[str, str], set[ObjectKey]] = {}
        self._listeners: list[ImportListener] = []

    def listen(self, changed: ImportListener) -> None:
        """Call back for every import that changed or went."""
        self._listeners.append(changed)

    def follow(self, feed: Feed) -> None:
        feed.on(IMPORTS, self._on_import)

    async def load(self) -> None:
        async for page in self._lister.values_of(kind_id(IMPORTS), "*"):
            for value in page:
                metadata = _decode(value).metadata
                cluster = metadata.annotations.get("kcp.io/cluster", "")
                self._put(ObjectKey(cluster, "", metadata.name), state_of(value))

    def of_type(self, cluster: str, negotiated: str) -> list[str]:
        """Names of the imports that take part in a negotiated type."""
        return sorted(key.name for key in self._of_type.get((cluster, negotiated), ()))

    def of_location(self, cluster: str, location: str) -> Iterator[ImportSummary]:
        """The imports of a Cluster."""
        for key in sorted(self._of_location.get((cluster, location), ())):
            yield self._states[key]

    def _on_import(self, change: Change) -> None:
        if change.deleted:
            state = self._drop(change.key)
            if state is not None:
                self._tell(change.key, state, True)
        else:
            self._put(change.key, state_of(change.value))

    def _put(self, key: ObjectKey, state: ImportSummary) -> None:
        before = self._states.get(key)
        if before is not None and before[:3] != state[:3]:
            self._drop(key)
        self._states[key] = state
        self._of_type.setdefault((key.cluster, state.negotiated), set()).add(key)
        self._of_location.setdefault((key.cluster, state.location), set()).add(key)
        self._tell(key, state, before is None or before.generation != state.generation)

    def _drop(self, key: ObjectKey) -> ImportSummary | None:
        state = self._states.pop(key, None)
        if state is None:
            return None
        for index, entry in (
            (self._of_type, (key.cluster, state.negotiated)),
            (self._of_location, (key.cluster, state.location)),
        ):
            found = index.get(entry, set())
            found.discard(key)
            if not found:
                index.pop(entry, None)
        return state

    def _tell(self, key: ObjectKey, state: ImportSummary, is_other: bool) -> None:
        for listener in self._listeners:
            listener(key, state, is_other)
