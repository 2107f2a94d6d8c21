"""Objects of the program itself that are created without checks: definitions of Kubernetes' kinds."""

from __future__ import annotations

from typing import Any

from pykcp.apis.kube.workloads import workload_crds
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.programs.shard.bootstrap.kubernetes import define, stored_definition
from pykcp.registry.local import LocalClient
from pykcp.types import Object

NAME = "priorityclasses.scheduling.k8s.io"
WANTED = next(stored_definition(one) for one in workload_crds() if one["metadata"]["name"] == NAME)


async def stored(client: LocalClient) -> Object:
    found = await client.get("c", CUSTOM_RESOURCE_DEFINITIONS, NAME)
    assert found is not None
    return found


async def test_they_are_stored_as_they_are(world: Any) -> None:
    client = LocalClient(world.directory, "system:apiserver")
    await define(client, "c", [WANTED])
    found = await stored(client)
    assert (found["spec"], found["status"]) == (WANTED["spec"], WANTED["status"])
    assert found["metadata"]["uid"]
    assert found["metadata"]["generation"] == 1
    await define(client, "c", [WANTED])
    assert await stored(client) == found


async def test_definitions_of_older_versions_are_replaced(world: Any) -> None:
    client = LocalClient(world.directory, "system:apiserver")
    await define(client, "c", [WANTED])

    def age(live: Object) -> None:
        live["metadata"].pop("labels")
        del live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["value"]

    await client.change("c", CUSTOM_RESOURCE_DEFINITIONS, NAME, age)
    await define(client, "c", [WANTED])
    found = await stored(client)
    assert found["spec"] == WANTED["spec"]
    assert found["metadata"]["labels"] == WANTED["metadata"]["labels"]
