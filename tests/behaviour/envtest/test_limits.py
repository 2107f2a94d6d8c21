"""LimitRanges and Pod Security, in a workspace that binds Kubernetes' kinds."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import TestClient
from pykcp.types import Object

NAMESPACES = "/api/v1/namespaces"


def pods_of(namespace: str) -> str:
    return f"{NAMESPACES}/{namespace}/pods"


def pod(name: str, **container: Any) -> Object:
    containers = [{"name": "a", "image": "b:1", **container}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers},
    }


def make_namespace(client: TestClient, name: str, **labels: str) -> None:
    named = {
        f"pod-security.kubernetes.io/{key.replace('_', '-')}": value
        for key, value in labels.items()
    }
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": named},
    }
    made = client.post(NAMESPACES, body)
    assert made.status == 201, made


def test_limit_ranges(workspace: TestClient) -> None:
    make_namespace(workspace, "limited")
    body: Object = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "sizes"},
        "spec": {
            "limits": [
                {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}},
                {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
            ]
        },
    }
    made = workspace.post(f"{NAMESPACES}/limited/limitranges", body)
    assert made.json["spec"]["limits"][0]["defaultRequest"] == {"cpu": "2"}
    small = workspace.post(pods_of("limited"), pod("small"))
    (container,) = small.json["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    assert small.json["status"]["qosClass"] == "Burstable"
    assert small.json["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container a; cpu limit for container a"
    )
    large = pod("large", resources={"limits": {"cpu": "3"}})
    refused = workspace.post(pods_of("limited"), large)
    assert refused.status == 403
    assert refused.json["message"] == (
        'pods "large" is forbidden: maximum cpu usage per Container is 2, but limit is 3'
    )
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
        },
    }
    refused = workspace.post(f"{NAMESPACES}/limited/persistentvolumeclaims", claim)
    assert refused.json["message"] == (
        'persistentvolumeclaims "data" is forbidden: maximum storage usage per '
        "PersistentVolumeClaim is 1Gi, but request is 2Gi"
    )
    assert (
        workspace.post(pods_of("default"), pod("unlimited")).json["spec"]["containers"][0][
            "resources"
        ]
        == {}
    )


def test_pod_security_rejects_pods_and_warns_of_templates(workspace: TestClient) -> None:
    make_namespace(workspace, "closed", enforce="baseline", warn="restricted")
    bad = pod("bad", securityContext={"privileged": True})
    refused = workspace.post(pods_of("closed"), bad)
    assert refused.status == 403
    assert refused.json["message"] == (
        'pods "bad" is forbidden: violates PodSecurity "baseline:latest": privileged '
        '(container "a" must not set securityContext.privileged=true)'
    )
    made = workspace.post(pods_of("closed"), pod("fair"))
    assert made.status == 201
    (warning,) = made.header_all("warning")
    assert warning.startswith('299 - "would violate PodSecurity \\"restricted:latest\\": allowPriv')
    template = {"metadata": {"labels": {"a": "b"}}, "spec": bad["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    made = workspace.post("/apis/apps/v1/namespaces/closed/deployments", deployment)
    assert made.status == 201
    (warning,) = made.header_all("warning")
    assert "privileged (container" in warning


def test_a_namespace_that_asks_for_more_warns_of_its_pods(workspace: TestClient) -> None:
    make_namespace(workspace, "open")
    spec = {**pod("")["spec"], "hostNetwork": True}
    for name in ("one", "two"):
        assert workspace.post(pods_of("open"), {**pod(name), "spec": spec}).status == 201
    label = "pod-security.kubernetes.io/enforce"
    changed = workspace.patch(f"{NAMESPACES}/open", {"metadata": {"labels": {label: "baseline"}}})
    assert changed.header_all("warning") == [
        '299 - "existing pods in namespace \\"open\\" violate the new PodSecurity enforce level \\"baseline:latest\\""',
        '299 - "one (and 1 other pod): host namespaces"',
    ]
    wrong = workspace.patch(f"{NAMESPACES}/open", {"metadata": {"labels": {label: "strict"}}})
    assert wrong.status == 422
    assert wrong.json["details"]["causes"][0]["field"] == f"metadata.labels[{label}]"


def test_workspaces_without_pods_have_no_pod_security(
    exporting: Any, workspace: TestClient
) -> None:
    """As in kcp: labels of namespaces are not checked there."""
    make_namespace(exporting.client(cluster="root"), "free", enforce="whatever")


@pytest.mark.parametrize("length", [10, 100_000], ids=["small", "large"])
def test_large_pods_are_treated_as_small_ones(workspace: TestClient, length: int) -> None:
    """Although workers give them defaults and judge them."""
    name = f"of-{length}"
    make_namespace(workspace, name, enforce="baseline", warn="restricted")
    limits = {"type": "Container", "max": {"cpu": "2"}}
    body = {"metadata": {"name": "sizes"}, "spec": {"limits": [limits]}}
    assert workspace.post(f"{NAMESPACES}/{name}/limitranges", body).status == 201
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    workspace.post(classes, {"metadata": {"name": "high"}, "value": 7})

    def sent(spec: Object, **container: Any) -> Object:
        made = pod("p", **container)
        made["metadata"]["annotations"] = {"filler": "x" * length}
        return {**made, "spec": {**made["spec"], **spec}}

    made = workspace.post(pods_of(name), sent({"priorityClassName": "high"}))
    assert made.status == 201, made
    cpu = {"cpu": "2"}
    spec, notes = made.json["spec"], made.json["metadata"]["annotations"]
    assert spec["containers"][0]["resources"] == {"limits": cpu, "requests": cpu}
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "PreemptLowerPriority")
    assert notes["filler"] == "x" * length
    assert notes["kubernetes.io/limit-ranger"].startswith("LimitRanger plugin set: cpu request")
    assert 'would violate PodSecurity \\"restricted:latest\\"' in (made.header("warning") or "")
    more = workspace.post(pods_of(name), sent({}, resources={"limits": {"cpu": "3"}}))
    assert more.json["message"] == (
        'pods "p" is forbidden: maximum cpu usage per Container is 2, but limit is 3'
    )
    refused = workspace.post(pods_of(name), sent({"hostNetwork": True}))
    assert refused.json["message"] == (
        'pods "p" is forbidden: violates PodSecurity "baseline:latest": '
        "host namespaces (hostNetwork=true)"
    )
    unknown = workspace.post(pods_of(name), sent({"runtimeClassName": "none"}))
    assert 'RuntimeClass "none" not found' in unknown.json["message"]
    assert workspace.post(pods_of(name), sent({"priority": 5})).status == 403


def test_many_limits(workspace: TestClient) -> None:
    """A small pod of many containers gets many defaults."""
    make_namespace(workspace, "many")
    most = {f"example.com/r{n}": "1" for n in range(150)}
    body = {
        "metadata": {"name": "sizes"},
        "spec": {"limits": [{"type": "Container", "default": most}]},
    }
    assert workspace.post(f"{NAMESPACES}/many/limitranges", body).status == 201
    containers = [{"name": f"c{n}", "image": "i"} for n in range(40)]
    made = workspace.post(pods_of("many"), {**pod("p"), "spec": {"containers": containers}})
    assert made.status == 201, made
    assert made.json["spec"]["containers"][39]["resources"]["limits"] == most
