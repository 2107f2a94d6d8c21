"""Objects that are assigned to a cluster run there, and their status comes back."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

from tests.behaviour.multicluster.syncer.conftest import RESOURCES, Setup

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.checker import Checker
from pykcp.testing.multicluster.faults import HttpFaults
from pykcp.testing.multicluster.syncers import (
    CLUSTER_LABEL,
    QUICK,
    config_map,
    deployment,
    running,
)
from pykcp.testing.multicluster.workloads import WorkloadController
from pykcp.testing.multicluster.workspaces import CLUSTERS
from pykcp.testing.sharded import free_ports
from pykcp.types import Object

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SYNC_STATE = "workloads.kcp.dev/sync-state"


def test_specs_go_down_and_statuses_come_up(setup: Setup) -> None:
    create(setup.workspace, DEPLOYMENTS, deployment("web", "east", replicas=3))
    with running(setup.syncer()), WorkloadController(setup.physical.client):
        namespace = setup.downstream_namespace()
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
        copy = eventually(lambda: found(setup.physical.client, path))
        assert copy["spec"]["replicas"] == 3
        assert CLUSTER_LABEL not in copy["metadata"]["labels"]
        ready = eventually(lambda: has_ready(setup.workspace, "web", 3))
        assert ready["status"]["observedGeneration"] == ready["metadata"]["generation"]
        assert ready["metadata"]["finalizers"] == ["workloads.kcp.dev/syncer-east"]
        scaled = {"spec": {"replicas": 5}}
        assert setup.workspace.patch(f"{DEPLOYMENTS}/web", scaled).status == 200
        ready = eventually(lambda: has_ready(setup.workspace, "web", 5))
        assert ready["status"]["observedGeneration"] == ready["metadata"]["generation"]
        eventually(lambda: not checker(setup).problems())
        setup.workspace.delete(f"{DEPLOYMENTS}/web")
        eventually(lambda: setup.workspace.get(f"{DEPLOYMENTS}/web").status == 404)
        assert setup.physical.client.get(path).status == 404
        eventually(
            lambda: setup.physical.client.get(f"/api/v1/namespaces/{namespace}").status == 404
        )


def test_changes_in_the_cluster_are_restored(setup: Setup) -> None:
    create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
    create(setup.workspace, DEPLOYMENTS, deployment("web", "east"))
    with running(setup.syncer()):
        downstream = setup.physical.client
        inside = setup.downstream_namespace()
        path = f"/api/v1/namespaces/{inside}/configmaps/settings"
        eventually(lambda: found(downstream, path))
        downstream.patch(path, {"data": {"a": "2", "b": "theirs"}})
        eventually(lambda: (found(downstream, path) or {})["data"] == {"a": "1", "b": "theirs"})
        marks = found_now(downstream, path)["metadata"]["labels"]
        downstream.patch(path, {"metadata": {"labels": dict.fromkeys(marks)}})
        eventually(lambda: found_now(downstream, path)["metadata"].get("labels") == marks)
        downstream.delete(path)
        eventually(lambda: found(downstream, path))
        workload = f"/apis/apps/v1/namespaces/{inside}/deployments/web"
        image = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "no"}
        downstream.patch(workload, [image], "application/json-patch+json")
        eventually(lambda: _image(found_now(downstream, workload)) == "nginx")
        downstream.delete(f"/api/v1/namespaces/{inside}")
        eventually(lambda: found(downstream, path) and found(downstream, workload))
        eventually(lambda: not checker(setup).problems())


def test_an_object_in_the_way_is_not_touched_unless_it_may_be_taken(setup: Setup) -> None:
    create(setup.workspace, CONFIG_MAPS, config_map("other", "east"))
    with running(setup.syncer()):
        inside = setup.downstream_namespace()
        theirs = config_map("settings", a="theirs")
        create(setup.physical.client, f"/api/v1/namespaces/{inside}/configmaps", theirs)
        create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
        state = eventually(lambda: sync_error(setup.workspace, f"{CONFIG_MAPS}/settings"))
        assert state["reason"] == "Conflict", state
        path = f"/api/v1/namespaces/{inside}/configmaps/settings"
        assert found_now(setup.physical.client, path)["data"] == {"a": "theirs"}
        setup.workspace.delete(f"{CONFIG_MAPS}/settings")
        eventually(lambda: setup.workspace.get(f"{CONFIG_MAPS}/settings").status == 404)
        assert found_now(setup.physical.client, path)["data"] == {"a": "theirs"}
        taking = config_map("settings", "east", a="1")
        taking["metadata"]["annotations"] = {"workloads.kcp.dev/conflict-resolution": "Overwrite"}
        create(setup.workspace, CONFIG_MAPS, taking)
        eventually(lambda: found_now(setup.physical.client, path)["data"] == {"a": "1"})


def test_an_object_that_is_assigned_to_another_cluster_leaves_this_one(setup: Setup) -> None:
    create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
    syncer = setup.syncer()
    with running(syncer):
        inside = setup.downstream_namespace()
        path = f"/api/v1/namespaces/{inside}/configmaps/settings"
        eventually(lambda: found(setup.physical.client, path))
        relabel(setup.workspace, "settings", None)
        eventually(lambda: setup.physical.client.get(path).status == 404)
        eventually(lambda: not _finalizers(setup.workspace, "settings"))
        relabel(setup.workspace, "settings", "east")
        eventually(lambda: found(setup.physical.client, path))
        syncer.kill()
        relabel(setup.workspace, "settings", "west")
        syncer.start()
        eventually(lambda: setup.physical.client.get(path).status == 404)
        eventually(lambda: not _finalizers(setup.workspace, "settings"))


def test_changes_while_the_syncer_is_away_are_caught_up(setup: Setup) -> None:
    for name in ("deleted", "recreated", "changed"):
        create(setup.workspace, CONFIG_MAPS, config_map(name, "east", a="1"))
    syncer = setup.syncer()
    with running(syncer):
        inside = setup.downstream_namespace()
        path = f"/api/v1/namespaces/{inside}/configmaps"
        for name in ("deleted", "recreated", "changed"):
            eventually(lambda name=name: found(setup.physical.client, f"{path}/{name}"))  # type: ignore[misc]
        before = found_now(setup.physical.client, f"{path}/recreated")["metadata"]["uid"]
        syncer.kill()
        setup.workspace.delete(f"{CONFIG_MAPS}/deleted")
        setup.workspace.delete(f"{CONFIG_MAPS}/recreated")
        setup.workspace.patch(f"{CONFIG_MAPS}/recreated", {"metadata": {"finalizers": None}})
        create(setup.workspace, CONFIG_MAPS, config_map("recreated", "east", a="2"))
        setup.workspace.patch(f"{CONFIG_MAPS}/changed", {"data": {"a": "3"}})
        syncer.start()
        eventually(lambda: setup.physical.client.get(f"{path}/deleted").status == 404)
        eventually(lambda: found_now(setup.physical.client, f"{path}/changed")["data"]["a"] == "3")
        after = eventually(
            lambda: _other_than(before, found(setup.physical.client, f"{path}/recreated"))
        )
        assert after["data"] == {"a": "2"}
        eventually(lambda: not checker(setup).problems())


def test_a_restart_with_everything_in_sync_writes_nothing(setup: Setup) -> None:
    for number in range(5):
        create(setup.workspace, DEPLOYMENTS, deployment(f"web-{number}", "east", replicas=2))
        create(setup.workspace, CONFIG_MAPS, config_map(f"settings-{number}", "east", a="1"))
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "labels": {CLUSTER_LABEL: "east"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    create(setup.workspace, "/api/v1/namespaces/default/services", service)
    with HttpFaults(setup.physical.client.access) as proxy:
        to = setup.physical.kubeconfig_text(proxy.port, proxy.authority)
        syncer = setup.syncer(to)
        with running(syncer), WorkloadController(setup.physical.client):
            eventually(lambda: has_ready(setup.workspace, "web-4", 2))
            eventually(lambda: not checker(setup).problems())
            eventually(lambda: _are_noted(setup.workspace))
            assert len([one for one in proxy.requests if one.is_write]) == 12  # and the namespace
            versions = _versions(setup.workspace)
            syncer.kill()
            proxy.requests.clear()
            syncer.start()
            copied = {"configmaps", "deployments", "namespaces", "services"}
            eventually(lambda: beats(setup) and copied <= _watched(proxy))
            eventually(lambda: not checker(setup).problems())
        assert not [one for one in proxy.requests if one.is_write]
        assert _versions(setup.workspace) == versions


def test_the_program_serves_its_health_and_metrics(setup: Setup) -> None:
    (port,) = free_ports(1)
    create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
    flags = (*QUICK, f"--metrics-bind-address=127.0.0.1:{port}")
    with running(setup.syncer(flags=flags)):
        eventually(lambda: _read(port, "/readyz") == (200, "ok"))
        eventually(lambda: not checker(setup).problems())
        assert _read(port, "/healthz") == (200, "ok")
        assert _read(port, "/absent")[0] == 404
        expected = {
            'pykcp_sync_apply_total{code="200"} 1',
            "pykcp_sync_lag_seconds_count 1",
            "pykcp_sync_queue_depth 0",
        }
        # The copy is seen in the cluster before its syncer has the answer, and counts it.
        eventually(lambda: expected <= set(_read(port, "/metrics")[1].splitlines()))


# --- helpers


def _read(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def create(client: TestClient, path: str, obj: Object) -> Object:
    made = client.post(path, obj)
    assert made.status == 201, made
    created: Object = made.json
    return created


def found(client: TestClient, path: str) -> Object | None:
    reply = client.get(path)
    obj: Object | None = reply.json if reply.status == 200 else None
    return obj


def found_now(client: TestClient, path: str) -> Object:
    obj = found(client, path)
    assert obj is not None, path
    return obj


def has_ready(workspace: TestClient, name: str, count: int) -> Object | None:
    obj = found(workspace, f"{DEPLOYMENTS}/{name}")
    status = (obj or {}).get("status") or {}
    return obj if status.get("readyReplicas") == count else None


def sync_error(workspace: TestClient, path: str) -> dict[str, Any] | None:
    notes = found_now(workspace, path)["metadata"].get("annotations") or {}
    state = json.loads(notes.get(SYNC_STATE, "{}"))
    return state if state.get("reason") else None


def relabel(workspace: TestClient, name: str, cluster: str | None) -> None:
    patch = {"metadata": {"labels": {CLUSTER_LABEL: cluster}}}
    assert workspace.patch(f"{CONFIG_MAPS}/{name}", patch).status == 200


def checker(setup: Setup) -> Checker:
    return Checker(setup.workspace, {setup.cluster: setup.physical.client}, RESOURCES)


def beats(setup: Setup) -> bool:
    """Whether the syncer that runs now has reported that it is ready."""
    status = setup.workspace.get(f"{CLUSTERS}/{setup.cluster}").json.get("status") or {}
    return bool((status.get("syncer") or {}).get("downstreamReady"))


def _watched(proxy: HttpFaults) -> set[str]:
    """The resources that are watched in the cluster."""
    return {one.path.rpartition("/")[2] for one in proxy.requests if "watch=" in one.query}


def _versions(workspace: TestClient) -> dict[str, str]:
    items = [
        *workspace.get(DEPLOYMENTS).json["items"],
        *workspace.get(CONFIG_MAPS).json["items"],
    ]
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in items}


def _are_noted(workspace: TestClient) -> bool:
    """ConfigMaps in an annotation; Deployments have a status that says it, and no annotation."""
    return all(
        SYNC_STATE in (one["metadata"].get("annotations") or {})
        for one in workspace.get(CONFIG_MAPS).json["items"]
        if CLUSTER_LABEL in (one["metadata"].get("labels") or {})
    ) and all(one.get("status") for one in workspace.get(DEPLOYMENTS).json["items"])


def _finalizers(workspace: TestClient, name: str) -> list[str]:
    return found_now(workspace, f"{CONFIG_MAPS}/{name}")["metadata"].get("finalizers") or []


def _image(obj: Object) -> str:
    return str(obj["spec"]["template"]["spec"]["containers"][0]["image"])


def _other_than(uid: str, obj: Object | None) -> Object | None:
    return obj if obj is not None and obj["metadata"]["uid"] != uid else None
