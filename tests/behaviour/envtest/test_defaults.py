"""Defaults, names and first statuses of kinds that Kubernetes' own end-to-end specs look at."""

from __future__ import annotations

import pytest

from pykcp.testing.client import TestClient
from pykcp.types import Object

RESOURCE = "/apis/resource.k8s.io/v1"
NETWORKING = "/apis/networking.k8s.io/v1"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
APPS = "/apis/apps/v1/namespaces/default"
LABELS = {"app": "a"}
TEMPLATE: Object = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "a", "image": "a"}]},
}
GENERATION = "deprecated.daemonset.template.generation"


def made(workspace: TestClient, path: str, name: str, **parts: object) -> Object:
    """A new object, as the server answers; without the kind that a typed client knows anyway."""
    reply = workspace.post(path, {"metadata": {"name": name}, **parts})
    assert reply.status == 201, reply.json
    found: Object = reply.json
    return found


def test_claims_of_devices(workspace: TestClient) -> None:
    requests = [
        {"name": "one", "exactly": {"deviceClassName": "c"}},
        {"name": "all", "exactly": {"deviceClassName": "c", "allocationMode": "All"}},
        {
            "name": "any",
            "firstAvailable": [
                {"name": "x", "deviceClassName": "c", "tolerations": [{"key": "k", "value": "v"}]}
            ],
        },
    ]
    path = f"{RESOURCE}/namespaces/default/resourceclaims"
    claim = made(workspace, path, "claim", spec={"devices": {"requests": requests}})
    one, everything, first = claim["spec"]["devices"]["requests"]
    assert (one["exactly"]["allocationMode"], one["exactly"]["count"]) == ("ExactCount", 1)
    assert "count" not in everything["exactly"]
    assert first["firstAvailable"][0]["count"] == 1
    assert first["firstAvailable"][0]["tolerations"][0]["operator"] == "Equal"
    assert claim["status"] == {}
    assert "generation" not in claim["metadata"]
    patch = [{"op": "add", "path": "/status/allocation", "value": {}}]
    patched = workspace.patch(
        f"{path}/claim/status", patch, content_type="application/json-patch+json"
    )
    assert patched.json["status"] == {"allocation": {}}
    template = made(
        workspace,
        f"{RESOURCE}/namespaces/default/resourceclaimtemplates",
        "template",
        spec={"spec": {"devices": {"requests": requests[:1]}}},
    )
    assert template["spec"]["metadata"] == {}
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


def test_taints_of_devices_have_a_time(workspace: TestClient) -> None:
    spec = {
        "driver": "a.b",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d", "taints": [{"key": "k", "effect": "NoSchedule"}]}],
    }
    devices = made(workspace, f"{RESOURCE}/resourceslices", "slice", spec=spec)
    assert devices["spec"]["devices"][0]["taints"][0]["timeAdded"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("192.168.7.9", ""),
        ("fe80::1", ""),
        ("fe80::01", 'must be in canonical form ("fe80::1")'),
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("a-b", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ],
)
def test_addresses_are_names(workspace: TestClient, name: str, why: str) -> None:
    spec = {"parentRef": {"resource": "r", "name": "n"}}
    reply = workspace.post(f"{NETWORKING}/ipaddresses", {"metadata": {"name": name}, "spec": spec})
    if not why:
        assert reply.status == 201
        assert workspace.get(f"{NETWORKING}/ipaddresses/{name}").status == 200
        return
    assert reply.json["message"] == (
        f'IPAddress.networking.k8s.io "{name}" is invalid: '
        f'metadata.name: Invalid value: "{name}": {why}'
    )


