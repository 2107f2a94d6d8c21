"""Provisioning of a workspace: its logical cluster with all that it starts with, in one write.

What the standard initializers would do (namespaces with what belongs into them, default
bindings, the creator's rights) is known beforehand when the exports are in order, so it is
written together with the LogicalCluster and the Workspace that owns it: a workspace is
either there and complete, or not there. What is not known (foreign initializers, exports
that are not here yet or claim something) is left to the initializers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.apis.kcp import workspace_types
from pykcp.apis.kcp_catalog import BOUND_CRDS, is_exported
from pykcp.caching import BoundedCache
from pykcp.clients.interface import Change
from pykcp.controllers.apis.binding import (
    BoundSchema,
    KnownExport,
    bound_binding,
    locks_of,
    names_of,
)
from pykcp.controllers.kube.default_accounts import ACCOUNT as DEFAULT_ACCOUNT
from pykcp.controllers.kube.root_ca import CONFIG_MAP as CA_MAP
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters, hashes, resource_locks
from pykcp.machinery.kcp.condition_marks import mark_true
from pykcp.machinery.kcp.replicate_marks import ANNOTATION as REPLICATE
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    WORKSPACE_TYPES,
    GroupVersionResource,
)
from pykcp.machinery.terms import label_term
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.templates import ObjectTemplate, TemplateCopy
from pykcp.types import Object

UNIVERSAL = "root:universal"
"""The initializer that makes the namespaces `default` and `kube-system`."""
NAMESPACES_OF_UNIVERSAL = ("default", "kube-system")
EXTRA_ANNOTATIONS = "extra.apis.kcp.io/"
ADMIN_BINDING = "workspace-admin"
_RBAC = "rbac.authorization.k8s.io"

_IS_READY = label_term(lifecycle.PHASE_LABEL, lifecycle.READY)
_READY = b'"phase":"%b"' % lifecycle.READY.encode()

Part = tuple[GroupVersionResource, TemplateCopy]
"""An object of the new logical cluster."""
_KEEP = 256


class ProvisioningPlan(NamedTuple):
    """All that is to be written for a new logical cluster."""

    cluster: Object
    """The LogicalCluster as it is when all of it is written."""
    parts: list[Part]
    """Everything else."""


class _Export(NamedTuple):
    """An export that can be bound at once."""

    export: Object
    known: KnownExport
    template: ObjectTemplate


class WorkspaceProvisioning:
    def __init__(
        self,
        lookup: ObjectLookup,
        ca_map: Callable[[str], Object],
        shard_name: str,
        now: Callable[[], str],
    ) -> None:
        """`ca_map`: the ConfigMap with the CA, for a namespace."""
        self._lookup = lookup
        self._ca_map = ca_map
        self._shard = shard_name
        self._now = now
        self._exports: BoundedCache[tuple[str, str], _Export] = BoundedCache(
            "provisioned-exports", _KEEP
        )
        self._templates: BoundedCache[tuple[str, str], ObjectTemplate] = BoundedCache(
            "templates", _KEEP
        )

    def types_of(self, path: str, name: str) -> list[Object]:
        """A type with all that it extends, bases first. Raises workspace_types.BadType."""
        found = self._find_type(path, name)
        if found is None:
            raise workspace_types.MissingType(clusters.join(path, name))
        return workspace_types.transitive(found, self._find_type)

    def _find_type(self, path: str, name: str) -> Object | None:
        return self._lookup.find(WORKSPACE_TYPES, path, name)

    def of_workspace(self, workspace: Object, name: str, path: str, url: str) -> ProvisioningPlan:
        """`name` and `path` are the new cluster's, `url` its address by name."""
        kind = workspace["spec"].get("type") or {}
        annotations = {lifecycle.PATH_ANNOTATION: path, **_handed_down(workspace)}
        spec: Object = {
            "owner": {
                "apiVersion": "tenancy.kcp.io/v1alpha1",
                "resource": "workspaces",
                "name": meta.name(workspace),
                "cluster": meta.cluster(workspace),
                "uid": meta.uid(workspace),
            }
        }
        return self.plan(
            name, path, (kind.get("path") or "", kind.get("name") or ""), annotations, spec, url
        )

    def plan(
        self,
        name: str,
        path: str,
        kind: tuple[str, str],
        annotations: dict[str, str],
        spec: Object,
        url: str,
    ) -> ProvisioningPlan:
        """A logical cluster of a type (path and name), with what can be made of it at once."""
        types = self.types_of(*kind)
        initializers = workspace_types.initializers(types)
        terminators = workspace_types.terminators(types)
        cluster = _cluster(clusters.join(*kind), annotations, spec, initializers, terminators)
        parts: list[Part] = []
        done: list[str] = []
        if UNIVERSAL in initializers:
            parts += self._namespaces()
            done.append(UNIVERSAL)
        known = self._known(types)
        if known is not None:
            parts += self._bindings(name, path, known, cluster)
            done.append(workspace_types.API_BINDINGS_INITIALIZER)
        creator = lifecycle.creator_of(cluster)
        if creator:
            template = self._template(creator, ADMIN_BINDING)
            made = TemplateCopy(template, "", ADMIN_BINDING, partial(admin_binding, creator))
            parts.append((CLUSTER_ROLE_BINDINGS, made))
        now = self._now()
        # Initializers whose work is part of this plan are not listed, so they have nothing to wait for.
        status: Object = {"phase": lifecycle.INITIALIZING}
        left = [each for each in initializers if each not in done]
        if left:
            status["initializers"] = left
        if terminators:
            status["terminators"] = terminators
        cluster["status"] = status
        lifecycle.settle(cluster, url, self._shard, now)
        if known is not None:
            mark_true(cluster, "APIBindingsReconciled", now)
        return ProvisioningPlan(cluster, parts)

    def _template(self, place: str, name: str) -> ObjectTemplate:
        found = self._templates.get((place, name))
        if found is None:
            found = self._templates.put((place, name), ObjectTemplate())
        return found

    def _namespaces(self) -> Iterator[Part]:
        for name in NAMESPACES_OF_UNIVERSAL:
            namespace = partial(universal_namespace, name)
            yield NAMESPACES, TemplateCopy(self._template("", name), "", name, namespace)
            account = self._template(name, DEFAULT_ACCOUNT)
            yield (
                SERVICE_ACCOUNTS,
                TemplateCopy(account, name, DEFAULT_ACCOUNT, partial(_account, name)),
            )
            ca = self._template(name, CA_MAP)
            yield CONFIG_MAPS, TemplateCopy(ca, name, CA_MAP, partial(self._ca_map, name))

    def _bindings(
        self,
        cluster: str,
        path: str,
        found: Iterable[tuple[workspace_types.ExportReference, _Export]],
        logical_cluster: Object,
    ) -> Iterator[Part]:
        """Each bound from the start; the cluster's annotation says so, too."""
        locks: dict[str, resource_locks.ResourceLock] = {}
        now = self._now()
        for wanted, (_, export, template) in found:
            name = hashes.default_binding_name(cluster, wanted.path, wanted.name)
            reference = {"path": wanted.path, "name": wanted.name}
            # The locks are part of the new LogicalCluster: a CRD created later cannot take the names.
            locks.update(locks_of(export, name))
            make = partial(bound_binding, name, reference, path, export, now)
            yield API_BINDINGS, TemplateCopy(template, "", name, make, (name, path))
        if locks:
            annotations = logical_cluster["metadata"]["annotations"]
            annotations[resource_locks.ANNOTATION] = resource_locks.text(locks)

    def _known(
        self, types: list[Object]
    ) -> list[tuple[workspace_types.ExportReference, _Export]] | None:
        """The exports to bind, if they can all be bound at once; None if one cannot."""
        found = []
        taken: set[str] = set()
        for wanted in workspace_types.default_bindings(types):
            export = self._known_export(wanted.path, wanted.name)
            if export is None:
                return None
            locks = {schema.lock for schema in export.known.schemas}
            if locks & taken:
                return None  # the binding controller decides which of them gets it
            taken |= locks
            found.append((wanted, export))
        return found

    def _known_export(self, path: str, name: str) -> _Export | None:
        export = self._lookup.find(API_EXPORTS, path, name)
        if export is None:
            return None
        remembered = self._exports.get((path, name))
        if remembered is not None:
            if remembered.export is export:
                return remembered
            if remembered.export == export:  # read anew
                return self._exports.put((path, name), remembered._replace(export=export))
        known = self._read_export(export)
        if known is None:
            return None  # not remembered: what is missing may be created later
        return self._exports.put((path, name), _Export(export, known, ObjectTemplate()))

    def _read_export(self, export: Object) -> KnownExport | None:
        spec, status = export.get("spec") or {}, export.get("status") or {}
        # The initializer waits until accepted claims are applied, and until there is an identity.
        if spec.get("permissionClaims") or not status.get("identityHash"):
            return None
        cluster = meta.cluster(export)
        schemas = []
        for resource in spec.get("resources") or ():
            schema = self._lookup.get(API_RESOURCE_SCHEMAS, cluster, resource["schema"])
            if schema is None or "virtual" in (resource.get("storage") or {}):
                return None
            group, names = schema["spec"]["group"], names_of(schema["spec"]["names"])
            stored = self._stored_versions(meta.uid(schema))
            if stored is None and cluster == clusters.ROOT and is_exported(group, names.plural):
                stored = ("v1alpha1",)  # kcp's own kinds are served without
            if stored is None:
                return None
            schemas.append(
                BoundSchema(meta.name(schema), meta.uid(schema), cluster, group, names, stored)
            )
        extra = {
            k: v for k, v in meta.annotations(export).items() if k.startswith(EXTRA_ANNOTATIONS)
        }
        return KnownExport(
            cluster, meta.name(export), status["identityHash"], tuple(schemas), extra
        )

    def _stored_versions(self, uid: str) -> tuple[str, ...] | None:
        """Of a schema that is bound somewhere on this shard already."""
        crd = self._lookup.get(CUSTOM_RESOURCE_DEFINITIONS, BOUND_CRDS, uid)
        if crd is None:
            return None
        return tuple((crd.get("status") or {}).get("storedVersions") or ()) or None


