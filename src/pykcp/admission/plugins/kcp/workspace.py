"""Workspaces: sets and protects the owner, required groups and system fields."""

from __future__ import annotations

from pykcp.admission.annotations import go_json
from pykcp.admission.refusing import refusal
from pykcp.apis.kcp.logical_clusters import (
    CLUSTER_ANNOTATION,
    OWNER_ANNOTATION,
    SHARD_ANNOTATION,
    SHARD_HASH_ANNOTATION,
)
from pykcp.auth.user import EXTERNAL_LOGICAL_CLUSTER_ADMIN, LOGICAL_CLUSTER_ADMIN, MASTERS, User
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACES
from pykcp.machinery.status import NotFound, invalid
from pykcp.machinery.untyped import mapping
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object

REQUIRED_GROUPS = "authorization.kcp.io/required-groups"
_CLAIMS = (OWNER_ANNOTATION, REQUIRED_GROUPS)
_PLACEMENT = (CLUSTER_ANNOTATION, SHARD_ANNOTATION, SHARD_HASH_ANNOTATION)
"""Where the logical cluster is: a shard is sent there to provision and to delete it."""
_PLACING = frozenset((MASTERS, LOGICAL_CLUSTER_ADMIN, EXTERNAL_LOGICAL_CLUSTER_ADMIN))
_MOUNT_FIELDS = ("kind", "name", "namespace", "apiVersion")


class WorkspaceRules:
    """The lookup comes by a callable: it is made after admission, which it depends on."""

    name = "tenancy.kcp.io/Workspace"
    kind = WORKSPACES

    def __init__(self, lookup: ObjectLookup) -> None:
        self._lookup = lookup

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def mutate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        _spell_out_mount(request.obj)
        metadata, user = request.obj["metadata"], request.context.user
        if _PLACING.isdisjoint(user.groups):
            _keep(metadata, request.old, _PLACEMENT)
        if request.old is not None:
            if MASTERS not in user.groups:
                _keep_claims(metadata, request.old)
            return
        annotations: dict[str, str] = metadata.get("annotations") or {}
        is_system = MASTERS in user.groups
        if not is_system:
            annotations[OWNER_ANNOTATION] = owner_text(user)
        if not is_system or REQUIRED_GROUPS not in annotations:
            inherited = self._required_groups(request)
            if inherited is None:
                annotations.pop(REQUIRED_GROUPS, None)
            else:
                annotations[REQUIRED_GROUPS] = inherited
        if annotations:
            metadata["annotations"] = annotations
        else:
            metadata.pop("annotations", None)

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        is_system = MASTERS in request.context.user.groups
        if request.old is None:
            why = None if is_system else self._bad_claims(request)
            why = why or self._bad_depth(request)
            why = why or bad_creation(request.obj, is_system=is_system)
        else:
            why = bad_change(request.obj, request.old, is_system=is_system)
        if why is not None:
            raise refusal(request, why)

    def _required_groups(self, request: AdmissionRequest) -> str | None:
        """What the workspace that holds this one asks of its visitors."""
        parent = self._lookup.logical_cluster(request.context.cluster)
        if parent is None:
            missing = NotFound.resource("core.kcp.io", "logicalclusters", "cluster")
            raise refusal(request, missing.message)
        value: str | None = (parent["metadata"].get("annotations") or {}).get(REQUIRED_GROUPS)
        return value

    def _bad_claims(self, request: AdmissionRequest) -> str | None:
        """What plug-ins and webhooks of tenants may have made of what `mutate` wrote."""
        obj = request.obj
        assert obj is not None
        spec = obj.get("spec") or {}
        if spec.get("cluster"):
            return "spec.Cluster can only be set by system privileged users"
        if spec.get("URL"):
            return "spec.URL can only be set by system privileged users"
        annotations = obj["metadata"].get("annotations") or {}
        owner = owner_text(request.context.user)
        if annotations.get(OWNER_ANNOTATION) != owner:
            return f"expected user annotation {OWNER_ANNOTATION}={owner}"
        expected = self._required_groups(request) or ""
        if annotations.get(REQUIRED_GROUPS, "") != expected:
            return f"missing required groups annotation {REQUIRED_GROUPS}={expected}"
        return None

    def _bad_depth(self, request: AdmissionRequest) -> str | None:
        """A workspace below the deepest path that is followed could not be reached by its own."""
        parent = self._lookup.canonical_path(request.context.cluster)
        if clusters.is_too_deep(clusters.join(parent, meta.name(request.obj or {}))):
            return f"workspaces cannot be nested deeper than {clusters.MAX_DEPTH} levels"
        return None


