"""Leaves: the part of a root object that one cluster runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.machinery import meta
from pykcp.multicluster.interpreter.kinds import KindTraits, value_at, with_value
from pykcp.multicluster.names import (
    CLUSTER_LABEL,
    DEPENDS_ON,
    DOWNSTREAM_NAME,
    OWNED_BY,
    ROOT_GENERATION,
    ROOT_UID,
    SYNC_STATE,
    leaf_name,
    owned_by,
    syncer_finalizer,
)
from pykcp.multicluster.scheduling.division import Share, divide
from pykcp.types import Object

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_PASSED = frozenset((_LAST_APPLIED, meta.CLUSTER_ANNOTATION, DEPENDS_ON, SYNC_STATE))
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
                "blockOwnerDeletion": False,
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


def brought_up_to_date(leaf: Object, wanted: Object) -> bool:
    """Change an existing leaf into the wanted one, except for what its syncer writes; False if it
    is right already.
    """
    metadata = leaf["metadata"]
    own = wanted["metadata"]
    before = (dict(leaf), dict(metadata))
    kept = {k: v for k, v in meta.annotations(leaf).items() if k.startswith("workloads.kcp.dev/")}
    cluster = meta.annotations(leaf).get(meta.CLUSTER_ANNOTATION)
    if cluster is not None:
        kept[meta.CLUSTER_ANNOTATION] = cluster
    metadata["annotations"] = {**kept, **own["annotations"]}
    metadata["labels"] = own["labels"]
    for name in [name for name in leaf if name not in ("metadata", "status", *wanted)]:
        del leaf[name]
    leaf.update((name, value) for name, value in wanted.items() if name != "metadata")
    return (dict(leaf), dict(metadata)) != before
