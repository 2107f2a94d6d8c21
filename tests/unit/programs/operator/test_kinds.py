"""Manifests are read as an API server reads them: defaults, rules, errors with the field's path."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from tests.unit.programs.operator.objects import manifest

from pykcp.machinery.status import BadRequest, Invalid
from pykcp.programs.operator.kinds.definitions import definitions, read_manifest
from pykcp.programs.operator.kinds.schemas import SCHEMAS
from pykcp.programs.operator.names import KINDS

EXTERNAL = {"hostname": "api.example.com", "port": 6443}
ROOT = {"external": EXTERNAL, "cache": {}, "certificates": {}}
KUBECONFIG = {
    "target": {"rootShardRef": {"name": "root"}},
    "username": "u",
    "validity": "1h",
    "secretRef": {"name": "s"},
}


def test_defaults_are_those_of_kcp() -> None:
    spec = read_manifest(manifest("RootShard", "root", **ROOT))["spec"]
    assert spec["clusterDomain"] == "cluster.local"
    assert spec["image"] == {"repository": "ghcr.io/kcp-dev/kcp", "tag": "v0.32.3"}
    auth = {"oidc": {"issuerURL": "https://a", "clientID": "b", "caFileRef": {"name": "c"}}}
    found = read_manifest(manifest("RootShard", "root", **ROOT, auth=auth))["spec"]["auth"]["oidc"]
    assert found["usernameClaim"] == "sub"
    assert found["caFileRef"]["key"] == "ca.crt"


@pytest.mark.parametrize(
    ("kind", "spec", "field", "text"),
    [
        ("RootShard", {**ROOT, "external": {"hostname": "a"}}, "spec.external.port", "Required value"),
        ("RootShard", {**ROOT, "replicas": 2}, "spec", "more than one replica requires etcd"),
        ("RootShard", {**ROOT, "external": {"hostname": "a", "port": 0}}, "spec.external.port", "greater than or equal to 1"),
        ("RootShard", {**ROOT, "logging": {"level": 11}}, "spec.logging.level", "less than or equal to 10"),
        ("RootShard", {**ROOT, "etcd": {}}, "spec.etcd.endpoints", "Required value"),
        ("RootShard", {**ROOT, "certificates": {"issuerRef": {"name": "a"}, "caSecretRef": {"name": "b"}}}, "spec.certificates", "mutually exclusive"),
        ("Shard", {}, "spec.rootShard", "Required value"),
        ("VirtualWorkspace", {"target": {"rootShardRef": {"name": "a"}, "shardRef": {"name": "b"}}, "external": EXTERNAL}, "spec.target", "exactly one"),
        ("VirtualWorkspace", {"target": {"rootShardRef": {"name": "a"}}, "external": EXTERNAL, "initContainers": [{"name": ""}]}, "spec.initContainers[0].name", "at least 1"),
        ("Kubeconfig", {**KUBECONFIG, "validity": "a year"}, "spec.validity", "should match"),
        ("Kubeconfig", {**KUBECONFIG, "targetWorkspace": "Root"}, "spec.targetWorkspace", "should match"),
        ("Kubeconfig", {**KUBECONFIG, "target": {}}, "spec.target", "must be set"),
        ("FrontProxy", {"rootShard": {"ref": {"name": "r"}}, "additionalPathMappings": [{"path": "/a"}]}, "spec.additionalPathMappings[0].backend", "Required value"),
    ],
)  # fmt: skip
def test_errors_name_the_field(kind: str, spec: Any, field: str, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_manifest(manifest(kind, "a", **spec))
    assert field in {cause.field for cause in refused.value.causes}
    assert text in refused.value.message


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, 'no matches for kind "Pod" in version "v1"'),
        (manifest("RootShard", "root", **ROOT, colour="red"), 'unknown field "spec.colour"'),
    ],
)
def test_what_is_not_an_object_of_these_kinds_is_refused(obj: Any, text: str) -> None:
    with pytest.raises(BadRequest, match=text.replace(".", r"\.")):
        read_manifest(obj)


def test_a_name_is_required() -> None:
    obj = manifest("RootShard", "", **ROOT)
    with pytest.raises(Invalid, match=r"metadata\.name: Required value"):
        read_manifest(obj)


def test_every_kind_has_a_definition_with_status_and_columns() -> None:
    found = {one["spec"]["names"]["kind"]: one["spec"] for one in definitions()}
    assert found.keys() == KINDS.keys()
    for kind, spec in found.items():
        (version,) = spec["versions"]
        assert version["subresources"] == {"status": {}}
        assert spec["names"]["plural"] == KINDS[kind].resource
        assert version["additionalPrinterColumns"][-1]["name"] == "Age"


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_field_is_documented(kind: str) -> None:
    page = pathlib.Path(__file__).parents[4] / "docs" / "reference" / "operator.md"
    section = page.read_text().partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    missing = [name for name in SCHEMAS[kind].spec["properties"] if f"| `{name}` |" not in section]
    assert missing == []
