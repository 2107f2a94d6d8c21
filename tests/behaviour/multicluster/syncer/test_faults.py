"""Links that break, servers that fail, credentials that expire: nothing is lost, nothing is deleted."""

from __future__ import annotations

import base64
import pathlib
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
import yaml
from tests.behaviour.multicluster.syncer.conftest import Setup, make_setup
from tests.behaviour.multicluster.syncer.test_sync import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    checker,
    create,
    found,
    found_now,
    has_ready,
    sync_error,
)

from pykcp.machinery.meta import parse_rfc3339
from pykcp.multicluster.names import CLUSTER_LABEL
from pykcp.testing.client import eventually
from pykcp.testing.multicluster.checker import delete_problems
from pykcp.testing.multicluster.downstream import own_cluster
from pykcp.testing.multicluster.faults import (
    HttpFaults,
    SeenRequest,
    TcpFaults,
    status_answer,
)
from pykcp.testing.multicluster.kills import kills
from pykcp.testing.multicluster.syncers import QUICK, config_map, deployment, running
from pykcp.testing.multicluster.workloads import WorkloadController
from pykcp.testing.multicluster.workspaces import CLUSTERS, cluster_object
from pykcp.testing.server import server
from pykcp.types import Object

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/syncer-east"


@contextmanager
def upstream_link(setup: Setup) -> Iterator[TcpFaults]:
    with TcpFaults(setup.workspace.access.port) as link:
        yield link


def test_without_the_control_plane_the_cluster_stays_as_it_is(setup: Setup) -> None:
    """F1, F6, F7."""
    for name in ("stays", "deleted", "recreated"):
        create(setup.workspace, CONFIG_MAPS, config_map(name, "east", a="1"))
    with (
        upstream_link(setup) as link,
        HttpFaults(setup.physical.client.access) as cluster,
    ):
        access = replace(setup.workspace.access, port=link.port, path=setup.workspace.prefix)
        to = setup.physical.kubeconfig_text(cluster.port, cluster.authority)
        with running(setup.syncer(to, access)):
            inside = setup.downstream_namespace()
            path = f"/api/v1/namespaces/{inside}/configmaps"
            eventually(lambda: not checker(setup).problems())
            link.cut()
            cluster.requests.clear()
            setup.workspace.delete(f"{CONFIG_MAPS}/deleted")
            setup.workspace.delete(f"{CONFIG_MAPS}/recreated")
            setup.workspace.patch(f"{CONFIG_MAPS}/recreated", {"metadata": {"finalizers": None}})
            create(setup.workspace, CONFIG_MAPS, config_map("recreated", "east", a="2"))
            eventually(lambda: _lease_has_expired(setup))
            assert not [one for one in cluster.requests if one.is_write]
            assert found(setup.physical.client, f"{path}/deleted")
            link.heal()
            eventually(lambda: setup.physical.client.get(f"{path}/deleted").status == 404)
            eventually(
                lambda: (
                    (found(setup.physical.client, f"{path}/recreated") or {}).get("data")
                    == {"a": "2"}
                )
            )
            eventually(lambda: not checker(setup).problems())
        assert not delete_problems(cluster.requests, proven=("deleted", "recreated"))


@pytest.mark.slow
def test_a_cluster_that_fails_often_is_synchronized_all_the_same(setup: Setup) -> None:
    """F13, F14."""
    with HttpFaults(setup.physical.client.access) as cluster:
        to = setup.physical.kubeconfig_text(cluster.port, cluster.authority)
        with running(setup.syncer(to)), WorkloadController(setup.physical.client):
            cluster.faults.error_rate = 0.2
            for number in range(10):
                create(setup.workspace, CONFIG_MAPS, config_map(f"settings-{number}", "east"))
            create(setup.workspace, DEPLOYMENTS, deployment("web", "east", replicas=2))
            eventually(lambda: has_ready(setup.workspace, "web", 2), 30)
            eventually(lambda: not checker(setup).problems(), 30)
            writes = [one for one in cluster.requests if one.is_write]
            assert 12 <= len(writes) <= 3 * 12, writes  # eleven objects and their namespace
            cluster.faults.error_status, cluster.faults.retry_after = 429, "1"
            setup.workspace.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 3}})
            eventually(lambda: has_ready(setup.workspace, "web", 3), 30)
            cluster.faults.error_rate, cluster.faults.watch_gone = 0.0, True
            setup.workspace.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 4}})
            cluster.faults.watch_gone = False
            eventually(lambda: has_ready(setup.workspace, "web", 4), 30)
            eventually(lambda: not checker(setup).problems(), 30)
        assert not delete_problems(cluster.requests)


