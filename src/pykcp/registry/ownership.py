"""managedFields of a resource: one field manager per subresource, made when first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kube.workloads.kept import KEPT_BY_STATUS, METADATA_KEPT_BY_STATUS
from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.patch.fieldset import Fields, from_paths
from pykcp.machinery.schema.model import Schema
from pykcp.types import Object

Paths: TypeAlias = dict[str, list[tuple[str, ...]]]

# What a write cannot change, by subresource ("" is the object itself); it is never owned by it.
_CSR: Paths = {
    "": [("spec",), ("status",)],
    "status": [("spec",), ("status", "conditions")],
    "approval": [("spec",), ("status", "certificate")],
}
_WITH_STATUS: Paths = {"": [("status",)], "status": [("spec",)], "finalize": [("status",)]}
_ALL_BUT_STATUS: Paths = {"": [("status",)], "status": [("spec",), ("metadata",)]}
_RESETS: dict[tuple[str, str], Paths] = {
    ("certificates.k8s.io", "certificatesigningrequests"): _CSR,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): _ALL_BUT_STATUS,
    **{
        kind: {"": [("status",)], "status": [("spec",), *(("metadata", name) for name in names)]}
        for kind, names in KEPT_BY_STATUS.items()
    },
    **dict.fromkeys(METADATA_KEPT_BY_STATUS, _ALL_BUT_STATUS),
}


def reset_fields(definition: ResourceDefinition, version: str, subresource: str) -> Fields:
    """What a write through this subresource leaves as it is."""
    names = {s.name for s in definition.subresources_of(version)}
    if "status" not in names:
        return {}
    table = _ALL_BUT_STATUS
    if definition.native or definition.is_kubernetes:
        table = _RESETS.get((definition.group, definition.plural), _WITH_STATUS)
    return from_paths(table.get(subresource, ()))


class OtherVersions:
    """The other versions of a kind, in which managers may have written."""

    def __init__(
        self, definition: ResourceDefinition, convert: Callable[[Object, str], Object]
    ) -> None:
        self._definition = definition
        self._convert = convert

    def schema(self, api_version: str) -> Schema | None:
        group, _, version = api_version.rpartition("/")
        if group != self._definition.group or version not in self._definition.versions:
            return None
        return self._definition.schema(version)

    def convert(self, obj: Object, api_version: str) -> Object:
        return self._convert(obj, api_version)


class Ownership:
    """The field managers of one kind at one version."""

    def __init__(
        self, definition: ResourceDefinition, version: str, convert: Callable[[Object, str], Object]
    ) -> None:
        self._definition = definition
        self._version = version
        self._others = OtherVersions(definition, convert)
        self._managers: dict[str, FieldManager] = {}

    def manager(self, subresource: str) -> FieldManager:
        found = self._managers.get(subresource)
        if found is None:
            found = self._managers[subresource] = self._make(subresource)
        return found

    def _make(self, subresource: str) -> FieldManager:
        definition, version = self._definition, self._version
        api_version = definition.api_version(version)
        return FieldManager(
            definition.schema(version),
            api_version,
            definition.kind,
            subresource=subresource,
            reset={
                definition.api_version(v): reset_fields(definition, v, subresource)
                # upstream's way: a custom kind's main resource knows only of its own version
                for v in (definition.versions if definition.native or subresource else (version,))
            },
            versions=self._others,
        )

    def after_update(
        self, live: Object | None, new: Object, manager: str, subresource: str, now: str
    ) -> None:
        """Set `new`'s managedFields."""
        entries = self.manager(subresource).on_update(live, new, manager, now)
        if entries:
            new["metadata"]["managedFields"] = entries
        else:
            new["metadata"].pop("managedFields", None)


class OwnedKind:
    """The part of a kind that keeps managedFields; native and custom kinds share it."""

    def __init__(
        self, definition: ResourceDefinition, version: str, convert: Callable[[Object, str], Object]
    ) -> None:
        self._ownership = Ownership(definition, version, convert)

    def manage_update(
        self, live: Object | None, new: Object, manager: str, subresource: str, now: str
    ) -> None:
        self._ownership.after_update(live, new, manager, subresource, now)

    def settle(self, obj: Object) -> None:
        """Nothing: what is stored as JSON comes back as it was."""

    def forget_unfit(self, live: Object, new: Object, subresource: str) -> bool:
        """Forget managers if the live object no longer fits its schema; True if that was so."""
        if self._ownership.manager(subresource).fits(live):
            return False
        new["metadata"].pop("managedFields", None)
        return True

    def manage_apply(
        self,
        live: Object | None,
        applied: Object,
        manager: str,
        subresource: str,
        now: str,
        *,
        force: bool,
    ) -> Object:
        fields = self._ownership.manager(subresource)
        return fields.on_apply(live, applied, manager, now, force=force)


def relabelled(obj: Object, api_version: str) -> Object:
    """Conversion between versions that differ in nothing but their name."""
    return {**obj, "apiVersion": api_version}
