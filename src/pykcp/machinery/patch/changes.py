"""The fields that a write changes, and the managers that lose them."""

from __future__ import annotations

from collections.abc import Mapping

from pykcp.machinery.patch.fieldset import (
    Fields,
    difference,
    intersection,
    recursive_difference,
)
from pykcp.machinery.patch.managed import Identity, Managers
from pykcp.machinery.patch.shapes import MapShape
from pykcp.machinery.patch.versions import Views
from pykcp.types import Object


class Changes:
    """What a write changed, as its managers see it, each in the version that it wrote in."""

    def __init__(
        self,
        views: Views,
        before: Object,
        after: Object,
        *,
        reset: Mapping[str, Fields],
        managers: Managers,
        spared: Identity | None,
    ) -> None:
        """`reset`: what this way of writing cannot change; `spared`: who is writing, if it
        is someone who keeps what they say (an applier)."""
        self._views, self._reset = views, reset
        self._managers, self._spared = managers, spared
        self._before, self._after = before, after
        self.here = self._compared(views.shape_here, views.api_version, before, after)
        """What changed or came, and what went, less what this way of writing resets."""
        self._elsewhere: dict[str, tuple[Fields, Fields]] = {views.api_version: self.here}

    def _compared(
        self, shape: MapShape, api_version: str, before: Object, after: Object
    ) -> tuple[Fields, Fields]:
        found = shape.compare(before, after)
        if found is None:
            return {}, {}
        changed, removed = found[0] or {}, found[1] or {}
        reset = self._reset.get(api_version)
        if reset:
            return recursive_difference(changed, reset), recursive_difference(removed, reset)
        return changed, removed

    def _seen_in(self, api_version: str) -> tuple[Fields, Fields]:
        seen = self._elsewhere.get(api_version)
        if seen is None:
            before = self._views.convert(self._before, api_version)
            after = self._views.convert(self._after, api_version)
            shape = self._views.shape(api_version)
            assert shape is not None, "managers of versions that are gone are gone too"
            seen = self._compared(shape, api_version, before, after)
            self._elsewhere[api_version] = seen
        return seen

    def contested(self) -> dict[Identity, Fields]:
        """What others own of what changed."""
        out: dict[Identity, Fields] = {}
        for who, entry in self._managers.items():
            if who != self._spared:
                fields = intersection(entry.fields, self._seen_in(entry.api_version)[0])
                if fields:
                    out[who] = fields
        return out

    def taken_from_all(self) -> Managers:
        """The managers without the changed and removed fields; managers without fields are dropped."""
        out = self._managers
        for who, entry in self._managers.items():
            fields = entry.fields
            if who != self._spared:
                changed, removed = self._seen_in(entry.api_version)
                fields = difference(difference(fields, changed), removed)
            if fields is entry.fields and fields:
                continue
            if out is self._managers:
                out = dict(out)
            if fields:
                out[who] = entry.with_fields(fields)
            else:
                del out[who]
        return out