STORM = 20.0
"""Seconds in which every watch is refused."""


@pytest.mark.slow
def test_refused_watches_miss_no_change_and_list_seldom(setup: Setup) -> None:
    """F13: 410 for every watch that continues, and lists that take two seconds."""
    flags = [flag for flag in QUICK if not flag.startswith("--sweep")]  # sweeps list by themselves
    with (
        HttpFaults(setup.physical.client.access) as cluster,
        TcpFaults(cluster.port) as link,
    ):
        to = setup.physical.kubeconfig_text(link.port, cluster.authority)
        create(setup.workspace, DEPLOYMENTS, deployment("web", "east", replicas=1))
        syncer = setup.syncer(to, flags=tuple(flags))
        with running(syncer), WorkloadController(setup.physical.client):
            eventually(lambda: has_ready(setup.workspace, "web", 1), 30)
            eventually(lambda: not checker(setup).problems())
            cluster.faults.watch_gone, cluster.faults.list_delay = True, 2.0
            cluster.requests.clear()
            link.break_all()
            until = time.monotonic() + STORM
            for replicas in range(2, 12):
                setup.workspace.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": replicas}})
                due = until - STORM * (12 - replicas) / 10
                eventually(lambda due=due: time.monotonic() > due)  # type: ignore[misc]
            lists = Counter(one.path for one in cluster.requests if _lists_a_type(one))
            cluster.faults.watch_gone, cluster.faults.list_delay = False, 0.0
            assert lists["/apis/apps/v1/deployments"] == 1, lists
            assert max(lists.values()) == 1, lists
            eventually(lambda: has_ready(setup.workspace, "web", 11), 30)
            eventually(lambda: not checker(setup).problems(), 30)
        assert not delete_problems(cluster.requests)


def _lists_a_type(request: SeenRequest) -> bool:
    """Whether all objects are asked for, as a list or at the beginning of a watch."""
    is_type = request.path.rpartition("/")[2] in (
        "configmaps",
        "customresourcedefinitions",
        "deployments",
        "namespaces",
    )
    return is_type and (request.is_list or "sendInitialEvents" in request.query)


@pytest.mark.slow
def test_broken_connections_lose_no_change(setup: Setup) -> None:
    with TcpFaults(setup.physical.port) as link, upstream_link(setup) as upper:
        access = replace(setup.workspace.access, port=upper.port, path=setup.workspace.prefix)
        with running(setup.syncer(setup.physical.kubeconfig_text(link.port), access)):
            for number in range(12):
                create(setup.workspace, CONFIG_MAPS, config_map(f"settings-{number}", "east"))
                if number % 4 == 1:
                    link.break_all()
                if number % 4 == 3:
                    upper.break_all()
            link.truncate_after = 3000
            link.break_all()
            create(setup.workspace, CONFIG_MAPS, config_map("truncated", "east"))
            link.heal()
            eventually(lambda: not checker(setup).problems(), 30)


def test_one_syncer_of_a_cluster_is_active(setup: Setup) -> None:
    """F11."""
    first, second = setup.syncer(), setup.syncer()
    create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
    with running(first):
        eventually(lambda: not checker(setup).problems())
        holder = _holder(setup)
        with running(second):
            setup.workspace.patch(f"{CONFIG_MAPS}/settings", {"data": {"a": "2"}})
            eventually(lambda: not checker(setup).problems())
            assert _holder(setup) == holder
            first.kill()
            setup.workspace.patch(f"{CONFIG_MAPS}/settings", {"data": {"a": "3"}})
            eventually(lambda: _holder(setup) not in ("", holder))
            eventually(lambda: not checker(setup).problems())


