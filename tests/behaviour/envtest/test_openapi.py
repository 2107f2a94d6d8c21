"""OpenAPI documents of Kubernetes' kinds for workloads."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import TestClient

POD = "/api/v1/namespaces/{namespace}/pods/{name}"
OPERATIONS = {
    "attach": {"get": "connectCoreV1GetNamespacedPodAttach", "post": "connectCoreV1PostNamespacedPodAttach"},
    "binding": {"post": "createCoreV1NamespacedPodBinding"},
    "ephemeralcontainers": {
        "get": "readCoreV1NamespacedPodEphemeralcontainers",
        "patch": "patchCoreV1NamespacedPodEphemeralcontainers",
        "put": "replaceCoreV1NamespacedPodEphemeralcontainers",
    },
    "eviction": {"post": "createCoreV1NamespacedPodEviction"},
    "exec": {"get": "connectCoreV1GetNamespacedPodExec", "post": "connectCoreV1PostNamespacedPodExec"},
    "log": {"get": "readCoreV1NamespacedPodLog"},
    "portforward": {
        "get": "connectCoreV1GetNamespacedPodPortforward",
        "post": "connectCoreV1PostNamespacedPodPortforward",
    },
}  # fmt: skip


@pytest.mark.parametrize("path", ["/openapi/v3/api/v1", "/openapi/v2"])
def test_subresources_of_pods(workspace: TestClient, path: str) -> None:
    """With upstream's names, kinds and parameters."""
    document = workspace.get(path).json
    found = {name: document["paths"][f"{POD}/{name}"] for name in OPERATIONS}
    operations = {
        name: {method: one["operationId"] for method, one in item.items() if method != "parameters"}
        for name, item in found.items()
    }
    assert operations == OPERATIONS
    exec_kind = {"group": "", "version": "v1", "kind": "PodExecOptions"}
    assert found["exec"]["post"]["x-kubernetes-group-version-kind"] == exec_kind
    assert found["exec"]["post"]["x-kubernetes-action"] == "connect"
    if path == "/openapi/v2":
        assert found["log"]["get"]["produces"][0] == "text/plain"
        body, kinds = _body_of_v2, document["definitions"]
    else:
        names = {parameter["name"] for parameter in found["log"]["parameters"]}
        assert names >= {"container", "follow", "tailLines", "namespace", "name", "pretty"}
        assert "text/plain" in found["log"]["get"]["responses"]["200"]["content"]
        body, kinds = _body_of_v3, document["components"]["schemas"]
    for name, kind in (("binding", "core.v1.Binding"), ("eviction", "policy.v1.Eviction")):
        assert body(found[name]).endswith(f"/io.k8s.api.{kind}")
        assert f"io.k8s.api.{kind}" in kinds


def _body_of_v2(item: Any) -> str:
    (body,) = (one for one in item["post"]["parameters"] if one.get("name") == "body")
    return str(body["schema"]["$ref"])


def _body_of_v3(item: Any) -> str:
    content = item["post"]["requestBody"]["content"]
    return str(next(iter(content.values()))["schema"]["$ref"])
