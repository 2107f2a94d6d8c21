"""Copies of workspaces: what changes in their objects. Pure.

A copy beside the original gets new logical clusters, uids and identities; one that takes its place,
or lies in another installation, keeps them. Content that users wrote is never changed: names are
replaced in metadata, and in the fields of kcp's own kinds.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters, hashes
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORT_ENDPOINT_SLICES,
    API_EXPORTS,
    LOGICAL_CLUSTERS,
    SECRETS,
    WORKSPACE_TYPES,
    WORKSPACES,
)
from pykcp.machinery.terms import label_term
from pykcp.registry import codec, trash
from pykcp.registry.keys import kind_prefix, object_key, split_key
from pykcp.registry.moving.records import TravellingRow
from pykcp.storage.interface import Entry
from pykcp.storage.operations import PutKey
from pykcp.types import Object

_BINDINGS = kind_prefix(API_BINDINGS)
_EXPORTS = kind_prefix(API_EXPORTS)
_SECRETS = kind_prefix(SECRETS)
_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)
_WORKSPACES = kind_prefix(WORKSPACES)
_WITHOUT_STATUS = (_EXPORTS, kind_prefix(API_EXPORT_ENDPOINT_SLICES), kind_prefix(WORKSPACE_TYPES))
"""Their controllers compute it again: it names addresses and other objects."""
_EVENTS = "core/events/"
_TOKENS = "kubernetes.io/service-account-token"
_EXPORT_LABEL = "internal.apis.kcp.io/export"
_ADDRESS = re.compile(r"https?://[^/]+(/clusters/)([^/]+)")


class Renaming(NamedTuple):
    """How a tree of workspaces is called where it is copied to."""

    seed: str
    """New uids and identities are derived from it; "": they stay."""
    clusters: Mapping[str, str]
    """Logical clusters of the tree: their new names, or the same ones."""
    identities: Mapping[str, str]
    """Identities of exports that have another one here."""
    exports: Mapping[str, str]
    """`path:name` of exports in the tree, and the secret of each, `cluster/namespace/name`."""
    source: str
    """The path of the tree …"""
    target: str
    """… and that of the copy."""
    url: str
    """The address of this server."""
    shard: str
    labels: Mapping[str, str]
    """Labels that name exports of the tree by hashes of their logical clusters: the keys of
    claims, and the values of bindings."""
    is_foreign: bool
    """It comes from another installation."""

    def uid(self, old: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.seed}/{old}")) if self.seed else old

    def path(self, old: str) -> str:
        if old == self.source or old.startswith(f"{self.source}:"):
            return self.target + old[len(self.source) :]
        return old

    def identity_key(self, old: str) -> str:
        """The secret of an export that has this identity; with a new one, its copy has another."""
        return hashes.identity_key(sha256(f"{self.seed}/{old}".encode()).digest())


def new_cluster(seed: str, old: str) -> str:
    return hashes.cluster_name(f"{seed}/{old}".encode())


def renamed(row: TravellingRow, names: Renaming) -> PutKey | None:
    """What writes the copy of an object; None if it is not copied."""
    parts = split_key(row.key)
    if trash.is_trash(row.key) or row.key.startswith(_EVENTS):
        return None
    obj = codec.decode(row.value.encode())
    if meta.is_deleting(obj) or _leads_out(obj, parts.resource_prefix, names):
        return None
    cluster = names.clusters[parts.cluster]
    prefix = _prefix(parts.resource_prefix, names)
    terms = _rename(obj, parts.resource_prefix, row.key, row.terms, names)
    value = codec.encode(obj, cluster)
    key = object_key(prefix, cluster, parts.namespace, parts.name)
    stored = row.value.encode()
    if codec.stored_version(stored):
        value = codec.encode(obj, cluster, codec.version_suffix(codec.stored_version(stored)))
    made = trash.indexed(key, Entry(key, 0, codec.fill(value, 0), terms))
    return made._replace(value=value, expect=0)


def _leads_out(obj: Object, prefix: str, names: Renaming) -> bool:
    """Whether it is a Workspace that is not in the tree: created after the tree was listed."""
    spec = obj.get("spec") or {}
    child = spec.get("cluster") if prefix == _WORKSPACES and not spec.get("mount") else None
    return bool(child) and child not in names.clusters


def _prefix(prefix: str, names: Renaming) -> str:
    head, colon, identity = prefix[:-1].partition(":")
    return f"{head}:{names.identities.get(identity, identity)}/" if colon else prefix


def _rename(obj: Object, prefix: str, key: str, terms: str, names: Renaming) -> str:
    """Change an object in place; its terms afterwards."""
    metadata = obj["metadata"]
    obj.pop("apiVersion", None)
    if names.seed:
        metadata["uid"] = names.uid(metadata.get("uid") or "")
        for owner in metadata.get("ownerReferences") or ():
            owner["uid"] = names.uid(owner.get("uid") or "")
    annotations = metadata.get("annotations") or {}
    for name, value in annotations.items():
        if "kcp.io/" in name:
            annotations[name] = _text(value, names)
    if names.labels and metadata.get("labels"):
        terms = _rename_labels(metadata["labels"], terms, names)
    if prefix == _SECRETS:
        _rename_secret(obj, key, names)
    if not prefix.partition("/")[0].endswith("kcp.io"):
        return terms
    for part in ("spec", "status"):
        if part in obj:
            obj[part] = _walk(obj[part], names)
    if prefix in (_CLUSTERS, _WORKSPACES):
        _rename_workspace(obj, names)
    if prefix in _WITHOUT_STATUS and (names.seed or names.is_foreign):
        identity = (obj.get("status") or {}).get("identityHash")
        obj["status"] = {"identityHash": identity} if identity else {}
    if prefix == _BINDINGS:
        _rename_binding(obj, names)
    return terms


def _rename_labels(labels: dict[str, str], terms: str, names: Renaming) -> str:
    for key, value in list(labels.items()):
        new_key = names.labels.get(key, key)
        new_value = names.labels.get(value, value) if key == _EXPORT_LABEL else value
        if (new_key, new_value) != (key, value):
            del labels[key]
            labels[new_key] = new_value
            terms = terms.replace(label_term(key, value), label_term(new_key, new_value))
    return terms


def _rename_secret(obj: Object, key: str, names: Renaming) -> None:
    parts, data = split_key(key), obj.get("data") or {}
    place = f"{parts.cluster}/{parts.namespace}/{parts.name}"
    if names.seed and place in names.exports.values() and data.get("key"):
        identity = hashes.identity_hash(base64.b64decode(data["key"]).decode())
        data["key"] = base64.b64encode(names.identity_key(identity).encode()).decode()
    if obj.get("type") == _TOKENS and (names.seed or names.is_foreign):
        # A token names its logical cluster and its account's uid: the controller makes another.
        obj["data"] = {}


def _rename_workspace(obj: Object, names: Renaming) -> None:
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    for annotation, value in (
        (lifecycle.SHARD_ANNOTATION, names.shard),
        (lifecycle.SHARD_HASH_ANNOTATION, hashes.shard_hash(names.shard)),
    ):
        if annotation in annotations:
            annotations[annotation] = value
    owner = (obj.get("spec") or {}).get("owner") or {}
    if names.seed and owner.get("uid"):
        owner["uid"] = names.uid(owner["uid"])


def _rename_binding(obj: Object, names: Renaming) -> None:
    """A binding whose export has other schemas here is bound again."""
    export = ((obj.get("spec") or {}).get("reference") or {}).get("export") or {}
    path = export.get("path") or meta.annotation(obj, lifecycle.PATH_ANNOTATION)
    targets = {clusters.join(names.path(old), name) for old, _, name in _split(names.exports)}
    is_inside = clusters.join(path, export.get("name") or "") in targets
    if names.is_foreign or (names.seed and is_inside):
        obj.pop("status", None)


def _split(exports: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [export.rpartition(":") for export in exports]


def _walk(value: Any, names: Renaming) -> Any:
    if isinstance(value, str):
        return _text(value, names)
    if isinstance(value, dict):
        return {key: _walk(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_walk(one, names) for one in value]
    return value


def _text(value: str, names: Renaming) -> str:
    """A name of a logical cluster, an identity, a path or an address, as it is called here."""
    found = names.clusters.get(value) or names.identities.get(value)
    if found:
        return found
    if value.startswith("http"):
        return _ADDRESS.sub(lambda m: f"{names.url}{m[1]}{_text(m[2], names)}", value)
    return names.path(value)


def top_workspace(workspace: Object, parent: str, name: str, names: Renaming) -> Object:
    """The Workspace of the whole tree, in its new parent."""
    obj = codec.copy(workspace)
    _rename(obj, _WORKSPACES, "", "", names)
    obj["metadata"]["name"] = name
    obj["metadata"].pop("resourceVersion", None)
    obj["metadata"].setdefault("annotations", {})[codec.CLUSTER_ANNOTATION] = parent
    return obj


def top_cluster(cluster: Object, workspace: Object, parent: str) -> Object:
    """The LogicalCluster of the whole tree, owned by its Workspace."""
    owner = cluster["spec"]["owner"]
    owner.update(name=meta.name(workspace), cluster=parent, uid=workspace["metadata"]["uid"])
    return cluster


def export_labels(exports: Mapping[str, str], called: Mapping[str, str]) -> dict[str, str]:
    """See `Renaming.labels`."""
    found: dict[str, str] = {}
    for export, secret in exports.items():
        name, old = export.rpartition(":")[2], secret.partition("/")[0]
        new = called[old]
        if new != old:
            found[hashes.claim_label_key(old, name)] = hashes.claim_label_key(new, name)
            found[hashes.export_label_value(old, name)] = hashes.export_label_value(new, name)
    return found