def _spell_out_mount(obj: Object) -> None:
    """Missing fields of a mount are empty, so this check rejects them instead of the schema."""
    mount = mapping(obj.get("spec")).get("mount")
    if isinstance(mount, dict):
        target = mount.setdefault("ref", {})
        if isinstance(target, dict):
            for field in ("apiVersion", "kind", "name"):
                target.setdefault(field, "")


def _keep_claims(metadata: Object, old: Object) -> None:
    """What the creation said of owner and visitors is what the logical cluster begins with."""
    if (old.get("spec") or {}).get("cluster"):
        return  # it has begun: from now on the annotations are only shown
    _keep(metadata, old, _CLAIMS)


def _keep(metadata: Object, old: Object | None, keys: tuple[str, ...]) -> None:
    """Annotations as they were before the change; none if the object is new."""
    before = (old["metadata"].get("annotations") or {}) if old is not None else {}
    annotations = metadata.get("annotations") or {}
    others = {k: v for k, v in annotations.items() if k not in keys}
    kept = others | {k: before[k] for k in keys if k in before}
    if kept != annotations:
        metadata["annotations"] = kept


def owner_text(user: User) -> str:
    """The creator, as JSON: what the owner annotation says."""
    return go_json(user.to_json())


def bad_creation(obj: Object, *, is_system: bool) -> str | None:
    """Why a workspace cannot be made so; None if it can."""
    spec = obj.get("spec") or {}
    mount = spec.get("mount")
    if mount is None:
        return None
    target = mount.get("ref") or {}
    for field in ("kind", "name", "apiVersion"):
        if not target.get(field):
            return f"spec.mount.{field} must be set"
    if not is_system and spec.get("type") is not None:
        return "spec.type cannot be set for mounted workspaces"
    return None


def bad_change(new: Object, old: Object, *, is_system: bool) -> str | None:
    """Why a workspace may not become so; None if it may."""
    if (old.get("spec") or {}).get("mount") is not None:
        return _bad_mount_change(new.get("spec") or {}, old["spec"], is_system=is_system)
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if before.get("cluster") and not spec.get("cluster"):
        return "spec.cluster cannot be unset"
    for field in ("cluster", "URL"):
        if (spec.get(field) or "") != (before.get(field) or "") and not is_system:
            return f"spec.{field} can only be changed by system privileged users"
    if spec.get("type") != before.get("type"):
        return invalid("spec.type", spec.get("type"), "field is immutable").text()
    phase = (new.get("status") or {}).get("phase")
    if phase == "Ready" and (old.get("status") or {}).get("phase") != "Ready":
        for field in ("cluster", "URL"):
            if not spec.get(field):
                return f"spec.{field} must be set for phase Ready"
    return None


def _bad_mount_change(spec: Object, before: Object, *, is_system: bool) -> str | None:
    target = (spec.get("mount") or {}).get("ref") or {}
    was = before["mount"].get("ref") or {}
    for field in _MOUNT_FIELDS:
        if (target.get(field) or "") != (was.get(field) or ""):
            return f"spec.mount.{field} is immutable"
    if is_system:
        return None
    if spec.get("type") is not None:
        return "spec.type cannot be set for mounted workspaces"
    return "spec.type is immutable" if before.get("type") is not None else None
