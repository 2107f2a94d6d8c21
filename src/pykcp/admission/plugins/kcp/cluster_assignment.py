"""Who may assign an object to a physical cluster: the label sends it there.

A user who sets `workloads.kcp.dev/cluster` must hold the verb `sync` on the Cluster of that name.
Controllers of the control plane, which divide workloads, are not asked.
"""

from __future__ import annotations

from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.user import MASTERS
from pykcp.machinery.status import Forbidden, go_quote
from pykcp.registry.verbs.admitting import AdmissionRequest

CLUSTER_LABEL = "workloads.kcp.dev/cluster"
_GROUP, _VERSION, _RESOURCE = "workload.kcp.dev", "v1alpha1", "clusters"
_VERB = "sync"


class ClusterAssignment:
    name = "workload.kcp.dev/ClusterAssignment"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def wants(self, request: AdmissionRequest) -> bool:
        labels = request.metadata.get("labels")
        if not labels or CLUSTER_LABEL not in labels:
            return False
        before = request.old_metadata.get("labels") or {}
        return (
            before.get(CLUSTER_LABEL) != labels[CLUSTER_LABEL]
            and MASTERS not in request.context.user.groups
        )

    async def validate(self, request: AdmissionRequest) -> None:
        cluster = request.metadata["labels"][CLUSTER_LABEL]
        attributes = Attributes(
            request.context.user,
            _VERB,
            group=_GROUP,
            resource=_RESOURCE,
            name=cluster,
            version=_VERSION,
        )
        decision = await self._authorizer.authorize(request.context.cluster, attributes)
        if not decision.allowed:
            resource = request.resource
            why = f"assigning it to the cluster {go_quote(cluster)} requires the permission to {_VERB} clusters.{_GROUP}"
            raise Forbidden.resource(resource.group, resource.plural, request.name, why)