def is_created_ready(change: Change) -> bool:
    """Whether a logical cluster was created with all that it starts with: nothing is left to do."""
    return change.created and _IS_READY in change.terms and _READY in change.value


def _handed_down(workspace: Object) -> dict[str, str]:
    kept = (lifecycle.OWNER_ANNOTATION, lifecycle.REQUIRED_GROUPS_ANNOTATION)
    annotations = meta.annotations(workspace)
    return {key: annotations[key] for key in kept if annotations.get(key)}


def _cluster(
    kind: str,
    annotations: dict[str, str],
    spec: Object,
    initializers: list[str],
    terminators: list[str],
) -> Object:
    owner = lifecycle.user_of(annotations.get(lifecycle.OWNER_ANNOTATION, ""))
    if owner is not None:
        parts = ("username", "uid", "groups", "extra")
        spec = {**spec, "createdBy": {part: owner[part] for part in parts if owner.get(part)}}
    if initializers:
        spec = {**spec, "initializers": initializers}
    if terminators:
        spec = {**spec, "terminators": terminators}
    return {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {
            "name": "cluster",
            "annotations": {lifecycle.TYPE_ANNOTATION: kind, **annotations},
            "finalizers": [lifecycle.DELETION_FINALIZER],
        },
        "spec": spec,
    }


def universal_namespace(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "annotations": {"bootstrap.kcp.io/create-only": "true"}},
    }


def _account(namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace},
    }


def admin_binding(user: str) -> Object:
    """Who made a workspace may do everything in it."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {
            "name": ADMIN_BINDING,
            # What the replication controller would add: so it need not be written twice.
            "annotations": {REPLICATE: "apis.kcp.io,tenancy.kcp.io"},
        },
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }
