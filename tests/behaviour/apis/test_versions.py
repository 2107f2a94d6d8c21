"""Exports and bindings in two versions, over the wire. What they look like was read off a kcp."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykcp.testing.apis import (
    BINDINGS,
    EXPORTS,
    OLD_BINDINGS,
    OLD_EXPORTS,
    RESOURCE,
    accepted,
    binding,
    export,
    make,
    old_export,
)
from pykcp.testing.client import APPLY, TestClient, eventually

KEPT = "apis.v1alpha2.kcp.io/"
CLAIM = {"resource": "configmaps", "verbs": ["get"]}


def _annotations(obj: dict[str, object]) -> dict[str, str]:
    metadata = obj["metadata"]
    assert isinstance(metadata, dict)
    return {k: v for k, v in metadata["annotations"].items() if k.startswith(KEPT)}


def _spec(obj: Any) -> dict[str, Any]:
    """Without what controllers add."""
    return {name: value for name, value in obj["spec"].items() if name != "identity"}


def test_a_new_export_is_seen_by_old_clients(cluster: TestClient) -> None:
    made = cluster.post(EXPORTS, export("e", resources=[RESOURCE], permissionClaims=[CLAIM]))
    assert made.status == 201, made
    old = cluster.get(f"{OLD_EXPORTS}/e").json
    assert old["apiVersion"] == "apis.kcp.io/v1alpha1"
    assert _spec(old) == {
        "latestResourceSchemas": ["v1.cowboys.wild.west"],
        "permissionClaims": [{"resource": "configmaps"}],
    }
    assert _annotations(old) == {
        f"{KEPT}permission-claims": '[{"resource":"configmaps","verbs":["get"]}]'
    }
    (listed,) = cluster.get(OLD_EXPORTS).json["items"]
    assert _spec(listed) == _spec(old)


def test_an_old_export_is_seen_by_new_clients(cluster: TestClient) -> None:
    claims = [{"resource": "configmaps", "all": True}]
    given = old_export("e", latestResourceSchemas=["v1.services.core"], permissionClaims=claims)
    made = cluster.post(OLD_EXPORTS, given).json
    assert _spec(made) == given["spec"]
    assert _annotations(made) == {}
    new = cluster.get(f"{EXPORTS}/e").json
    assert _spec(new) == {
        "resources": [
            {
                "name": "services",
                "group": "",
                "schema": "v1.services.core",
                "storage": {"crd": {}},
            }
        ],
        "permissionClaims": [
            {"group": "", "resource": "configmaps", "verbs": ["*"], "identityHash": ""}
        ],
    }
    kept = _annotations(new)[f"{KEPT}v1alpha1-permission-claims"]
    assert json.loads(kept) == claims


def test_old_clients_change_what_they_know_and_keep_the_rest(cluster: TestClient) -> None:
    by_label = accepted("configmaps", verbs=["get"], selector={"matchLabels": {"a": "b"}})
    cluster.post(EXPORTS, export("e"))
    assert cluster.post(BINDINGS, binding("b", "e", claims=[by_label])).status == 201

    def change() -> bool:
        old = cluster.get(f"{OLD_BINDINGS}/b").json
        old["metadata"]["labels"]["mine"] = "1"
        # what v1alpha2 says by labels is no claim in v1alpha1: it must be said again
        old["spec"]["permissionClaims"][0]["all"] = True
        written = cluster.put(f"{OLD_BINDINGS}/b", old)
        assert written.status in (200, 409), written
        return written.status == 200

    eventually(change)  # the binding's controller writes, too
    new = cluster.get(f"{BINDINGS}/b").json
    assert new["metadata"]["labels"]["mine"] == "1"
    (claim,) = new["spec"]["permissionClaims"]
    assert claim["verbs"] == ["get"]
    assert claim["selector"] == {"matchLabels": {"a": "b"}}
    assert _annotations(new) == {}


def test_managers_of_both_versions_apply(cluster: TestClient) -> None:
    """Each owns its fields in its own version, and takes away only those."""

    def apply(path: str, manager: str, **spec: object) -> None:
        body = make(path, "e", spec)
        reply = cluster.patch(f"{path}/e", body, APPLY, fieldManager=manager)
        assert reply.status in (200, 201), reply

    apply(EXPORTS, "me", resources=[RESOURCE])
    apply(OLD_EXPORTS, "you", latestResourceSchemas=["v1.widgets.core"])
    both = cluster.get(f"{EXPORTS}/e").json
    assert [r["name"] for r in both["spec"]["resources"]] == ["cowboys", "widgets"]
    entries = {(m["manager"], m["apiVersion"]) for m in both["metadata"]["managedFields"]}
    assert entries >= {("me", "apis.kcp.io/v1alpha2"), ("you", "apis.kcp.io/v1alpha1")}
    apply(EXPORTS, "me", permissionClaims=[CLAIM])
    left = cluster.get(f"{OLD_EXPORTS}/e").json["spec"]
    assert left["latestResourceSchemas"] == ["v1.widgets.core"]
    apply(OLD_EXPORTS, "you")
    assert "latestResourceSchemas" not in cluster.get(f"{OLD_EXPORTS}/e").json["spec"]


@pytest.mark.parametrize("path", [OLD_EXPORTS, EXPORTS])
def test_a_dry_run_answers_in_the_version_asked_for(cluster: TestClient, path: str) -> None:
    given = old_export("e", latestResourceSchemas=["v1.cowboys.wild.west"])
    if path == EXPORTS:
        given = export("e", resources=[RESOURCE])
    made = cluster.post(path, given, dryRun="All").json
    assert _spec(made) == given["spec"]
    assert cluster.get(f"{path}/e").status == 404


def test_old_exports_are_watched_in_the_old_version(cluster: TestClient) -> None:
    start = cluster.get(OLD_EXPORTS).json["metadata"]["resourceVersion"]
    cluster.post(EXPORTS, export("e", resources=[RESOURCE]))
    event = next(iter(cluster.watch(OLD_EXPORTS, resourceVersion=start)))
    assert event["object"]["apiVersion"] == "apis.kcp.io/v1alpha1"
    assert _spec(event["object"]) == {"latestResourceSchemas": ["v1.cowboys.wild.west"]}
