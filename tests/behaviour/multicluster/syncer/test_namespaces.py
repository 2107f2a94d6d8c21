"""A namespace of the cluster is deleted only if nothing at all is in it."""

from __future__ import annotations

import pytest
from tests.behaviour.multicluster.syncer.conftest import Setup
from tests.behaviour.multicluster.syncer.test_sync import CONFIG_MAPS, DEPLOYMENTS, create, found

from pykcp.testing.client import eventually
from pykcp.testing.multicluster.syncers import config_map, deployment, running
from pykcp.types import Object

NAMESPACES = "/api/v1/namespaces"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
OTHER_MAPS = "/api/v1/namespaces/other/configmaps"


def until_an_empty_namespace_was_removed(setup: Setup) -> None:
    """Namespaces are looked at in the order in which they were made: then all older ones were."""
    head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    create(setup.workspace, NAMESPACES, head)
    create(setup.workspace, OTHER_MAPS, config_map("short", "east"))
    place = setup.downstream_namespace("other")
    eventually(lambda: found(setup.physical.client, f"{NAMESPACES}/{place}/configmaps/short"))
    assert setup.workspace.delete(f"{OTHER_MAPS}/short").status == 200
    eventually(lambda: setup.physical.client.get(f"{NAMESPACES}/{place}").status == 404)


def test_it_stays_for_copies_of_a_type_that_is_synchronized_no_longer(setup: Setup) -> None:
    create(setup.workspace, DEPLOYMENTS, deployment("web", "east"))
    with running(setup.syncer()):
        place = setup.downstream_namespace()
        path = f"/apis/apps/v1/namespaces/{place}/deployments/web"
        before = eventually(lambda: found(setup.physical.client, path))
    with running(setup.syncer(resources=("configmaps",))):
        until_an_empty_namespace_was_removed(setup)
        after = found(setup.physical.client, path) or {}
        assert after.get("metadata", {}).get("uid") == before["metadata"]["uid"]


@pytest.mark.parametrize(("path", "body"), [
    (
        "/api/v1/namespaces/{}/persistentvolumeclaims",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "theirs"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    ),
    (
        POLICIES,
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "theirs"},
            "spec": {"podSelector": {}},
        },
    ),
])  # fmt: skip
def test_it_stays_for_objects_of_others_of_any_type(setup: Setup, path: str, body: Object) -> None:
    create(setup.workspace, CONFIG_MAPS, config_map("settings", "east"))
    with running(setup.syncer()):
        place = setup.downstream_namespace()
        eventually(
            lambda: found(setup.physical.client, f"{NAMESPACES}/{place}/configmaps/settings")
        )
        create(setup.physical.client, path.format(place), body)
        assert setup.workspace.delete(f"{CONFIG_MAPS}/settings").status == 200
        until_an_empty_namespace_was_removed(setup)
        assert found(setup.physical.client, f"{path.format(place)}/theirs")
        assert setup.physical.client.delete(f"{path.format(place)}/theirs").status == 200
        eventually(lambda: setup.physical.client.get(f"{NAMESPACES}/{place}").status == 404)
