"""What becomes of the objects of a kcp. Pure."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.machinery.kcp import clusters, hashes
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    LOGICAL_CLUSTERS,
    SHARDS,
    WORKSPACES,
    GroupVersionResource,
)
from pykcp.programs.importing.found import FoundObject
from pykcp.programs.kit.errors import SettingsError
from pykcp.registry.moving.imports import ForeignObject
from pykcp.types import Object

_MADE_HERE = frozenset(
    (("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases"))
)
"""Kinds that describe the running processes."""
_ADMIN = "system:admin"
_RBAC = "rbac.authorization.k8s.io"
_ROOT_MARKS = {
    lifecycle.SHARD_ANNOTATION: clusters.ROOT,
    lifecycle.SHARD_HASH_ANNOTATION: hashes.shard_hash(clusters.ROOT),
}
"""Annotations that name a shard, and their values for the one that is made."""


@dataclass(slots=True)
class ImportPlan:
    objects: list[ForeignObject] = field(default_factory=list)
    """In the order in which they are written."""
    workspaces: list[str] = field(default_factory=list)
    """Paths."""
    kinds: Counter[str] = field(default_factory=Counter)
    bindings: list[str] = field(default_factory=list)
    """`cluster/name`"""
    identities: dict[str, str] = field(default_factory=dict)
    """Secret keys of the exports of root, by name."""
    exports: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Why, and how many."""

    def lines(self) -> Iterator[str]:
        yield f"{len(self.workspaces)} workspaces: {_some(self.workspaces)}"
        yield f"{self.exports} exports and {len(self.bindings)} bindings, with their identities"
        yield f"{sum(self.kinds.values())} objects:"
        for kind, count in sorted(self.kinds.items()):
            yield f"  {count:7} {kind}"
        for why, count in sorted(self.left_out.items()):
            yield f"left out: {count} {why}"


def _some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:10])
    return f"{shown}, …" if len(names) > 10 else shown or "none"


IsKnown = Callable[[GroupVersionResource], bool]


def make_plan(shards: Sequence[Sequence[FoundObject]], is_known: IsKnown) -> ImportPlan:
    """What the shards of a kcp hold becomes one. `is_known`: whether a kind is built in here.

    Raises SettingsError.
    """
    plan, everything = ImportPlan(), [one for found in shards for one in found]
    _refuse_partial(shards)
    for found in shards:
        present = _clusters(found)
        for one in found:
            why = _reason_to_leave(one, present, is_known)
            if why:
                plan.left_out[why] += 1
            else:
                _take(plan, one)
    plan.identities = dict(_root_identities(everything))
    plan.objects.sort(key=_rank)
    return plan


def _clusters(found: Iterable[FoundObject]) -> set[str]:
    return {one.cluster for one in found if _is(one, LOGICAL_CLUSTERS)}


def _refuse_partial(shards: Sequence[Sequence[FoundObject]]) -> None:
    """Raises SettingsError unless the shards are all there is of a kcp, each logical cluster once."""
    places = Counter(
        name for found in shards for name in _clusters(found) if not name.startswith("system:")
    )
    if clusters.ROOT not in places:
        raise SettingsError(
            "there is no logical cluster root: this is not the store of a kcp's root shard"
        )
    twice = sorted(name for name, count in places.items() if count > 1)
    if twice:
        raise SettingsError(
            f"{len(twice)} logical clusters are on two shards: {_some(twice)}. Complete their moves"
            " first, or give each shard once"
        )
    away = [one for found in shards for one in found if _is_away(one, places)]
    if away:
        names = [f"{one.cluster}:{one.name}" for one in away]
        raise SettingsError(
            f"the logical clusters of {len(away)} workspaces are on other shards: {_some(names)}."
            " Say by --from-shards where those are read"
        )


def _is_away(one: FoundObject, places: Mapping[str, int]) -> bool:
    """Whether it is a workspace whose logical cluster should be there and is not."""
    if not _is(one, WORKSPACES) or one.cluster not in places:
        return False
    spec = one.obj.get("spec") or {}
    is_going = bool(one.obj["metadata"].get("deletionTimestamp"))
    name = spec.get("cluster")
    return bool(name) and not spec.get("mount") and not is_going and name not in places


def _reason_to_leave(one: FoundObject, present: set[str], is_known: IsKnown) -> str:
    if (one.group, one.resource) in _MADE_HERE:
        return "events and leases"
    if one.cluster.startswith("system:") and (one.cluster, one.group) != (_ADMIN, _RBAC):
        return "objects of kcp's own system clusters"
    if one.cluster not in present and not one.cluster.startswith("system:"):
        return "objects of logical clusters that do not exist any more"
    if _is(one, SHARDS):
        return "shards, which register themselves"
    if not one.is_custom and not is_known(_kind(one)):
        return f"{one.resource}.{one.group} ({one.version}), a kind that is not served here"
    return ""


def _take(plan: ImportPlan, one: FoundObject) -> None:
    obj = one.obj
    if _is(one, API_BINDINGS):
        obj = _unbound(obj)
        plan.bindings.append(f"{one.cluster}/{one.name}")
    elif _is(one, API_EXPORTS):
        plan.exports += 1
    elif _is(one, WORKSPACES):
        path = (obj.get("spec") or {}).get("URL") or ""
        plan.workspaces.append(path.partition("/clusters/")[2] or one.name)
        obj = _on_root_shard(obj)
    elif _is(one, LOGICAL_CLUSTERS):
        obj = _on_root_shard(obj)
    plan.kinds[f"{one.resource}.{one.group}".rstrip(".")] += 1
    made = ForeignObject(_kind(one), one.identity, one.cluster, one.namespace, obj)
    plan.objects.append(made)


def _kind(one: FoundObject) -> GroupVersionResource:
    return GroupVersionResource(one.group, one.version, one.resource)


def _is(one: FoundObject, kind: GroupVersionResource) -> bool:
    return (one.group, one.resource) == (kind.group, kind.resource)


def _unbound(obj: Object) -> Object:
    """A binding that is bound again here: bound definitions are not taken over."""
    return {name: value for name, value in obj.items() if name != "status"}


def _on_root_shard(obj: Object) -> Object:
    """A Workspace or a LogicalCluster, wherever it was."""
    marks = dict(obj["metadata"].get("annotations") or {})
    marks.pop(lifecycle.OWNER_SHARD_ANNOTATION, None)
    for key, value in _ROOT_MARKS.items():
        if key in marks:
            marks[key] = value
    return {**obj, "metadata": {**obj["metadata"], "annotations": marks}}


def _rank(one: ForeignObject) -> tuple[int, str, str]:
    """Logical clusters first, then what defines kinds, then the rest."""
    kind = (one.kind.group, one.kind.resource)
    order = {
        (LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource): 0,
        ("", "namespaces"): 1,
        ("apiextensions.k8s.io", "customresourcedefinitions"): 2,
        ("apis.kcp.io", "apiresourceschemas"): 2,
    }.get(kind, 3)
    return order, one.cluster, one.kind.resource


def _root_identities(objects: list[FoundObject]) -> Iterator[tuple[str, str]]:
    secrets = {
        (one.namespace, one.name): one.obj
        for one in objects
        if one.cluster == clusters.ROOT and (one.group, one.resource) == ("", "secrets")
    }
    for one in objects:
        if one.cluster == clusters.ROOT and _is(one, API_EXPORTS):
            reference = ((one.obj.get("spec") or {}).get("identity") or {}).get("secretRef") or {}
            secret = secrets.get((reference.get("namespace", ""), reference.get("name", "")))
            key = ((secret or {}).get("data") or {}).get("key")
            if key:
                yield one.name, base64.b64decode(key).decode()
