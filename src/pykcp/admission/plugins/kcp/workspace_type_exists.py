"""The type of a new workspace: resolves it, applies it, and checks the permission to use it.

That a type does not exist is disclosed only to users who could see it; others get the error of a
type that they may not use, with the name as they wrote it.
"""

from __future__ import annotations

from pykcp.admission.refusing import denial, refusal
from pykcp.apis.kcp import workspace_types as types
from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION, TYPE_ANNOTATION
from pykcp.apis.kcp.workspace_types import BadType, MissingType, TypeReference
from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACE_TYPES, WORKSPACES, GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.machinery.untyped import mapping
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object


class WorkspaceTypeExists:
    """Lookup and authorizer come by callables: they are made after admission."""

    name = "tenancy.kcp.io/WorkspaceTypeExists"
    kind = WORKSPACES

    def __init__(self, lookup: ObjectLookup, authorizer: Authorizer) -> None:
        self._lookup, self._authorizer = lookup, authorizer

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def mutate(self, request: AdmissionRequest) -> None:
        """Say which type is meant: the parent's default, or the nearest of that name."""
        obj = request.obj
        assert obj is not None
        if request.operation != "CREATE" or _is_mount(obj) or _is_misshapen(obj):
            return
        try:
            self._complete(obj, request.context.cluster)
        except MissingType as error:
            await self._check_sight(request, types.reference((obj.get("spec") or {}).get("type")))
            raise refusal(request, str(error)) from error
        except BadType as error:
            raise refusal(request, str(error)) from error

    async def _check_sight(self, request: AdmissionRequest, wanted: TypeReference | None) -> None:
        """Refuse, unless the user may see that a type, or a workspace on the way to it, is missing."""
        if wanted is None:
            return
        kind, name = WORKSPACE_TYPES, wanted.name
        cluster = self._lookup.cluster_of(wanted.path)
        if cluster is None:
            kind, (cluster, name) = WORKSPACES, self._lookup.nearest(wanted.path)
        verb = "use" if kind == WORKSPACE_TYPES else "get"
        if not await self._may(request, verb, kind, cluster, name):
            raise denial(request, _not_usable(str(wanted)))

    def _complete(self, obj: Object, cluster: str) -> None:
        parent = self._logical_cluster(cluster)
        spec = obj["spec"] = obj.get("spec") or {}
        wanted = types.reference(spec.get("type")) or self._default_type(parent)
        here = _annotation(parent, PATH_ANNOTATION) or cluster
        found = types.resolve(here, wanted, self._find)
        path = wanted.path or types.canonical_path(found)
        spec["type"] = {"name": wanted.name, "path": path}
        types.add_labels(found, obj["metadata"])

    def _default_type(self, parent: Object) -> TypeReference:
        path, name = _type_of(parent)
        found = self._find(path, name)
        if found is None:
            missing = NotFound.resource(
                WORKSPACE_TYPES.group, WORKSPACE_TYPES.resource, clusters.join(path, name)
            )
            raise BadType(f"parent type cannot be resolved: {missing.message}")
        child = types.default_child(found)
        if child is None:
            raise BadType(
                f"spec.defaultChildWorkspaceType of workspace type {path}:{name} must be set"
            )
        return child

    async def validate(self, request: AdmissionRequest) -> None:
        obj, old = request.obj, request.old
        assert obj is not None
        if _is_mount(obj):
            return
        if old is not None:
            if (obj.get("spec") or {}).get("type") != (old.get("spec") or {}).get("type"):
                raise refusal(request, "spec.type is immutable")
            return
        try:
            await self._check(obj, request)
        except BadType as error:
            raise refusal(request, str(error)) from error

    async def _check(self, obj: Object, request: AdmissionRequest) -> None:
        cluster = request.context.cluster
        wanted = types.reference((obj.get("spec") or {}).get("type")) or TypeReference("", "")
        found = types.resolve(cluster, wanted, self._find)
        if not await self._may_use(request, found):
            name = str(wanted) if wanted.path else types.qualified_name(found)
            raise denial(request, _not_usable(name))
        children = types.transitive(found, self._find)
        if not wanted.path:
            raise BadType("spec.type.path must be set")
        for each in children:
            if not await self._may_use(request, each):
                raise denial(request, _not_usable(types.qualified_name(each)))
        path, name = _type_of(self._logical_cluster(cluster))
        own = self._find(path, name)
        own_name = clusters.join(path, name)
        if own is None:
            missing = NotFound.resource(WORKSPACE_TYPES.group, WORKSPACE_TYPES.resource, own_name)
            raise BadType(f"workspace type cannot be resolved: {missing.message}")
        types.check_allowed(types.transitive(own, self._find), children, own_name, str(wanted))

    async def _may_use(self, request: AdmissionRequest, used: Object) -> bool:
        """The creator of a workspace must be allowed to use its type and all types that it extends."""
        cluster, name = types.cluster_of(used), used["metadata"]["name"]
        return await self._may(request, "use", WORKSPACE_TYPES, cluster, name)

    async def _may(
        self,
        request: AdmissionRequest,
        verb: str,
        kind: GroupVersionResource,
        cluster: str,
        name: str,
    ) -> bool:
        attributes = Attributes(
            request.context.user,
            verb,
            group=kind.group,
            resource=kind.resource,
            name=name,
            version=kind.version,
        )
        decision = await self._authorizer.authorize(cluster, attributes, is_deep=True)
        return decision.allowed

    def _find(self, path: str, name: str) -> Object | None:
        return self._lookup.find(WORKSPACE_TYPES, path, name)

    def _logical_cluster(self, cluster: str) -> Object:
        found = self._lookup.logical_cluster(cluster)
        if found is None:
            missing = NotFound.resource("core.kcp.io", "logicalclusters", "cluster")
            raise BadType(f"workspace type cannot be resolved: {missing.message}")
        return found


def _not_usable(name: str) -> str:
    return f"unable to use workspace type {name}: missing verb='use' permission on workspacetype"


def _is_mount(obj: Object) -> bool:
    return mapping(obj.get("spec")).get("mount") is not None


def _is_misshapen(obj: Object) -> bool:
    """Whether it is for the schema to refuse, rather than for us to complete."""
    spec = obj.get("spec")
    if spec is None:
        return False
    given = mapping(spec).get("type")
    parts = (mapping(given).get("name"), mapping(given).get("path"))
    return (
        not isinstance(spec, dict)
        or not (given is None or isinstance(given, dict))
        or not all(part is None or isinstance(part, str) for part in parts)
    )


def _annotation(obj: Object, key: str) -> str:
    value: str = (obj["metadata"].get("annotations") or {}).get(key, "")
    return value


def _type_of(logical_cluster: Object) -> clusters.Split:
    """The type of an existing workspace, as path and name."""
    value = _annotation(logical_cluster, TYPE_ANNOTATION)
    if not value:
        raise BadType(f"annotation {TYPE_ANNOTATION} on LogicalCluster must be set")
    found = clusters.split(value)
    if not found.parent:
        raise BadType(
            f"annotation {TYPE_ANNOTATION} on LogicalCluster must be in the form of cluster:name"
        )
    return found
