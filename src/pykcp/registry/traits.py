"""How kinds differ in deletion, as a table."""

from __future__ import annotations

RETURNS_DELETED = frozenset({("", "namespaces"), ("", "serviceaccounts"), ("", "resourcequotas")})
KUBERNETES_RETURNS_DELETED = frozenset((
    ("", "persistentvolumeclaims"), ("", "persistentvolumes"), ("", "pods"), ("", "podtemplates"),
    ("", "services"), ("storage.k8s.io", "csidrivers"), ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"), ("storage.k8s.io", "volumeattachments"),
))  # fmt: skip
"""The same of Kubernetes' kinds for workloads."""
"""DELETE answers with the object rather than with a Status."""

IGNORES_DEPENDENTS = frozenset({("", "events"), ("events.k8s.io", "events")})
"""Propagation policies mean nothing for these."""
