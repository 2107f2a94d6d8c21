"""Names that the parts of transparent multi-cluster share: kinds, labels, annotations, finalizers,
and the names of objects derived from other names.

API groups are singular (`workload.`), keys of labels and annotations plural (`workloads.`), as in
kcp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha224, sha256

import orjson

from pykcp.machinery.kcp.hashes import base36_padded
from pykcp.machinery.meta import SYNCER_FINALIZER, annotation
from pykcp.machinery.resources import WORKLOAD_CLUSTERS, GroupVersionResource
from pykcp.types import Object

EXPORT = "workload.kcp.dev"
"""The export of `root` that brings the kinds to a workspace."""
GROUP = "workload.kcp.dev"
RESOURCE_GROUP = "apiresource.kcp.dev"
VERSION = "v1alpha1"

CLUSTERS = WORKLOAD_CLUSTERS
PLACEMENTS = GroupVersionResource(GROUP, VERSION, "placements")
WORKLOAD_BINDINGS = GroupVersionResource(GROUP, VERSION, "workloadbindings")
IMPORTS = GroupVersionResource(RESOURCE_GROUP, VERSION, "apiresourceimports")
NEGOTIATED = GroupVersionResource(RESOURCE_GROUP, VERSION, "negotiatedapiresources")

LOCATION_LABEL = "apiresource.kcp.dev/location"
"""Label of APIResourceImports: the Cluster that the type is of."""
SERVICE = "syncer"
"""The virtual workspace of syncers, see `syncer_path`."""
SYNCER_SUBRESOURCE = "syncer"
"""Of Clusters: who may use the virtual workspace of one needs the verb of each request on it."""

# --- in the workspace ------------------------------------------------------------

CLUSTER_LABEL = "workloads.kcp.dev/cluster"
"""Target cluster of an object: the syncer's only selector."""
OWNED_BY = "kcp.dev/owned-by"
"""Label of leaves: name of the root, see `owned_by`."""
ROOT_UID = "workloads.kcp.dev/root-uid"
ROOT_GENERATION = "workloads.kcp.dev/root-generation"
DOWNSTREAM_NAME = "workloads.kcp.dev/downstream-name"
"""Annotation: name of the copy in the cluster, so that references between objects stay valid."""
SYNC_STATE = "workloads.kcp.dev/sync-state"
"""Annotation: JSON of applied generation, error and time."""
UNSCHEDULABLE = "workloads.kcp.dev/unschedulable"
"""Annotation: JSON of the replicas that no node of the cluster takes, and why."""
DEPENDS_ON = "workloads.kcp.dev/depends-on"
CONFLICT_RESOLUTION = "workloads.kcp.dev/conflict-resolution"
"""Annotation: Abort (default) or Overwrite an object of the cluster that is in the way."""
CLUSTER_FINALIZER = "workload.kcp.dev/cluster"
"""Finalizer of Clusters."""
FORCE_DELETE = "workloads.kcp.dev/force-delete"
"""Annotation of a Cluster: `true` deletes it without waiting for its objects."""

# --- in the cluster --------------------------------------------------------------

DOWNSTREAM_CLUSTER = "internal.workloads.kcp.dev/cluster"
"""Label of everything that a registration owns in the cluster, see `registration_label`."""
NAMESPACE_LOCATOR = "kcp.dev/namespace-locator"
ORIGIN_UID = "workloads.kcp.dev/origin-uid"
ORIGIN_NAME = "workloads.kcp.dev/origin-name"
"""Name of the object in the workspace, which may differ from that of its copy."""
ORIGIN_GENERATION = "workloads.kcp.dev/origin-generation"
"""Generation of the object in the workspace that was applied."""
APPLIED_HASH = "workloads.kcp.dev/applied-hash"
FIELD_MANAGER = "kcp-syncer"

# --- taints that the control plane sets ------------------------------------------

TAINT_NOT_READY = "workload.kcp.dev/not-ready"
TAINT_UNREACHABLE = "workload.kcp.dev/unreachable"
TAINT_UNSCHEDULABLE = "workload.kcp.dev/unschedulable"

# --- time ------------------------------------------------------------------------

HEARTBEAT_SECONDS = 10.0
HEARTBEAT_EXPIRY_SECONDS = 40.0

_LABEL_MAX = 63
_HASH_LENGTH = 12
_SHARED = re.compile(r".+-[0-9a-z]{8}")


