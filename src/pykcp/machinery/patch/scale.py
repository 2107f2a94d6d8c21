"""Managers of the scale subresource.

Scale is another kind of object that shows one field of its parent, the number of replicas.
Who owns that field in the parent owns it in the scale, and the other way round; the path
to it differs by version of the parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pykcp.machinery.patch import managed
from pykcp.machinery.patch.fieldset import Path, difference, from_paths, has
from pykcp.machinery.patch.managed import ManagedEntry, Managers
from pykcp.types import Object

SCALE_VERSION: Final = "autoscaling/v1"
_REPLICAS: Final = from_paths([("spec", "replicas")])
_REPLICAS_PATH: Final = ("f:spec", "f:replicas")


class ScaleOwners:
    """Translates managedFields between a parent and its scale.

    `replicas` has, for each version of the parent, the field names that lead to the number
    of replicas; None for a version without scale.
    """

    def __init__(
        self,
        parent: list[Object],
        api_version: str,
        replicas: Mapping[str, tuple[str, ...] | None],
    ) -> None:
        self._parent = managed.read_trusted(parent)
        self._api_version = api_version
        self._names = replicas

    def for_scale(self) -> list[Object]:
        """The managedFields that a scale object shows."""
        out: Managers = {}
        for who, entry in self._parent.items():
            path = self._path(entry.api_version)
            if path and has(entry.fields, path):
                out[who] = ManagedEntry(_REPLICAS, SCALE_VERSION, entry.time)
        return managed.write(out)

    def for_parent(self, scale: list[Object]) -> list[Object]:
        """The parent's managedFields after a write through scale left these there."""
        theirs = managed.read(scale)
        out: Managers = {}
        for who, entry in self._parent.items():
            if entry.api_version not in self._names:
                continue
            path = self._path(entry.api_version)
            if path and has(entry.fields, path):
                if who not in theirs:
                    names = self._names[entry.api_version] or ()
                    rest = difference(entry.fields, from_paths([names]))
                    if rest:
                        out[who] = entry.with_fields(rest)
                    continue
                del theirs[who]
            out[who] = entry
        names = self._names[self._api_version] or ()
        for who, entry in theirs.items():
            if has(entry.fields, _REPLICAS_PATH):
                known = self._parent.get(who)
                out[who] = ManagedEntry(
                    from_paths([names]), self._api_version, known.time if known else ""
                )
        return managed.write(out)

    def _path(self, api_version: str) -> Path:
        return tuple("f:" + name for name in self._names.get(api_version) or ())
