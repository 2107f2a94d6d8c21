"""Keys and values of a kcp's etcd, and what becomes of its objects."""

from __future__ import annotations

import base64
import json
import pathlib
import re
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pykcp.machinery.kcp.hashes import shard_hash
from pykcp.programs.importing.decryption import Decryption
from pykcp.programs.importing.found import FoundObject, StoredPlace, crd_of, object_of, place_of
from pykcp.programs.importing.plan import make_plan
from pykcp.programs.kit.errors import SettingsError
from pykcp.storage.encryption.ciphers import AesCbc, secretbox

IDENTITY = "8" * 64


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("core/secrets/c1/ns/s", StoredPlace("", "secrets", "", "c1", "ns", "s", False)),
        ("core/namespaces/c1/n", StoredPlace("", "namespaces", "", "c1", "", "n", False)),
        (
            "rbac.authorization.k8s.io/clusterroles/root/system:kcp:admin",
            StoredPlace(
                "rbac.authorization.k8s.io",
                "clusterroles",
                "",
                "root",
                "",
                "system:kcp:admin",
                False,
            ),
        ),
        (
            "shop.io/hats/customresources/c1/ns/h",
            StoredPlace("shop.io", "hats", "", "c1", "ns", "h", True),
        ),
        (
            f"wild.west/cowboys/{IDENTITY}/c1/lucky",
            StoredPlace("wild.west", "cowboys", IDENTITY, "c1", "", "lucky", True),
        ),
        ("masterleases/10.0.0.1", None),
        ("ranges/serviceips", None),
        ("core/secrets/c1", None),
        ("shop.io/hats/customresources/c1", None),
        ("a/b/c/d/e/f/g/h", None),
    ],
)
def test_places(key: str, place: StoredPlace | None) -> None:
    assert place_of(f"/registry/{key}", "/registry") == place
    assert place_of(f"/kcp/one/{key}", "/kcp/one/") == place


def test_values() -> None:
    place = place_of("/registry/core/secrets/c/n/s", "/registry")
    assert place is not None
    assert object_of(place, b'{"apiVersion":"v1","kind":"Secret"}').version == "v1"
    for value, why in ((b"nothing", "invalid literal"),):
        with pytest.raises(ValueError, match=why):
            object_of(place, value)


def test_definitions_of_v1beta1() -> None:
    old = {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "shop.io",
            "version": "v1",
            "validation": {"openAPIV3Schema": {"type": "object"}},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Age", "type": "date", "JSONPath": ".x"}],
            "versions": [{"name": "v1", "served": True, "storage": True}],
            "conversion": {
                "strategy": "Webhook",
                "webhookClientConfig": {"url": "https://x"},
                "conversionReviewVersions": ["v1"],
            },
            "preserveUnknownFields": False,
        },
    }
    assert crd_of(old) == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "shop.io",
            "versions": [
                {
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".x"}],
                    "name": "v1",
                    "served": True,
                    "storage": True,
                }
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"url": "https://x"},
                    "conversionReviewVersions": ["v1"],
                },
            },
        },
    }
    new = {"apiVersion": "apiextensions.k8s.io/v1", "spec": {"versions": []}}
    assert crd_of(new) == new


KEY = "/registry/core/secrets/root/default/one"
OLD, NEW = b"o" * 32, b"n" * 32


@pytest.fixture
def decryption(tmp_path: pathlib.Path) -> Decryption:
    def keys(**named: bytes) -> list[Any]:
        return [
            {"name": name, "secret": base64.b64encode(key).decode()} for name, key in named.items()
        ]

    providers = [
        {"aescbc": {"keys": keys(new=NEW, old=OLD)}},
        {"aesgcm": {"keys": keys(g=OLD)}},
        {"secretbox": {"keys": keys(s=NEW)}},
        {"identity": {}},
    ]
    config = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": providers}],
    }
    file = tmp_path / "encryption.yaml"
    file.write_text(json.dumps(config))
    return Decryption(str(file))


def _gcm(key: str) -> bytes:
    return b"n" * 12 + AESGCM(OLD).encrypt(b"n" * 12, b"plain", key.encode())


