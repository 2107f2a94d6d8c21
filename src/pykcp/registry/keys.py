"""The layout of keys: `<group>/<resource>[:<identity>]/<cluster>/<namespace>/<name>`.

Positions are fixed (a cluster-scoped object has an empty namespace), so every
prefix that is ever listed or watched ends with a slash: a resource in all
logical clusters, in one, in one namespace. A cache server has `<shard>|<cluster>` for
the cluster, and prefixes that end with the bar, too: all clusters of a shard.
"""

from __future__ import annotations

from typing import NamedTuple

from pykcp.apis.kcp_catalog import kind_id
from pykcp.machinery.object_keys import resource_id
from pykcp.machinery.resources import GroupVersionResource

WILDCARD = "*"
SHARD_END = "|"
"""Between shard and cluster in the keys of a cache server."""
PREFIX_ENDS = ("/", SHARD_END)
"""Last characters that distinguish a prefix from a key."""


class KeyParts(NamedTuple):
    resource_prefix: str
    cluster: str
    namespace: str
    name: str


def resource_prefix(group: str, resource: str, identity: str = "") -> str:
    return f"{resource_id(group, resource, identity)}/"


def kind_prefix(kind: GroupVersionResource) -> str:
    """Where the objects of a kind of Kubernetes or kcp are, whichever way clusters get it."""
    return f"{kind_id(kind)}/"


def object_key(prefix: str, cluster: str, namespace: str, name: str) -> str:
    return f"{prefix}{cluster}/{namespace}/{name}"


def is_wildcard(cluster: str) -> bool:
    """Whether many clusters are meant: all of them, or all of a shard."""
    return cluster.endswith(WILDCARD)


def range_prefix(prefix: str, cluster: str, namespace: str = "") -> str:
    """The prefix of everything in a cluster (or all of them, `*`), or in one namespace.

    A cache server keeps clusters by shard, `shard|cluster`: `shard|*` is all of one shard.
    """
    if cluster.endswith(WILDCARD):
        return prefix + cluster[:-1]
    if namespace:
        return f"{prefix}{cluster}/{namespace}/"
    return f"{prefix}{cluster}/"


def split_key(key: str) -> KeyParts:
    group, resource, cluster, namespace, name = key.split("/", 4)
    return KeyParts(f"{group}/{resource}/", cluster, namespace, name)


def enclosing_prefixes(key: str) -> tuple[str, str, str, str]:
    """The prefixes that a watch of this key may have, and the key itself."""
    resource_end = key.index("/", key.index("/") + 1) + 1
    cluster_end = key.index("/", resource_end) + 1
    namespace_end = key.index("/", cluster_end) + 1
    return key[:resource_end], key[:cluster_end], key[:namespace_end], key


ALL_IDENTITIES = "*/"
"""Ends the name under which a resource is watched in all its identities."""


def all_identities_prefix(key: str) -> str:
    """That name, for a key or the prefix of a resource."""
    resource_end = key.index("/", key.index("/") + 1)
    return key[:resource_end].partition(":")[0] + ALL_IDENTITIES


def all_identities_ranges(prefix: str) -> tuple[str, str]:
    """Where the objects of a resource are that is named so: without an identity, and with one."""
    stem = prefix.removesuffix(ALL_IDENTITIES)
    return f"{stem}/", f"{stem}:"


def cluster_of_prefix(prefix: str) -> str:
    """The logical cluster that a key or a watched prefix lies in; "" if it spans all of them."""
    return prefix.split("/", 3)[2]
