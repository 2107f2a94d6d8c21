"""Names of workloads between the parts of the splitter."""

from __future__ import annotations

from typing import NamedTuple

from pykcp.machinery import meta
from pykcp.machinery.resources import GroupVersionResource, split_api_version
from pykcp.multicluster.interpreter.dependencies import Item
from pykcp.multicluster.names import CLUSTER_LABEL, OWNED_BY, short_hash
from pykcp.multicluster.scheduling.snapshot import type_name
from pykcp.types import Object

_LONGEST = 253
DISABLED = "experimental.workloads.kcp.dev/scheduling-disabled"
"""Annotation of objects that are not placed."""
_OF_EVERY_NAMESPACE = frozenset(
    (("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default"))
)


class RootKey(NamedTuple):
    """An object that a user wrote: what the work queues hold."""

    cluster: str
    """The logical cluster of its workspace."""
    type: str
    """As `deployments.apps`."""
    namespace: str
    name: str

    @property
    def item(self) -> Item:
        return Item(self.type, self.name)

    def beside(self, item: Item) -> RootKey:
        """Another object of the same namespace."""
        return RootKey(self.cluster, item.type, self.namespace, item.name)


def binding_name(key: RootKey) -> str:
    """`deployments.apps.web`."""
    name = f"{key.type}.{key.name}"
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 13].rstrip('-.')}-{short_hash(name)}"


def type_of(kind: GroupVersionResource) -> str:
    return type_name(kind.group, kind.resource)


def is_leaf(obj: Object) -> bool:
    marks = meta.labels(obj)
    return CLUSTER_LABEL in marks and OWNED_BY in marks


def is_root(type_name_: str, obj: Object) -> bool:
    """Whether an object is to be placed: not one that a user labelled for a cluster, that a
    controller made, or that every namespace has.
    """
    if CLUSTER_LABEL in meta.labels(obj) or meta.controller_of(obj) is not None:
        return False
    if (type_name_, meta.name(obj)) in _OF_EVERY_NAMESPACE or DISABLED in meta.annotations(obj):
        return False
    return type_name_ != "secrets" or obj.get("type") != "kubernetes.io/service-account-token"


def root_of_leaf(obj: Object) -> str:
    """The name of the root; labels may hold a shortened one."""
    for reference in meta.owner_references(obj):
        if reference.get("kind") == obj.get("kind"):
            return str(reference.get("name") or "")
    return meta.labels(obj).get(OWNED_BY, "")


def same_group(api_version: str, type_name_: str) -> bool:
    group, _ = split_api_version(api_version)
    return type_name_.partition(".")[2] == group
