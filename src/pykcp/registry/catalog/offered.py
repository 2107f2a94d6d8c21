"""Which schemas the exports with an identity offer, for whoever looks at many claims at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykcp.machinery import meta
from pykcp.steps import Steps
from pykcp.types import Object


class OfferedSchema(NamedTuple):
    cluster: str
    name: str
    export: str
    """The name of the export, in the same cluster."""


class OfferedSchemas:
    """Each export is read once, however many claims are on its resources."""

    def __init__(self, exports_of: Callable[[str], Steps[Sequence[Object]]]) -> None:
        """`exports_of`: the exports with an identity; the first one counts most."""
        self._exports_of = exports_of
        self._known: dict[str, dict[tuple[str, str], list[OfferedSchema]]] = {}

    def named(self, identity: str, group: str, resource: str) -> Steps[Sequence[OfferedSchema]]:
        """The schemas for a resource, in the order of their exports; some may not exist."""
        known = self._known.get(identity)
        if known is None:
            known = yield from self._read(identity)
            self._known[identity] = known
        return known.get((group, resource)) or ()

    def _read(self, identity: str) -> Steps[dict[tuple[str, str], list[OfferedSchema]]]:
        found: dict[tuple[str, str], list[OfferedSchema]] = {}
        for export in (yield from self._exports_of(identity)) if identity else ():
            cluster, name = meta.cluster(export), meta.name(export)
            for entry in (export.get("spec") or {}).get("resources") or ():
                resource = entry.get("group") or "", entry["name"]
                found.setdefault(resource, []).append(OfferedSchema(cluster, entry["schema"], name))
                yield
        return found
