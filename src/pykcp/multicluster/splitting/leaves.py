"""Leaves: the part of a root object that one cluster runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.machinery import meta
from pykcp.multicluster.interpreter.kinds import KindTraits, value_at, with_value
from pykcp.multicluster.interpreter.reports import is_applied, observed_generation
from pykcp.multicluster.names import (
    CLUSTER_LABEL,
    DEPENDS_ON,
    DOWNSTREAM_NAME,
    OWNED_BY,
    ROOT_GENERATION,
    ROOT_UID,
    SYNC_STATE,
    UNSCHEDULABLE,
    leaf_name,
    owned_by,
    syncer_finalizer,
)
from pykcp.multicluster.scheduling.division import Share, divide
from pykcp.multicluster.splitting.inventory import KnownLeaf
from pykcp.multicluster.syncer.render import content_hash
from pykcp.multicluster.syncer.state import parse_stuck
from pykcp.types import Object

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_PASSED = frozenset(
    (_LAST_APPLIED, meta.CLUSTER_ANNOTATION, DEPENDS_ON, SYNC_STATE, UNSCHEDULABLE)
)
"""A root that was assigned by hand before has the state of its syncer, which is not that of leaves."""


def render_leaf(
    root: Object, rules: KindTraits, cluster: str, shares: Sequence[tuple[str, int | None]]
) -> Object:
    """The leaf for one of the clusters. `shares`: the replicas of all of them."""
    made = {name: value for name, value in root.items() if name not in ("metadata", "status")}
    replicas = dict(shares).get(cluster)
    if rules.replicas and replicas is not None:
        made = _with_replicas(made, rules, cluster, shares)
    made["metadata"] = {
        "name": leaf_name(meta.name(root), cluster),
        "namespace": meta.namespace(root),
        "labels": {
            **meta.labels(root),
            CLUSTER_LABEL: cluster,
            OWNED_BY: owned_by(meta.name(root)),
        },
        "annotations": {
            **{k: v for k, v in meta.annotations(root).items() if k not in _NOT_PASSED},
            ROOT_UID: meta.uid(root),
            ROOT_GENERATION: str(meta.generation(root)),
            DOWNSTREAM_NAME: meta.name(root),
        },
        "ownerReferences": [
            {
                "apiVersion": root["apiVersion"],
                "kind": root["kind"],
                "name": meta.name(root),
                "uid": meta.uid(root),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "finalizers": [syncer_finalizer(cluster)],
    }
    return made


def _with_replicas(
    obj: Object, rules: KindTraits, cluster: str, shares: Sequence[tuple[str, int | None]]
) -> Object:
    """The first number is the cluster's share; others (the completions of a Job) are divided in
    the same proportion.
    """
    counts = dict(shares)
    made = with_value(obj, rules.replicas[0], counts[cluster])
    for path in rules.replicas[1:]:
        total = value_at(obj, path)
        if isinstance(total, int) and len(counts) > 1:
            parts = divide(total, [Share(name, max(1, n or 0)) for name, n in counts.items()])
            made = with_value(made, path, parts[cluster])
    return made


def known_leaf(leaf: Object, before: KnownLeaf | None = None) -> KnownLeaf:
    """What is remembered of a leaf. `before`: what was remembered until now."""
    state, status = meta.annotation(leaf, SYNC_STATE), leaf.get("status")
    noted = meta.annotation(leaf, UNSCHEDULABLE)
    stuck = parse_stuck(noted)
    return KnownLeaf(
        meta.labels(leaf)[CLUSTER_LABEL],
        content_mark(leaf),
        is_applied(leaf),
        meta.is_deleting(leaf),
        content_hash((state, status, noted)) if state or status or noted else "",
        observed_generation(leaf) or (before.observed if before is not None else 0),
        stuck.replicas if stuck is not None else 0,
    )


def content_mark(obj: Object) -> str:
    """Changes with the content: the generation, or the content itself of kinds without one."""
    generation = meta.generation(obj)
    return str(generation) if generation else content_hash(_content(obj))


def _content(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def expected(leaf: Object, wanted: Object, root: Object) -> KnownLeaf:
    """What a leaf will be once it is written as it is wanted; `leaf`: as it is, {} if there is none.

    The event of the write then is no news.
    """
    if meta.generation(root):
        is_same = bool(leaf) and _content(leaf) == _content(wanted)
        mark = str(meta.generation(leaf) + (0 if is_same else 1))
    else:
        mark = content_hash(_content(wanted))
    return KnownLeaf(wanted["metadata"]["labels"][CLUSTER_LABEL], mark)


def brought_up_to_date(leaf: Object, wanted: Object) -> Object | None:
    """An existing leaf changed into the wanted one, except for what its syncer writes; None if it
    is right already.
    """
    metadata, own = leaf["metadata"], wanted["metadata"]
    notes = meta.annotations(leaf)
    kept = {
        name: value
        for name, value in notes.items()
        if name.startswith("workloads.kcp.dev/") or name == meta.CLUSTER_ANNOTATION
    }
    annotations = {**kept, **own["annotations"]}
    is_marked = notes == annotations and meta.labels(leaf) == own["labels"]
    if is_marked and _content(leaf) == _content(wanted):
        return None
    made = {**_content(wanted)}
    if "status" in leaf:
        made["status"] = leaf["status"]
    made["metadata"] = {**metadata, "annotations": annotations, "labels": own["labels"]}
    return made
