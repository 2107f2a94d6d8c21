"""The kinds of the cache server: names without a schema, so that any object is accepted.

There are no subresources and no conversions: spec and status are written together, and every
version returns the same object. An object created with the annotation `kcp.io/shard` is a copy,
which keeps its uid, generation, creation time and managed fields.
"""

from __future__ import annotations

from functools import cache

from pykcp.apis.catalog import ResourceDefinition, ResourceVersion, definition_of
from pykcp.apis.kcp_catalog import AGE, SYSTEM_CRDS
from pykcp.apis.kube.validation.custom import custom_rules
from pykcp.apis.kube.validation.objectmeta import name_is_path_segment
from pykcp.apis.kube.validation.rules import Facts
from pykcp.apis.loader import shared_type
from pykcp.cache.indexes import index_entries, indexed_members
from pykcp.cache.scopes import split
from pykcp.machinery.schema.crd import VERBS, SchemaStore, component_name
from pykcp.machinery.schema.custom import custom_type
from pykcp.machinery.schema.printer import custom_columns
from pykcp.machinery.terms import label_terms
from pykcp.registry import codec
from pykcp.registry.catalog.kinds import Verdict
from pykcp.registry.catalog.schema_kind import SchemaKind
from pykcp.registry.mirroring import StoredCopy
from pykcp.registry.resource import Resource, Services
from pykcp.registry.stored import Value
from pykcp.types import Object

SHARD_ANNOTATION = "kcp.io/shard"
CLUSTER_FIELD = "metadata.cluster"
"""By which a cluster is selected where all shards are asked."""

SERVED = (
    ("apis.kcp.io", "apiconversions"),
    ("apis.kcp.io", "apiexports"),
    ("apis.kcp.io", "apiexportendpointslices"),
    ("apis.kcp.io", "apiresourceschemas"),
    ("cache.kcp.io", "cachedobjects"),
    ("cache.kcp.io", "clustercachedresources"),
    ("cache.kcp.io", "clustercachedresourceendpointslices"),
    ("core.kcp.io", "logicalclusters"),
    ("core.kcp.io", "shards"),
    ("migration.kcp.io", "logicalclustermigrations"),
    ("tenancy.kcp.io", "workspacetypes"),
    ("workload.kcp.dev", "clusters"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
)
"""What is always there; the rest is what ClusterCachedResources ask for."""

_schemas = SchemaStore(shared_type)


@cache
def served_definitions() -> tuple[ResourceDefinition, ...]:
    return tuple(_bare(definition_of(group, plural)) for group, plural in SERVED)


def _bare(known: ResourceDefinition) -> ResourceDefinition:
    return schemaless(
        known.group, known.plural, known.kind, known.versions, namespaced=known.namespaced
    )


def schemaless(
    group: str,
    plural: str,
    kind: str,
    versions: tuple[str, ...],
    *,
    namespaced: bool,
    identity: str = "",
) -> ResourceDefinition:
    """A resource of which nothing is known but its names."""
    return ResourceDefinition(
        group=group,
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        list_kind=f"{kind}List",
        namespaced=namespaced,
        all_versions=tuple(_version(group, kind, version) for version in versions),
        verbs=VERBS,
        storage_version=versions[0],
        native=False,
        origin=SYSTEM_CRDS,
        identity=identity,
        shared=shared_type,
    )


def _version(group: str, kind: str, name: str) -> ResourceVersion:
    ref = component_name(group, name, kind)
    age, date, path = AGE
    return ResourceVersion.lazy(
        name,
        lambda: _schemas.schema(ref, None),
        lambda: custom_columns([{"name": age, "type": date, "jsonPath": path}]),
        load_list_schema=lambda: _schemas.list_schema(
            ref, f"{kind}List", _schemas.schema(ref, None)
        ),
        selectable_fields=frozenset((CLUSTER_FIELD,)),
    )


def _is_copy(metadata: Object) -> bool:
    return SHARD_ANNOTATION in (metadata.get("annotations") or ())


class CachedKind(SchemaKind):
    """Keeps what copies bring, and takes generations as they come."""

    def before_create(self, obj: Object, facts: Facts) -> Verdict:
        generation = obj["metadata"].get("generation")
        verdict = super().before_create(obj, facts)
        if _is_copy(obj["metadata"]):
            _set(obj["metadata"], "generation", generation)
        return verdict

    def before_update(self, new: Object, old: Object, subresource: str, facts: Facts) -> Verdict:
        generation = new["metadata"].get("generation") or old["metadata"].get("generation")
        verdict = super().before_update(new, old, subresource, facts)
        _set(new["metadata"], "generation", generation)
        return verdict

    def manage_update(
        self, live: Object | None, new: Object, manager: str, subresource: str, now: str
    ) -> None:
        if not _is_copy(new["metadata"]):
            super().manage_update(live, new, manager, subresource, now)


def _set(metadata: Object, name: str, value: object) -> None:
    if value:
        metadata[name] = value
    else:
        metadata.pop(name, None)


_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


class CachedResource(Resource):
    """A resource whose clusters are places: joined names of shard and cluster."""

    __slots__ = ()
    ignores_finalizers = True

    def kept_fields(self, metadata: Object) -> Object:
        if not _is_copy(metadata):
            return {}
        return {name: metadata[name] for name in _KEPT if metadata.get(name) is not None}

    def encode(self, stored: Object, cluster: str) -> Value:
        return codec.encode(_placed(stored, cluster), self.annotated_cluster(cluster))

    def stored_copy(self, outline: Object, cluster: str) -> StoredCopy:
        """What is stored of an object in outline (`codec.outline`): of a large one as little
        as possible is decoded."""
        known = codec.members_of(outline, indexed_members((self.group, self.plural)))
        return StoredCopy(
            codec.encode_outline(_placed(outline, cluster), self.annotated_cluster(cluster)),
            self.terms_of(known, cluster),
            self.index_entries(cluster, known),
        )

    def annotated_cluster(self, cluster: str) -> str:
        return split(cluster).cluster

    def unversioned(self, obj: Object, cluster: str) -> bytes:
        return codec.unversioned(_placed(obj, cluster), self.annotated_cluster(cluster))

    def terms_of(self, stored: Object, cluster: str) -> str:
        metadata = stored["metadata"]
        chosen = {"metadata.name": metadata["name"], CLUSTER_FIELD: split(cluster).cluster}
        if self.namespaced:
            chosen["metadata.namespace"] = metadata.get("namespace", "")
        return label_terms(metadata.get("labels"), chosen)

    def index_entries(self, cluster: str, stored: Object) -> tuple[str, ...]:
        namespace = stored["metadata"].get("namespace", "") if self.namespaced else ""
        kind = (self.group, self.plural)
        return index_entries(self.prefix, split(cluster).cluster, namespace, stored, kind)


def _placed(obj: Object, joined: str) -> Object:
    metadata = obj["metadata"]
    annotations = {**(metadata.get("annotations") or {}), SHARD_ANNOTATION: split(joined).shard}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def make_cached(definition: ResourceDefinition, version: str, services: Services) -> CachedResource:
    object_meta = shared_type("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    compiled = custom_type(definition.schema(version), object_meta)
    # Roles may have names that custom kinds may not.
    rules = custom_rules(definition.namespaced, has_status=False, check_name=name_is_path_segment)
    kind = CachedKind(definition, version, compiled, rules)
    return CachedResource(definition, version, kind, services)