def test_workspaces_with_equal_names_do_not_meet(setup: Setup, another: Setup) -> None:
    """F11, H15: the same names, the same cluster."""
    create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
    create(another.workspace, CONFIG_MAPS, config_map("settings", "east", a="2"))
    with running(setup.syncer()), running(another.syncer()):
        places = [one.downstream_namespace() for one in (setup, another)]
        assert places[0] != places[1]
        for place, value in zip(places, "12", strict=True):
            path = f"/api/v1/namespaces/{place}/configmaps/settings"
            eventually(lambda path=path: found(setup.physical.client, path))  # type: ignore[misc]
            assert found_now(setup.physical.client, path)["data"] == {"a": value}
        another.workspace.delete(f"{CONFIG_MAPS}/settings")
        eventually(lambda: another.workspace.get(f"{CONFIG_MAPS}/settings").status == 404)
        eventually(lambda: not checker(setup).problems())
        assert found(setup.physical.client, f"/api/v1/namespaces/{places[0]}/configmaps/settings")


def test_a_cluster_that_is_registered_again_owns_nothing_of_the_first(setup: Setup) -> None:
    """F10, X4: an older registration of the same name is somebody else."""
    create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
    syncer = setup.syncer()
    with running(syncer):
        before = setup.downstream_namespace()
        eventually(lambda: not checker(setup).problems())
        syncer.kill()
        setup.workspace.delete(f"{CLUSTERS}/east")
        setup.workspace.patch(f"{CLUSTERS}/east", {"metadata": {"finalizers": None}})
        eventually(lambda: setup.workspace.get(f"{CLUSTERS}/east").status == 404)
        create(setup.workspace, CLUSTERS, cluster_object("east", mode="None"))
        # With the first one its assignments went, too, if its deletion got that far.
        assign = {"metadata": {"labels": {CLUSTER_LABEL: "east"}}}
        assert setup.workspace.patch(f"{CONFIG_MAPS}/settings", assign).status == 200
        syncer.start()
        after = setup.downstream_namespace()
        assert after != before
        eventually(lambda: not checker(setup).problems())
        assert found(setup.physical.client, f"/api/v1/namespaces/{before}/configmaps/settings")


def test_new_credentials_are_used_without_a_restart(setup: Setup) -> None:
    """F16."""
    create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
    good = setup.physical.kubeconfig_text()
    expired = yaml.safe_load(good)
    expired["users"][0]["user"]["token"] = "expired"
    syncer = setup.syncer(yaml.safe_dump(expired))
    with running(syncer):
        eventually(lambda: "nauthorized" in syncer.log())
        syncer.downstream.write_text(good)
        began = time.monotonic()
        eventually(lambda: not checker(setup).problems())
        assert time.monotonic() - began < 10


def test_a_type_that_the_syncer_may_not_write_does_not_stop_the_others(setup: Setup) -> None:
    """F17."""
    token = _limited_token(setup)
    config = yaml.safe_load(setup.physical.kubeconfig_text())
    config["users"][0]["user"] = {"token": token}
    create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
    create(setup.workspace, DEPLOYMENTS, deployment("web", "east"))
    with running(setup.syncer(yaml.safe_dump(config))):
        state = eventually(lambda: sync_error(setup.workspace, f"{DEPLOYMENTS}/web"))
        assert state["reason"] == "Forbidden", state
        inside = setup.downstream_namespace()
        path = f"/api/v1/namespaces/{inside}/configmaps/settings"
        eventually(lambda: found(setup.physical.client, path))


def test_what_the_cluster_rejects_is_noted_on_the_object(setup: Setup) -> None:
    with HttpFaults(setup.physical.client.access) as cluster:
        cluster.faults.verdict = lambda request: (
            status_answer(422, "Invalid", "selector does not match template labels")
            if request.method == "PATCH" and "/deployments/" in request.path
            else None
        )
        to = setup.physical.kubeconfig_text(cluster.port, cluster.authority)
        create(setup.workspace, DEPLOYMENTS, deployment("web", "east"))
        with running(setup.syncer(to)):
            state = eventually(lambda: sync_error(setup.workspace, f"{DEPLOYMENTS}/web"))
            assert state["reason"] == "Rejected", state
            assert "selector does not match" in state["error"]
            tries = [
                one for one in cluster.requests if "/deployments/" in one.path and one.is_write
            ]
            assert len(tries) == 1  # not again before its content changes


