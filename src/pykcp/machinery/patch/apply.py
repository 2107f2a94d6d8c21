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
from typing import Final

from pykcp.machinery.patch import checking, lastapplied, managed, merging, ownership, pruning
from pykcp.machinery.patch.changes import Changes
from pykcp.machinery.patch.conflicts import ApplyConflicts
from pykcp.machinery.patch.fieldset import (
    Fields,
    contains,
    difference,
    from_paths,
    recursive_difference,
    union,
)
from pykcp.machinery.patch.managed import Identity, ManagedEntry, Managers, identify
from pykcp.machinery.patch.refusals import unexpected
from pykcp.machinery.patch.shapes import Untypable, same
from pykcp.machinery.patch.versions import Versions, Views
from pykcp.machinery.schema.decode import decoder_for
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import BadRequest
from pykcp.types import JSON, Object

BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Who owns what was there before anyone applied to an object that no one tracked."""

_OWN_METADATA: Final = frozenset((
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName",
    "generation", "managedFields", "resourceVersion",
))  # fmt: skip
"""Metadata that says what an object is; nobody owns it."""
_OWN_METADATA_ELEMENTS: Final = frozenset("f:" + name for name in _OWN_METADATA)
_TYPE: Final = frozenset(("apiVersion", "kind"))
_TYPE_ELEMENTS: Final = frozenset("f:" + name for name in _TYPE)
NEVER_OWNED: Final = from_paths(
    [("apiVersion",), ("kind",), ("metadata",), *(("metadata", name) for name in _OWN_METADATA)]
)


class FieldManager:
    """Keeps managedFields for one version and subresource of a kind."""

    def __init__(
        self,
        schema: Schema,
        api_version: str,
        kind: str,
        *,
        subresource: str = "",
        zero: Object | None = None,
        reset: Mapping[str, Fields] | None = None,
        versions: Versions | None = None,
    ) -> None:
        """`zero`: the object before its creation, for kinds that are Go types upstream.

        A write is compared with the previous state. For the creation of a custom resource that is
        nothing; for a Go type it is the zero value, which already has structs and fields that are
        always serialized, so that the creator does not own them. By default the schema decides
        (`go_type`), and the decoder provides the zero value.

        `reset`: by version, the fields that a write through this subresource cannot change (status
        for the main resource, everything else for `status`): their ownership does not change.
        """
        self.api_version, self.kind, self.subresource = api_version, kind, subresource
        if zero is None and schema.go_type:
            zero = decoder_for(schema).decode({}, [])
        self._views = Views(schema, api_version, versions, structured=zero is not None)
        self._shape = self._views.shape_here
        self._zero: Object = zero or {}
        self._ownable_zero = _ownable(self._zero) if "metadata" in self._zero else self._zero
        self._reset = reset or {}

    def fits(self, live: Object) -> bool:
        """Whether a stored object still has the types of the schema."""
        try:
            checking.check(self._shape, _without_owners(live), allow_duplicates=True)
        except (Untypable, RecursionError):
            return False
        return True

    # -- updates

    def on_update(self, live: Object | None, new: Object, manager: str, now: str) -> list[Object]:
        """The managedFields of an object that is created (`live` is None) or updated.

        Empty when no one is to be recorded: the object's owners were never tracked, a
        client asked to forget them, or the object does not fit its schema.
        """
        managers, kept = self._known_managers(live, new)
        if kept is None and any(each.api_version.count("/") > 1 for each in managers.values()):
            return []  # upstream cannot compare with a version that it cannot read
        if not managers and live is not None and live["metadata"].get("uid"):
            # The object is not tracked; as in upstream, only an apply starts tracking it.
            return []
        try:
            after = self._after_update(managers, live, new, manager, now)
        except (Untypable, RecursionError):
            return []
        # Nothing changed hands: return the stored list itself, so that equal bytes stay equal.
        return kept if kept is not None and after is managers else managed.write(after)

    def _known_managers(
        self, live: Object | None, new: Object
    ) -> tuple[Managers, list[Object] | None]:
        """Who owns what before the write, and the list they were read from if it is stored."""
        stored = _owners(live)
        given = new["metadata"].get("managedFields")
        if not self.subresource and given is not None and given != stored:
            if managed.is_reset(given):  # `[]` and `[{}]` are the client's way to reset it
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
        managers = self._reconciled(managers)
        if self._own_the_ownable(managers):
            before = self._ownable_zero if live is None else _ownable(live)
            changes = self._changes(managers, before, _ownable(new))
        else:
            before = self._zero if live is None else _without_owners(live)
            changes = self._changes(managers, before, _without_owners(new))
        changed, removed = changes.here
        mine = difference(changed, NEVER_OWNED)
        who = identify(manager, "Update", self.api_version, self.subresource)
        mine_before = managers.get(who)
        if len(managers) == 1 and mine_before is not None and mine is changed:
            # The most common update: the only manager writes again what it owns already.
            fields = mine_before.fields
            if contains(fields, mine) and difference(fields, removed) is fields:
                return {who: ManagedEntry(fields, self.api_version, now)} if mine else managers
        out = changes.taken_from_all()
        if mine:
            mine_before = out.get(who)
            if mine_before is not None:
                mine = union(mine, mine_before.fields)
            out = {**out, who: ManagedEntry(mine, self.api_version, now)}
        return managed.cap_updaters(out)

    def _own_the_ownable(self, managers: Managers) -> bool:
        """Whether what nobody owns need not be compared.

        It must be if a client has put it into managedFields, and may be needed for a conversion.
        """
        for entry in managers.values():
            is_elsewhere = entry.api_version != self.api_version
            if is_elsewhere or not _TYPE_ELEMENTS.isdisjoint(entry.fields):
                return False
            owned = entry.fields.get("f:metadata")
            if owned and not _OWN_METADATA_ELEMENTS.isdisjoint(owned):
                return False
        return True

    # -- apply

    def on_apply(
        self, live: Object | None, config: Object, manager: str, now: str, *, force: bool = False
    ) -> Object:
        """The object after a configuration is applied, managedFields and all.

        `live` is None if there is no object yet. Neither argument is changed. The result
        is not defaulted; it is `live` with other managers if the configuration says
        nothing new. Conflict (409) unless forced; BadRequest for another kind or version;
        a bare 500 for a configuration that does not fit the schema, upstream's way.
        """
        self._check_request(config)
        before = {
            **(self._zero if live is None else _without_owners(live)),
            "apiVersion": self.api_version,
            "kind": self.kind,
        }
        try:
            return self._on_checked_apply(live, before, config, manager, now, force=force)
        except ApplyConflicts as conflicts:
            raise conflicts.status() from conflicts
        except Untypable as error:
            raise unexpected(str(error)) from error
        except RecursionError as error:
            raise BadRequest("error decoding YAML: exceeded max depth") from error

    def _on_checked_apply(
        self,
        live: Object | None,
        before: Object,
        config: Object,
        manager: str,
        now: str,
        *,
        force: bool,
    ) -> Object:
        managers = managed.read_trusted(_owners(live))
        if not managers and live is not None:
            # Without an owner of the existing fields an apply could never conflict with them.
            managers = self._first_managers(before, now)
        self._check(config, "failed to create typed patch object (%s): ")
        self._check(before, "failed to create typed live object (%s): ", is_live=True)
        who = identify(manager, "Apply", self.api_version, self.subresource)
        after, managers = self._applied_or_excused(before, config, managers, who, force=force)
        is_changed = not same(before, after)
        # Without a change the old time stays, so that repeating an apply writes nothing.
        managers = self._stamped(managers, who, now if is_changed else "")
        out = _with_owners(after if is_changed else before, managers)
        return lastapplied.refreshed(out, config) if manager == lastapplied.KUBECTL else out

    def _check_request(self, config: Object) -> None:
        kind = _text(config.get("kind"))
        group, slash, version = _text(config.get("apiVersion")).rpartition("/")
        if "/" in group:
            group = version = kind = ""
        if (group + slash + version, kind) != (self.api_version, self.kind):
            raise BadRequest(f"invalid object type: {group}/{version}, Kind={kind}")
        if _metadata(config).get("managedFields") is not None:
            raise BadRequest("metadata.managedFields must be nil")

    def _first_managers(self, before: Object, now: str) -> Managers:
        """Who owns what no one was on record for."""
        self._check(
            before,
            "failed to create manager for existing fields: "
            "failed to convert new object (%s) to smd typed: ",
            is_live=True,
        )
        return self._after_update({}, None, before, BEFORE_FIRST_APPLY, now)

    def _check(self, obj: Object, refusal: str, *, is_live: bool = False) -> None:
        try:
            checking.check(self._shape, obj, allow_duplicates=is_live)
        except Untypable as error:
            namespace, name = (_text(_metadata(obj).get(key)) for key in ("namespace", "name"))
            group, _, version = self.api_version.rpartition("/")
            what = f"{namespace}/{name}; {group}/{version}, Kind={self.kind}"
            raise unexpected(refusal % what + str(error)) from error

    def _applied_or_excused(
        self, before: Object, config: Object, managers: Managers, who: Identity, *, force: bool
    ) -> tuple[Object, Managers]:
        """Apply; kubectl does not conflict with what it applied before there were managers."""
        try:
            return self._applied(before, config, managers, who, force=force)
        except ApplyConflicts as conflicts:
            if who.manager != lastapplied.KUBECTL:
                raise
            rest = lastapplied.excused(conflicts, self._shape, before, self.api_version)
            if rest.sets:
                raise rest from conflicts
        return self._applied(before, config, managers, who, force=True)

    def _applied(
        self, before: Object, config: Object, managers: Managers, who: Identity, *, force: bool
    ) -> tuple[Object, Managers]:
        managers = self._reconciled(managers)
        last = managers.get(who)
        claims = ownership.claimed(self._shape, config)
        reset = self._reset.get(self.api_version)
        if reset:
            claims = recursive_difference(claims, reset)
        managers = {
            **managers,
            who: ManagedEntry(claims, self.api_version, last.time if last else ""),
        }
        after = merging.merge(self._shape, before, config)
        if last is not None and not self._says_all(claims, last):
            after = pruning.pruned(self._views, after, managers, last)
        changes = self._changes(managers, before, after, spared=who)
        if not force:
            in_the_way = changes.contested()
            if in_the_way:
                raise ApplyConflicts(in_the_way)
        return after, changes.taken_from_all()

    def _says_all(self, claims: Fields, last: ManagedEntry) -> bool:
        """Whether all that was said last time is said again, so that nothing is to go."""
        return last.api_version == self.api_version and not difference(last.fields, claims)

    def _stamped(self, managers: Managers, who: Identity, now: str) -> Managers:
        """The managers with the applier's set as it is kept; its time moves if there is one."""
        mine = managers.get(who)
        if mine is None:
            return managers
        fields = difference(mine.fields, NEVER_OWNED)
        if fields:
            return {**managers, who: ManagedEntry(fields, self.api_version, now or mine.time)}
        return {other: entry for other, entry in managers.items() if other != who}

    # -- shared by both

    def _reconciled(self, managers: Managers) -> Managers:
        """The managers whose version there still is, with sets that fit today's schema."""
        out = managers
        for who, entry in managers.items():
            shape = self._views.shape(entry.api_version)
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

    def _changes(
        self, managers: Managers, before: Object, after: Object, *, spared: Identity | None = None
    ) -> Changes:
        return Changes(
            self._views, before, after, reset=self._reset, managers=managers, spared=spared
        )


def _without_owners(obj: Object) -> Object:
    metadata = obj["metadata"]
    if "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}


def _ownable(obj: Object) -> Object:
    """An object without its type and the metadata that nobody owns."""
    out = {k: v for k, v in obj.items() if k not in _TYPE}
    out["metadata"] = {k: v for k, v in obj["metadata"].items() if k not in _OWN_METADATA}
    return out


def _with_owners(obj: Object, managers: Managers) -> Object:
    metadata = dict(obj.get("metadata") or {})
    if managers:
        metadata["managedFields"] = managed.write(managers)
    return {**obj, "metadata": metadata}


def _owners(obj: Object | None) -> list[Object]:
    return _metadata(obj or {}).get("managedFields") or []


def _metadata(obj: Object) -> Object:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""
