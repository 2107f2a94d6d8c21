"""The status of a binding at each step until it is Bound, with kcp's messages. Pure.

The controller (`apibinding`) collects the facts and writes the result. For exports that are
known to be valid, `bound_binding` returns a binding that is complete from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.machinery import meta
from pykcp.machinery.kcp import claims, hashes
from pykcp.machinery.kcp.condition_marks import is_false, mark_false, mark_true, summarise
from pykcp.machinery.kcp.conditions import ERROR, INFO, WARNING
from pykcp.machinery.kcp.resource_locks import ResourceLock, lock_name
from pykcp.machinery.status import go_quote
from pykcp.steps import Steps
from pykcp.types import Object

EXPORT_VALID = "APIExportValid"
COMPLETED = "InitialBindingCompleted"
UP_TO_DATE = "BindingUpToDate"
CLAIMS_VALID = "PermissionClaimsValid"
CLAIMS_APPLIED = "PermissionClaimsApplied"
CONDITIONS = (EXPORT_VALID, COMPLETED, UP_TO_DATE, CLAIMS_VALID, CLAIMS_APPLIED, "Ready")
FINALIZER = "apis.kcp.io/apibinding-finalizer"

BINDING, BOUND = "Binding", "Bound"
INTERNAL_ERROR = "InternalError"
NAMING_CONFLICTS = "NamingConflicts"
WAITING = "WaitingForEstablished"

_CONTACT_OWNER = "Invalid APIExport. Please contact the APIExport owner to resolve"
_SHOWN_ERRORS, _SHOWN_MISMATCHES = 10, 5


class ResourceNames(NamedTuple):
    """The names of a resource, within its group."""

    plural: str
    singular: str
    short_names: tuple[str, ...]
    kind: str
    list_kind: str


def names_of(names: Object) -> ResourceNames:
    return ResourceNames(
        names.get("plural") or "",
        names.get("singular") or "",
        tuple(names.get("shortNames") or ()),
        names.get("kind") or "",
        names.get("listKind") or "",
    )


class BoundSchema(NamedTuple):
    """A schema of an export, as far as binding it goes."""

    name: str
    uid: str
    cluster: str
    group: str
    names: ResourceNames
    stored_versions: tuple[str, ...] = ()
    """Of the bound CRD; none for resources with virtual storage."""

    @property
    def lock(self) -> str:
        return lock_name(self.group, self.names.plural)


# --- the steps ---------------------------------------------------------------------


def begin(binding: Object, now: str) -> None:
    """A new binding is Binding."""
    status = binding["status"] = dict(binding.get("status") or {})
    if status.get("phase"):
        return
    status["phase"] = BINDING
    mark_false(
        binding, COMPLETED, WAITING, "Waiting for API(s) to be established", now, severity=INFO
    )


def no_export(binding: Object, path: str, name: str, now: str) -> None:
    message = f"APIExport {path}|{name} not found"
    mark_false(binding, EXPORT_VALID, "APIExportNotFound", message, now)


def no_reference(binding: Object, now: str) -> None:
    mark_false(
        binding, EXPORT_VALID, "APIExportInvalidReference", "Missing APIExport reference", now
    )


def no_identity(binding: Object, path: str, name: str, now: str) -> None:
    message = f"APIExport {path}|{name} is missing status.identityHash"
    mark_false(binding, EXPORT_VALID, "MissingIdentityHash", message, now, severity=WARNING)


def no_schema(binding: Object, schema: str, now: str) -> None:
    message = f"{_CONTACT_OWNER}: APIResourceSchema {go_quote(schema)} not found"
    mark_false(binding, EXPORT_VALID, INTERNAL_ERROR, message, now)


def bad_schema(binding: Object, now: str) -> None:
    """The export's owner must do something; the consumer need not know what."""
    mark_false(binding, EXPORT_VALID, INTERNAL_ERROR, _CONTACT_OWNER, now)


def not_up_to_date(
    binding: Object, reason: str, message: str, now: str, *, severity: str = ERROR
) -> None:
    """Something keeps the binding from what its export asks; once bound, it stays bound."""
    mark_false(binding, UP_TO_DATE, reason, message, now, severity=severity)
    if is_false(binding, COMPLETED):
        mark_false(binding, COMPLETED, reason, message, now, severity=severity)


def no_logical_cluster(binding: Object, now: str) -> None:
    why = 'Unable to bind APIs: logicalcluster.core.kcp.io "cluster" not found'
    not_up_to_date(binding, "LogicalClusterNotFound", why, now)


def conflicting(binding: Object, why: str, now: str) -> None:
    not_up_to_date(binding, NAMING_CONFLICTS, f"Unable to bind APIs: {why}", now)


def invalid_schema(binding: Object, schema: BoundSchema, causes: str, now: str) -> None:
    message = f"APIResourceSchema {schema.cluster}|{schema.name} is invalid: {causes}"
    not_up_to_date(binding, "APIResourceSchemaInvalid", message, now)


