"""The scale of an object: one field of it, seen as another kind.

Everything here is made of a resource and data, so that worker processes can do it for large objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from pykcp.apis.loader import library
from pykcp.machinery.labels import SelectorError, from_label_selector
from pykcp.machinery.patch import jsonpatch, mergepatch
from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.patch.scale import ScaleOwners
from pykcp.machinery.schema.growth import AT_ONCE
from pykcp.machinery.status import BadRequest, InternalError, StatusError
from pykcp.registry import codec
from pykcp.registry.catalog.native import decode_native
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import ShownKind
from pykcp.registry.verbs.preconditions import check_name
from pykcp.server.large.changes import JSON_PATCH, Applying, bad_patch
from pykcp.server.media.bodies import Sent, Warn, check_type, raise_or_warn
from pykcp.types import JSON, Object

VERSION = "autoscaling/v1"
_UNSET = -(1 << 31)
"""Upstream's number of replicas where there is none, before the write puts one there."""


class Scaling(Protocol):
    """What a request makes of a scale."""

    def scale(self, resource: Resource, live: Object, warn: Warn) -> Object:
        """The new scale of an object."""

    def own(self, resource: Resource, new: Object, scale: Object, manager: str) -> None:
        """Set the managers of an object that is changed through the scale."""


class _ByUpdate:
    __slots__ = ()

    def own(self, resource: Resource, new: Object, scale: Object, manager: str) -> None:
        replicas = _replicas(scale)
        if _find(new, _path(resource, "specReplicasPath")) != replicas:
            _own(resource, new, replicas, manager)


@dataclass(frozen=True, slots=True)
class ReplacedScale(_ByUpdate):
    """PUT: the scale that was sent."""

    sent: Object

    def scale(self, resource: Resource, live: Object, warn: Warn) -> Object:
        return codec.copy(self.sent)


@dataclass(frozen=True, slots=True)
class PatchedScale(_ByUpdate):
    """PATCH with a JSON or merge patch."""

    sent: Sent
    namespace: str
    name: str

    def scale(self, resource: Resource, live: Object, warn: Warn) -> Object:
        shown, body = scale_of(resource, live, missing=_UNSET), self.sent.body
        patched: JSON
        if self.sent.form == JSON_PATCH:
            operations, problems = jsonpatch.decode(body, strict=True)
            patched = jsonpatch.apply(codec.copy(shown), operations, jsonpatch.Budget(AT_ONCE))
        else:
            patch, problems = mergepatch.decode(body, strict=True)
            patched = mergepatch.apply(shown, patch)
        new = self._decoded(patched, problems, warn)
        check_name(resource, self.namespace, self.name, new)
        return new

    def _decoded(self, patched: JSON, problems: list[str], warn: Warn) -> Object:
        """The patched scale, typed; what does not fit is the patch's fault: 422."""
        text = codec.sorted_text(patched)
        try:
            scale = check_type(patched, "Scale", VERSION, text)
            new = decode_native(_schema(), "Scale", "v1", scale, problems, None)
        except BadRequest as error:
            why = error.message.partition("as a Scale: ")[2]
            raise bad_patch(text, why or error.message) from error
        if problems and self.sent.field_validation == "Strict":
            raise bad_patch(text, "strict decoding error: " + ", ".join(problems))
        if self.sent.field_validation != "Ignore":
            raise_or_warn(self.sent.field_validation, problems, warn)
        return new


@dataclass(frozen=True, slots=True)
class AppliedScale:
    """PATCH with an applied configuration.

    As in upstream, whose converter does not know scales of custom resources, an apply can share a
    number and conflict about it, but not change it; Kubernetes' own kinds can be scaled so.
    """

    apply: Applying

    def scale(self, resource: Resource, live: Object, warn: Warn) -> Object:
        apply = self.apply
        config = apply.document()
        codec.strip_cluster(config)
        _check_kind(config)
        shown = scale_of(resource, live, missing=0)
        _show_owners(resource, shown, live)
        if "managedFields" not in shown["metadata"]:
            raise _inconvertible(
                "failed to create manager for existing fields: failed to convert live object (/;"
            )
        new = _fields().on_apply(shown, config, apply.manager, apply.now, force=apply.force)
        apply.judge_repeated_keys(warn)
        if new.get("spec") != shown["spec"] and not resource.definition.is_kubernetes:
            metadata = config.get("metadata") or {}
            place = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
            raise _inconvertible(f"failed to convert new object ({place};")
        return new

    def own(self, resource: Resource, new: Object, scale: Object, manager: str) -> None:
        owners = _owners(resource, new["metadata"].get("managedFields") or [])
        entries = owners.for_parent(scale["metadata"].get("managedFields") or [])
        if entries:
            new["metadata"]["managedFields"] = entries


def _check_kind(config: Object) -> None:
    group, _, version = str(config.get("apiVersion") or "").rpartition("/")
    kind = config.get("kind") or ""
    if (f"{group}/{version}", kind) != (VERSION, "Scale"):
        raise BadRequest(f"invalid object type: {group}/{version}, Kind={kind}")


def _inconvertible(what: str) -> StatusError:
    return StatusError(
        f"{what} {VERSION}, Kind=Scale) to proper version: "
        f"request to convert CR to an invalid group/version: {VERSION}",
        reason="",
        details=False,
    )


def _schema() -> Any:
    return library().kind("kube/autoscaling_v1", "Scale")


@cache
def _fields() -> FieldManager:
    return FieldManager(_schema(), VERSION, "Scale", subresource="scale")


