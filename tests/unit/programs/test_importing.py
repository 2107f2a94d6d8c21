"""Keys and values of a kcp's etcd."""

from __future__ import annotations

import pytest

from pykcp.programs.importing.found import StoredPlace, crd_of, object_of, place_of

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
    for value, why in (
        (b"k8s:enc:aescbc:v1:k:xx", "it is encrypted"),
        (b"nothing", "invalid literal"),
    ):
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