def waiting(binding: Object, schemas: Sequence[str], now: str) -> None:
    message = f"Waiting for API(s) to be established: {', '.join(sorted(schemas))}"
    not_up_to_date(binding, WAITING, message, now, severity=INFO)


def held_by_others(binding: Object, held: Mapping[str, ResourceLock], now: str) -> None:
    shown = " ".join(f"{name}:{held[name]}" for name in sorted(held, key=_by_group))
    why = "Unable to bind APIs because they are bound by other APIBindings or CRDs"
    not_up_to_date(binding, NAMING_CONFLICTS, f"{why}: map[{shown}]", now)


def _by_group(name: str) -> tuple[str, str]:
    resource, _, group = name.partition(".")
    return group, resource


def bound(binding: Object, now: str) -> None:
    mark_true(binding, COMPLETED, now)
    mark_true(binding, UP_TO_DATE, now)
    binding["status"]["phase"] = BOUND


def finish(binding: Object, now: str) -> None:
    """Being ready depends on the first binding only: what happens later does not undo it."""
    summarise(binding, (COMPLETED,), now)


class BoundList:
    """What the status of a binding lists as bound; one of many is found without a look at all."""

    def __init__(self, binding: Object) -> None:
        self._binding = binding
        self._places: dict[tuple[str, str], int] | None = None
        """By group and resource; None: nothing was changed yet."""

    def upsert(self, schema: BoundSchema, identity: str) -> str:
        """List the resource as bound; returns the UID of the schema that this one replaces."""
        listed, places = self._changeable()
        place = places.setdefault((schema.group, schema.names.plural), len(listed))
        old: Object = listed[place] if place < len(listed) else {}
        listed[place : place + 1] = [_entry(schema, identity, old)]
        before = str((old.get("schema") or {}).get("UID") or "")
        return before if before != schema.uid else ""

    def _changeable(self) -> tuple[list[Object], dict[tuple[str, str], int]]:
        """The list as a copy of our own, and where what is in it."""
        status = self._binding["status"]
        if self._places is None:
            listed = status["boundResources"] = list(status.get("boundResources") or ())
            self._places = {}
            for place, one in enumerate(listed):
                self._places.setdefault((one.get("group") or "", one["resource"]), place)
        return status["boundResources"], self._places


def _entry(schema: BoundSchema, identity: str, old: Object) -> Object:
    entry: Object = {
        "group": schema.group,
        "resource": schema.names.plural,
        "schema": {"name": schema.name, "UID": schema.uid, "identityHash": identity},
    }
    if schema.stored_versions:
        stored = {*schema.stored_versions, *(old.get("storageVersions") or ())}
        entry["storageVersions"] = sorted(stored)
    return entry


# --- names -------------------------------------------------------------------------


class Taken(NamedTuple):
    """Names in use in the cluster, by a bound resource or a CRD."""

    holder: str
    """Who it is, as messages say it."""
    group: str
    names: ResourceNames


def held_by_binding(binding: Object) -> str:
    export = binding["spec"]["reference"]["export"]
    name, path = export.get("name") or "", export.get("path")
    to = f"APIExport {path}:{name}" if path else f"local APIExport {go_quote(name)}"
    return f"naming conflict with APIBinding {go_quote(meta.name(binding))} bound to {to}"


def held_by_crd(name: str) -> str:
    return f"naming conflict with CustomResourceDefinition {go_quote(name)}"


class TakenNames:
    """The names that others have, found without a look at all of them."""

    def __init__(self) -> None:
        self._taken: list[Taken] = []
        self._resources: dict[tuple[str, str], int] = {}
        """By group and plural, singular or short name: the first who has it."""
        self._kinds: dict[tuple[str, str], int] = {}

    def add(self, one: Taken) -> None:
        number, names = len(self._taken), one.names
        self._taken.append(one)
        for name in (names.plural, names.singular, *names.short_names):
            self._resources.setdefault((one.group, name), number)
        for name in (names.kind, names.list_kind):
            self._kinds.setdefault((one.group, name), number)

    def first(self, group: str, wanted: ResourceNames) -> Taken | None:
        """The first who has one of these names."""
        resources = (wanted.plural, wanted.singular, *wanted.short_names)
        found = [self._resources.get((group, name), -1) for name in resources]
        found += [self._kinds.get((group, name), -1) for name in (wanted.kind, wanted.list_kind)]
        first = min((number for number in found if number >= 0), default=-1)
        return self._taken[first] if first >= 0 else None


def naming_conflict(schema: BoundSchema, taken: TakenNames) -> str:
    """Why a schema's names cannot be had; "" if they can."""
    one = taken.first(schema.group, schema.names)
    if one is None:
        return ""
    return f"{one.holder}: {_clash(schema.names, one.names)} is forbidden"