@cache
def _kind() -> ShownKind:
    return ShownKind("autoscaling", "v1", "Scale", _schema())


def _replicas(scale: Object) -> int:
    replicas: int = (scale.get("spec") or {}).get("replicas", 0)
    return replicas


@dataclass(frozen=True, slots=True)
class ScaleRecipe:
    """A write through the scale, as data."""

    scaling: Scaling

    def bind(self, resource: Resource, manager: str, warn: Warn) -> ScaleView:
        return ScaleView(resource, manager, self, warn)


class ScaleView:
    """Admission is shown scales, as which clients see the object here."""

    subresource = "scale"

    def __init__(self, resource: Resource, manager: str, recipe: ScaleRecipe, warn: Warn) -> None:
        self._resource, self._manager, self._warn = resource, manager, warn
        self.recipe = recipe
        self.kind = _kind()
        self._scale: Object = {}
        """What was sent, or what a patch made of what was there."""
        self.written: Object | None = None
        """The scale after a write whose object was not decoded here."""

    def make(self, live: Object | None) -> Object:
        """The new object."""
        assert live is not None  # scale never creates
        resource, scaling = self._resource, self.recipe.scaling
        scale = self._scale = scaling.scale(resource, live, self._warn)
        new = codec.copy(live)
        metadata = scale.get("metadata") or {}
        for name in ("uid", "resourceVersion"):
            if metadata.get(name):
                new["metadata"][name] = metadata[name]
        scaling.own(resource, new, scale, self._manager)
        _set(new, _path(resource, "specReplicasPath"), _replicas(scale))
        return resource.rules.decode(new, [])

    def sent(self, obj: Object) -> Object:
        scale = {"kind": self.kind.kind, "apiVersion": VERSION, **codec.copy(self._scale)}
        _show_owners(self._resource, scale, obj)
        return scale

    def write(self, obj: Object, sent: Object) -> None:
        metadata = sent.get("metadata") or {}
        if metadata.get("resourceVersion"):
            obj["metadata"]["resourceVersion"] = metadata["resourceVersion"]
        replicas = _replicas(sent)
        path = _path(self._resource, "specReplicasPath")
        if replicas == _UNSET:
            raise BadRequest(f'the spec replicas field ".{".".join(path)}" cannot be empty')
        _set(obj, path, replicas)

    def show(self, obj: Object, *, is_settled: bool) -> Object:
        scale = scale_of(self._resource, obj, missing=0 if is_settled else _UNSET)
        if not is_settled:
            _show_owners(self._resource, scale, obj)
        return scale


def _show_owners(resource: Resource, scale: Object, obj: Object) -> None:
    scale["metadata"].pop("managedFields", None)
    entries = obj["metadata"].get("managedFields")
    owned = _owners(resource, entries).for_scale() if entries else []
    if owned:
        scale["metadata"]["managedFields"] = owned


def _owners(resource: Resource, entries: list[Object]) -> ScaleOwners:
    definition = resource.definition
    paths = {
        definition.api_version(v.name): _split((v.scale or {}).get("specReplicasPath")) or None
        for v in definition.all_versions
    }
    return ScaleOwners(entries, resource.api_version, paths)


def _own(resource: Resource, new: Object, replicas: int, manager: str) -> None:
    """Record the manager of a scale: the only owner of the replicas, if they have one and are not zero.

    A scale of zero omits its replicas, so they have no owner there.
    """
    entries = new["metadata"].get("managedFields")
    if not entries:
        return
    owners = _owners(resource, entries)
    scaler = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": VERSION,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
        "subresource": "scale",
    }
    scalers = [scaler] if replicas and owners.for_scale() else []
    new["metadata"]["managedFields"] = owners.for_parent(scalers)


def scale_of(resource: Resource, obj: Object, missing: int | None = None) -> Object:
    """The scale that an object shows; `missing`: its replicas if the object does not say."""
    spec_path, status_path = (
        _path(resource, "specReplicasPath"),
        _path(resource, "statusReplicasPath"),
    )
    replicas = _find(obj, spec_path)
    if replicas is None:
        replicas = missing
    if replicas is None:
        shown = "." + ".".join(spec_path)
        raise InternalError(f'the spec replicas field "{shown}" does not exist')
    metadata = {
        name: obj["metadata"][name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in obj["metadata"]
    }
    status: Object = {"replicas": _find(obj, status_path) or 0}
    selector_path = _path(resource, "labelSelectorPath")
    selector = _find(obj, selector_path) if selector_path else None
    if resource.definition.is_kubernetes:
        selector = _selector_text((obj.get("spec") or {}).get("selector"))
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": VERSION,
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    """The selector of one of Kubernetes' kinds as text; replication controllers have plain labels."""
    if not isinstance(selector, dict):
        return ""
    if not selector.keys() & {"matchLabels", "matchExpressions"}:
        selector = {"matchLabels": selector}
    try:
        return str(from_label_selector(selector))
    except SelectorError:
        return ""


def _path(resource: Resource, which: str) -> tuple[str, ...]:
    scale = resource.definition.version(resource.version).scale or {}
    return _split(scale.get(which))


def _split(path: str | None) -> tuple[str, ...]:
    return tuple(part for part in (path or "").split(".") if part)


def _find(obj: Object, path: tuple[str, ...]) -> Any:
    value: Any = obj
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value


def _set(obj: Object, path: tuple[str, ...], number: int) -> None:
    for name in path[:-1]:
        inner = obj.setdefault(name, {})
        if not isinstance(inner, dict):
            raise BadRequest(f"{name} is not an object")
        obj = inner
    obj[path[-1]] = number
