"""Rights for users of tests."""

from __future__ import annotations

import itertools
from typing import Any

from pykcp.testing.client import TestClient

RBAC = "/apis/rbac.authorization.k8s.io/v1"
_numbers = itertools.count(1)


def grant(client: TestClient, user: str, verb: str, resource: str, group: str, *names: str) -> None:
    """Let a user do something in the client's logical cluster, and enter it."""
    name = f"grant-{next(_numbers)}"
    rules: list[dict[str, Any]] = [
        {"verbs": ["access"], "nonResourceURLs": ["/"]},
        {"verbs": [verb], "apiGroups": [group], "resources": [resource]},
    ]
    if names:
        rules[1]["resourceNames"] = list(names)
    made = client.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    assert made.status == 201, made
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    made = client.post(f"{RBAC}/clusterrolebindings", binding)
    assert made.status == 201, made
