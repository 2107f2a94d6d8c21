"""What tenants of a workspace and users of a cluster cannot do."""

from __future__ import annotations

import json

import yaml
from tests.behaviour.multicluster.syncer.conftest import Setup
from tests.behaviour.multicluster.syncer.test_sync import CONFIG_MAPS, checker, create, found_now

from pykcp.testing.client import eventually
from pykcp.testing.multicluster.syncers import CLUSTER_LABEL, config_map, running
from pykcp.testing.multicluster.workspaces import CLUSTERS, cluster_object
from pykcp.testing.rights import grant

TENANT = {"Impersonate-User": "tenant", "Impersonate-Group": "system:authenticated"}


def test_assigning_an_object_requires_a_permission(setup: Setup) -> None:
    """X3."""
    workspace = setup.workspace
    for verb in ("create", "update", "patch", "get"):
        grant(workspace, "tenant", verb, "configmaps", "")
    assigned = config_map("settings", "east")
    refused = workspace.post(CONFIG_MAPS, assigned, headers=TENANT)
    assert refused.status == 403, refused
    assert refused.json["message"] == (
        'configmaps "settings" is forbidden: assigning it to the cluster "east" requires the '
        "permission to sync clusters.workload.kcp.dev"
    )
    assert workspace.post(CONFIG_MAPS, config_map("settings"), headers=TENANT).status == 201
    label = {"metadata": {"labels": {CLUSTER_LABEL: "east"}}}
    path = f"{CONFIG_MAPS}/settings"
    assert workspace.patch(path, label, headers=TENANT).status == 403
    grant(workspace, "tenant", "sync", "clusters", "workload.kcp.dev", "east")
    eventually(lambda: workspace.patch(path, label, headers=TENANT).status == 200)
    other = {"metadata": {"labels": {CLUSTER_LABEL: "west"}}}
    assert workspace.patch(path, other, headers=TENANT).status == 403
    # What is assigned already may be changed.
    assert workspace.patch(path, {"data": {"a": "1"}}, headers=TENANT).status == 200


def test_a_namespace_with_another_locator_is_not_used(setup: Setup) -> None:
    """X4: a namespace that somebody else made, and one with a forged locator."""
    create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
    syncer = setup.syncer()
    with running(syncer):
        inside = setup.downstream_namespace()
        eventually(lambda: not checker(setup).problems())
        syncer.kill()
        client = setup.physical.client
        notes = found_now(client, f"/api/v1/namespaces/{inside}")["metadata"]["annotations"]
        locator = json.loads(notes["kcp.dev/namespace-locator"])
        forged = json.dumps({**locator, "logicalCluster": "root"}, separators=(",", ":"))
        patch = {"metadata": {"annotations": {"kcp.dev/namespace-locator": forged}}}
        assert client.patch(f"/api/v1/namespaces/{inside}", patch).status == 200
        setup.workspace.patch(f"{CONFIG_MAPS}/settings", {"data": {"a": "2"}})
        syncer.start()
        eventually(lambda: "NamespaceCollision" in _state(setup))
        path = f"/api/v1/namespaces/{inside}/configmaps/settings"
        assert found_now(client, path)["data"] == {"a": "1"}


def test_kubeconfigs_are_not_printed(setup: Setup) -> None:
    """X2, X5: neither a token nor a plug-in of a kubeconfig shows up anywhere."""
    config = yaml.safe_load(setup.physical.kubeconfig_text())
    config["users"][0]["user"] = {"token": "secret-of-the-test", "exec": {"command": "rm"}}
    made = cluster_object("west", mode="Push", kubeconfig=yaml.safe_dump(config))
    create(setup.workspace, CLUSTERS, made)
    found = eventually(lambda: _not_ready(setup, "west"))
    assert found["reason"] == "InvalidKubeConfig", found
    assert "exec" in found["message"]
    text = json.dumps(setup.workspace.get(f"{CLUSTERS}/west").json["status"])
    assert "secret-of-the-test" not in text
    events = setup.workspace.get("/api/v1/events").body
    assert b"secret-of-the-test" not in events


def _state(setup: Setup) -> str:
    notes = found_now(setup.workspace, f"{CONFIG_MAPS}/settings")["metadata"].get("annotations")
    return str((notes or {}).get("workloads.kcp.dev/sync-state", ""))


def _not_ready(setup: Setup, name: str) -> dict[str, str] | None:
    status = setup.workspace.get(f"{CLUSTERS}/{name}").json.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "False":
            return dict(condition)
    return None