def _clash(wanted: ResourceNames, taken: ResourceNames) -> str:
    names = {taken.plural, taken.singular, *taken.short_names}
    if wanted.plural in names:
        return f"spec.names.plural={wanted.plural}"
    if wanted.singular in names:
        return f"spec.names.singular={wanted.singular}"
    if not names.isdisjoint(wanted.short_names):
        return f"spec.names.shortNames=[{' '.join(wanted.short_names)}]"
    kinds = {taken.kind, taken.list_kind}
    if wanted.kind in kinds:
        return f"spec.names.kind={wanted.kind}"
    if wanted.list_kind in kinds:
        return f"spec.names.listKind={wanted.list_kind}"
    return ""


def status_octets(binding: Object) -> int:
    """About how long the lists of a binding's status are in JSON."""
    status = binding["status"]
    lists = ("boundResources", "exportPermissionClaims", "appliedPermissionClaims")
    return sum(len(status.get(name) or ()) for name in lists) * _ITEM_OCTETS


_ITEM_OCTETS = 160

# --- claims ------------------------------------------------------------------------


def judge_claims(binding: Object, state: claims.ClaimsState, now: str) -> None:
    """Whether what the binding accepts is what its export asks for."""
    if state.mismatches:
        shown = state.mismatches[:_SHOWN_MISMATCHES]
        message = (
            f"{len(state.mismatches)} permission claim(s) have mismatched verbs or selectors "
            f"(showing first {len(shown)}): {', '.join(map(str, shown))}"
        )
        mark_false(
            binding, CLAIMS_VALID, "PermissionClaimsMismatch", message, now, severity=WARNING
        )
    elif state.unexpected:
        shown_errors = [
            f"unexpected/invalid claim for {key.resource}.{key.group} "
            f"(identity {go_quote(key.identity)})"
            for key in state.unexpected[:_SHOWN_ERRORS]
        ]
        message = (
            f"{len(state.unexpected)} unexpected and/or invalid permission claims "
            f"(showing first {len(shown_errors)}): {aggregate(shown_errors)}"
        )
        mark_false(binding, CLAIMS_VALID, "InvalidPermissionClaims", message, now)
    else:
        mark_true(binding, CLAIMS_VALID, now)


def claims_applied(
    binding: Object, keys: Sequence[claims.ClaimKey], errors: Sequence[str], now: str
) -> Steps[None]:
    """These claims' labels are in place; the errors say why others' are not."""
    status = binding["status"] = dict(binding.get("status") or {})
    if keys:
        accepted = yield from claims.accepted(binding)
        status["appliedPermissionClaims"] = [accepted[key] for key in keys]
    else:
        status.pop("appliedPermissionClaims", None)
    if errors:
        message = f"Permission claims have not been fully applied: {aggregate(errors[:10])}"
        mark_false(binding, CLAIMS_APPLIED, INTERNAL_ERROR, message, now)
    else:
        mark_true(binding, CLAIMS_APPLIED, now)


def aggregate(errors: Sequence[str]) -> str:
    """Several errors as one, as Go's do: each once, in brackets if there are more."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


# --- complete bindings -------------------------------------------------------------


class KnownExport(NamedTuple):
    """An export that is in order: its schemas are bound here already."""

    cluster: str
    """The logical cluster's name."""
    name: str
    identity: str
    schemas: tuple[BoundSchema, ...]
    annotations: Mapping[str, str] = {}
    """The annotations that bindings copy from the export."""


def locks_of(export: KnownExport, binding: str) -> dict[str, ResourceLock]:
    """The locks that a binding of this export holds."""
    return {schema.lock: ResourceLock(binding) for schema in export.schemas}


def bound_status(export: KnownExport, now: str) -> Object:
    """The status of a binding without claims that is Bound."""
    binding: Object = {"status": {"apiExportClusterName": export.cluster}}
    listed = BoundList(binding)
    for schema in export.schemas:
        listed.upsert(schema, export.identity)
    for kind in (EXPORT_VALID, CLAIMS_APPLIED, CLAIMS_VALID):
        mark_true(binding, kind, now)
    bound(binding, now)
    finish(binding, now)
    status: Object = binding["status"]
    return status


def bound_binding(name: str, reference: Object, path: str, export: KnownExport, now: str) -> Object:
    """A whole binding without claims, as admission and the controllers would make it.

    `reference` is {path, name} of the export as the binding is to have it; `path` the
    canonical path of the cluster that the binding is for.
    """
    label, value = claims.reflexive_label(export.cluster, export.name)
    return {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {
            "name": name,
            "annotations": {PATH_ANNOTATION: path, **export.annotations},
            "labels": {
                label: value,
                hashes.EXPORT_LABEL: hashes.export_label_value(export.cluster, export.name),
            },
            "finalizers": [FINALIZER],
        },
        "spec": {"reference": {"export": dict(reference)}},
        "status": bound_status(export, now),
    }
