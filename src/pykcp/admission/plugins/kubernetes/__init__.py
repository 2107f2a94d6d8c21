"""What kube-apiserver adds to Kubernetes' kinds for workloads when they are written.

The plug-ins are for kinds that carry the annotation `core.kcp.io/kubernetes-kind`, in logical clusters that have them.
"""

from __future__ import annotations

from pykcp.registry.verbs.admitting import AdmissionRequest


def is_kubernetes(request: AdmissionRequest) -> bool:
    """Whether a request writes an object, and no subresource, of such a kind."""
    return request.resource.definition.is_kubernetes and not request.subresource
