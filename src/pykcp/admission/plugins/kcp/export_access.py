"""Resolves an export and checks the permission to bind it."""

from __future__ import annotations

from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import API_EXPORTS
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest


class ExportAccessPlugin:
    def __init__(self, lookup: ObjectLookup, authorizer: Authorizer) -> None:
        self._lookup, self._authorizer = lookup, authorizer

    def cluster_of(
        self, own: str, path: str, name: str, *, may_wait_for_root: bool = False
    ) -> str | None:
        """The logical cluster of an export, by name; None if there is no such export.

        Those of the own cluster may come later, and if need be those of `root`.
        """
        if not path:
            return own
        if path == clusters.ROOT and may_wait_for_root:
            return clusters.ROOT
        lookup = self._lookup
        cluster = lookup.cluster_of(path)
        if cluster is None or not lookup.has(API_EXPORTS, cluster, name):
            return None
        return cluster

    async def may_bind(self, request: AdmissionRequest, cluster: str, name: str) -> bool:
        attributes = Attributes(
            request.context.user,
            "bind",
            group=API_EXPORTS.group,
            resource=API_EXPORTS.resource,
            name=name,
            version="v1alpha1",
        )
        decision = await self._authorizer.authorize(cluster, attributes, is_deep=True)
        return decision.allowed