def test_kinds_of_the_network(workspace: TestClient) -> None:
    parameters = {"kind": "X", "name": "y"}
    spec = {"controller": "a/b", "parameters": parameters}
    ingress_class = made(workspace, f"{NETWORKING}/ingressclasses", "class", spec=spec)
    assert ingress_class["spec"]["parameters"]["scope"] == "Cluster"
    ranges = made(workspace, f"{NETWORKING}/servicecidrs", "more", spec={"cidrs": ["10.9.0.0/24"]})
    assert ranges["status"] == {}
    endpoints = made(
        workspace,
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        "slice",
        addressType="IPv4",
        endpoints=[{"addresses": ["10.1.1.1"]}],
        ports=[{"port": 80}],
    )
    assert endpoints["endpoints"] == [{"addresses": ["10.1.1.1"], "conditions": {}}]
    assert endpoints["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/slice"
    for patch, generation in (
        ({"metadata": {"annotations": {"a": "b"}}}, 1),
        ({"metadata": {"labels": {"a": "b"}}}, 2),
        ({"metadata": {"labels": {"a": "c"}}, "ports": [{"name": "", "port": 81}]}, 3),
    ):
        assert workspace.patch(path, patch).json["metadata"]["generation"] == generation


def test_flow_control(workspace: TestClient) -> None:
    spec: Object = {"priorityLevelConfiguration": {"name": "exempt"}}
    schema = made(workspace, f"{FLOW}/flowschemas", "schema", spec=spec)
    assert (schema["spec"]["matchingPrecedence"], schema["status"]) == (1000, {})
    response: Object = {"type": "Queue", "queuing": {}}
    limited: Object = {"type": "Limited", "limited": {"limitResponse": response}}
    level = made(workspace, f"{FLOW}/prioritylevelconfigurations", "level", spec=limited)
    found = level["spec"]["limited"]
    assert (found["nominalConcurrencyShares"], found["lendablePercent"]) == (30, 0)
    assert found["limitResponse"]["queuing"] == {
        "handSize": 8,
        "queues": 64,
        "queueLengthLimit": 50,
    }
    del response["queuing"]
    body = {"metadata": {"name": "wrong"}, "spec": limited}
    refused = workspace.post(f"{FLOW}/prioritylevelconfigurations", body)
    assert refused.json["message"].endswith(
        "spec.limited.limitResponse.queuing: Required value: "
        "must not be empty if limited.limitResponse.type is Limited"
    )


def test_nodes_and_attachments_have_a_status(workspace: TestClient) -> None:
    node = made(workspace, "/api/v1/nodes", "bare")
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert set(node["status"]["nodeInfo"].values()) == {""}
    spec = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    path = "/apis/storage.k8s.io/v1/volumeattachments"
    attachment = made(workspace, path, "attachment", spec=spec)
    assert attachment["status"] == {"attached": False}


def test_changes_of_a_daemon_set_are_counted(workspace: TestClient) -> None:
    spec = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    daemon_set = made(workspace, f"{APPS}/daemonsets", "counted", spec=spec)
    assert daemon_set["metadata"]["annotations"][GENERATION] == "1"
    for patch, number in (
        ({"spec": {"minReadySeconds": 5}}, "1"),
        ({"spec": {"template": {"metadata": {"labels": {"b": "c"}}}}}, "2"),
    ):
        changed = workspace.patch(f"{APPS}/daemonsets/counted", patch).json
        assert changed["metadata"]["annotations"][GENERATION] == number


def test_parts_that_go_always_writes(workspace: TestClient) -> None:
    volume = {
        "metadata": {"name": "v"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    stateful_set = made(
        workspace,
        f"{APPS}/statefulsets",
        "claims",
        spec={
            "selector": {"matchLabels": LABELS},
            "template": TEMPLATE,
            "volumeClaimTemplates": [volume],
        },
    )
    (claim,) = stateful_set["spec"]["volumeClaimTemplates"]
    assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
    assert claim["status"] == {"phase": "Pending"}
    pod: Object = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    job = made(
        workspace,
        "/apis/batch/v1/namespaces/default/cronjobs",
        "templates",
        spec={"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pod}}},
    )
    template = job["spec"]["jobTemplate"]
    assert (template["metadata"], template["spec"]["template"]["metadata"]) == ({}, {})


def test_a_negative_grace_period_is_one_second(workspace: TestClient) -> None:
    spec: Object = {**TEMPLATE["spec"], "terminationGracePeriodSeconds": -1}
    pod = made(workspace, "/api/v1/namespaces/default/pods", "hasty", spec=spec)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1


def test_autoscalers_in_their_first_version(workspace: TestClient) -> None:
    target = {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}
    spec = {"maxReplicas": 3, "scaleTargetRef": target}
    path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    found = made(workspace, path, "first", spec=spec)
    assert found["status"] == {"currentReplicas": 0, "desiredReplicas": 0}


@pytest.mark.parametrize("path", ["/version", "/api", "/api/v1/namespaces"])
@pytest.mark.parametrize(
    ("timeout", "why"),
    [
        ("soon", 'invalid duration "soon"'),
        ("5", 'missing unit in duration "5"'),
        ("1x", 'unknown unit "x" in duration "1x"'),
    ],
)
def test_timeouts_that_are_none(workspace: TestClient, path: str, timeout: str, why: str) -> None:
    refused = workspace.get(path, timeout=timeout)
    assert refused.status == 400
    assert refused.json["message"] == (
        f"invalid timeout specified in the request URL - time: {why}"
    )
    assert workspace.get(path, timeout="3m").status == 200
