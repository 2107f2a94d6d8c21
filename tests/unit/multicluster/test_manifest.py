"""What a pulling syncer may do, and what it is given."""

from __future__ import annotations

import base64
import json

import pytest

from pykcp.multicluster.clusters import manifest
from pykcp.multicluster.clusters.manifest import PulledCluster, UnlistableTypes
from pykcp.types import Object

CLUSTER = PulledCluster("abc", "east", "uid-1")
TYPES = ("deployments.apps", "configmaps", "secrets.core", "*.example.com")


def of_kind(objects: list[Object], kind: str) -> Object:
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


@pytest.mark.parametrize("objects", [
    manifest.account_objects(CLUSTER),
    manifest.syncer_objects(CLUSTER, TYPES, "image", "kubeconfig"),
])  # fmt: skip
def test_no_role_names_all_groups(objects: list[Object]) -> None:
    for rule in of_kind(objects, "ClusterRole")["rules"]:
        assert "*" not in rule.get("apiGroups", ())
        assert "*" not in rule["verbs"]
        if rule.get("resources") in (["*"], ["*/status"]):
            assert rule["apiGroups"] == ["example.com"]


def test_types_of_all_groups_cannot_be_listed() -> None:
    with pytest.raises(UnlistableTypes):
        manifest.syncer_objects(CLUSTER, ("*",), "image", "")


def test_the_account_may_use_the_view_of_its_own_cluster_only() -> None:
    (rule,) = of_kind(manifest.account_objects(CLUSTER), "ClusterRole")["rules"]
    assert rule["resources"] == ["clusters/syncer"]
    assert rule["resourceNames"] == ["east"]


def test_the_deployment_is_confined() -> None:
    objects = manifest.syncer_objects(CLUSTER, TYPES, "registry/syncer:1", "text")
    deployment = of_kind(objects, "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry/syncer:1"
    assert "--workload-cluster-uid=uid-1" in container["args"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] is security["runAsNonRoot"] is True
    assert security["allowPrivilegeEscalation"] is False
    secret = of_kind(objects, "Secret")
    assert base64.b64decode(secret["data"]["kubeconfig"]) == b"text"
    namespace = of_kind(objects, "Namespace")["metadata"]["name"]
    assert namespace.startswith("kcp-syncer-east-")
    assert deployment["metadata"]["namespace"] == secret["metadata"]["namespace"] == namespace


def test_a_kubeconfig_has_everything_inside() -> None:
    made = json.loads(manifest.kubeconfig(CLUSTER, "https://kcp/clusters/abc", "PEM", "secret"))
    assert made["clusters"][0]["cluster"]["certificate-authority-data"] == "UEVN"
    assert made["users"][0]["user"] == {"token": "secret"}
    assert "certificate" not in json.dumps(
        json.loads(manifest.kubeconfig(CLUSTER, "https://kcp", "", "t"))
    )
