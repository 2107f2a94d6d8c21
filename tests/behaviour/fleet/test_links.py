"""Each link of an installation is cut under load, and comes back.

Programs reach each other through relays (`testing/faults/links`). A link that is `reset` breaks its
connections at once; on one that is `silent` nothing arrives and nobody is told, and the connections
that it had are lost for ever.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from pykcp.testing.apis import BINDINGS, binding
from pykcp.testing.binding import is_bound, offer
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import name_of
from pykcp.testing.faults.fleet import ClusterLoad, LinkedFleet, linked_fleet
from pykcp.testing.faults.links import Fault
from pykcp.testing.workspaces import (
    LOGICAL_CLUSTER,
    WORKSPACES,
    is_ready,
    make_workspace,
    post_workspace,
)

MAPS = "/api/v1/namespaces/default/configmaps"
CUT_SECONDS = 3.0
LONGEST_SECONDS = 3.0
"""A request to a logical cluster that is not concerned."""
BACK_SECONDS = 12.0
"""After which a link that works is used again."""
_numbers = count(1)
both = pytest.mark.parametrize("fault", [Fault.RESET, Fault.SILENT], ids=lambda one: one.value)
also_slow = pytest.mark.parametrize(
    "fault",
    [Fault.RESET, pytest.param(Fault.SILENT, marks=pytest.mark.slow)],
    ids=lambda one: one.value,
)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedFleet]:
    with linked_fleet(pathlib.Path(tmp_path_factory.mktemp("fleet"))) as made:
        root = made.client(cluster="root")
        shards = "/apis/core.kcp.io/v1alpha1/shards"
        eventually(lambda: len(root.get(shards).json["items"]) == 2)
        yield made


@pytest.fixture
def root(installation: LinkedFleet) -> TestClient:
    """An administrator, through the front-proxy."""
    return installation.client(cluster="root")


def on(shard: str) -> dict[str, object]:
    return {"selector": {"matchLabels": {"name": shard}}}


def make_inside(parent: TestClient, shard: str) -> TestClient:
    """A new workspace on a shard, by its path."""
    name = f"w{next(_numbers)}"
    make_workspace(parent, name, location=on(shard))
    inside = parent.in_cluster(f"{parent.prefix.removeprefix('/clusters/')}:{name}")
    eventually(lambda: inside.get(MAPS).status == 200)
    return inside


@pytest.fixture
def here(root: TestClient) -> TestClient:
    """In a workspace of the root shard."""
    return make_inside(root, "root")


@pytest.fixture
def there(root: TestClient) -> TestClient:
    """In a workspace of the other shard."""
    return make_inside(root, "shard-1")


@pytest.fixture
def loads(here: TestClient, there: TestClient) -> Iterator[tuple[ClusterLoad, ClusterLoad]]:
    """At the end, all that was acknowledged has to be there once, and every watch has seen it."""
    made = ClusterLoad(here, MAPS), ClusterLoad(there, MAPS)
    yield made
    for load in made:
        load.check()


Loads = tuple[ClusterLoad, ClusterLoad]


@contextmanager
def failing(installation: LinkedFleet, fault: Fault, *between: str) -> Iterator[None]:
    """For some seconds."""
    began = time.monotonic()
    installation.fail(fault, *between)
    try:
        yield
        time.sleep(max(0.0, began + CUT_SECONDS - time.monotonic()))
    finally:
        installation.mend(*between)


def assert_unconcerned(load: ClusterLoad) -> None:
    assert load.failures == []
    assert load.slowest < LONGEST_SECONDS


def assert_names(load: ClusterLoad, shard: str) -> None:
    """Each failure says which shard does not answer."""
    assert load.failures
    for failure in load.failures:
        assert failure.startswith(("502 ", "503 ")), failure
        assert shard in failure


def assert_back(client: TestClient) -> None:
    """It can be written to, soon."""
    body = {"metadata": {"name": f"back{next(_numbers)}"}}
    eventually(lambda: client.post(MAPS, body).status in (201, 409), BACK_SECONDS)


@both
def test_proxy_and_shard(
    installation: LinkedFleet, root: TestClient, there: TestClient, loads: Loads, fault: Fault
) -> None:
    mine, cut = loads
    with failing(installation, fault, "front-proxy", "shard-1"):
        eventually(lambda: cut.failures)
        unknown = root.in_cluster("nowhere").get(MAPS)
        assert unknown.status == 503
        assert "shard-1" in unknown.json["message"]
        meanwhile = f"w{next(_numbers)}"
        make_workspace(root, meanwhile, location=on("shard-1"))
    assert_back(there)
    eventually(lambda: root.in_cluster(f"root:{meanwhile}").get(MAPS).status == 200, BACK_SECONDS)
    assert root.delete(f"{WORKSPACES}/{meanwhile}").status == 200
    eventually(lambda: root.in_cluster(f"root:{meanwhile}").get(MAPS).status == 403, BACK_SECONDS)
    assert_unconcerned(mine)
    assert_names(cut, "shard-1")


@also_slow
def test_proxy_and_root(
    installation: LinkedFleet, root: TestClient, here: TestClient, loads: Loads, fault: Fault
) -> None:
    cut, other = loads
    with failing(installation, fault, "front-proxy", "root"):
        eventually(lambda: cut.failures)
        unknown = root.in_cluster("nowhere").get(MAPS)
        assert unknown.status == 503
        assert "root" in unknown.json["message"]
    assert_back(here)
    after = make_inside(root, "shard-1")
    assert after.get(LOGICAL_CLUSTER).status == 200
    assert_unconcerned(other)
    assert_names(cut, "root")


def scheduled(parent: TestClient, name: str) -> str:
    """What a workspace says of where it is placed."""
    conditions = parent.get(f"{WORKSPACES}/{name}").json["status"].get("conditions") or ()
    found = [one.get("message") or "" for one in conditions if one["type"] == "WorkspaceScheduled"]
    return "".join(found)


@also_slow
def test_shard_and_root(
    installation: LinkedFleet, root: TestClient, there: TestClient, loads: Loads, fault: Fault
) -> None:
    """Nothing fails; workspaces are made on the shard of their parent, and on the other later."""
    with failing(installation, fault, "root", "shard-1"):
        below = make_inside(there, "shard-1")
        waiting = f"w{next(_numbers)}"
        post_workspace(root, waiting, location=on("shard-1"))
        eventually(lambda: scheduled(root, waiting) == 'shard "shard-1" does not answer')
    eventually(is_ready(root, waiting), BACK_SECONDS)
    assert scheduled(root, waiting) == ""
    make_inside(below, "root")
    for load in loads:
        assert_unconcerned(load)


def assert_bound(consumer: TestClient, provider: TestClient) -> None:
    """The provider's export can be bound, soon."""
    wanted = binding("of-the-other", "cowboys", name_of(provider))
    eventually(lambda: consumer.post(BINDINGS, wanted).status == 201, BACK_SECONDS)
    eventually(lambda: is_bound(consumer, "of-the-other"), BACK_SECONDS)


@both
def test_shard_and_cache(
    installation: LinkedFleet, here: TestClient, there: TestClient, loads: Loads, fault: Fault
) -> None:
    """What shards publish meanwhile arrives later."""
    with failing(installation, fault, "shard-1", "cache"):
        offer(here)
        offer(there)
    assert_bound(there, here)
    assert_bound(here, there)
    for load in loads:
        assert_unconcerned(load)


def test_slow_links(installation: LinkedFleet, root: TestClient, loads: Loads) -> None:
    """Everything takes longer, and nothing fails."""
    links = [("front-proxy", "root"), ("front-proxy", "shard-1"), ("root", "shard-1")]
    for between in links:
        installation.fail(Fault.SLOW, *between)
    try:
        assert make_inside(root, "shard-1").get(LOGICAL_CLUSTER).status == 200
        time.sleep(1.0)
    finally:
        for between in links:
            installation.mend(*between)
    for load in loads:
        assert_unconcerned(load)
        assert load.slowest > 0.5  # there and back