@pytest.mark.slow
def test_a_connection_that_went_silent_is_noticed(setup: Setup) -> None:
    """F15."""
    with TcpFaults(setup.physical.port) as link:
        create(setup.workspace, CONFIG_MAPS, config_map("settings", "east", a="1"))
        syncer = setup.syncer(setup.physical.kubeconfig_text(link.port))
        with running(syncer):
            eventually(lambda: not checker(setup).problems())
            link.is_silent = True
            eventually(lambda: not _is_downstream_ready(setup), 40)
            link.break_all()
            link.heal()
            setup.workspace.patch(f"{CONFIG_MAPS}/settings", {"data": {"a": "2"}})
            eventually(lambda: _is_downstream_ready(setup), 40)
            eventually(lambda: not checker(setup).problems(), 40)


POINTS = 50
CLEAN_AFTER = 15.0
"""Seconds from the restart of what was killed."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_at_random_points_leave_nothing_behind(tmp_path: pathlib.Path) -> None:
    """F12: SIGKILL of server, syncer or cluster while objects come, change and go."""
    with server() as hub, own_cluster("east", tmp_path) as physical, ExitStack() as stack:
        setup = make_setup(hub, physical, tmp_path)
        assert physical.process is not None
        link = stack.enter_context(HttpFaults(physical.client.access))
        downstream = physical.kubeconfig_text(link.port, link.authority)
        syncer = setup.syncer(downstream, flags=QUICK)  # so that most kills find it at work
        victims = (hub, syncer, physical.process)
        with running(syncer), WorkloadController(physical.client):
            killing = kills(setup.workspace, "east", victims, POINTS, seed=4)
            for point, _ in enumerate(killing, 1):
                physical.client.drop()
                if point % 10 == 0:
                    eventually(lambda: not checker(setup).problems(), CLEAN_AFTER)
        proven = [f"w-{point}-0" for point in range(POINTS)]
        assert not delete_problems(link.requests, proven=proven)
        assert any(request.method == "DELETE" for request in link.requests)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kills_of_a_syncer_with_its_own_times(tmp_path: pathlib.Path) -> None:
    """F12: the lease of a syncer that was killed has to run out first."""
    with server() as hub, own_cluster("east", tmp_path) as physical:
        setup = make_setup(hub, physical, tmp_path)
        assert physical.process is not None
        syncer = setup.syncer(flags=())
        with running(syncer), WorkloadController(physical.client):
            victims = (hub, syncer, physical.process)
            killed = []
            for victim in kills(setup.workspace, "east", victims, 5, seed=6):
                physical.client.drop()
                eventually(lambda: not checker(setup).problems(), CLEAN_AFTER)
                killed.append(victim)
            assert all(victim in killed for victim in victims)


# --- helpers


def _holder(setup: Setup) -> str:
    lease = found(setup.workspace, LEASE) or {}
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _lease_has_expired(setup: Setup) -> bool:
    spec = found_now(setup.workspace, LEASE)["spec"]
    return time.time() - parse_rfc3339(spec["renewTime"]) > 2 * spec["leaseDurationSeconds"]


def _is_downstream_ready(setup: Setup) -> bool:
    status: Object = found_now(setup.workspace, f"{CLUSTERS}/east").get("status") or {}
    return bool((status.get("syncer") or {}).get("downstreamReady"))


def _limited_token(setup: Setup) -> str:
    """Of an account of the cluster that may not use Deployments."""
    client = setup.physical.client
    rules = [
        {"apiGroups": [""], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    role = {**head, "kind": "ClusterRole", "metadata": {"name": "limited"}, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": "limited", "namespace": "default"}
    binding = {
        **head,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "limited"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "limited",
        },
        "subjects": [subject],
    }
    create(client, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    create(client, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "limited"}}
    create(client, "/api/v1/namespaces/default/serviceaccounts", account)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": "limited-token",
            "annotations": {"kubernetes.io/service-account.name": "limited"},
        },
    }
    create(client, "/api/v1/namespaces/default/secrets", secret)
    path = "/api/v1/namespaces/default/secrets/limited-token"
    data = eventually(lambda: found_now(client, path).get("data"))
    return base64.b64decode(data["token"]).decode()
