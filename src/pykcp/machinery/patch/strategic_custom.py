"""What strategic merge patches may know of kinds that are defined by a CRD.

kcp takes such patches for kinds of Kubernetes' own groups, which clusters get as CRDs and for
which clients know nothing else. A definition has no patch strategies; its list types say the
same: lists of type `map` are merged by their first key, those of type `set` as scalars. What
the definition does not know is merged as far as it consists of objects. (In kcp all lists are
replaced, and so lose what the client left out because it stays as it is.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pykcp.machinery.schema.model import Schema

KUBERNETES_GROUPS: Final = frozenset((
    "", "admissionregistration.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io",
    "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io",
    "events.k8s.io", "extensions", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io",
    "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io",
    "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
))  # fmt: skip
"""Groups whose kinds clients patch this way without asking: those of Kubernetes' Go client."""

_UNKNOWN: Final = Schema()


def is_custom(schema: Schema | None) -> bool:
    """Whether a node is of a CRD's schema: only built-in kinds have types in Go."""
    return schema is not None and not schema.go_type


def member(schema: Schema, key: str) -> Schema:
    """The schema of a member, with its strategy if it is a list."""
    found = schema.properties.get(key) or schema.additional or _UNKNOWN
    if found.type != "array" or found.go_type:
        return found
    if found.list_type == "map" and found.list_keys:
        return replace(found, patch_strategy="merge", patch_merge_key=found.list_keys[0])
    return replace(found, patch_strategy="merge") if found.list_type == "set" else found
