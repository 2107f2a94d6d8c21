"""Field ownership on every write: `FieldManager.on_update` and `FieldManager.on_apply`.

One manager serves one version of one kind through one subresource. An update (create,
update, any patch but apply) says: these fields now hold what I wrote, so they are mine and
no one else's. An apply says: these and only these fields are what I want; it conflicts
with others who own a field and want another value, shares fields on which they agree, and
takes away what it wanted before and no one else does.

Times and versions come from the caller; nothing here reads a clock or a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from pykcp.machinery.patch import managed, ownership
from pykcp.machinery.patch.fieldset import (
    Fields,
    difference,
    from_paths,
    recursive_difference,
    union,
)
from pykcp.machinery.patch.managed import Entry, Identity, Managers, identify
from pykcp.machinery.patch.shapes import Difference, MapShape, Untypable, shape_of
from pykcp.machinery.patch.zero import zero_object
from pykcp.machinery.schema.model import Schema
from pykcp.types import Object

BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Who owns what was there before anyone applied to an object that no one tracked."""

NEVER_OWNED: Final = from_paths(
    [("apiVersion",), ("kind",), ("metadata",)]
    + [
        ("metadata", name)
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName",
            "generation", "managedFields", "resourceVersion",
        )
    ]
)  # fmt: skip


class Versions(Protocol):
    """The other versions of a kind, in which managers may have written."""

    def schema(self, api_version: str) -> Schema | None:
        """The schema of a version; None if it is not served (any more)."""
        ...

    def convert(self, obj: Object, api_version: str) -> Object:
        """An object in another version; it is not changed itself."""
        ...


class FieldManager:
    """Keeps managedFields for one version and subresource of a kind."""

    def __init__(
        self,
        schema: Schema,
        api_version: str,
        kind: str,
        *,
        subresource: str = "",
        structured: bool = False,
        reset: Mapping[str, Fields] | None = None,
        versions: Versions | None = None,
    ) -> None:
        """`structured`: a Go type upstream, not a custom resource.

        `reset`: by version, what a write through here cannot change (status through the
        main resource, all but status through the other): it is neither owned nor lost.
        """
        self.api_version, self.kind, self.subresource = api_version, kind, subresource
        self.shape = shape_of(schema, structured=structured)
        self._structured = structured
        self._zero = zero_object(schema) if structured else {}
        self._reset = reset or {}
        self._versions = versions
        self._shapes: dict[str, MapShape | None] = {api_version: self.shape}

    # -- updates

    def on_update(self, live: Object | None, new: Object, manager: str, now: str) -> list[Object]:
        """The managedFields of an object that is created (`live` is None) or updated.

        Empty when no one is to be recorded: the object's owners were never tracked, a
        client asked to forget them, or the object does not fit its schema.
        """
        managers, kept = self._known_managers(live, new)
        if not managers and live is not None and live["metadata"].get("uid"):
            return []
        try:
            after = self._after_update(managers, live, new, manager, now)
        except Untypable:
            return []
        return kept if kept is not None and after is managers else managed.write(after)

    def _known_managers(
        self, live: Object | None, new: Object
    ) -> tuple[Managers, list[Object] | None]:
        """Who owns what before the write, and the list they were read from if it is stored."""
        stored = (live or {}).get("metadata", {}).get("managedFields") or []
        given = new["metadata"].get("managedFields")
        if not self.subresource and given is not None and given != stored:
            if managed.is_reset(given):
                return {}, None
            try:
                managers = managed.read(given)
            except managed.BadManagedFields:
                managers = {}
            if managers:
                return managers, None
        return managed.read_trusted(stored), stored

    def _after_update(
        self, managers: Managers, live: Object | None, new: Object, manager: str, now: str
    ) -> Managers:
        before = self._zero if live is None else _without_owners(live)
        after = _without_owners(new)
        changed, removed = self._compared(self.shape, self.api_version, before, after)
        known = self._reconciled(managers)
        out = self._taken_from(known, changed, removed, before, after)
        mine = difference(changed, NEVER_OWNED)
        if mine:
            who = identify(manager, "Update", self.api_version, self.subresource)
            mine_before = out.get(who)
            if mine_before is not None:
                mine = union(mine, mine_before.fields)
            if out is managers:
                out = dict(out)
            out[who] = Entry(mine, self.api_version, now)
        return managed.cap_updaters(out)

    # -- shared by both

    def _compared(
        self, shape: MapShape, api_version: str, before: Object, after: Object
    ) -> tuple[Fields, Fields]:
        """What changed (or came) and what went, less what this way of writing resets."""
        found: Difference = shape.compare(before, after) or (None, None)
        changed, removed = found[0] or {}, found[1] or {}
        reset = self._reset.get(api_version)
        if reset:
            changed = recursive_difference(changed, reset)
            removed = recursive_difference(removed, reset)
        return changed, removed

    def _shape(self, api_version: str) -> MapShape | None:
        """The shape of a version; None if there is no such version."""
        if api_version not in self._shapes:
            schema = None if self._versions is None else self._versions.schema(api_version)
            shape = None if schema is None else shape_of(schema, structured=self._structured)
            self._shapes[api_version] = shape
        return self._shapes[api_version]

    def _reconciled(self, managers: Managers) -> Managers:
        """The managers whose version there still is, with sets that fit today's schema."""
        out = managers
        for who, entry in managers.items():
            shape = self._shape(entry.api_version)
            fields = None if shape is None else ownership.reconciled(shape, entry.fields)
            if fields is entry.fields:
                continue
            if out is managers:
                out = dict(managers)
            if fields is None:
                del out[who]
            else:
                out[who] = entry.with_fields(fields)
        return out

    def _taken_from(
        self,
        managers: Managers,
        changed: Fields,
        removed: Fields,
        before: Object,
        after: Object,
        *,
        spared: Identity | None = None,
    ) -> Managers:
        """Everyone but the spared one without what changed or went; those left with nothing go."""
        views = {self.api_version: (changed, removed)}
        out = managers
        for who, entry in managers.items():
            fields = entry.fields
            if who != spared:
                view = views.get(entry.api_version)
                if view is None:
                    view = self._compared_elsewhere(entry.api_version, before, after)
                    views[entry.api_version] = view
                fields = difference(difference(fields, view[0]), view[1])
            if fields is entry.fields and fields:
                continue
            if out is managers:
                out = dict(managers)
            if fields:
                out[who] = entry.with_fields(fields)
            else:
                del out[who]
        return out

    def _compared_elsewhere(
        self, api_version: str, before: Object, after: Object
    ) -> tuple[Fields, Fields]:
        """The same comparison in another version (`_reconciled` has seen that there is one)."""
        shape = self._shape(api_version)
        assert shape is not None
        assert self._versions is not None
        return self._compared(
            shape,
            api_version,
            self._versions.convert(before, api_version),
            self._versions.convert(after, api_version),
        )


def _without_owners(obj: Object) -> Object:
    metadata = obj["metadata"]
    if "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}
