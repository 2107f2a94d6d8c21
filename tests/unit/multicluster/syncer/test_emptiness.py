"""What counts as content of a namespace."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Forbidden, NotFound, ServiceUnavailable, StatusError
from pykcp.multicluster.syncer.emptiness import (
    NamespaceContents,
    deletable_types,
    is_in_every_namespace,
)
from pykcp.types import Object

VERBS = ["get", "list", "watch", "create", "delete"]


def entry(name: str, *, namespaced: bool = True, verbs: list[str] | None = None) -> Object:
    return {"name": name, "namespaced": namespaced, "verbs": VERBS if verbs is None else verbs}


def group(name: str, preferred: str, *versions: str) -> Object:
    found = [{"version": one} for one in versions]
    return {"name": name, "preferredVersion": {"version": preferred}, "versions": found}


DOCUMENTS: dict[str, Object] = {
    "/apis": {
        "groups": [group("example.io", "v2", "v1", "v2"), group("metrics.k8s.io", "v1", "v1")]
    },
    "/api/v1": {
        "resources": [
            entry("configmaps"),
            entry("events"),
            entry("nodes", namespaced=False),
            entry("pods"),
            entry("pods/log"),
            entry("bindings", verbs=["create"]),
        ]
    },
    "/apis/example.io/v1": {"resources": [entry("gadgets"), entry("widgets")]},
    "/apis/example.io/v2": {"resources": [entry("widgets")]},
    "/apis/metrics.k8s.io/v1": {"resources": [entry("pods", verbs=["get", "list"])]},
}


class Documents:
    """Discovery of a cluster that is not there: `broken` are paths that cannot be read."""

    def __init__(self, broken: StatusError | None = None, path: str = "") -> None:
        self._broken, self._path = broken, path

    async def send(self, method: str, target: str, body: Object | None = None) -> Object:
        if self._broken is not None and target == self._path:
            raise self._broken
        return DOCUMENTS[target]


def test_every_type_that_goes_with_a_namespace_is_asked_for_once() -> None:
    assert asyncio.run(deletable_types(Documents())) == [
        GroupVersionResource("", "v1", "configmaps"),
        GroupVersionResource("", "v1", "pods"),
        GroupVersionResource("example.io", "v2", "widgets"),
        GroupVersionResource("example.io", "v1", "gadgets"),
    ]


@pytest.mark.parametrize("path", ["/apis", "/api/v1", "/apis/example.io/v1"])
@pytest.mark.parametrize("error", [Forbidden("no"), ServiceUnavailable("no"), NotFound("no")])
def test_what_cannot_be_read_is_not_empty(path: str, error: StatusError) -> None:
    contents = NamespaceContents(cast("Any", Documents(error, path)))
    assert not asyncio.run(contents.is_empty("place"))


@pytest.mark.parametrize(("resource", "name", "expected"), [
    ("configmaps", "kube-root-ca.crt", True),
    ("configmaps", "settings", False),
    ("serviceaccounts", "default", True),
    ("serviceaccounts", "default-2", False),
    ("secrets", "default-token-x2b4c", True),
    ("secrets", "default-token-of-mine", False),
    ("secrets", "default", False),
    ("rolebindings", "system:deployers", True),
    ("pods", "kube-root-ca.crt", False),
])  # fmt: skip
def test_what_every_namespace_has(resource: str, name: str, expected: bool) -> None:
    assert is_in_every_namespace(resource, name) is expected