@pytest.mark.parametrize(
    "value",
    [
        b"plain",
        b"k8s:enc:aescbc:v1:old:" + AesCbc(OLD).seal(b"plain"),
        b"k8s:enc:aescbc:v1:new:" + AesCbc(NEW).seal(b"plain"),
        b"k8s:enc:aesgcm:v1:g:" + _gcm(KEY),
        b"k8s:enc:secretbox:v1:s:" + secretbox(NEW).seal(b"plain"),
    ],
    ids=["plain", "aescbc, old key", "aescbc, new key", "aesgcm", "secretbox"],
)
def test_encrypted_values_are_read_with_the_keys_of_kcp(
    decryption: Decryption, value: bytes
) -> None:
    assert decryption.plain(KEY, value) == b"plain"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"k8s:enc:aescbc:v1:gone:x", "the key 'gone', which is not in"),
        (b"k8s:enc:kms:v2:plugin:x", "by a KMS plugin"),
        (b"k8s:enc:", "by a KMS plugin"),
        (b"k8s:enc:aescbc:v1:old:short", "does not decrypt it"),
        (b"k8s:enc:aesgcm:v1:g:" + _gcm("/registry/another/key"), "authentication failed"),
        (b"k8s:enc:secretbox:v1:s:" + b"x" * 60, "does not decrypt it"),
    ],
)
def test_values_that_cannot_be_decrypted_are_named(
    decryption: Decryption, value: bytes, why: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        decryption.plain(KEY, value)


# --- what becomes of the objects ----------------------------------------------

_KINDS = {
    "logicalclusters": "core.kcp.io/v1alpha1",
    "shards": "core.kcp.io/v1alpha1",
    "workspaces": "tenancy.kcp.io/v1alpha1",
    "configmaps": "v1",
}


def _found(resource: str, cluster: str, name: str, **more: Any) -> FoundObject:
    version = _KINDS[resource]
    marks = {"core.kcp.io/shard": "alpha", "internal.tenancy.kcp.io/shard": "hash of alpha"}
    obj = {"apiVersion": version, "metadata": {"name": name, "annotations": marks}, **more}
    group = version.rpartition("/")[0]
    return FoundObject(group, resource, "", cluster, "", name, resource != "configmaps", obj)


def _root_with(*more: FoundObject) -> list[FoundObject]:
    return [_found("logicalclusters", "root", "cluster"), *more]


_TEAM = _found("workspaces", "root", "team", spec={"cluster": "c1"})
_ALPHA = [_found("logicalclusters", "c1", "cluster"), _found("configmaps", "c1", "settings")]


def test_shards_are_joined() -> None:
    gone = _found("configmaps", "c1", "left by a move")
    shards = [_root_with(_TEAM, gone, _found("shards", "root", "alpha")), _ALPHA]
    plan = make_plan(shards, lambda _kind: True)
    assert plan.left_out == {
        "shards, which register themselves": 1,
        "objects of logical clusters that do not exist any more": 1,
    }
    made = {(one.cluster, one.obj["metadata"]["name"]): one.obj for one in plan.objects}
    assert made.keys() == {("root", "cluster"), ("root", "team"), ("c1", "cluster"), ("c1", "settings")}  # fmt: skip
    for place in (("root", "team"), ("c1", "cluster")):
        marks = made[place]["metadata"]["annotations"]
        assert marks["core.kcp.io/shard"] == "root"
        assert marks["internal.tenancy.kcp.io/shard"] == shard_hash("root")
    assert _TEAM.obj["metadata"]["annotations"]["core.kcp.io/shard"] == "alpha", "not the original"


@pytest.mark.parametrize(
    ("shards", "why"),
    [
        ([_ALPHA], "not the store of a kcp's root shard"),
        (
            [_root_with(_TEAM)],
            "the logical clusters of 1 workspaces are on other shards: root:team",
        ),
        ([_root_with(_TEAM), _ALPHA, _ALPHA], "1 logical clusters are on two shards: c1"),
    ],
    ids=["no root", "a shard is missing", "a shard is given twice"],
)
def test_a_part_of_a_kcp_is_refused(shards: list[list[FoundObject]], why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)):
        make_plan(shards, lambda _kind: True)


@pytest.mark.parametrize(
    "workspace",
    [
        _found("workspaces", "root", "new", spec={}),
        _found("workspaces", "root", "mounted", spec={"cluster": "c1", "mount": {"ref": {}}}),
        _found("workspaces", "gone", "team", spec={"cluster": "c1"}),
        _TEAM._replace(obj={"metadata": {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"cluster": "c1"}}),
    ],
    ids=["not placed yet", "mounted", "of a cluster that is gone", "going"],
)  # fmt: skip
def test_workspaces_that_need_no_other_shard(workspace: FoundObject) -> None:
    assert make_plan([_root_with(workspace)], lambda _kind: True).objects
