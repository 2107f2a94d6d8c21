"""WorkspaceTypes: fills in the path of references, and checks the permission to bind exports.

The default exports of a type are bound by the system in every workspace of the type. So the
writer of the type must be allowed to bind them.
"""

from __future__ import annotations

from pykcp.admission.plugins.kcp.export_access import ExportAccessPlugin
from pykcp.admission.refusing import denial, refusal
from pykcp.aio.slices import Slices
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACE_TYPES
from pykcp.registry import codec
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.large_request import NOTHING, LargeRequest
from pykcp.types import Object


class WorkspaceTypeRules:
    """Lookup and authorizer come by callables: they are made after admission."""

    name = "tenancy.kcp.io/WorkspaceType"
    kind = WORKSPACE_TYPES

    def __init__(self, lookup: ObjectLookup, authorizer: Authorizer) -> None:
        self._lookup, self._access = lookup, ExportAccessPlugin(lookup, authorizer)

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        new, old = _judged(request)
        assert new is not None
        why = bad_type(new, request.context.cluster)
        if why is not None:
            raise refusal(request, why)
        slices = Slices(request.context.cluster)
        for path, name in _new_exports(new, old):
            if slices.is_over():
                await slices.next()
            if not await self._may_bind(request, path, name):
                # One answer for exports that are missing and for those one may not bind:
                # the error must not disclose which workspaces exist.
                raise denial(
                    request,
                    "unable to create or update WorkspaceType: no permission to bind to export "
                    f"{clusters.join(path, name)}",
                )

    async def _may_bind(self, request: AdmissionRequest, path: str, name: str) -> bool:
        """The export itself need not exist yet."""
        cluster = self._export_cluster(request.context.cluster, path)
        return cluster is not None and await self._access.may_bind(request, cluster, name)

    def _export_cluster(self, own: str, path: str) -> str | None:
        if path in ("", clusters.ROOT):
            return path or own
        lookup = self._lookup
        cluster = lookup.cluster_of(path)
        if cluster is None or lookup.logical_cluster(cluster) is None:
            return None
        return cluster


_JUDGED = (
    "defaultChildWorkspaceType",
    "limitAllowedChildren",
    "limitAllowedParents",
    "defaultAPIBindings",
)


def _judged(request: AdmissionRequest) -> tuple[Object | None, Object | None]:
    """The new and the old type; of large ones only what is checked here."""
    if isinstance(request, LargeRequest) and (texts := request.shown_texts()) is not None:
        new, old = texts
        return _judged_part(new), _judged_part(old)
    return request.obj, request.old


def _judged_part(text: bytes) -> Object | None:
    if text == NOTHING:
        return None
    outline = codec.outline(text)
    given = outline.get("spec", NOTHING)
    spec = {} if given == NOTHING else codec.some_members(given, _JUDGED)
    return {"metadata": outline["metadata"], "spec": spec}


def bad_type(obj: Object, cluster: str) -> str | None:
    """What is wrong with a type as such; None if nothing is."""
    if obj["metadata"].get("name") == "root" and cluster != clusters.ROOT:
        return "root workspace type can only be created in root cluster"
    spec = obj.get("spec") or {}
    child = spec.get("defaultChildWorkspaceType")
    if child is not None and not child.get("path"):
        return ".spec.defaultChildWorkspaceType.path must be set"
    for limit in ("limitAllowedChildren", "limitAllowedParents"):
        for index, allowed in enumerate((spec.get(limit) or {}).get("types") or ()):
            if not allowed.get("path"):
                return f".spec.{limit}.types[{index}].path must be set"
    return None


def _new_exports(obj: Object, old: Object | None) -> list[tuple[str, str]]:
    """The default exports that this write adds."""
    before = set(_exports(old)) if old is not None else set()
    return [each for each in dict.fromkeys(_exports(obj)) if each not in before]


def _exports(obj: Object) -> list[tuple[str, str]]:
    given = (obj.get("spec") or {}).get("defaultAPIBindings") or ()
    return [(each.get("path") or "", each["export"]) for each in given]
