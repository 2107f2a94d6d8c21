"""What a write of the status leaves as it is in the metadata of Kubernetes' kinds; in most of them, nothing."""

from __future__ import annotations

KEPT_BY_STATUS: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "deployments"): ("labels",),
    ("", "pods"): ("deletionTimestamp", "ownerReferences"),
}
METADATA_KEPT_BY_STATUS = frozenset(
    {
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "servicecidrs"),
        ("resource.k8s.io", "devicetaintrules"),
        ("resource.k8s.io", "resourceclaims"),
        ("storage.k8s.io", "volumeattachments"),
        ("storagemigration.k8s.io", "storageversionmigrations"),
    }
)