def short_hash(text: str, length: int = _HASH_LENGTH) -> str:
    """Lower-case letters and digits; 12 of them have 62 bits."""
    return base36_padded(sha256(text.encode(), usedforsecurity=False).digest())[:length]


def _shortened(name: str, limit: int, full: str = "") -> str:
    """The name if it fits, otherwise its beginning and a hash of all of it."""
    if len(name) <= limit:
        return name
    suffix = short_hash(full or name, 8)
    return f"{name[: limit - len(suffix) - 1].rstrip('-.')}-{suffix}"


def leaf_name(root: str, cluster: str) -> str:
    """The name of the part of a root object that one cluster runs."""
    return _shortened(f"{root}--{cluster}", _LABEL_MAX)


def shared_name(workspace: str, cluster: str) -> str:
    """By what a cluster is known in other workspaces than that of its registration: clusters of
    equal names in two workspaces are told apart.
    """
    return f"{_shortened(cluster, _LABEL_MAX - 9)}-{short_hash(f'{workspace}/{cluster}', 8)}"


def is_shared_name(name: str) -> bool:
    """Whether it may be such a name; some others look alike."""
    return _SHARED.fullmatch(name) is not None


def home_shard(cluster: Object) -> str:
    """The shard that a published Cluster is of; empty for one of this shard."""
    return annotation(cluster, "kcp.io/shard") or ""


def owned_by(root: str) -> str:
    """The value of OWNED_BY for a root of this name."""
    return _shortened(root, _LABEL_MAX)


def syncer_finalizer(cluster: str) -> str:
    """On an object of which a copy may exist in this cluster."""
    prefix, _, start = SYNCER_FINALIZER.partition("/")
    return f"{prefix}/{_shortened(start + cluster, _LABEL_MAX)}"


def registration_label(cluster_uid: str) -> str:
    """The value of DOWNSTREAM_CLUSTER for the Cluster object with this UID."""
    return short_hash(cluster_uid, 24)


def syncer_path(workspace: str, cluster: str, uid: str) -> str:
    """Where the syncer of a Cluster sees the objects that are assigned to it, and no others."""
    return f"/services/{SERVICE}/{workspace}/{cluster}/{uid}"


CONSUMERS = "/consumers"
"""Below it: which other workspaces the Cluster serves."""


def cluster_path(workspace: str, cluster: str, uid: str) -> str:
    """Where the shard of a Cluster lets other shards talk to the cluster itself."""
    return f"{syncer_path(workspace, cluster, uid)}/cluster"


def syncer_namespace(cluster: str, uid: str) -> str:
    """The namespace in the cluster in which a pulling syncer runs."""
    return f"{_shortened(f'kcp-syncer-{cluster}', _LABEL_MAX - 9)}-{short_hash(uid, 8)}"


def import_name(plural: str, location: str, version: str, group: str) -> str:
    return f"{plural}.{location}.{version}.{group or 'core'}"


def negotiated_name(plural: str, version: str, group: str) -> str:
    return f"{plural}.{version}.{group or 'core'}"


def negotiated_type(name: str) -> GroupVersionResource:
    """The type that such a name is of."""
    plural, _, rest = name.partition(".")
    version, _, group = rest.partition(".")
    return GroupVersionResource("" if group == "core" else group, version, plural)


@dataclass(frozen=True, slots=True)
class Locator:
    """Where an object of a cluster comes from."""

    installation: str
    """Identity of the control plane."""
    cluster_uid: str
    """UID of the Cluster object."""
    logical_cluster: str
    namespace: str
    """Namespace in the workspace; empty for objects without one."""

    def to_json(self) -> str:
        fields = {
            "installation": self.installation,
            "clusterUID": self.cluster_uid,
            "logicalCluster": self.logical_cluster,
            "namespace": self.namespace,
        }
        return orjson.dumps(fields).decode()

    def downstream_namespace(self) -> str:
        """The name of the namespace's copy in the cluster."""
        digest = sha224(self.to_json().encode(), usedforsecurity=False).digest()
        return f"kcp-{base36_padded(digest)[:_HASH_LENGTH]}"


def parse_locator(text: str) -> Locator | None:
    """The locator that an annotation holds; None if it is not one."""
    try:
        fields = orjson.loads(text)
        values = [fields[k] for k in ("installation", "clusterUID", "logicalCluster", "namespace")]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return Locator(*values) if all(isinstance(value, str) for value in values) else None
