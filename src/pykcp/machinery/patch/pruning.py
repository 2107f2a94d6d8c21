"""Removal of fields that are no longer in a manager's configuration.

A field goes if its applier said it last time, does not say it now, and no one else owns
it. Upstream finds these by taking away all that was said last time and adding back, in
turn, what some manager owns (in each manager's version) and what the applier never owned;
the steps are kept, because in lists and maps their order decides what stays.
"""

from __future__ import annotations

from pykcp.machinery.patch.fieldset import (
    Fields,
    difference,
    intersection,
    union,
    union_all,
)
from pykcp.machinery.patch.managed import ManagedEntry, Managers
from pykcp.machinery.patch.merging import remove
from pykcp.machinery.patch.ownership import claimed, named
from pykcp.machinery.patch.shapes import MapShape
from pykcp.machinery.patch.versions import Views
from pykcp.types import Object


def pruned(views: Views, merged: Object, managers: Managers, last: ManagedEntry) -> Object:
    """The merged object without what only the last configuration wanted."""
    shape = views.shape(last.api_version)
    assert shape is not None, "managers of versions that are gone are gone too"
    whole = views.convert(merged, last.api_version)
    in_whole, in_last = _all_fields(shape, whole), named(shape, last.fields)
    rest = _removed(shape, whole, in_last)
    owned = _owned_by_version(managers)
    mine = owned.pop(last.api_version, {})
    if mine:
        rest = _kept(shape, whole, in_whole, rest, mine)
    for version, fields in owned.items():
        rest = _kept_elsewhere(views, version, whole, rest, fields)
    rest = views.convert(rest, last.api_version)
    gone = intersection(difference(in_whole, _all_fields(shape, rest)), in_last)
    return views.convert(_removed(shape, whole, gone), views.api_version)


def _owned_by_version(managers: Managers) -> dict[str, Fields]:
    sets: dict[str, list[Fields]] = {}
    for entry in managers.values():
        sets.setdefault(entry.api_version, []).append(entry.fields)
    return {version: union_all(fields) for version, fields in sets.items()}


def _kept(shape: MapShape, whole: Object, in_whole: Fields, rest: Object, owned: Fields) -> Object:
    """What is left when everything that a manager owns is added back."""
    kept = union(_all_fields(shape, rest), named(shape, owned))
    return _removed(shape, whole, difference(in_whole, kept))


def _kept_elsewhere(
    views: Views, version: str, whole: Object, rest: Object, owned: Fields
) -> Object:
    shape = views.shape(version)
    assert shape is not None, "managers of versions that are gone are gone too"
    whole, rest = views.convert(whole, version), views.convert(rest, version)
    return _kept(shape, whole, _all_fields(shape, whole), rest, owned)


def _all_fields(shape: MapShape, obj: Object) -> Fields:
    return named(shape, claimed(shape, obj))


def _removed(shape: MapShape, obj: Object, fields: Fields) -> Object:
    return remove(shape, obj, fields) or {}
