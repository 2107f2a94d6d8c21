"""Keys and values of a kcp's etcd."""

from __future__ import annotations

import base64
import json
import pathlib
import re
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pykcp.programs.importing.decryption import Decryption
from pykcp.programs.importing.found import StoredPlace, crd_of, object_of, place_of
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
